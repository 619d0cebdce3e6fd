"""A trained translator, which translates texts."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.config import DecodingConfig
from regard.decoding import Hypothesis, Sampling, force
from regard.errors import RequestError
from regard.evaluation.words import Evaluation, evaluate_translations
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.reweight import Reweight, ReweightBySite
from regard.tasks.notebook import count_parameters, table
from regard.tasks.predictor import Predictor
from regard.tasks.requests import (
    check_texts,
    counting_bar,
    override,
    reweight_by_site,
    text_blocks,
    with_settings,
)
from regard.tasks.translation.bundle import TranslationBundle, check_same_vocabularies
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.metrics import suitable_metrics
from regard.tasks.translation.precision import SearchModel, check_precision
from regard.tasks.translation.request import SearchRequest, TargetConstraints
from regard.tasks.translation.results import ScoredPair, Translation, translation_of
from regard.tasks.translation.sources import Source, empty_hypothesis, encode_sources, guided, join, pad
from regard.text.batching import length_batches
from regard.text.symbols import END, START

_BLOCK = 2048
"""Maximum number of lines of a stream that are translated together."""


class Translator(Predictor[TranslationBundle]):
    """A trained model that translates texts.

    Args:
        bundle: The model and its tokenizers. The model is put into evaluation mode and stays on its device.
    """

    def __init__(self, bundle: TranslationBundle) -> None:
        super().__init__(bundle)
        self.model: Seq2Seq
        self._tokenizers = (bundle.source_tokenizer, bundle.target_tokenizer)
        self._search_model = SearchModel(self.model)
        self._engine: str | None = None

    def __repr__(self) -> str:
        data, sizes = self.config.data, " → ".join(f"{tokenizer.size:,}" for tokenizer in self._tokenizers)
        return (
            f"Translator({data.source} → {data.target}, {type(self.model).__name__}, vocabularies {sizes}, "
            f"{count_parameters(self.model)}, on {self.device})"
        )

    def _repr_html_(self) -> str:
        data, sizes = self.config.data, " → ".join(f"{tokenizer.size:,} symbols" for tokenizer in self._tokenizers)
        rows = [
            ("model", f"{type(self.model).__name__}, {count_parameters(self.model)}, on {self.device}"),
            ("vocabularies", sizes),
            ("attention", ", ".join(self.model.sites)),
            ("search", self.config.decoding.describe()),
        ]
        return table(f"Translator, {data.source} → {data.target}", rows, "translator.translate([text]) translates a text")

    @property
    def config(self) -> TranslationConfig:
        """Settings of the run."""
        return self.bundle.config

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
        if minimum_risk not in (None, "chrf", "bleu"):
            raise RequestError(f"translate: minimum_risk is {minimum_risk!r}, expected chrf or bleu")
        if isinstance(n_best, bool) or not isinstance(n_best, int):
            raise RequestError(f"n_best is {n_best!r:.40}, expected a whole number")
        if sampling is not None and not isinstance(sampling, Sampling):
            raise RequestError(f"translate: sampling is {sampling!r:.40}, expected settings, such as Sampling(count=8)")
        if sampling and (n_best > 1 or settings.get("beam_size") is not None):
            raise RequestError("translate: sampling does not search: leave beam_size and n_best out, and set Sampling(count=…)")
        if minimum_risk and sampling is None and n_best == 1:
            raise RequestError(
                "translate: minimum_risk chooses among several translations: draw samples with "
                "sampling=Sampling(count=32), or set n_best to 2 or more"
            )
        guide = None
        if prefix not in (None, "") or constraints is not None:
            guide = TargetConstraints(len(texts), self._tokenizers[1], prefix=prefix, constraints=constraints)
        decoding = self.decoding(**settings)
        sites = self._sites(record)
        site = self._replacing_site() if decoding.replace_unknown else None
        sources = encode_sources(texts, self._tokenizers[0], self.config.data.max_tokens)
        if guide is not None:
            sources = [guided(source) if guide.holds(number) else source for number, source in enumerate(sources)]
        changes = reweight_by_site(reweight, "cross")
        request = SearchRequest(decoding, n_best, sorted({*sites, site} if site else sites), guide, sampling, changes)
        used = engine or self._engine
        if used:
            self._check_engine(used, prefix=prefix, constraints=constraints, sampling=sampling, reweight=reweight)
        found = self._search(sources, request, used, progress=progress)
        made = [
            translation_of(
                source,
                hypotheses,
                self._tokenizers,
                replace_unknown=site,
                held=None if guide is None else partial(guide.unknown, number),
            )
            for number, (source, hypotheses) in enumerate(zip(sources, found, strict=True))
        ]
        return made if minimum_risk is None else [self._least_risky(one, minimum_risk) for one in made]

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
        changes = reweight_by_site(reweight, "cross")
        found = self._force("force", sources, targets, self._sites(record), changes, progress=progress)
        return [
            translation_of(Source(text, (own,)), [hypothesis], self._tokenizers, replace_unknown=None, text=target)
            for text, target, (own, hypothesis) in zip(sources, targets, found, strict=True)
        ]

    def score(self, sources: Sequence[str], targets: Sequence[str], *, progress: bool = False) -> list[ScoredPair]:
        """Score given translations without attention, which is faster than `force`.

        Args:
            sources: The sources.
            targets: The target of each source.
            progress: Whether to show a bar on standard error.

        Raises:
            RequestError: If the numbers of sources and targets differ, or a probability is NaN.
        """
        sources, targets = check_texts("score", sources), check_texts("score", targets)
        found = self._force("score", sources, targets, [], None, progress=progress)
        return [
            ScoredPair(text, target, one.score, one.log_probability, one.token_log_probabilities)
            for text, target, (_, one) in zip(sources, targets, found, strict=True)
        ]

    @with_settings(DecodingConfig, without=["batch_tokens"])
    def evaluate(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        progress: bool = False,
        **settings: Any,
    ) -> Evaluation:
        """Score the translator on pairs: the loss of the given targets, and BLEU, chrF and errors of its own translations.

        Args:
            sources: The sources.
            targets: One reference for each source.
            progress: Whether to show bars on standard error.
            settings: Settings of the search, as for `translate`. The loss is computed in the model's own number format.

        Raises:
            RequestError: If there are no pairs, or the numbers of sources and targets differ; also as for `translate`.
        """
        if not sources:
            raise RequestError("evaluate: there are no pairs, expected at least one")
        decoding = self.decoding(**settings)
        forced = self.force(sources, targets, record=(), progress=progress)
        found = self.translate(sources, record=(), progress=progress, **settings)
        tokenizer = self.bundle.target_tokenizer
        return evaluate_translations(
            [one.text for one in found],
            targets,
            log_probability=math.fsum(one.log_probability for one in forced),
            num_tokens=int(tokenizer.encode_batch(list(targets))[1][-1]) + len(sources),
            metrics=suitable_metrics(tokenizer, targets),
            decoding=decoding,
        )

    def decoding(self, **settings: Any) -> DecodingConfig:
        """Return the settings of a search: the arguments that are not None, and the configuration's values for all others.

        Raises:
            RequestError: If an argument is of the wrong type or out of range, or the precision needs a CPU and the model is on
                another device.
        """
        decoding = override(self.config.decoding, settings, "translate")
        check_precision(decoding.precision, self.device)
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

    def _force(
        self,
        caller: str,
        sources: list[str],
        targets: list[str],
        sites: list[str],
        reweight: ReweightBySite | None,
        *,
        progress: bool,
    ) -> list[tuple[np.ndarray, Hypothesis]]:
        """Score the given targets, and return for each source its ids and the scored target as a hypothesis."""
        if len(sources) != len(targets):
            raise RequestError(
                f"{caller}: got {len(sources)} sources and {len(targets)} targets, expected the same number of each"
            )
        ids = [
            _with_end(*tokenizer.encode_batch(texts))
            for tokenizer, texts in zip(self._tokenizers, (sources, targets), strict=True)
        ]
        longest = [max(len(source), len(target)) for source, target in zip(*ids, strict=True)]
        found: dict[int, Hypothesis] = {}
        decoding = self.config.decoding
        with counting_bar("scoring", len(sources), shown=progress) as advance:
            for numbers in length_batches(np.array(longest, dtype=np.int64), decoding.batch_tokens):
                source, source_mask = pad([ids[0][number] for number in numbers], self.device)
                target_out, _ = pad([ids[1][number] for number in numbers], self.device)
                target_in, _ = pad([np.append(START, ids[1][number][:-1]) for number in numbers], self.device)
                batch = force(
                    self.model,
                    source,
                    source_mask,
                    target_in,
                    target_out,
                    length_penalty=decoding.length_penalty,
                    length_reward=decoding.length_reward,
                    record=sites,
                    reweight=reweight,
                )
                found |= zip(numbers.tolist(), batch, strict=True)
                advance(len(numbers))
        return [(own, found[number]) for number, own in enumerate(ids[0])]

    def use_engine(self, name: str) -> None:
        """Search with this engine from now on, if a call names none; convert the model at once.

        Raises:
            RequestError: If there is no such engine, or it does not support the model.
        """
        self._check_engine(name)
        self._search_model.engine(self.config.decoding.precision, self._tokenizers)
        self._engine = name

    def _check_engine(self, name: str, **arguments: Any) -> None:
        if name != "ctranslate2":
            raise RequestError(f"engine is {name!r}, expected ctranslate2")
        for argument, value in arguments.items():
            if value not in (None, ""):
                raise RequestError(f"engine {name} does not support {argument}; leave it out, or search without the engine")

    def _search(
        self, sources: list[Source], request: SearchRequest, engine: str | None, *, progress: bool
    ) -> list[list[Hypothesis]]:
        """Translate the parts of all sources in batches of similar length, and join the results for each source."""
        pieces = [piece for source in sources for piece in source.pieces]
        places = [(number, later) for number, source in enumerate(sources) for later in range(len(source.pieces))]
        found: list[list[Hypothesis]] = [[]] * len(pieces)
        decoding = request.decoding
        budget = max(1, decoding.batch_tokens // request.width)
        other = self._search_model.engine(decoding.precision, self._tokenizers) if engine else None
        running = nullcontext(self.model) if other else self._search_model.running(decoding.precision, self.device, len(pieces))
        with counting_bar("translating", len(pieces), shown=progress) as advance, running as model:
            for numbers in length_batches(np.array([len(piece) for piece in pieces], dtype=np.int64), budget):
                ids, mask = pad([pieces[number] for number in numbers], self.device)
                if other is None:
                    batch = request.run(model, ids, mask, [places[number] for number in numbers])
                else:
                    batch = other.search(ids, mask, decoding, n_best=request.n_best, record=request.sites)
                for number, hypotheses in zip(numbers, batch, strict=True):
                    found[number] = hypotheses
                advance(len(numbers))
        remaining = iter(found)
        joined = []
        for source in sources:
            own = list(islice(remaining, len(source.pieces)))
            ranks = zip(*own, strict=False)  # join the best of each part, then the second best of each
            whole = [join(rank, decoding.length_penalty, decoding.length_reward) for rank in ranks]
            joined.append(whole or [empty_hypothesis(request.sites)])
        return joined

    def _least_risky(self, translation: Translation, utility: Literal["chrf", "bleu"]) -> Translation:
        """Return the translation most similar to all others, which become its alternatives by decreasing similarity."""
        from regard.tasks.translation.minimum_risk import expected_utilities

        candidates = [translation, *translation.alternatives]
        texts = [one.text for one in candidates]
        bleu, _ = suitable_metrics(self._tokenizers[1], texts)
        gains = expected_utilities(texts, utility, tokenize=bleu.tokenizer)
        order = [candidates[place] for place in np.argsort(-gains, kind="stable")]
        return replace(order[0], alternatives=[replace(one, alternatives=[]) for one in order[1:]])

    def _sites(self, record: Collection[str] | None) -> list[str]:
        if record is None:
            cross = [site for site in self.model.sites if site.startswith("cross")]
            return ["cross"] if "cross" in cross else cross
        return self.check_sites(record)

    def _replacing_site(self) -> str:
        sites = self._sites(None)
        if not sites:
            raise RequestError(
                "replace_unknown needs attention over the source, which this model does not have; set replace_unknown to False"
            )
        return sites[-1]


def ensemble(translators: Sequence[Translator]) -> Translator:
    """Return an ensemble of translators, which averages their probabilities at each step.

    The ensemble has the settings of the first translator.

    Args:
        translators: One or more translators with the same vocabularies. Their models are moved to the device of the first.

    Raises:
        RequestError: If no translator is given, or vocabularies differ.
    """
    if not translators:
        raise RequestError("ensemble: got no translators, expected one or more")
    bundles = [translator.bundle for translator in translators]
    check_same_vocabularies(bundles)
    members = Ensemble([translator.model for translator in translators])
    return Translator(replace(bundles[0], model=members.to(translators[0].device)))


def _with_end(ids: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    return [np.append(ids[start:stop], END) for start, stop in pairwise(offsets)]
