"""The faithfulness of a model's attention as a table and in sentences."""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.analysis.faithfulness.erasure import SHARES
from regard.evaluation.tables import finite, table
from regard.plurals import counted
from regard.viz import losses
from regard.viz.numbers import fixed, percent
from regard.viz.picture import Picture

CERTAIN = 0.05
"""A difference from random words counts if its p-value is below this."""
VISIBLE = 0.005
"""A difference must also be at least this large, so that two digits show it."""
_MOST, _SOME = 0.5, 0.2
"""Thresholds between the verdicts "only a little more", "among those", and "are those": the effect of the most attended words
as a share of the effect of the best order tried, after subtracting the effect of random words from both.
"""
_STEADY = 0.02
"""A change of predictions counts as small below this share."""
_NONE = 1e-6
_MEANING = (
    "Bars: how much the probability of the predicted label falls if words are deleted, or if only these words are kept: the "
    "most attended words, random words, or the best order tried; mean of 1, 5, 10, 20 and 50% of the words. "
    "This does not prove the same for other texts."
)


@dataclass(frozen=True)
class Erasure:
    """Loss of the predicted label's probability when words are deleted (comprehensiveness) or only they are kept (sufficiency).

    Words are chosen in three orders: by attention, at random, and by leave-one-out. AOPC is the mean over the shares of words.
    """

    attention: float
    """AOPC of the most attended words."""
    random: float
    """AOPC of random words."""
    leave_one_out: float
    """AOPC of the words whose single deletion lowers the probability most: an estimate of the best order."""
    low: float
    """Lower end of the 95% interval of `attention` − `random`, by bootstrap over texts."""
    high: float
    p: float
    """Two-sided p-value of the difference between `attention` and `random`, by bootstrap over texts."""
    shares: tuple[tuple[float, float, float], ...]
    """Losses in the three orders (attention, random, leave-one-out) for each share: 1, 5, 10, 20 and 50% of the words."""


@dataclass(frozen=True)
class Spread:
    """Distribution of a value over texts."""

    mean: float
    """Mean; NaN if no text has a value."""
    deviation: float
    texts: int


@dataclass(frozen=True)
class Uniform:
    """Comparison of a model's own attention with equal weights on all tokens."""

    accuracy: float
    """Share of texts labelled correctly with the model's own attention; if texts have several labels, all must be right."""
    uniform_accuracy: float
    changed: float
    """Share of the predictions that change to another label with equal weights."""
    distance: float
    """Mean total variation distance between the predictions with the model's own and with equal weights."""
    exact_match: bool = False
    """Whether texts have several labels. Then a text counts as correct only if all its labels are correct."""

    @property
    def score_name(self) -> str:
        """Name of `accuracy` in reports."""
        return "exact match of all labels" if self.exact_match else "accuracy"


@dataclass(frozen=True)
class Seeds:
    """Comparison of models with the same settings but different seeds."""

    models: int
    attention: Spread
    """Jensen–Shannon divergence of the attention over words, from 0 to log 2 = 0.69; the mean over pairs of models."""
    predictions: Spread
    """Total variation distance of the predictions, from 0 to 1; the mean over pairs of models."""


class Report(ABC):
    """Base of reports on faithfulness, with two tables, bars, and sentences that explain them."""

    texts: int
    _noun = "text"
    _meaning = _MEANING

    @property
    @abstractmethod
    def sentence(self) -> str:
        """Return sentences that explain what the numbers mean for this model."""

    @property
    @abstractmethod
    def _bars(self) -> dict[str, tuple[float, float, float]]:
        """Return the loss for the most attended words, random words, and the best order, by the way of removing words."""

    @property
    @abstractmethod
    def _tables(self) -> tuple[str, str]:
        """Return the losses and the other measures as tables."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the measures and `sentence` as plain data for JSON."""

    def draw(self, path: str | Path | None = None, *, caption: bool = True, dpi: float = 150) -> Picture:
        """Draw the loss of probability as bars, with `sentence` below them; see `regard.viz.losses.draw`."""
        names = ("most attention", "random", "best tried")
        bars = {way: dict(zip(names, values, strict=True)) for way, values in self._bars.items()}
        title = f"Faithfulness of attention, {counted(self.texts, self._noun)}"
        return losses.draw(bars, path, title=title, notes=(self._meaning, self.sentence), caption=caption, dpi=dpi)

    def render(self) -> str:
        """Return the measures as two tables, with `sentence` below them."""
        return "\n\n".join([counted(self.texts, self._noun), *self._tables, self.sentence])


@dataclass(frozen=True)
class Faithfulness(Report):
    """Measures of how well a classifier's attention shows which words its predictions depend on."""

    texts: int
    comprehensiveness: Erasure
    sufficiency: Erasure
    leave_one_out: Spread
    """Kendall τ, over the words of a text, of attention and the change of the prediction when the word is left out."""
    gradient: Spread
    """Kendall τ, over the words of a text, of attention and |gradient × input|."""
    uniform: Uniform
    permuted: Spread
    """Total variation distance of predictions under permuted weights; the median over permutations."""
    seeds: Seeds | None = None

    @property
    def sentence(self) -> str:
        """Return sentences that explain what the numbers mean for this model."""
        return describe(self)

    @property
    def _bars(self) -> dict[str, tuple[float, float, float]]:
        ways = {
            "Without these words (comprehensiveness)": self.comprehensiveness,
            "With these alone (sufficiency)": self.sufficiency,
        }
        return {way: (one.attention, one.random, one.leave_one_out) for way, one in ways.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return `sentence` and the measures as plain data for JSON; NaN becomes None."""
        measures = finite(asdict(self))
        return {"sentence": self.sentence, "texts": measures.pop("texts"), "measures": measures}

    @property
    def _tables(self) -> tuple[str, str]:
        header = ["probability lost", "attention", "random", "best tried", "p", *(f"{share}%" for share in SHARES)]
        rows = [
            [name, f"{one.attention:.3f}", f"{one.random:.3f}", f"{one.leave_one_out:.3f}", f"{one.p:.4f}"]
            + [f"{attention:.3f}" for attention, _, _ in one.shares]
            for name, one in (
                ("without these words (comprehensiveness ↑)", self.comprehensiveness),
                ("with these alone (sufficiency ↓)", self.sufficiency),
            )
        ]
        rest = [
            ["Kendall τ with leave-one-out", *_cells(self.leave_one_out)],
            ["Kendall τ with gradient × input", *_cells(self.gradient)],
            ["total variation distance under permuted weights", *_cells(self.permuted)],
            ["total variation distance under uniform weights", f"{self.uniform.distance:.3f}", "", ""],
            [self.uniform.score_name, f"{100 * self.uniform.accuracy:.2f}%", "", ""],
            [f"{self.uniform.score_name} under uniform weights", f"{100 * self.uniform.uniform_accuracy:.2f}%", "", ""],
        ]
        if self.seeds is not None:
            rest += [
                [f"attention of {self.seeds.models} seeds (JS divergence)", *_cells(self.seeds.attention)],
                [f"predictions of {self.seeds.models} seeds (total variation)", *_cells(self.seeds.predictions)],
            ]
        return table(header, rows, widest=48), table(["", "mean", "± sd", "texts"], rest, widest=48)


def describe(report: Faithfulness) -> str:
    """Return sentences that say whether attention shows the words that matter.

    To understand them, readers only need to know what a probability is.
    """
    if report.uniform.distance < _NONE:
        return (
            "With equal weights on all words this model predicts the same, so its heatmaps do not show which words matter "
            "to it."
        )
    sentences = (
        _verdict(report),
        _evidence(report.comprehensiveness),
        _order(report.leave_one_out),
        _weights(report.uniform),
    )
    return " ".join(sentence for sentence in sentences if sentence)


def _verdict(report: Faithfulness) -> str:
    need, enough = report.comprehensiveness, report.sufficiency
    needed = need.p < CERTAIN and need.attention - need.random >= VISIBLE
    sufficient = enough.p < CERTAIN and enough.random - enough.attention >= VISIBLE
    if need.p < CERTAIN and need.random - need.attention >= VISIBLE:
        return "Do not read this model's heatmaps as reasons: the words with the most attention matter less than random ones."
    if not needed and not sufficient:
        return (
            "Do not read this model's heatmaps as reasons: the words with the most attention matter no more than random ones, "
            f"as far as {counted(report.texts, 'text')} can show."
        )
    if not needed:
        return "The words with the most attention are enough for many predictions of this model, but it does not need them."
    reached = (need.attention - need.random) / max(need.leave_one_out - need.random, _NONE)
    if reached < _SOME:
        words = "The words with the most attention matter only a little more to this model than random ones"
    elif reached < _MOST:
        words = "The words with the most attention are among those that this model's predictions depend on"
    else:
        words = "The words with the most attention are those that this model's predictions depend on"
    return f"{words}." if sufficient else f"{words}, but they are not enough for the predictions."


def _evidence(need: Erasure) -> str:
    attended, random, best = (fixed(value) for value in (need.attention, need.random, need.leave_one_out))
    return (
        f"Deleting them (the top {SHARES[0]} to {SHARES[-1]}% of a text's words, mean of {len(SHARES)} shares) lowers the "
        f"probability of the predicted label by {attended}; deleting as many random words, by {random}; deleting words in the "
        f"best order found (by leaving out one word at a time), by {best}."
    )


def _order(tau: Spread) -> str:
    """Return a sentence that gives Kendall τ as a share of pairs of words, (1 + τ) / 2."""
    if math.isnan(tau.mean):
        return ""
    return (
        f"In {(1 + tau.mean) / 2:.0%} of all word pairs, the word with more attention also matters more when left out (50% is "
        "chance)."
    )


def _weights(uniform: Uniform) -> str:
    changed = f"With equal weights on all words, {percent(uniform.changed)} of the predictions change"
    if uniform.changed < _STEADY:
        return f"{changed}: the weights decide little."
    scores = f"from {uniform.accuracy:.1%} to {uniform.uniform_accuracy:.1%}"
    return f"{changed} ({uniform.score_name} {scores})."


def _cells(spread: Spread) -> list[str]:
    if math.isnan(spread.mean):
        return ["none", "", "0"]
    return [f"{spread.mean:.3f}", f"{spread.deviation:.3f}", f"{spread.texts:,}"]
