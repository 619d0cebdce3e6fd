"""The operations of captioners: caption, look at attention and evaluate. Nothing here imports torch at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge, Le

from regard.config.training import DecodingConfig
from regard.errors import RequestError
from regard.evaluation.tables import finite
from regard.task.operation import FileOperation, Files, Look, Sites, Text, TextOperation
from regard.tasks.reading import AttributingOperation, Measure, read_all, read_files
from regard.tasks.translation.text_commands import SearchOptions

if TYPE_CHECKING:
    from regard.evaluation.words import CaptionEvaluation
    from regard.tasks.captioning.faithfulness import CaptionFaithfulness
    from regard.tasks.captioning.predict import Captioner
    from regard.tasks.captioning.results import Caption

# A grey image of 8 × 8 pixels.
_EXAMPLE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAADElEQVR42mP4jwcwjAwFAJ8A/wGk1Wp1AAAAAElFTkSuQmCC"
)


@dataclass(frozen=True)
class CaptionAnswer:
    """A text about an image as data for JSON."""

    text: str
    """The text."""
    score: float | None
    """Score that ranks texts: log probability with length reward and penalty."""
    log_probability: float | None
    """Natural logarithm of the text's probability, given the image."""
    finished: bool
    """False if the length limit cut the text off."""
    alternatives: list[CaptionAnswer] = field(default_factory=list)
    """The other texts of `n_best`, by decreasing score."""


class ImageOperation(SearchOptions, TextOperation):
    """Base of operations on images: the names of files, or, in a service, data addresses."""

    text: ClassVar = "image"
    example: ClassVar = _EXAMPLE
    longest: ClassVar = "image_characters"
    caps: ClassVar = {"beam_size": "beam", "max_length": "tokens"}

    @classmethod
    def check_sent(cls, text: str) -> None:
        """Raise a `RequestError` unless a client sends the image itself, because a name could be that of any file."""
        from regard.text.captions.images import is_address

        if not is_address(text):
            raise RequestError("the image is not in the request; send it as data:image/png;base64,…")

    def cost(self, predictor: Captioner, text: Text, limits: Mapping[str, int]) -> int:
        """Estimate the work of the search over the cells of the image."""
        steps = self.settings.get("max_length") or limits["tokens"]
        return self.setting(predictor, "beam_size") * steps * (predictor.grid.num_cells + steps)


@dataclass(frozen=True, kw_only=True)
class WriteCaption(ImageOperation):
    """Write texts about images. Settings that are left out are those of the model."""

    n_best: Annotated[int, Ge(1), Le(1000)] = 1
    """Number of texts about each image. They are printed one per line: number of the image, log probability and text,
    separated by tabs, in the order of the search's score."""

    name: ClassVar = "caption"
    chosen: ClassVar = tuple(
        set(DecodingConfig.__dataclass_fields__) - {"batch_tokens", "replace_unknown", "groups", "diversity"}
    )
    help: ClassVar = """\
Write a text about each of the given images, or about those that the lines of --input FILE or of standard input name.
For each image, one line is printed, in order."""
    examples: ClassVar = """\
  regard caption runs/digits photo.png --heatmap map.html
  regard caption runs/digits --input names.txt > texts.txt
  ls photos/*.jpg | regard caption runs/digits --beam 5 --n-best 3"""
    inputs: ClassVar = "images"
    answers: ClassVar = "captions"
    answer: ClassVar = CaptionAnswer
    caps: ClassVar = {**ImageOperation.caps, "n_best": "beam", "min_length": "tokens"}
    most_together: ClassVar[int] = 64
    block: ClassVar = 256
    command_only: ClassVar = frozenset({"precision"})
    picture: ClassVar = "the attention"

    def run(self, predictor: Captioner, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Caption]:
        wide = {"beam_size": self.setting(predictor, "beam_size")} if self.n_best > 1 else {}
        options: dict[str, Any] = {**wide, **self.settings}
        images = [one.text for one in texts]
        return predictor.caption(images, n_best=self.n_best, record=record, progress=progress, **options)

    def setting(self, predictor: Any, name: str) -> Any:
        """Return the value of a setting. The beam is at least as wide as the number of texts to return."""
        own = super().setting(predictor, name)
        return max(own, self.n_best) if name == "beam_size" and name not in self.settings else own

    def plain(self, result: Caption, units: Any = "auto") -> dict[str, Any]:
        """Return a text with its scores, and the other texts."""
        plain = finite({name: getattr(result, name) for name in ("text", "score", "log_probability", "finished")})
        if self.n_best > 1:
            plain["alternatives"] = [replace(self, n_best=1).plain(other) for other in result.alternatives]
        return plain

    def render(self, result: Caption, number: int) -> str:
        """Return a text, or all of them, one per line."""
        if self.n_best == 1:
            return result.text
        return "\n".join(f"{number}\t{one.log_probability:.4f}\t{one.text}" for one in (result, *result.alternatives))


@dataclass(frozen=True, kw_only=True)
class LookAtImage(ImageOperation, AttributingOperation):
    """Return the attention of texts about images, or of given texts."""

    target: str | None = None
    """Text whose attention is shown, instead of the model's own."""

    chosen: ClassVar = ("beam_size", "max_length")
    per_text: ClassVar = {"target": "targets"}

    def run(self, predictor: Captioner, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Look]:
        found = []
        for one in texts:
            target = one.values.get("target", self.target)
            images, sites = predictor.read("attention", [one.text]), self.sites or None
            if target is None:
                results = predictor.caption(images, record=sites, **self.settings)
            else:
                results = predictor.force(images, [target], record=sites)
            [caption] = results
            headline = f"{caption.image}\n{caption.text}   (log probability {caption.log_probability:.2f})"
            attribute = partial(predictor.attribute_results, images, results, self.attribution)
            found += self.attributed([Look(headline.lstrip("\n"), caption.attention)], attribute)
        return found


@dataclass(frozen=True, kw_only=True)
class EvaluateCaptioner(SearchOptions, FileOperation):
    """Score a captioner on a table of images and texts.

    Loss (nats per token), perplexity, BLEU, chrF, exact match and error rates; with --regions, the share of the attention on
    the parts of the images that the words are about.
    """

    regions: str = ""
    """File whose line n has a region for each word of the text in line n of the table: left, top, right and bottom edge in
    pixels, separated by spaces; regions are separated by semicolons."""

    name: ClassVar = "evaluate"
    files: ClassVar = "one table of images and texts"
    examples: ClassVar = "  regard evaluate runs/digits digits/test.csv --regions digits/test.regions"
    chosen: ClassVar = ("beam_size", "length_penalty", "length_reward", "precision")

    def run(self, predictor: Captioner, files: Files) -> CaptionEvaluation:
        from regard.text.captions.regions import read_regions

        images, texts, lines = _read_table(files, predictor)
        regions = read_regions(self.regions, lines) if self.regions else ()
        return predictor.evaluate(images, texts, regions=regions, progress=True, **self.settings)


@dataclass(frozen=True, kw_only=True)
class MeasureCaptioner(Measure):
    """Measure whether the cells of an image that a captioner attends to decide its next token.

    Each cell is painted black, or the attention to it is erased, to measure how much probability the next token of the model's
    own text loses.
    """

    files: ClassVar = EvaluateCaptioner.files
    examples: ClassVar = """\
  regard faithfulness runs/digits digits/test.csv --texts 100 --picture bars.png
  regard faithfulness runs/digits digits/test.csv --texts 50 --attribution all"""

    def run(self, predictor: Captioner, files: Files) -> CaptionFaithfulness:
        from regard.tasks.captioning.faithfulness import measure_caption_faithfulness

        images, _, _ = _read_table(files, predictor)
        return measure_caption_faithfulness(predictor, images, **self.sizes)


def _read_table(files: Files, predictor: Captioner) -> list[list[Any]]:
    """Return the images, texts and line numbers of a table."""
    from regard.text.captions.prepare import read_captions

    chunks, report = read_files(read_captions, files, predictor.config, ("columns", "header"))
    return read_all(chunks, report, "source", "target", "line")


OPERATIONS = (WriteCaption, LookAtImage, EvaluateCaptioner, MeasureCaptioner)
