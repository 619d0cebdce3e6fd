"""Two trained models on the same file: which is better, and whether so few texts can tell."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import RequestError
from regard.evaluation import Bootstrap, McNemar, bootstrap_macro_f1, bootstrap_mean, mcnemar
from regard.evaluation.tables import shorten, table
from regard.plurals import counted
from regard.tasks.classification.predictor import Classifier
from regard.tasks.translation.metrics import suitable_metrics
from regard.tasks.translation.predictor import Translator

_CERTAIN = 0.05
"""A difference that chance makes less often than this counts as one."""


@dataclass(frozen=True)
class ClassifierComparison:
    """Two classifiers on the same texts."""

    names: tuple[str, str]
    texts: int
    accuracy: Bootstrap
    macro_f1: Bootstrap
    mcnemar: McNemar
    """Of the texts that only one of them labels rightly."""

    @property
    def conclusion(self) -> str:
        """One sentence. Accuracy is judged by McNemar's exact test, macro F1 by the bootstrap."""
        points = f"{100 * self.accuracy.difference:+.2f} points of accuracy, {_p(self.mcnemar.p)}"
        if self.mcnemar.p < _CERTAIN:
            better = self.names[self.accuracy.difference > 0]
            return f"{better} is better on these texts ({points})."
        if self.macro_f1.p < _CERTAIN:
            better = self.names[self.macro_f1.difference > 0]
            by = f"{100 * self.macro_f1.difference:+.2f}, {_p(self.macro_f1.p)}"
            accuracy = f"these {self.texts:,} texts show no difference in accuracy ({points})"
            return f"{better} has the better macro F1 ({by}), but {accuracy}."
        return f"These {self.texts:,} texts show no difference ({points})."

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "conclusion": self.conclusion}

    def render(self) -> str:
        """A table and the conclusion, for a terminal."""
        rows = [
            [
                name,
                f"{100 * found.first:.2f}",
                f"{100 * found.second:.2f}",
                f"{100 * found.difference:+.2f}",
                f"{100 * found.low:+.2f} to {100 * found.high:+.2f}",
                f"{found.p:.4f}",
            ]
            for name, found in (("accuracy", self.accuracy), ("macro F1", self.macro_f1))
        ]
        header = [counted(self.texts, "text"), *(shorten(name, 24) for name in self.names), "difference", "95% interval", "p"]
        split = (
            f"only the first right: {self.mcnemar.only_first:,}, only the second: {self.mcnemar.only_second:,}, "
            f"McNemar's exact test: {_p(self.mcnemar.p)}"
        )
        return f"{table(header, rows)}\n\n{split}\n\n{self.conclusion}"


@dataclass(frozen=True)
class TranslationScore:
    """A score of two translators, as sacrebleu's paired bootstrap has it."""

    name: str
    first: float
    """From 0 to 100."""
    first_interval: float
    """Half of the 95% interval around it."""
    second: float
    second_interval: float
    p: float
    """Of the difference."""
    signature: str
    """How sacrebleu computed it; quote it with the scores."""


@dataclass(frozen=True)
class TranslatorComparison:
    """Two translators on the same pairs."""

    names: tuple[str, str]
    pairs: int
    scores: tuple[TranslationScore, ...]
    decoding: tuple[str, str] = ("", "")
    """Search of each translator: `greedy`, or the beam size and how it ranks translations."""

    @property
    def conclusion(self) -> str:
        """One sentence: better by a score that chance explains badly, and worse by none."""
        sure = [score for score in self.scores if score.p < _CERTAIN and score.first != score.second]
        told = ", ".join(f"{score.second - score.first:+.2f} {score.name}, {_p(score.p)}" for score in self.scores)
        if not sure:
            return f"These {self.pairs:,} pairs show no difference ({told})."
        if len({score.second > score.first for score in sure}) > 1:
            return f"Each is better by one score and worse by another ({told})."
        scores = "" if len(sure) == len(self.scores) else f", by {sure[0].name} alone,"
        return f"{self.names[sure[0].second > sure[0].first]} is better{scores} on these pairs ({told})."

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "conclusion": self.conclusion}

    def render(self) -> str:
        """A table, the signatures and the conclusion, for a terminal."""
        rows = [
            [
                score.name,
                f"{score.first:.2f} ± {score.first_interval:.2f}",
                f"{score.second:.2f} ± {score.second_interval:.2f}",
                f"{score.second - score.first:+.2f}",
                f"{score.p:.4f}",
            ]
            for score in self.scores
        ]
        header = [counted(self.pairs, "pair"), *(shorten(name, 24) for name in self.names), "difference", "p"]
        signatures = "\n".join(f"{score.name}: {score.signature}" for score in self.scores)
        each = [f"{shorten(name, 24)}: {how}" for name, how in zip(self.names, self.decoding, strict=True)]
        decoding = self.decoding[0] if self.decoding[0] == self.decoding[1] else "; ".join(each)
        return f"{table(header, rows)}\n\nSearch for BLEU and chrF: {decoding}\n{signatures}\n\n{self.conclusion}"


def compare_classifiers(
    first: Classifier,
    second: Classifier,
    texts: Sequence[str],
    labels: Sequence[str | Collection[str]],
    *,
    names: tuple[str, str] = ("the first", "the second"),
    resamples: int = 10_000,
    seed: int = 1,
    progress: bool = False,
) -> ClassifierComparison:
    """Test whether one classifier is better than another: McNemar's exact test and a paired bootstrap.

    Args:
        first: One.
        second: The other, with the same labels.
        texts: Texts that neither was trained on.
        labels: The label of each, or where texts have several the labels of each.
        names: What to call the two.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        progress: Whether to show bars on standard error.

    Raises:
        RequestError: If there are no texts, not as many labels, or the models know different labels.
        DataError: If a label was not met in training.
    """
    if not texts or len(texts) != len(labels):
        raise RequestError(f"compare: got {len(texts):,} texts and {len(labels):,} labels, expected as many, at least one")
    _check_labels(first, second, names)
    size = len(first.labels.names)
    gold = _indicators(first.labels.encode(labels), size)
    one, two = (_indicators(_decide(classifier, texts, progress), size) for classifier in (first, second))
    rights = (one == gold).all(-1), (two == gold).all(-1)
    return ClassifierComparison(
        names=names,
        texts=len(texts),
        accuracy=bootstrap_mean(*rights, resamples=resamples, seed=seed),
        macro_f1=bootstrap_macro_f1(one, two, gold, resamples=resamples, seed=seed),
        mcnemar=mcnemar(*rights),
    )


def compare_translators(
    first: Translator,
    second: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    names: tuple[str, str] = ("the first", "the second"),
    beam_size: int | None = None,
    resamples: int = 1000,
    progress: bool = False,
) -> TranslatorComparison:
    """Test whether one translator is better than another, by sacrebleu's paired bootstrap of BLEU and chrF.

    Args:
        first: One.
        second: The other. Where one of the two writes in lower case, both are compared without case.
        sources: Sources that neither was trained on.
        targets: A reference of each.
        names: What to call the two.
        beam_size: As for `Translator.translate`.
        resamples: Of the bootstrap.
        progress: Whether to show bars on standard error.

    Raises:
        RequestError: If there are no pairs, or not as many targets as sources.

    Reference:
        Koehn 2004, Statistical Significance Tests for Machine Translation Evaluation.
    """
    from sacrebleu.significance import PairedTest

    if not sources or len(sources) != len(targets):
        raise RequestError(
            f"compare: got {len(sources):,} sources and {len(targets):,} targets, expected as many, at least one"
        )
    found = [
        [one.text for one in each.translate(sources, beam_size=beam_size, record=(), progress=progress)]
        for each in (first, second)
    ]
    tokenizers = [each.bundle.target_tokenizer for each in (first, second)]
    bleu, chrf = suitable_metrics(tokenizers[tokenizers[1].lowercase and not tokenizers[0].lowercase], targets)
    test = PairedTest(
        [("first", found[0]), ("second", found[1])], {"BLEU": bleu, "chrF": chrf}, [list(targets)], "bs", n_samples=resamples
    )
    signatures, results = test()
    return TranslatorComparison(
        names=names,
        pairs=len(sources),
        scores=tuple(_score(name, str(signature), *results[name]) for name, signature in signatures.items()),
        decoding=(first.decoding(beam_size=beam_size).describe(), second.decoding(beam_size=beam_size).describe()),
    )


def _score(name: str, signature: str, first: Any, second: Any) -> TranslationScore:
    """One metric of sacrebleu's results; it calls chrF chrF2, by its β."""
    return TranslationScore(
        name=name.rstrip("2"),
        first=float(first.score),
        first_interval=float(first.ci),
        second=float(second.score),
        second_interval=float(second.ci),
        p=float(second.p_value),
        signature=signature,
    )


def _check_labels(first: Classifier, second: Classifier, names: tuple[str, str]) -> None:
    one, two = first.labels, second.labels
    if (one.names, one.multiple) != (two.names, two.multiple):
        only = [name for name in (*one.names, *two.names) if (name in one.names) != (name in two.names)]
        difference = f"'{only[0]}' is known to one of them only" if only else "only one of them gives texts several labels"
        raise RequestError(f"compare: {names[0]} and {names[1]} know different labels ({difference}), expected the same")


def _decide(classifier: Classifier, texts: Sequence[str], progress: bool) -> np.ndarray:
    probabilities = classifier.probabilities(classifier.scores(texts, progress=progress))
    return probabilities > 0.5 if classifier.labels.multiple else probabilities.argmax(-1)


def _indicators(chosen: np.ndarray, size: int) -> np.ndarray:
    """Numbers of labels (N,) as rows with a single one; rows of several labels as they are."""
    return np.eye(size, dtype=bool)[chosen] if chosen.ndim == 1 else chosen.astype(bool)


def _p(p: float) -> str:
    return f"p = {p:.4f}" if p >= 0.0001 else "p < 0.0001"
