"""Comparison of two classifiers on the same texts, with tests of significance."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.errors import RequestError
from regard.evaluation.comparison import CERTAIN, Bootstrap, McNemar, bootstrap_macro_f1, bootstrap_mean, describe_p, mcnemar
from regard.evaluation.tables import shorten, table
from regard.plurals import counted
from regard.tasks.classification.predict import Classifier
from regard.tasks.requests import check_alike


@dataclass(frozen=True)
class ClassifierComparison:
    """Comparison of two classifiers on the same texts."""

    names: tuple[str, str]
    texts: int
    accuracy: Bootstrap
    macro_f1: Bootstrap
    mcnemar: McNemar
    """McNemar's exact test, from the texts that only one of the two classifiers labels correctly."""

    @property
    def conclusion(self) -> str:
        """One sentence that says which one is better, by McNemar's exact test of accuracy and the bootstrap of macro F1."""
        points = f"{100 * self.accuracy.difference:+.2f} points of accuracy, {describe_p(self.mcnemar.p)}"
        if self.mcnemar.p < CERTAIN:
            better = self.names[self.accuracy.difference > 0]
            return f"{better} is better on these texts ({points})."
        if self.macro_f1.p < CERTAIN:
            better = self.names[self.macro_f1.difference > 0]
            by = f"{100 * self.macro_f1.difference:+.2f}, {describe_p(self.macro_f1.p)}"
            accuracy = f"these {self.texts:,} texts show no significant difference in accuracy ({points})"
            return f"{better} has the better macro F1 ({by}), but {accuracy}."
        return f"These {self.texts:,} texts show no significant difference ({points})."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {**asdict(self), "conclusion": self.conclusion}

    def render(self) -> str:
        """Return a table and the conclusion, for a terminal."""
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
            f"only the first is correct: {self.mcnemar.only_first:,}, only the second is: {self.mcnemar.only_second:,}, "
            f"McNemar's exact test: {describe_p(self.mcnemar.p)}"
        )
        return f"{table(header, rows)}\n\n{split}\n\n{self.conclusion}"


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
        first: A classifier.
        second: Another classifier with the same labels.
        texts: Texts that neither classifier was trained on.
        labels: The label of each text, or a list of labels if texts have several.
        names: Names of the two classifiers.
        resamples: Number of samples of the bootstrap.
        seed: Seed of the bootstrap.
        progress: Whether to show bars on standard error.

    Raises:
        RequestError: If there are no texts, the numbers of texts and labels differ, or the models have different labels.
        DataError: If the models do not know a label, or need one label per text and a text has none or several.
    """
    check_alike("compare", texts=texts, labels=labels)
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
    """Convert label indices (N,) to one-hot rows (N,C); rows for several labels (N,C) stay unchanged."""
    return np.eye(size, dtype=bool)[chosen] if chosen.ndim == 1 else chosen.astype(bool)
