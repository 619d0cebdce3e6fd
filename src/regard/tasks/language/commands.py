"""The operations of language models: generate, look at attention and evaluate. Nothing here imports torch at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from regard.config.fields import Count, Seed
from regard.config.language import GenerationConfig
from regard.evaluation.tables import finite
from regard.task.operation import AttentionOperation, FileOperation, Files, Look, Sites, Text, TextOperation
from regard.tasks.language.config import LanguageConfig
from regard.tasks.reading import read_all, read_files

if TYPE_CHECKING:
    from regard.evaluation.words import LanguageEvaluation
    from regard.tasks.language.predict import LanguageModel
    from regard.tasks.language.results import Generation


@dataclass(frozen=True)
class GenerationAnswer:
    """A text that a language model wrote, as data for JSON."""

    prompt: str
    """The prompt."""
    text: str
    """The prompt, followed by the added text."""
    log_probability: float | None
    """Natural logarithm of the added text's probability, given the prompt."""
    num_tokens: int
    """Number of tokens that were added."""
    finished: bool
    """False if the length limit cut the text off."""


@dataclass(frozen=True, kw_only=True)
class Generate(TextOperation):
    """Continue prompts. Settings that are left out are those of the model.

    With `stream` (the default), the answer is a stream of server-sent events. Each event contains a new part of a text; the
    last one contains `done` and the whole result, or `error`.
    """

    samples: Count = 1
    """Number of texts for each prompt."""
    seed: Seed = 0
    """Seed of the sampling."""

    name: ClassVar = "generate"
    part: ClassVar = "generation"
    part_class: ClassVar = GenerationConfig
    help: ClassVar = """\
Continue the given prompts or each line of --input FILE, or generate texts without a prompt.
Each sample is printed on one line. A text with line breaks is printed on several lines and an empty one.
The same command gives the same texts; another --seed gives others."""
    examples: ClassVar = """\
  regard generate runs/stories "once upon a time" --samples 3
  regard generate runs/stories "once upon a time" --temperature 0
  regard generate runs/stories --samples 10 --temperature 0.8 --top-k 50 --seed 7"""
    text: ClassVar = "prompt"
    inputs: ClassVar = "prompts"
    answers: ClassVar = "generations"
    answer: ClassVar = list[GenerationAnswer]
    example: ClassVar = "once upon a time"
    caps: ClassVar = {"samples": "samples", "max_length": "tokens"}
    block: ClassVar = 256
    streams: ClassVar = True
    reads_stdin: ClassVar = False

    def run(
        self, predictor: LanguageModel, texts: Sequence[Text], *, record: Sites = (), progress: bool = False
    ) -> list[list[Generation]]:
        def follow(place: int, sample: int, text: str) -> None:
            if (reported := texts[place].follow) is not None:
                reported(sample, text)

        return predictor.generate(
            [one.text for one in texts],
            samples=self.samples,
            seed=self.seed,
            numbers=[one.number for one in texts],
            progress=progress,
            follow=follow if any(one.follow for one in texts) else None,
            **self.settings,
        )

    def setting(self, predictor: Any, name: str) -> Any:
        """Return the value of a setting; without a maximum length, it is that of the training texts."""
        return super().setting(predictor, name) or predictor.config.data.max_tokens

    def cost(self, predictor: LanguageModel, text: Text, limits: Mapping[str, int]) -> int:
        """Estimate the work; a prompt is read step by step."""
        steps = text.size + (self.settings.get("max_length") or limits["tokens"])
        return self.samples * steps * steps

    def plain(self, result: list[Generation], units: Any = "auto") -> list[dict[str, Any]]:
        """Return the samples of a prompt as data for JSON."""
        return [{name: finite(getattr(one, name)) for name in GenerationAnswer.__dataclass_fields__} for one in result]

    def render(self, result: list[Generation], number: int) -> str:
        """Return the texts, one per line; an empty line separates texts of several lines."""
        return "\n".join(one.text + "\n" * ("\n" in one.text) for one in result)


@dataclass(frozen=True, kw_only=True)
class LookAtText(AttentionOperation):
    """Return the attention of a language model that reads texts."""

    def within(self, predictor: Any, limits: Mapping[str, int]) -> Self:
        """Return the operation for the first site, unless others are named."""
        return replace(self, sites=self.sites or tuple(predictor.model.sites[:1]))

    def run(self, predictor: LanguageModel, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Look]:
        """Score texts, with attention at all sites; `regard look` shows the last layer."""
        sites = self.sites or predictor.model.sites
        found = []
        for one in predictor.score([each.text for each in texts], record=sites):
            headline = f"{one.text}   (log probability {one.log_probability:.2f}, perplexity {one.perplexity:,.2f})"
            found.append(Look(headline, one.attention, None if one.attention is None else one.attention.sites[-1]))
        return found


@dataclass(frozen=True, kw_only=True)
class EvaluateLanguageModel(FileOperation):
    """Score a language model on texts: loss, perplexity, and bits per character."""

    name: ClassVar = "evaluate"
    files: ClassVar = "one file of texts"
    examples: ClassVar = "  regard evaluate runs/stories test.txt"

    def run(self, predictor: LanguageModel, files: Files) -> LanguageEvaluation:
        return predictor.evaluate(read_plain_texts(files, predictor.config), progress=True)


def read_plain_texts(files: Files, config: LanguageConfig) -> list[str]:
    """Read texts as `read_files` does, and write the report to standard error."""
    from regard.text.plain import read_texts

    [texts] = read_all(*read_files(read_texts, files, config), "text")
    return texts


OPERATIONS = (Generate, LookAtText, EvaluateLanguageModel)
