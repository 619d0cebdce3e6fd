"""A trained captioner, which writes texts about images."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.config import DecodingConfig
from regard.config.settings import override
from regard.decoding import Hypothesis, beam_search
from regard.errors import RequestError
from regard.evaluation.words import CaptionEvaluation
from regard.machine import prediction_tokens
from regard.models.seq2seq import Seq2Seq
from regard.records import AttentionRecord
from regard.reweight import Reweight, ReweightBySite
from regard.stopping import check_wanted
from regard.task import Bundle
from regard.tasks.captioning.config import CaptioningConfig
from regard.tasks.captioning.results import Caption, build_record
from regard.tasks.predictor import Predictor
from regard.tasks.requests import (
    check_same_length,
    check_texts,
    force_texts,
    padded_batches,
    reweight_by_site,
    with_settings,
)
from regard.tasks.translation.metrics import score_outputs
from regard.tasks.translation.precision import SearchModel
from regard.text.captions.images import Pixels, Region, is_address, read_address
from regard.text.captions.prepare import grid_of
from regard.text.tokenizers.tokenizer import Tokenizer

_UNUSED = ("batch_tokens", "replace_unknown")


class ReadImage(NamedTuple):
    """An image that has been read, which every method of a `Captioner` accepts too, so that none reads it again."""

    cells: Pixels
    size: tuple[int, int]
    """Width and height of the original, in pixels."""
    name: str
    """Path of the file; empty for an image without a file."""


class Captioner(Predictor):
    """A trained model that writes texts about images.

    An image is the path of a file, the content of a file as bytes, a data address (`data:image/png;base64,…`), an image of
    Pillow, or an array of pixels. It is scaled to fit the canvas of the model, with black borders.

    Args:
        bundle: The model and its tokenizer. The model is put into evaluation mode and stays on its device.
    """

    usage = 'captioner.caption(["image.png"]) writes a text about an image'
    config: CaptioningConfig
    model: Seq2Seq

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self._search_model, self.grid = SearchModel(self.model), grid_of(bundle.config.data)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the texts."""
        return self.bundle.parts

    @property
    def main_sites(self) -> Sequence[str]:
        """The attention to the image."""
        return ["cross"]

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        """Return nothing, because inputs are images."""
        return []

    @with_settings(DecodingConfig, without=_UNUSED)
    def caption(
        self,
        images: Sequence[Any],
        *,
        n_best: int = 1,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] | None = None,
        progress: bool = False,
        **settings: Any,
    ) -> list[Caption]:
        """Write a text about each image.

        Args:
            images: The images.
            n_best: Number of texts about each image, at most the beam size. The others are `alternatives` of the best.
            reweight: Function that computes new weights for the attention to the image in every layer, or functions by site;
                see `regard.reweight`.
            record: Attention sites to record, `cross` by default; an empty tuple for none.
            progress: Whether to show a bar on standard error.
            settings: Settings of the search: the fields of `regard.config.DecodingConfig`, such as `beam_size`. Those that are
                left out or None have the values of the model's configuration (`decoding`).

        Raises:
            DataError: If an image cannot be read.
            RequestError: If an argument is out of range, or the model's scores are not finite.
        """
        decoding, sites = override(self.config.decoding, settings, "caption"), self.check_sites(record)
        read = self.read("caption", images)
        rows = [image.cells for image in read]
        options: dict[str, Any] = {"n_best": n_best, "record": sites, "reweight": reweight_by_site(reweight, "cross")}
        found: dict[int, list[Caption]] = {}
        tokens = max(1, prediction_tokens(self.device, decoding.batch_tokens) // decoding.beam_size)
        padded = padded_batches("writing", rows, self.device, tokens=tokens, shown=progress)
        with padded as batches, self._search_model.running(decoding.precision, self.device, len(rows)) as model:
            for numbers, cells, mask in batches:
                for number, hypotheses in zip(numbers, beam_search(model, cells, mask, decoding, **options), strict=True):
                    found[number] = [self._caption(one, read[number]) for one in hypotheses]
        for best, *others in found.values():
            best.alternatives.extend(others)
        return [found[number][0] for number in range(len(rows))]

    def force(
        self,
        images: Sequence[Any],
        texts: Sequence[str],
        *,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] | None = None,
        progress: bool = False,
    ) -> list[Caption]:
        """Score given texts about images, and record the attention of the model.

        Args:
            images: The images.
            texts: The text about each image.
            reweight: As for `caption`.
            record: Attention sites to record, `cross` by default; an empty tuple for none.
            progress: Whether to show a bar on standard error.

        Raises:
            DataError: If an image cannot be read.
            RequestError: If the numbers of images and texts differ, the model lacks a site, or a probability is NaN.
        """
        check_same_length("force", images=images, texts=texts)
        read = self.read("force", images)
        found = force_texts(
            self.model,
            [image.cells for image in read],
            check_texts("force", texts),
            self.tokenizer,
            self.config.decoding,
            progress=progress,
            record=self.check_sites(record),
            reweight=reweight_by_site(reweight, "cross"),
        )
        return [self._caption(one, image, text) for one, image, text in zip(found, read, texts, strict=True)]

    def attribute(
        self,
        images: Sequence[Any],
        names: Sequence[str],
        *,
        texts: Sequence[str] | None = None,
        record: Collection[str] | None = None,
    ) -> list[AttentionRecord]:
        """Return records of texts about images in which attributions are further sites: values that need not sum to one.

        Args:
            images: The images.
            names: Attributions of the log probability of each token, as for `Classifier.attribute`. They refer to cells:
                `integrated` starts from a black image, and `leave_one_out` paints a cell black.
            texts: The text about each image, by default the model's.
            record: Attention sites to record, as for `caption`.

        Raises:
            DataError: If an image cannot be read.
            RequestError: As for `force`; if there is no such attribution, or the model does not have it.
        """
        read = self.read("attribute", images)
        results = self.caption(read, record=record) if texts is None else self.force(read, texts, record=record)
        return self.attribute_results(read, results, names)

    def attribute_results(
        self, images: Sequence[ReadImage], results: Sequence[Caption], names: Sequence[str]
    ) -> list[AttentionRecord]:
        """Return the records of texts about images with attributions of the tokens that they contain; see `attribute`."""
        from regard.tasks.attribution import with_attributions
        from regard.tasks.captioning.probe import ImageProbe

        found = []
        for one, image in zip(results, images, strict=True):
            assert one.attention is not None
            probe = ImageProbe(self.model, torch.from_numpy(image.cells)[None].to(self.device), one._written)
            found.append(with_attributions(one.attention, probe, names))
        return found

    @with_settings(DecodingConfig, without=_UNUSED)
    def evaluate(
        self,
        images: Sequence[Any],
        texts: Sequence[str],
        *,
        regions: Sequence[Sequence[Region]] = (),
        progress: bool = False,
        **settings: Any,
    ) -> CaptionEvaluation:
        """Score the captioner: the loss of given texts, the quality of its own texts, and, with regions, its attention.

        Args:
            images: The images.
            texts: One reference for each image.
            regions: For each image, the part of it that each word of the reference is about: left, top, right and bottom edge
                in pixels; empty to leave the attention out. The share of a word's weight on the cells that its region
                touches is averaged over words. The model is fed the reference.
            progress: Whether to show bars on standard error.
            settings: Settings of the search, as for `caption`.

        Raises:
            DataError: If an image cannot be read.
            RequestError: If there are no images, or numbers of images, texts, words or regions differ.
        """
        read, texts, regions = self.read("evaluate", images), check_texts("evaluate", texts), list(regions)
        check_same_length("evaluate", images=read, texts=texts)
        forced = self.force(read, texts, record=("cross",) if regions else (), progress=progress)
        found = self.caption(read, record=(), progress=progress, **settings)
        decoding = override(self.config.decoding, settings, "evaluate")
        scores = score_outputs(forced, found, texts, self.tokenizer, decoding)
        shares = self._weight_on(regions, forced, read) if regions else np.zeros(0)
        return CaptionEvaluation(**vars(scores), weight_on_regions=float(shares.mean()) if regions else None, words=len(shares))

    def _weight_on(
        self, regions: Sequence[Sequence[Region]], forced: Sequence[Caption], images: Sequence[ReadImage]
    ) -> np.ndarray:
        """Return the share of each word's weight on the cells of its region."""
        check_same_length("evaluate", images=images, regions=regions)
        shares = []
        for number, (own, one, image) in enumerate(zip(regions, forced, images, strict=True), 1):
            assert one.attention is not None
            weights = one.attention.in_units("words").matrix("cross")
            if len(weights) != len(own):
                raise RequestError(f"evaluate: image {number} has {len(own)} regions, but its text has {len(weights)} words")
            shares.append((weights * self.grid.cells_in(own, image.size)).sum(1))
        return np.concatenate(shares)

    def read(self, caller: str, images: Sequence[Any]) -> list[ReadImage]:
        """Read images, except those that have been read already."""
        if isinstance(images, str | bytes | Path) or not isinstance(images, Iterable):
            raise RequestError(f"{caller}: got one image, expected a list of images: write [image]")
        return [image if isinstance(image, ReadImage) else self._read(image, number) for number, image in enumerate(images, 1)]

    def _read(self, image: Any, number: int) -> ReadImage:
        check_wanted()  # reading can take long, because a small file can hold a large image
        name = _name(image)
        return ReadImage(*self.grid.read(_source(image), name or f"image {number}"), name)

    def _caption(self, hypothesis: Hypothesis, image: ReadImage, reference: str | None = None) -> Caption:
        text = self.tokenizer.decode(hypothesis.tokens) if reference is None else reference
        build = partial(build_record, hypothesis, image.cells, self.grid, self.tokenizer, image.name, text, reference)
        return Caption(
            image=image.name,
            text=text,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            finished=hypothesis.finished,
            token_log_probabilities=hypothesis.token_log_probabilities,
            _build=build if hypothesis.attention else None,
            _written=tuple(hypothesis.written),
        )


def _source(image: Any) -> Any:
    return read_address(image) if isinstance(image, str) and is_address(image) else image


def _name(image: Any) -> str:
    """Return the path of an image; empty for an image without a file."""
    return str(image) if isinstance(image, str | Path) and not is_address(str(image)) else ""
