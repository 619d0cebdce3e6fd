"""A trained translator, which translates texts."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.settings import override
from regard.decoding import Hypothesis, Sampling, beam_search, sample
from regard.errors import RequestError
from regard.evaluation.words import Evaluation
from regard.machine import in_parts, prediction_tokens
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.records import AttentionRecord
from regard.reweight import Reweight, ReweightBySite
from regard.task import Bundle
from regard.tasks.predictor import Predictor
from regard.tasks.requests import (
    check_same_length,
    check_texts,
    force_texts,
    padded_batches,
    reweight_by_site,
    text_blocks,
    with_settings,
    without_each,
)
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.constraints import TargetConstraints
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.live import translate_live, with_lagging
from regard.tasks.translation.metrics import score_outputs
from regard.tasks.translation.precision import SearchModel
from regard.tasks.translation.results import Translation, build_record, disagreement, replace_unknown
from regard.tasks.translation.sources import Source, as_source, empty_hypothesis, encode_sources, join
from regard.text.copying import Copier
from regard.text.strings import quoted
from regard.text.tokenizers.tokenizer import Tokenizer

# Maximum number of lines of a stream that are translated together.
_BLOCK = 2048
Search = Callable[[Seq2Seq, Tensor, Tensor, list[tuple[int, int]]], list[list[Hypothesis]]]
"""Function that translates parts of texts: model, ids and mask of the parts, and for each part the number of its text and the
number of the part within this text, from 0."""


class Translator(Predictor):
    """A trained model that translates texts.

    Args:
        bundle: The model and its tokenizers. The model is put into evaluation mode and stays on its device.
    """

    usage = "translator.translate([text]) translates a text"
    config: TranslationConfig
    model: Seq2Seq

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self._search_model = SearchModel(self.model)
        self._engine: str | None = None
        self.copier = Copier(self.tokenizers.source, self.tokenizers.target) if self.model.copies else None
        """Ids of copied words; None if the model does not copy words."""

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of both sides."""
        return self.bundle.parts

    @property
    def input_tokenizer(self) -> Tokenizer:
        """Tokenizer of the source."""
        return self.tokenizers.source

    def rows(self) -> list[tuple[str, str]]:
        data, sizes = self.config.data, f"{self.tokenizers.source.size:,} → {self.tokenizers.target.size:,} symbols"
        return [("languages", f"{data.source} → {data.target}"), *super().rows(), ("vocabularies", sizes)]

    def facts(self) -> dict[str, Any]:
        """Return the languages."""
        return {"source": self.config.data.source, "target": self.config.data.target}

    @with_settings(DecodingConfig, without=["batch_tokens"])
    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str | Sequence[str] | None = None,
        constraints: Sequence[Sequence[str]] | None = None,
        sampling: Sampling | None = None,
        minimum_risk: Literal["chrf", "bleu"] | None = None,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] | None = None,
        engine: Literal["ctranslate2"] | None = None,
        progress: bool = False,
        **settings: Any,
    ) -> list[Translation]:
        """Translate texts, and return one translation of each in the same order.

        Args:
            texts: Texts of one sentence each. Without a prefix or constraints, an empty text has an empty translation. A text
                of more than `data.max_tokens` tokens is translated in parts; limits of length and repetition apply to each
                part, but the prefix and the constraints only to the first.
            n_best: Number of translations of each text, at most the beam size. The others are `alternatives` of the best.
            prefix: Beginning of the translations: one text for all, or one for each; empty for none.
            constraints: For each text a list of words and phrases that its translation must contain; a phrase listed twice
                must occur twice. Use a beam size above the total number of their tokens; with a smaller beam, the phrases
                are placed at the beginning of the translation.
            sampling: Settings for drawing random translations instead of searching for the best. The first sample is returned,
                and the other samples are its `alternatives`.
            minimum_risk: Measure of similarity. If given, the sample (or `n_best` translation) that is most similar to all
                others is returned, with the others as `alternatives` by decreasing similarity (Eikema and Aziz 2020).
            reweight: Function that computes new weights for the attention to the source in every layer, or functions by site;
                see `regard.reweight`.
            record: Attention sites to record, `cross` by default; an empty tuple for none.
            engine: `ctranslate2` to search with CTranslate2, which is faster on a CPU, but has other rules; see
                `regard.decoding.engine`. None for regard's own search, or the engine of `use_engine`.
            progress: Whether to show a bar on standard error.
            settings: Settings of the search: the fields of `regard.config.DecodingConfig`, such as `beam_size`,
                `length_penalty`, `max_length` or `no_repeat_ngrams`. Those that are left out or None have the values of the
                model's configuration (`decoding`). Parts of a decoder with hooks, adapters or a `reweight` stay in float32 if
                `precision` is `int8`.

        Raises:
            RequestError: If an argument is out of range, two arguments conflict, or the model's scores are not finite.
        """
        texts = check_texts("translate", texts)
        _check_selection(n_best, sampling, minimum_risk, settings.get("beam_size"))
        guide = TargetConstraints(len(texts), self.tokenizers.target, prefix=prefix, constraints=constraints)
        decoding, changes, sites = self.decoding(**settings), reweight_by_site(reweight, "cross"), self.check_sites(record)
        site = self._replacing_site() if decoding.replace_unknown else None
        recorded = sorted({*sites, site} if site else sites)
        recorded += self.model.measures if recorded else ()
        engine = engine or self._engine  # type: ignore[assignment]
        if engine:
            self._check_engine(engine, prefix=prefix, constraints=constraints, sampling=sampling, reweight=reweight)
            engines = self._search_model.engine(decoding.precision, self.tokenizers)

        def run(model: Seq2Seq, ids: Tensor, mask: Tensor, places: list[tuple[int, int]]) -> list[list[Hypothesis]]:
            if engine:
                return engines.search(ids, mask, decoding, n_best=n_best, record=recorded)
            # Prefix and constraints of a long text apply to its first part.
            guidance = guide.take(None if later else number for number, later in places)
            common: dict[str, Any] = {"guidance": guidance, "record": recorded, "reweight": changes}
            if sampling is None:
                return beam_search(model, ids, mask, decoding, n_best=n_best, **common)
            numbers = [number + (later << 40) for number, later in places]  # separate random numbers for each part
            return sample(model, ids, mask, sampling, decoding, numbers=numbers, **common)

        sources = encode_sources(texts, self.tokenizers.source, self.config.data.max_tokens, guide.holds, self.copier)
        if self.copier is not None:
            guide.copy_from(self.copier, texts, [len(source.pieces[0]) - 1 if source.pieces else 0 for source in sources])
        width = max(1, sampling.count if sampling else decoding.beam_size)
        found = self._search(sources, run, decoding, width, plain=bool(engine), progress=progress)
        results = []
        for number, (source, hypotheses) in enumerate(zip(sources, found, strict=True)):
            each = []
            for hypothesis in hypotheses or [empty_hypothesis(recorded)]:
                replaced = replace_unknown(hypothesis, source, self.tokenizers.source, site) if site else {}
                replaced |= guide.unknown(number, hypothesis.tokens)
                each.append(self._translation(source, hypothesis, replaced))
            each[0].alternatives.extend(each[1:])
            results.append(each[0])
        if minimum_risk is None:
            return results
        from regard.tasks.translation.minimum_risk import least_risky

        return [least_risky(one, minimum_risk, self.tokenizers.target) for one in results]

    def _translation(
        self, source: Source, hypothesis: Hypothesis, replaced: dict[int, str], reference: str | None = None
    ) -> Translation:
        """Build a translation; see `build_record` for the arguments."""
        copied = {} if self.copier is None else self.copier.copied(hypothesis.tokens, source.text)
        replaced = replaced | copied
        text = self.tokenizers.target.decode(hypothesis.tokens, replace=replaced) if reference is None else reference
        build = partial(build_record, hypothesis, source, self.tokenizers, replaced, text, reference, copied)
        return Translation(
            source=source.text,
            text=text,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            finished=hypothesis.finished,
            token_log_probabilities=hypothesis.token_log_probabilities,
            _build=build if hypothesis.attention else None,
            _written=tuple(hypothesis.written),
        )

    def translate_stream(self, lines: Iterable[str], **options: Any) -> Iterator[Translation]:
        """Translate lines of an iterable in order, with at most a few thousand of them in memory.

        Args:
            lines: Iterable of lines, such as an open file; their line ends are removed.
            options: As for `translate`. `prefix` and `constraints` may be iterables with one item for each line.
        """
        done = 0
        guides = {name: options[name] for name in ("prefix", "constraints") if not isinstance(options.get(name), str | None)}
        streams = {name: iter(each) for name, each in guides.items()}
        sampling: Sampling | None = options.get("sampling")
        for block in text_blocks(lines, _BLOCK):
            options |= {name: list(islice(stream, len(block))) for name, stream in streams.items()}
            if sampling is not None:
                options["sampling"] = replace(sampling, first=sampling.first + done)
            yield from self.translate(block, **options)
            done += len(block)

    @with_settings(DecodingConfig, without=["batch_tokens", "beam_size"])
    def translate_live(self, words: Iterable[str], write: Callable[[str], object] = lambda part: None, **settings: Any) -> str:
        """Translate a sentence while its words arrive, and return the translation.

        The words are those that `translate` gives with the whole sentence and a beam of one. They can differ if the source has
        more than `data.max_tokens` tokens: `translate` cuts it at ends of sentences, this method after the last word that fits.

        Args:
            words: Words of the source, as they arrive: the search waits for the next one only when the model needs it.
            write: Function that is called with each further part of the translation as soon as it is certain.
            settings: Settings of the search, as for `translate`.

        Raises:
            RequestError: If the model needs the whole source, as all models without `model.wait_k` do, except recurrent ones
                with hard monotonic attention, an encoder of one direction and the bridge `zeros`; if the tokenizer splits
                earlier words in another way when later ones arrive; also as for `translate`.
        """
        return translate_live(self, words, write, self.decoding(beam_size=1, **settings))

    def force(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        reweight: Reweight | ReweightBySite | None = None,
        record: Collection[str] | None = None,
        progress: bool = False,
    ) -> list[Translation]:
        """Score given translations, and record the attention of the model.

        A source is read whole, also if it has more than `data.max_tokens` tokens, which `translate` reads in parts.

        Args:
            sources: The sources.
            targets: The target of each source.
            reweight: As for `translate`.
            record: Attention sites to record, `cross` by default; an empty tuple for none.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If the numbers of sources and targets differ, the model lacks a site, or a probability is NaN.
        """
        sources, targets = check_texts("force", sources), check_texts("force", targets)
        if len(sources) != len(targets):
            raise RequestError(
                f"force: got {len(sources)} sources and {len(targets)} targets, expected the same number of each"
            )
        ids, offsets = self.tokenizers.source.encode_batch(sources)
        rows = [as_source(ids[start:stop]) for start, stop in pairwise(offsets)]
        copier, recorded = self.copier, list(self.check_sites(record))
        words = [] if copier is None else list(map(copier.source.split, sources))
        if copier is not None:
            rows = list(map(copier.encoded, rows, words))
        found = force_texts(
            self.model,
            rows,
            targets,
            self.tokenizers.target,
            self.config.decoding,
            progress=progress,
            record=[*recorded, *(self.model.measures if recorded else ())],
            reweight=reweight_by_site(reweight, "cross"),
            copier=copier,
            words=words,
        )
        return [
            self._translation(Source(text, (row,)), one, {}, target)
            for text, row, one, target in zip(sources, rows, found, targets, strict=True)
        ]

    def attribute(
        self,
        sources: Sequence[str],
        names: Sequence[str],
        *,
        targets: Sequence[str] | None = None,
        record: Collection[str] | None = None,
    ) -> list[AttentionRecord]:
        """Return records of translations in which attributions are further sites: values that need not sum to one.

        Args:
            sources: The sources.
            names: Attributions of the log probability of each target token, as for `Classifier.attribute`. The site of
                `rollout` is `cross.rollout`, and that of `attention` is `cross`.
            targets: The target of each source, by default the model's translation.
            record: Attention sites to record, as for `translate`.

        Raises:
            RequestError: As for `force`; if a source is empty, or was translated in parts, there is no such attribution, or the
                model does not have it.
        """
        if targets is None:
            return self.attribute_results(self.translate(sources, record=record), names)
        return self.attribute_results(self.force(sources, targets, record=record), names)

    def attribute_results(self, results: Sequence[Translation], names: Sequence[str]) -> list[AttentionRecord]:
        """Return the records of translations with attributions of the tokens that they contain; see `attribute`."""
        from regard.tasks.attribution import with_attributions
        from regard.tasks.translation.probe import TranslationProbe

        found = []
        for one in results:
            encoding = self.tokenizers.source.encode(one.source)
            if not encoding.words or one.attention is None:
                raise RequestError("attribute: a source is empty, or the model does not attend to its source")
            ids = as_source(encoding.ids)
            if len(ids) != len(one.attention.source_tokens):
                raise RequestError(
                    f"attribute: {quoted(one.source)} was translated in parts, because it has more than "
                    f"{self.config.data.max_tokens:,} tokens (data.max_tokens); give its sentences one by one"
                )
            probe = TranslationProbe(self.model, torch.as_tensor(ids[None], device=self.device).long(), one._written)
            found.append(with_attributions(one.attention, probe, names))
        return found

    def disagreement(self, text: str) -> float:
        """Return how far attention and decision are apart, for the token where they are most; see `Predictor.disagreement`."""
        [target] = [one.text for one in self.translate([text], record=())]
        [found] = self.force([text], [target])
        if found.attention is None or not (texts := without_each(found.attention.in_units("words").source_words)):
            return 0.0
        return disagreement(found, self.force(texts, [target] * len(texts), record=()))

    def score(self, sources: Sequence[str], targets: Sequence[str], *, progress: bool = False) -> list[Translation]:
        """Score given translations without attention, which is faster; otherwise as `force`."""
        return self.force(sources, targets, record=(), progress=progress)

    @with_settings(DecodingConfig, without=["batch_tokens"])
    def evaluate(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        rouge: bool = False,
        progress: bool = False,
        **settings: Any,
    ) -> Evaluation:
        """Score the translator on pairs: the loss of the given targets, and BLEU, chrF and errors of its own translations.

        Args:
            sources: The sources.
            targets: One reference for each source.
            rouge: Whether to compute ROUGE too, for summaries; see `regard.evaluation.rouge`.
            progress: Whether to show bars on standard error.
            settings: Settings of the search, as for `translate`. The loss is computed in the model's own number format.

        Returns:
            The scores, with average lagging if the model translates sources while they arrive and the search is greedy.

        Raises:
            RequestError: If there are no pairs, the numbers of sources and targets differ, or the package for ROUGE is missing;
                also as for `translate`.
        """
        sources, targets = check_texts("evaluate", sources), check_texts("evaluate", targets)
        check_same_length("evaluate", sources=sources, targets=targets)
        decoding = self.decoding(**settings)
        forced = self.force(sources, targets, record=(), progress=progress)
        policy = self.model.policy if decoding.beam_size == 1 else None
        found = self.translate(sources, record=[policy.site] if policy and policy.site else (), progress=progress, **settings)
        scores = score_outputs(forced, found, targets, self.tokenizers.target, decoding, with_rouge=rouge)
        return scores if policy is None else with_lagging(scores, policy, found, self)

    def decoding(self, **settings: Any) -> DecodingConfig:
        """Return the settings of a search: the arguments that are not None, and the configuration's values for all others."""
        decoding = override(self.config.decoding, settings, "translate")
        if decoding.precision == "int8" and self.device.type != "cpu":
            raise RequestError(
                f"precision int8 works on a CPU only, but the model is on {self.device}; choose bfloat16, or the device cpu "
                "(--device cpu)"
            )
        return decoding

    def save(self, folder: str | Path) -> None:
        """Save the model to a folder, from which `regard.load` loads it.

        Raises:
            BundleError: If the model cannot be written.
            RequestError: If the translator is an ensemble.
        """
        if isinstance(self.model, Ensemble):
            raise RequestError("save: this is an ensemble of saved models; load their folders together again instead")
        super().save(folder)

    def use_engine(self, name: str) -> None:
        """Search with this engine from now on, if a call names none; convert the model at once.

        Raises:
            RequestError: If there is no such engine, or it does not support the model.
        """
        self._check_engine(name)
        self._search_model.engine(self.config.decoding.precision, self.tokenizers)
        self._engine = name

    def _check_engine(self, name: str, **arguments: Any) -> None:
        if name != "ctranslate2":
            raise RequestError(f"engine is {name!r}, expected ctranslate2")
        for argument, value in arguments.items():
            if value not in (None, ""):
                raise RequestError(f"engine {name} does not support {argument}; leave it out, or search without the engine")

    def _search(
        self, sources: list[Source], run: Search, decoding: DecodingConfig, width: int, *, plain: bool, progress: bool
    ) -> list[list[Hypothesis]]:
        """Translate the parts of all sources in batches of similar length, and join the results for each source.

        `width` is the number of hypotheses of each part; if `plain`, the model is not packed for a search. Each source gets its
        hypotheses in the order of their scores, from the best, and an empty list if it has no parts.
        """
        parts = [part for source in sources for part in source.pieces]
        places = [(number, later) for number, source in enumerate(sources) for later in range(len(source.pieces))]
        found: list[list[Hypothesis]] = [[]] * len(parts)
        running = nullcontext(self.model) if plain else self._search_model.running(decoding.precision, self.device, len(parts))
        tokens = max(1, prediction_tokens(self.device, decoding.batch_tokens) // width)
        padded = padded_batches("translating", parts, self.device, tokens=tokens, shown=progress)
        with padded as batches, running as model:
            for numbers, ids, mask in batches:

                def search(
                    rows: range, numbers: Any = numbers, ids: Tensor = ids, mask: Tensor = mask
                ) -> list[list[Hypothesis]]:
                    part = slice(rows.start, rows.stop)
                    return run(model, ids[part], mask[part], [places[number] for number in numbers[part]])

                batch = chain.from_iterable(in_parts(search, range(len(numbers))))
                for number, hypotheses in zip(numbers, batch, strict=True):
                    found[number] = hypotheses
        remaining = iter(found)
        joined = []
        for source in sources:
            ranks = zip(*islice(remaining, len(source.pieces)), strict=False)  # the best of each part, then the second best
            size, scoring = self.tokenizers.target.size, (decoding.length_penalty, decoding.length_reward)
            joined.append([join(rank, source, size, *scoring) for rank in ranks])
        return joined

    @property
    def main_sites(self) -> Sequence[str]:
        """The attention to the source: `cross`, or that of each layer."""
        cross = [site for site in self.model.sites if site.startswith("cross")]
        return ["cross"] if "cross" in cross else cross

    def _replacing_site(self) -> str:
        if not self.main_sites:
            raise RequestError(
                "replace_unknown needs attention over the source, which this model does not have; set replace_unknown to False"
            )
        return self.main_sites[-1]


def _check_selection(n_best: Any, sampling: Any, minimum_risk: Any, beam_size: Any) -> None:
    """Check the arguments of `translate` that say how many translations are made, and which of them is returned."""
    if minimum_risk not in (None, "chrf", "bleu"):
        raise RequestError(f"translate: minimum_risk is {minimum_risk!r}, expected chrf or bleu")
    if not isinstance(n_best, int):
        raise RequestError(f"n_best is {n_best!r:.40}, expected a whole number")
    if sampling is not None and not isinstance(sampling, Sampling):
        raise RequestError(f"translate: sampling is {sampling!r:.40}, expected settings, such as Sampling(count=8)")
    if sampling and (n_best > 1 or beam_size is not None):
        raise RequestError("translate: samples are drawn instead of a search; leave out beam_size and n_best")
    if minimum_risk and sampling is None and n_best == 1:
        raise RequestError("translate: minimum_risk chooses among several translations; draw 32 samples, or set n_best to 8")
