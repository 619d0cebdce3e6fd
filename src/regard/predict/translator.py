"""A trained translator: text in, translations out."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.bundle import TranslationBundle, save_bundle
from regard.config import DecodingConfig, TranslationConfig
from regard.decoding import Hypothesis, force, search
from regard.errors import RequestError
from regard.models.seq2seq import Seq2Seq
from regard.predict.evaluate import Evaluation, evaluate
from regard.predict.requests import check_texts, counting_bar
from regard.predict.sources import Source, encode_sources, join, pad
from regard.predict.translation import Translation, translation_of
from regard.record.views import sides
from regard.text.batching import length_batches
from regard.text.symbols import END, START

_BLOCK = 2048
"""Lines of a stream that are translated together."""


class Translator:
    """Translates with a trained model.

    Args:
        bundle: The model and its tokenizers. The model is put into evaluation mode and stays on its device.
    """

    def __init__(self, bundle: TranslationBundle) -> None:
        self.bundle = bundle
        self.model: Seq2Seq = bundle.model.eval()
        self._tokenizers = (bundle.source_tokenizer, bundle.target_tokenizer)
        self._lowered: Seq2Seq | None = None

    @property
    def config(self) -> TranslationConfig:
        """What the run was."""
        return self.bundle.config

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        replace_unknown: bool | None = None,
        precision: Literal["float32", "bfloat16"] | None = None,
        record: Collection[str] | None = None,
        progress: bool = False,
    ) -> list[Translation]:
        """Translate texts, one translation each, in their order.

        What stands in the model's configuration (`decoding`) holds where an argument is None.

        Args:
            texts: One sentence each. An empty one has an empty translation; a very long one is translated in pieces.
            beam_size: Hypotheses kept at each step; 1 is greedy.
            n_best: How many translations of each, at most the beam size; all but the best are its `alternatives`.
            length_penalty: α ≥ 0 of log p / ((5 + length) / 6)^α.
            max_length: Most tokens of a translation, its end included; 0 for twice the source and 20 more.
            replace_unknown: Whether the source word most attended to takes an unknown symbol's place.
            precision: What products run in. bfloat16 is quicker where the processor computes in it, and now and then chooses
                another word.
            record: Attention sites to record, `cross` by default; an empty tuple for none.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If an argument is out of range.
        """
        texts = check_texts("translate", texts)
        if precision not in (None, "float32", "bfloat16"):
            raise RequestError(f"translate: precision is {precision!r}, expected float32 or bfloat16")
        decoding = self._decoding(
            beam_size=beam_size,
            length_penalty=length_penalty,
            max_length=max_length,
            replace_unknown=replace_unknown,
            precision=precision,
        )
        sites = self._sites(record)
        site = self._replacing_site() if decoding.replace_unknown else None
        sources = encode_sources(texts, self._tokenizers[0], self.config.data.max_tokens)
        wanted = {*sites, site} if site else sites
        found = self._search(sources, decoding, n_best, sorted(wanted), progress=progress)
        return [
            translation_of(source, hypotheses, self._tokenizers, replace_unknown=site)
            for source, hypotheses in zip(sources, found, strict=True)
        ]

    def translate_stream(self, lines: Iterable[str], **options: Any) -> Iterator[Translation]:
        """Translate lines from anywhere, in order, without holding more than some thousand of them.

        Args:
            lines: Such as an open file; their line ends are cut off.
            options: As for `translate`.
        """
        remaining = iter(lines)
        while block := [line.rstrip("\r\n") for line in islice(remaining, _BLOCK)]:
            yield from self.translate(block, **options)

    def force(
        self, sources: Sequence[str], targets: Sequence[str], *, record: Collection[str] | None = None, progress: bool = False
    ) -> list[Translation]:
        """Score given translations, and record where the model looks when it has to write them.

        Args:
            sources: The sources.
            targets: As many targets.
            record: Attention sites to record, `cross` by default; an empty tuple for none.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If there are not as many targets as sources.
        """
        sources, targets = check_texts("force", sources), check_texts("force", targets)
        if len(sources) != len(targets):
            raise RequestError(f"force: got {len(sources)} sources and {len(targets)} targets, expected as many of each")
        ids = [
            _with_end(*tokenizer.encode_batch(texts))
            for tokenizer, texts in zip(self._tokenizers, (sources, targets), strict=True)
        ]
        longest = [max(len(source), len(target)) for source, target in zip(*ids, strict=True)]
        found: list[Hypothesis | None] = [None] * len(sources)
        sites, alpha = self._sites(record), self.config.decoding.length_penalty
        with counting_bar("scoring", len(sources), shown=progress) as advance:
            for numbers in length_batches(np.array(longest, dtype=np.int64), self.config.decoding.batch_tokens):
                source, source_mask = pad([ids[0][number] for number in numbers], self.device)
                target_out, _ = pad([ids[1][number] for number in numbers], self.device)
                target_in, _ = pad([np.append(START, ids[1][number][:-1]) for number in numbers], self.device)
                batch = force(self.model, source, source_mask, target_in, target_out, length_penalty=alpha, record=sites)
                for number, hypothesis in zip(numbers, batch, strict=True):
                    found[number] = hypothesis
                advance(len(numbers))
        return [
            translation_of(Source(text, (own,)), [hypothesis], self._tokenizers, replace_unknown=None, text=target)
            for text, own, hypothesis, target in zip(sources, ids[0], found, targets, strict=True)
            if hypothesis is not None
        ]

    def evaluate(
        self, sources: Sequence[str], targets: Sequence[str], *, beam_size: int | None = None, progress: bool = False
    ) -> Evaluation:
        """Loss and perplexity of given targets, and BLEU and chrF of the model's own; see `regard.predict.evaluate`."""
        return evaluate(self, sources, targets, beam_size=beam_size, progress=progress)

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder, from which `regard.load` reads it.

        Raises:
            BundleError: If it cannot be written.
        """
        save_bundle(folder, self.bundle)

    def _search(
        self, sources: list[Source], decoding: DecodingConfig, n_best: int, sites: list[str], *, progress: bool
    ) -> list[list[Hypothesis]]:
        """Search for each source's pieces in batches of similar length, and put them together again."""
        pieces = [piece for source in sources for piece in source.pieces]
        found: list[list[Hypothesis]] = [[]] * len(pieces)
        budget = max(1, decoding.batch_tokens // max(1, decoding.beam_size))
        with counting_bar("translating", len(pieces), shown=progress) as advance, self._running(decoding.precision) as model:
            for numbers in length_batches(np.array([len(piece) for piece in pieces], dtype=np.int64), budget):
                ids, mask = pad([pieces[number] for number in numbers], self.device)
                batch = search(model, ids, mask, decoding, n_best=n_best, record=sites)
                for number, hypotheses in zip(numbers, batch, strict=True):
                    found[number] = hypotheses
                advance(len(numbers))
        remaining = iter(found)
        joined = []
        for source in sources:
            own = list(islice(remaining, len(source.pieces)))
            ranks = zip(*own, strict=False)  # the best of each piece together, then the second best of each
            joined.append([join(rank, decoding.length_penalty) for rank in ranks] or [_nothing(sites)])
        return joined

    @contextmanager
    def _running(self, precision: str) -> Iterator[Seq2Seq]:
        """The model as products of this precision want it."""
        if precision == "float32":
            yield self.model
            return
        if self._lowered is None:
            self._lowered = deepcopy(self.model).to(torch.bfloat16)
        with torch.autocast(self.device.type, torch.bfloat16):
            yield self._lowered

    def _decoding(self, **given: Any) -> DecodingConfig:
        """The configuration's, but for what is given."""
        return replace(self.config.decoding, **{name: value for name, value in given.items() if value is not None})

    def _sites(self, record: Collection[str] | None) -> list[str]:
        if record is None:
            cross = [site for site in self.model.sites if site.startswith("cross")]
            return ["cross"] if "cross" in cross else cross
        if isinstance(record, str):
            raise RequestError(f"record is the text {record!r}, expected a list of attention sites: record=[{record!r}]")
        return list(record)

    def _replacing_site(self) -> str:
        sites = self._sites(None)
        if not sites:
            raise RequestError("replace_unknown needs attention over the source, which this model has none of: turn it off")
        return sites[-1]


def _with_end(ids: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    return [np.append(ids[start:stop], END) for start, stop in pairwise(offsets)]


def _nothing(sites: Collection[str]) -> Hypothesis:
    """The translation of an empty source, which the model is not asked for."""
    size = {"source": 0, "target": 1}  # the end symbol; a site within the source has nothing at all
    shapes = {site: [size[side] for side in sides(site)] for site in sites}
    maps = {site: np.zeros(shape, dtype=np.float32) for site, shape in shapes.items() if shape[0]}
    return Hypothesis([], 0.0, 0.0, True, np.zeros(1, dtype=np.float32), maps)
