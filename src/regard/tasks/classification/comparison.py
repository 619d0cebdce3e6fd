"""Comparison of two classifiers on the same texts, with tests of significance."""

from collections.abc import Collection, Sequence

import numpy as np

from regard.errors import RequestError
from regard.evaluation.comparison import ComparedScore, Comparison, bootstrap_macro_f1, bootstrap_mean, describe_p, mcnemar
from regard.tasks.classification.predict import Classifier
from regard.tasks.requests import check_same_length


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
) -> Comparison:
    """Test whether one classifier is better than another: McNemar's exact test of accuracy, a paired bootstrap of macro F1.

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
    check_same_length("compare", texts=texts, labels=labels)
    _check_labels(first, second, names)
    size = len(first.labels.names)
    gold = _indicators(first.labels.encode(labels), size)
    one, two = (_indicators(_decide(classifier, texts, progress), size) for classifier in (first, second))
    rights = (one == gold).all(-1), (two == gold).all(-1)
    exact = mcnemar(*rights)
    accuracy = bootstrap_mean(*rights, resamples=resamples, seed=seed)
    macro_f1 = bootstrap_macro_f1(one, two, gold, resamples=resamples, seed=seed)
    return Comparison(
        names=names,
        examples=len(texts),
        noun="text",
        scores=tuple(
            ComparedScore(name, 100 * found.first, 100 * found.second, p, (100 * found.low, 100 * found.high))
            for name, found, p in (("accuracy", accuracy, exact.p), ("macro F1", macro_f1, macro_f1.p))
        ),
        notes=(
            f"only the first is correct: {exact.only_first:,}, only the second is: {exact.only_second:,}; McNemar's exact "
            f"test: {describe_p(exact.p)}",
            f"intervals, and p of macro F1: paired bootstrap with {resamples:,} samples",
        ),
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
