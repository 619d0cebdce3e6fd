"""The operations of translators: translate, look at attention, evaluate and compare. Nothing here imports torch at once."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from regard.config.fields import Count, facts_of
from regard.config.language import SamplingSettings
from regard.config.training import DecodingConfig
from regard.errors import RequestError
from regard.evaluation.tables import finite
from regard.plurals import counted
from regard.rendering import PICTURES, Units
from regard.task.operation import AttentionOperation, FileOperation, Files, LineOperation, Lines, Look, Text, TextOperation
from regard.tasks.reading import find_layout
from regard.terminal import show

if TYPE_CHECKING:
    from regard.decoding import Sampling
    from regard.evaluation.words import Evaluation
    from regard.tasks.translation.comparison import TranslatorComparison
    from regard.tasks.translation.faithfulness import TranslationFaithfulness
    from regard.tasks.translation.predict import Translator
    from regard.tasks.translation.results import Translation
    from regard.text.clean import Chunk
    from regard.text.report import ReadingReport

PAIR_LAYOUT = ("format", "columns", "header", "encoding", "allow_skipped")
"""Settings under `data` that are options of the commands that read pairs."""


class _Search:
    """Settings of the search as options of an operation."""

    part: ClassVar[str] = "decoding"
    part_class: ClassVar[type | None] = DecodingConfig
    flags: ClassVar[Mapping[str, str]] = {"beam_size": "--beam"}


@dataclass(frozen=True)
class TranslationAnswer:
    """A translation in an answer of the service."""

    text: str
    score: float | None
    """Score that ranks translations: log probability with length reward and penalty."""
    log_probability: float | None
    finished: bool
    alternatives: list[TranslationAnswer] = field(default_factory=list)
    source_words: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    alignment: str = ""


@dataclass(frozen=True, kw_only=True)
class Translate(_Search, SamplingSettings, TextOperation):
    """Translate texts. Settings that are left out are those of the model."""

    n_best: Annotated[int, Ge(1), Le(1000)] = 1
    """Number of translations of each text. They are printed one per line: number of the text, log probability and translation,
    separated by tabs, in the order of the search's score."""
    prefix: str = ""
    """Beginning of every translation."""
    constraints: tuple[str, ...] = ()
    """Word or phrase that every translation contains; may be given several times (works best with a large beam)."""
    sample: Annotated[int, Ge(0), Le(1000)] = 0
    """Number of samples of each text, which are drawn instead of searching for the best translation; 0 to search."""
    minimum_risk: Literal["", "chrf", "bleu"] = ""
    """Of the translations of `sample` or `n_best`, return the one that is most similar to all others by this measure."""
    engine: Literal["", "ctranslate2"] = ""
    """Engine that searches instead of regard: `ctranslate2` is faster on a CPU, and has other rules: the score of a translation
    is log p / length^α, and there is no length reward. For Transformers, with a plain beam or greedy search."""
    alignment: bool = False
    """Whether to return the words and their alignment in Pharaoh format too."""

    name: ClassVar = "translate"
    chosen: ClassVar = tuple(name for name in DecodingConfig.__dataclass_fields__ if name != "batch_tokens")
    flags: ClassVar = {**_Search.flags, "constraints": "--constraint"}
    help: ClassVar = """\
Translate the given sentences, the lines of --input FILE, or the lines of standard input.
For each sentence, one line is printed, in order."""
    examples: ClassVar = """\
  regard translate runs/mine "she kissed him ." --heatmap map.png
  regard translate runs/mine --input test.en > test.de
  cat test.en | regard translate runs/mine --beam 5 --n-best 3 --json
  regard translate runs/mine --input test.en --ensemble runs/other --ensemble runs/third
  regard translate runs/mine --input test.en --sample 32 --minimum-risk chrf
  regard translate runs/mine "a blue car ." --beam 6 --groups 3 --n-best 3
  regard translate runs/mine "a blue car ." --prefix "Ein" --constraint "blaues Auto\""""
    text: ClassVar = "sentence"
    answers: ClassVar = "translations"
    answer: ClassVar = TranslationAnswer
    example: ClassVar = "she kissed him ."
    per_text: ClassVar = {"prefix": "", "constraints": ""}
    caps: ClassVar = {
        **dict.fromkeys(("beam_size", "n_best"), "beam"),
        **dict.fromkeys(("max_length", "min_length"), "tokens"),
        "prefix": "attention_characters",
    }
    kept: ClassVar = 2048  # translating a line of more than 65,536 characters as a whole would take minutes
    command_only: ClassVar = frozenset(
        {"precision", "constraints", "sample", *facts_of(SamplingSettings), "minimum_risk", "engine"}
    )
    service_only: ClassVar = frozenset({"alignment"})
    picture: ClassVar = "the attention"
    ensembles: ClassVar = True

    def __post_init__(self) -> None:
        if self.sample and ("beam_size" in self.settings or self.n_best > 1):
            raise RequestError("translate: sample replaces the beam search; leave out beam_size and n_best")
        if self.minimum_risk and not self.sample and self.n_best == 1:
            raise RequestError("translate: minimum_risk chooses among several translations; set sample to 32, or n_best to 8")
        for name, facts in facts_of(SamplingSettings).items():
            if not self.sample and getattr(self, name) != facts.default:
                raise RequestError(f"translate: {name} is for sampling; set sample to the number of samples")

    def run(
        self, predictor: Translator, texts: Sequence[Text], *, record: bool = False, progress: bool = False
    ) -> list[Translation]:
        """Translate texts."""
        wide = {"beam_size": max(self.setting(predictor, "beam_size"), self.n_best)} if self.n_best > 1 else {}
        options: dict[str, Any] = {**wide, **self.settings}
        for name in ("prefix", "constraints"):
            values = [one.values.get(name, getattr(self, name)) for one in texts]
            options |= {name: values} if any(values) else {}
        return predictor.translate(
            [one.text for one in texts],
            n_best=self.n_best,
            sampling=self._sampling(texts),
            minimum_risk=self.minimum_risk or None,
            engine=self.engine or None,
            record=None if record or self.alignment else (),
            progress=progress,
            **options,
        )

    def _sampling(self, texts: Sequence[Text]) -> Sampling | None:
        if not self.sample:
            return None
        from regard.decoding import Sampling

        options: dict[str, Any] = {name: getattr(self, name) for name in facts_of(SamplingSettings)}
        return Sampling(count=self.sample, first=texts[0].number if texts else 0, **options)

    def sought(self, predictor: Any, name: str) -> Any:
        """Return the value of a setting; the beam has room for all translations that are returned."""
        own = self.setting(predictor, name)
        return max(own, self.n_best) if name == "beam_size" and name not in self.settings else own

    def cost(self, predictor: Translator, text: Text, limits: Mapping[str, int]) -> int:
        """Estimate the work of the search."""
        steps = self.settings.get("max_length") or limits["tokens"]
        return self.setting(predictor, "beam_size") * steps * (text.size + steps)

    @property
    def _lists(self) -> bool:
        return not self.minimum_risk and max(self.n_best, self.sample) > 1

    def plain(self, result: Translation) -> dict[str, Any]:
        """Return a translation as data for JSON."""
        plain: dict[str, Any] = finite({"text": result.text, **_scores(result)})
        if self._lists:
            plain["alternatives"] = [replace(self, n_best=1, sample=0).plain(other) for other in result.alternatives]
        if self.alignment and result.attention is not None:
            record = result.attention.in_units("auto")  # so that the alignment counts the words of the lists
            plain |= {"source_words": record.source_words, "words": record.target_words, "alignment": record.pharaoh()}
        return plain

    def to_json(self, result: Translation, units: Any) -> dict[str, Any]:
        """Return a translation with its source, scores, words, alignment, and the other translations."""
        plain: dict[str, Any] = {"source": result.source, "text": result.text, **_scores(result)}
        if result.attention is not None:
            record = result.attention.in_units(units)
            plain |= {"source_words": list(record.source_words), "target_words": list(record.target_words)}
            plain["alignment"] = record.pharaoh()
        if self._lists:
            listed = [{"text": one.text, **_scores(one)} for one in (result, *result.alternatives)]
            plain["samples" if self.sample else "n_best"] = listed
        return plain

    def render(self, result: Translation, number: int) -> str:
        """Return a translation, or all of them, one per line."""
        if not self._lists:
            return result.text
        return "\n".join(f"{number}\t{one.log_probability:.4f}\t{one.text}" for one in (result, *result.alternatives))


def _scores(result: Translation) -> dict[str, Any]:
    return {"score": result.score, "log_probability": result.log_probability, "finished": result.finished}


@dataclass(frozen=True, kw_only=True)
class LookAtTranslation(_Search, AttentionOperation):
    """Return the attention of translations, or of given translations."""

    target: str | None = None
    """Translation whose attention is shown, instead of the model's own."""

    chosen: ClassVar = ("beam_size", "max_length")
    example: ClassVar = "she kissed him ."
    per_text: ClassVar = {"target": "targets"}
    caps: ClassVar = {"beam_size": "beam", "max_length": "tokens"}
    main_sites: ClassVar = ("cross",)

    def run(self, predictor: Translator, texts: Sequence[Text], *, record: bool = True, progress: bool = False) -> list[Look]:
        """Translate texts, or score the given translations, with attention."""
        sources, targets = [one.text for one in texts], [one.values.get("target", self.target) for one in texts]
        sites = self.sites or None
        if any(target is not None for target in targets):
            results = predictor.force(sources, [target or "" for target in targets], record=sites)
        else:
            results = predictor.translate(sources, record=sites, **self.settings)
        return [
            Look(f"{one.source}\n{one.text}   (log probability {one.log_probability:.2f})", one.attention) for one in results
        ]

    def cost(self, predictor: Translator, text: Text, limits: Mapping[str, int]) -> int:
        """Estimate the work of the search; without one, the size of the texts."""
        if "target" in text.values:
            return text.size
        return self.setting(predictor, "beam_size") * limits["tokens"] * (text.size + limits["tokens"])


def read_given_pairs(files: Files, config: Any) -> tuple[Iterator[Chunk], ReadingReport]:
    """Read pairs; see `find_layout`.

    Args:
        files: The files.
        config: The run's configuration.

    Returns:
        An iterator of the pairs, and the report, which is complete once all pairs have been read.
    """
    from regard.text.pairs.readers import read_pairs
    from regard.text.report import ReadingReport

    report = ReadingReport()
    paths, data = find_layout(files, config, ("columns", "header"))
    return read_pairs(paths, data, report), report


def read_all_pairs(files: Files, config: Any) -> tuple[list[str], list[str]]:
    """Read all pairs into memory as `read_given_pairs` does, and write the report to standard error.

    Returns:
        Sources and targets.
    """
    chunks, report = read_given_pairs(files, config)
    sources, targets = [], []
    for chunk in chunks:
        sources += chunk.source
        targets += chunk.target
    show(report.render(), file=sys.stderr)
    return sources, targets


@dataclass(frozen=True, kw_only=True)
class EvaluateTranslator(_Search, FileOperation):
    """Score a translator on sentence pairs."""

    name: ClassVar = "evaluate"
    chosen: ClassVar = ("beam_size", "length_penalty", "length_reward", "precision")
    layout: ClassVar = PAIR_LAYOUT
    ensembles: ClassVar = True

    def run(self, predictor: Translator, files: Files) -> Evaluation:
        """Score the translator on sentence pairs."""
        sources, references = read_all_pairs(files, predictor.config)
        return predictor.evaluate(sources, references, progress=True, **self.settings)


@dataclass(frozen=True, kw_only=True)
class CompareTranslators(_Search, FileOperation):
    """Compare two translators on the same pairs."""

    resamples: Count = 1000
    """Number of bootstrap samples (default: 10,000; for translators 1,000)."""

    name: ClassVar = "compare"
    chosen: ClassVar = ("beam_size",)
    layout: ClassVar = PAIR_LAYOUT

    def compare(self, models: tuple[Translator, Translator], names: tuple[str, str], files: Files) -> TranslatorComparison:
        """Compare the BLEU and chrF of two translators."""
        from regard.tasks.translation.comparison import compare_translators

        sources, targets = read_all_pairs(files, models[0].config)
        compare = partial(compare_translators, *models, sources, targets, names=names)
        return compare(resamples=self.resamples, progress=True, **self.settings)


@dataclass(frozen=True, kw_only=True)
class MeasureTranslator(FileOperation):
    """Measure whether the source tokens that a translator attends to decide its next token."""

    texts: Count = 500
    """Maximum number of texts or sentences; if there are more, a random sample is measured."""
    permutations: Count = 100
    """Number of permutations of the weights of each text or sentence."""
    picture: str = ""
    """File for a picture of the decreases in probability, as bars."""

    name: ClassVar = "faithfulness"
    layout: ClassVar = PAIR_LAYOUT
    pictures: ClassVar = {"picture": PICTURES}

    def run(self, predictor: Translator, files: Files) -> TranslationFaithfulness:
        """Measure the faithfulness of the translator's attention on the sources of sentence pairs."""
        from regard.tasks.translation.faithfulness import measure_translation_faithfulness

        sources, _ = read_all_pairs(files, predictor.config)
        settings: dict[str, Any] = {"max_texts": self.texts, "permutations": self.permutations, "progress": True}
        return measure_translation_faithfulness(predictor, sources, **settings)

    def draw(self, predictor: Translator, result: TranslationFaithfulness, *, caption: bool) -> None:
        """Draw the bars, if a file is named for them."""
        if self.picture:
            result.draw(self.picture, caption=caption)


@dataclass(frozen=True, kw_only=True)
class ScoreTranslations(LineOperation):
    """Score given translations with a trained translator.

    For each line of the file, one line is printed: log p (natural logarithm) and number of tokens, separated by a tab;
    an empty line if the file's line contains no pair. The perplexity of all pairs, and the formula of the score that
    ranks translations (in --json), are printed on standard error.
    """

    json: bool = False
    """Whether to print one JSON object per pair: line, texts, score, log p (also of tokens)."""

    name: ClassVar = "score"
    examples: ClassVar = """\
  regard score runs/mine test.tsv
  regard score runs/mine test.en,test.de --json > scores.jsonl
  regard score runs/mine test.tsv --ensemble runs/other"""
    layout: ClassVar = PAIR_LAYOUT
    ensembles: ClassVar = True

    def run(self, predictor: Translator, files: Files) -> Lines:
        """Score the pairs of files."""
        chunks, report = read_given_pairs(files, predictor.config)
        decoding, counts, totals = predictor.config.decoding, Counter[str](), []

        def rows() -> Iterator[tuple[int, str]]:
            for chunk in chunks:
                for line, one in zip(chunk.line, predictor.score(chunk.source, chunk.target), strict=True):
                    counts.update(pairs=1, tokens=one.num_tokens)
                    totals.append(one.log_probability)
                    plain = f"{one.log_probability:.6f}\t{one.num_tokens}"
                    yield line, json.dumps(_with_tokens(line, one), ensure_ascii=False) if self.json else plain

        def remark() -> str:
            total = math.fsum(totals)
            perplexity = math.exp(min(-total / max(counts["tokens"], 1), 700.0))
            sizes = f"{counted(counts['pairs'], 'pair')}, {counted(counts['tokens'], 'token')}"
            formula = f"(log p + {decoding.length_reward:g} · tokens) / ((5 + tokens) / 6)^{decoding.length_penalty:g}"
            return f"{sizes}: log p {total:.4f}, perplexity {perplexity:.4f}\nscore in --json: {formula}"

        return Lines(rows(), report, padded=not self.json, remark=remark)


def _with_tokens(line: int, one: Translation) -> dict[str, Any]:
    tokens = [round(float(each), 6) for each in one.token_log_probabilities]
    plain = {"line": line, "source": one.source, "target": one.text, "score": one.score}
    return {**plain, "log_probability": one.log_probability, "tokens": one.num_tokens, "token_log_probabilities": tokens}


@dataclass(frozen=True, kw_only=True)
class AlignTranslations(LineOperation):
    """Align the words of sentence pairs by the attention of a trained model.

    For each line of the file, one line of links is printed, such as `0-0 1-2` (source word-target word, from 0).
    On a side whose tokens are characters, the numbers count characters and spaces, unless --units words is given.
    The line is empty if the file's line contains no pair.
    """

    site: str = ""
    """Attention site to use, such as cross.2 or norm.2 (default: cross)."""
    head: Annotated[int, Ge(-1)] = -1
    """Head of that site, from 0; −1 for the mean of all heads."""
    step: Literal["", "produce", "consume"] = ""
    """Use the attention of the step that produces a word, or of the next step, which consumes it (default: the model's choice,
    produce for every model of regard; choose consume if it aligns pairs with known links better)."""
    units: Units = "auto"
    """Count tokens, characters (if the model's tokens are characters) or words; auto counts characters on a side whose tokens
    are characters, and words on other sides (default: auto)."""

    name: ClassVar = "align"
    examples: ClassVar = """\
  regard align runs/mine pairs.tsv > pairs.align
  regard align runs/mine test.en,test.de
  regard align runs/mine pairs.tsv --site norm.1 --step consume"""
    layout: ClassVar = PAIR_LAYOUT

    def run(self, predictor: Translator, files: Files) -> Lines:
        """Align the pairs of files."""
        chunks, report = read_given_pairs(files, predictor.config)
        step = self.step or predictor.model.alignment_step
        site, head = self.site or None, None if self.head < 0 else self.head

        def rows() -> Iterator[tuple[int, str]]:
            for chunk in chunks:
                found = predictor.force(chunk.source, chunk.target, record=None if site is None else (site,))
                for line, one in zip(chunk.line, found, strict=True):
                    if one.attention is None:
                        raise RequestError("align: this model has no attention over the source, so there is nothing to show")
                    yield line, one.attention.pharaoh(site, head, step=step, units=self.units)

        return Lines(rows(), report)


OPERATIONS = (
    *(Translate, LookAtTranslation, EvaluateTranslator, CompareTranslators),
    *(MeasureTranslator, ScoreTranslations, AlignTranslations),
)
