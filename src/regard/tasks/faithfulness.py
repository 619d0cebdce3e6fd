"""Reports on the faithfulness of attention, and the measures that the tasks share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from regard.evaluation.comparison import bootstrap_mean
from regard.evaluation.tables import finite, table
from regard.plurals import counted
from regard.viz import losses
from regard.viz.picture import Picture

CERTAIN = 0.05
"""A difference from random words counts if its p-value is below this."""
VISIBLE = 0.005
"""A difference must also be at least this large, so that two digits show it."""
SHARES = (1, 5, 10, 20, 50)
"""Percentages of a text's words that are deleted or kept."""


@dataclass(frozen=True)
class Removal:
    """Loss of a prediction's probability when words are removed in three orders: by attention, at random, by leave-one-out."""

    attention: float
    """Mean loss without the most attended words."""
    random: float
    """Mean loss without random words."""
    best: float
    """Mean loss without the words whose single removal costs most: an estimate of the best order."""
    low: float
    """Lower end of the 95% interval of `attention` − `random`, by bootstrap over texts."""
    high: float
    p: float
    """Two-sided p-value of the difference between `attention` and `random`, by bootstrap over texts."""
    shares: tuple[tuple[float, float, float], ...] = ()
    """Losses in the three orders for each share of words in `SHARES`; empty if a single word is removed."""
    margins: tuple[float, ...] = ()
    """`attention` − `random` of each text, to compare two models with `regard.evaluation.bootstrap_mean`; empty if not kept."""


@dataclass(frozen=True)
class Spread:
    """Distribution of a value over texts."""

    mean: float
    """Mean; NaN if no text has a value."""
    deviation: float
    texts: int


class Report(ABC):
    """Base of reports on faithfulness, with two tables, bars, and sentences that explain them."""

    noun: ClassVar[str]
    """Noun for an input, such as `text`."""
    meaning: ClassVar[str]
    """Explanation of the bars."""
    ways: ClassVar[Mapping[str, str]]
    """Descriptions of the ways of removing words, by the fields with their losses."""
    texts: int
    leave_one_out: Spread
    gradient: Spread
    permuted: Spread

    @property
    @abstractmethod
    def sentence(self) -> str:
        """Return sentences that explain what the numbers mean for this model."""

    @abstractmethod
    def measures(self) -> list[tuple[str, Spread | str]]:
        """Return the names and values of the task's own measures, besides the losses."""

    def to_dict(self) -> dict[str, Any]:
        """Return the measures and `sentence` as plain data for JSON; NaN becomes None."""
        return {"sentence": self.sentence, **finite(asdict(self))}  # type: ignore[call-overload]

    def draw(self, path: str | Path | None = None, *, caption: bool = True) -> Picture:
        """Draw the loss of probability as bars, with `sentence` below them; see `regard.viz.losses.draw`."""
        removals = {way: getattr(self, field) for field, way in self.ways.items()}
        bars = {
            way[:1].upper() + way[1:]: {"most attention": one.attention, "random": one.random, "best tried": one.best}
            for way, one in removals.items()
        }
        title = f"Faithfulness of attention, {counted(self.texts, self.noun)}"
        return losses.draw(bars, path, title=title, notes=(self.meaning, self.sentence), caption=caption)

    def render(self) -> str:
        """Return the measures as two tables, with `sentence` below them."""
        removals = {way: getattr(self, field) for field, way in self.ways.items()}
        shares = [f"{share}%" for share in SHARES] if any(one.shares for one in removals.values()) else []
        rows = [
            [way, f"{one.attention:.3f}", f"{one.random:.3f}", f"{one.best:.3f}", f"{one.p:.4f}"]
            + [f"{attention:.3f}" for attention, _, _ in one.shares]
            for way, one in removals.items()
        ]
        shared = [
            ("Kendall τ with leave-one-out", self.leave_one_out),
            ("Kendall τ with gradient × input", self.gradient),
            ("total variation distance under permuted weights", self.permuted),
        ]
        rest = []
        for name, value in [*shared, *self.measures()]:
            if isinstance(value, str):
                cells = [value, "", ""]
            elif math.isnan(value.mean):
                cells = ["none", "", "0"]
            else:
                cells = [f"{value.mean:.3f}", f"{value.deviation:.3f}", f"{value.texts:,}"]
            rest.append([name, *cells])
        header = ["probability lost", "attention", "random", "best tried", "p", *shares]
        tables = table(header, rows, widest=48), table(["", "mean", "± sd", f"{self.noun}s"], rest, widest=48)
        return "\n\n".join([counted(self.texts, self.noun), *tables, self.sentence])


def removal(
    attention: Float[np.ndarray, " N"], random: Float[np.ndarray, " N"], best: float, *, seed: int = 1, **facts: Any
) -> Removal:
    """Compare the losses of N texts without the most attended and without random words; `facts` has other fields."""
    compared = bootstrap_mean(random, attention, seed=seed)
    return Removal(compared.second, compared.first, best, compared.low, compared.high, compared.p, **facts)


def spread(values: Sequence[float] | np.ndarray) -> Spread:
    """Return the distribution of the values that are not NaN."""
    known = np.array([value for value in values if not np.isnan(value)])
    return Spread(float(known.mean()), float(known.std()), len(known)) if len(known) else Spread(math.nan, math.nan, 0)


def kendall_tau(first: Float[np.ndarray, " W"], second: Float[np.ndarray, " W"]) -> float:
    """Return Kendall's τ_b, the similarity of the orders of two lists of values.

        τ_b = (concordant − discordant) / √((pairs − ties in the first) (pairs − ties in the second))

    The result is from −1 to 1; NaN if all values of one list are equal.

    Reference:
        Kendall 1945, The Treatment of Ties in Ranking Problems.
    """
    one, two = (np.sign(values[:, None] - values[None, :]) for values in (first, second))
    untied = float((one**2).sum()) * float((two**2).sum())
    return float((one * two).sum() / untied**0.5) if untied else math.nan
