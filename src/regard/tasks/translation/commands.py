"""The operations of translators: those on texts, and evaluate, compare, measure, score and align, which read files of pairs.

Nothing here imports torch at once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge

from regard.config.fields import Count
from regard.errors import RequestError
from regard.plurals import counted
from regard.rendering import Units
from regard.task.operation import CompareOperation, FileOperation, Files, LineOperation, Lines
from regard.tasks.reading import Measure, read_all, read_files
from regard.tasks.translation.text_commands import LookAtTranslation, SearchOptions, Translate

if TYPE_CHECKING:
    from regard.evaluation.comparison import Comparison
    from regard.evaluation.words import Evaluation
    from regard.tasks.translation.faithfulness import TranslationFaithfulness
    from regard.tasks.translation.predict import Translator
    from regard.tasks.translation.results import Translation
    from regard.text.clean import Chunk
    from regard.text.report import ReadingReport


def read_given_pairs(files: Files, config: Any) -> tuple[Iterator[Chunk], ReadingReport]:
    """Return chunks of pairs, and the report on the files; see `read_files`."""
    from regard.text.pairs.readers import read_pairs

    return read_files(read_pairs, files, config, ("columns", "header"))


def read_all_pairs(files: Files, config: Any) -> tuple[list[str], list[str]]:
    """Return sources and targets, and write the report on the files to standard error."""
    sources, targets = read_all(*read_given_pairs(files, config), "source", "target")
    return sources, targets


@dataclass(frozen=True, kw_only=True)
class EvaluateTranslator(SearchOptions, FileOperation):
    """Score a translator on sentence pairs.

    Loss (nats per target token), perplexity, BLEU and chrF with sacrebleu's signatures, exact match and error rates.
    """

    rouge: bool = False
    """Whether to compute ROUGE-1, ROUGE-2 and ROUGE-L too, for summaries (extra `rouge`)."""

    name: ClassVar = "evaluate"
    files: ClassVar = LineOperation.files
    examples: ClassVar = """\
  regard evaluate runs/mine test.tsv
  regard evaluate runs/mine test.en,test.de --beam 5 --json
  regard evaluate runs/headlines test.tsv --rouge
  regard evaluate runs/mine dev.en,dev.de --length-penalty 1.4"""
    chosen: ClassVar = ("beam_size", "length_penalty", "length_reward", "precision")
    ensembles: ClassVar = True

    def run(self, predictor: Translator, files: Files) -> Evaluation:
        return predictor.evaluate(*read_all_pairs(files, predictor.config), rouge=self.rouge, progress=True, **self.settings)


@dataclass(frozen=True, kw_only=True)
class CompareTranslators(SearchOptions, CompareOperation):
    """Test which of two translators is better on pairs that neither was trained on: sacrebleu's paired bootstrap."""

    resamples: Count = 1000
    """Number of bootstrap samples (default: 10,000; for translators 1,000)."""

    name: ClassVar = "compare"
    files: ClassVar = LineOperation.files
    examples: ClassVar = "  regard compare runs/luong runs/bahdanau test.en,test.de --beam 5"
    chosen: ClassVar = ("beam_size",)

    def run(self, models: tuple[Translator, Translator], names: tuple[str, str], files: Files) -> Comparison:
        from regard.tasks.translation.comparison import compare_translators

        compare = partial(compare_translators, *models, *read_all_pairs(files, models[0].config), names=names)
        return compare(resamples=self.resamples, progress=True, **self.settings)


@dataclass(frozen=True, kw_only=True)
class MeasureTranslator(Measure):
    """Measure whether the source tokens that a translator attends to decide its next token.

    Each source token is deleted, or the attention to it is erased, to measure how much probability the next token of the
    model's own translation loses.
    """

    files: ClassVar = LineOperation.files
    examples: ClassVar = """\
  regard faithfulness runs/deu test.tsv --texts 100 --picture bars.png
  regard faithfulness runs/deu test.tsv --texts 50 --attribution all"""

    def run(self, predictor: Translator, files: Files) -> TranslationFaithfulness:
        from regard.tasks.translation.faithfulness import measure_translation_faithfulness

        sources, _ = read_all_pairs(files, predictor.config)
        return measure_translation_faithfulness(predictor, sources, **self.sizes)


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
    ensembles: ClassVar = True

    def run(self, predictor: Translator, files: Files) -> Lines:
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

    def run(self, predictor: Translator, files: Files) -> Lines:
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
