"""Significance tests for the difference between two models on the same texts."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from regard.errors import ShapeError
from regard.evaluation.classification import check_labels, macro_f1
from regard.evaluation.tables import shorten, table
from regard.plurals import counted

# Maximum number of counts in memory at once during resampling.
_AT_ONCE = 1 << 24

CERTAIN = 0.05
"""Significance level: a difference is significant if its p-value is below this."""


@dataclass(frozen=True)
class ComparedScore:
    """A score of two models on the same examples, from 0 to 100, and a test of their difference."""

    name: str
    first: float
    second: float
    p: float
    """p-value of the difference."""
    interval: tuple[float, float] | None = None
    """Ends of the 95% interval of the difference; None if it is unknown."""
    margins: tuple[float, float] | None = None
    """Half the widths of the 95% intervals of the two scores; None if they are unknown."""

    @property
    def difference(self) -> float:
        """second − first."""
        return self.second - self.first


@dataclass(frozen=True)
class Comparison:
    """Comparison of two models on the same examples."""

    names: tuple[str, str]
    examples: int
    noun: str
    """Noun for an example, such as `text`."""
    scores: tuple[ComparedScore, ...]
    notes: tuple[str, ...] = ()
    """Lines about how the scores were computed and tested; quote them with the scores."""

    @property
    def conclusion(self) -> str:
        """One sentence on which model is better: a score is significantly higher, and none is significantly lower."""
        sure = [score for score in self.scores if score.p < CERTAIN and score.first != score.second]
        shown = ", ".join(f"{score.difference:+.2f} {score.name}, {describe_p(score.p)}" for score in self.scores)
        if not sure:
            return f"There is no significant difference on {counted(self.examples, self.noun)} ({shown})."
        if len({score.difference > 0 for score in sure}) > 1:
            return f"Each model is significantly better by one score and worse by another ({shown})."
        scores = "" if len(sure) == len(self.scores) else f", by {sure[0].name} alone,"
        return f"{self.names[sure[0].difference > 0]} is better{scores} on these {self.noun}s ({shown})."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {**asdict(self), "conclusion": self.conclusion}

    def render(self) -> str:
        """Return a table, the notes and the conclusion, for a terminal."""
        rows = []
        for score in self.scores:
            margins = ["", ""] if score.margins is None else [f" ± {margin:.2f}" for margin in score.margins]
            interval = [] if score.interval is None else [f"{score.interval[0]:+.2f} to {score.interval[1]:+.2f}"]
            both = [f"{score.first:.2f}{margins[0]}", f"{score.second:.2f}{margins[1]}"]
            rows.append([score.name, *both, f"{score.difference:+.2f}", *interval, f"{score.p:.4f}"])
        names = [shorten(name, 24) for name in self.names]
        interval = ["95% interval"] * any(score.interval is not None for score in self.scores)
        header = [counted(self.examples, self.noun), *names, "difference", *interval, "p"]
        return "\n\n".join([table(header, rows), "\n".join(self.notes), self.conclusion])


@dataclass(frozen=True)
class McNemar:
    """McNemar's exact test of whether two models have the same accuracy."""

    only_first: int
    """Number of texts that only the first model predicts correctly."""
    only_second: int
    p: float
    """Two-sided p-value: probability that the two numbers would differ at least this much if, on each text that only one model
    predicts correctly, each model were equally likely to be the correct one.
    """


@dataclass(frozen=True)
class Bootstrap:
    """A paired bootstrap test that compares a score of two models on the same texts."""

    first: float
    second: float
    difference: float
    """second − first."""
    low: float
    """Lower end of the 95% interval of the difference: percentile 2.5 of the resampled differences."""
    high: float
    p: float
    """p-value: probability of a difference at least as large if the models are equally good; two-sided."""
    resamples: int


def mcnemar(first_right: Shaped[np.ndarray, " N"], second_right: Shaped[np.ndarray, " N"]) -> McNemar:
    """Test whether two models have the same accuracy, using the texts on which only one of them is correct.

        p = min(1, 2 Σ_{i ≤ min(b,c)} C(b+c, i) / 2^(b+c))

    where only the first model is correct on b texts, and only the second one on c texts.

    Reference: McNemar 1947, in the exact form; Dietterich 1998 recommends the test for one test set.
    """
    _check_pair("mcnemar", first_right, second_right)
    first, second = first_right.astype(bool), second_right.astype(bool)
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    n = b + c
    # Compute in logarithms, because 2^n overflows from n = 1,024 on.
    logs = (math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2) for i in range(min(b, c) + 1))
    return McNemar(b, c, min(1.0, 2 * math.fsum(math.exp(log) for log in logs)))


def bootstrap_mean(
    first: Shaped[np.ndarray, " N"], second: Shaped[np.ndarray, " N"], *, resamples: int = 10_000, seed: int = 1
) -> Bootstrap:
    """Compare the mean scores of two models by bootstrap; each model has a score for each text, such as 1 if it is correct.

    Each sample consists of N texts, drawn with replacement, the same for both models. The interval lies between the
    percentiles 2.5 and 97.5 of the differences d* of the samples. The p-value is (1 + #{|d* − d| ≥ |d|}) / (1 + resamples),
    where d is the difference on the original texts, and # counts samples. Subtracting d shifts the mean of d* to about zero.
    It is at least 2^(1 − N), the p-value of a sign test if all N texts favour one model. Otherwise a few texts could look
    significant.

    Reference: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapters 13 and 16.
    """
    _check_pair("bootstrap_mean", first, second)
    cells, counts = np.unique(np.stack([first, second], 1).astype(np.float64), axis=0, return_counts=True)
    n = len(first)
    return _bootstrap(counts, lambda drawn: (drawn @ cells[:, 0] / n, drawn @ cells[:, 1] / n), resamples, seed)


def bootstrap_macro_f1(
    first: Shaped[np.ndarray, "N C"],
    second: Shaped[np.ndarray, "N C"],
    labels: Shaped[np.ndarray, "N C"],
    *,
    resamples: int = 10_000,
    seed: int = 1,
) -> Bootstrap:
    """Compare the macro F1 of two models by bootstrap, as `bootstrap_mean` does; macro F1 is computed for each sample.

    The labels, predicted by both models and true, are ones and zeros; a row has a single one if a text has one label.
    """
    check_labels("bootstrap_macro_f1", labels.shape[1], first=first, second=second, labels=labels)
    # Packed into bits, many labels are compared a byte at a time.
    rows, counts = np.unique(np.packbits(np.stack([first, second, labels], 1).astype(bool), axis=2), axis=0, return_counts=True)
    one, two, right = np.unpackbits(rows, axis=2, count=labels.shape[1]).astype(np.float64).transpose(1, 0, 2)

    def statistic(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        support = drawn @ right
        return tuple(macro_f1(drawn @ (given * right), drawn @ given, support) for given in (one, two))  # type: ignore[return-value]

    return _bootstrap(counts, statistic, resamples, seed)


def least_p(texts: int) -> float:
    """Return the smallest p-value that is possible with this number of texts: a sign test's if one model is better on each."""
    return 2.0 ** (1 - texts)


def _bootstrap(
    counts: Int[np.ndarray, " U"],
    statistic: Callable[[Float[np.ndarray, "R U"]], tuple[np.ndarray, np.ndarray]],
    resamples: int,
    seed: int,
) -> Bootstrap:
    """Compare two models by bootstrap, given the number of texts with each outcome (the two models' results for a text).

    `statistic` returns the scores of both models for R draws of such numbers.
    """
    if resamples < 1:
        raise ShapeError(f"bootstrap: resamples is {resamples}, expected at least 1")
    # Texts with equal outcomes are interchangeable. So drawing these numbers from a multinomial distribution is equivalent to
    # drawing texts, and its cost depends on the number of different outcomes only.
    total = counts.sum()
    (first,), (second,) = statistic(counts[None].astype(np.float64))
    generator = np.random.default_rng(seed)
    # Some samples at a time, because all counts of all samples may not fit into memory.
    step = max(1, _AT_ONCE // len(counts))
    parts = []
    for start in range(0, resamples, step):
        drawn = generator.multinomial(total, counts / total, size=min(step, resamples - start)).astype(np.float64)
        one, two = statistic(drawn)
        parts.append(two - one)
    differences = np.concatenate(parts)
    difference = float(second - first)
    low, high = np.percentile(differences, [2.5, 97.5])
    # Differences that are equal except for rounding count as equal.
    extreme = int((abs(differences - difference) >= abs(difference) - 1e-12).sum())
    # If all texts favour one model, every sample does too, so a few texts would give a tiny p.
    p = max((1 + extreme) / (1 + resamples), least_p(int(total)))
    return Bootstrap(float(first), float(second), difference, float(low), float(high), p, resamples)


def _check_pair(caller: str, first: np.ndarray, second: np.ndarray) -> None:
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise ShapeError(
            f"{caller}: the first model has scores {first.shape}, the second {second.shape}, expected (N,) for both, "
            "with at least one text"
        )


def describe_p(p: float) -> str:
    """Return a p-value as text, such as `p = 0.0312`."""
    return f"p = {p:.4f}" if p >= 0.0001 else "p < 0.0001"
