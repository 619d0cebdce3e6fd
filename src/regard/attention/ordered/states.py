"""States of mechanisms whose queries come in order: what the next call needs to know of the queries so far."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.base import Rows, register


@register
@dataclass(frozen=True)
class HistoryState(Rows):
    """One number for each key: the sum of its earlier weights (coverage), or its last weight (location, soft monotonic)."""

    history: Float[Tensor, "B K"]
    """The numbers, in float32 or float64; sums in half precision would lose small weights."""

    def widened(self, size: int) -> "HistoryState":
        """Return the state for `size` keys; new keys have a history of 0."""
        return HistoryState(pad(self.history, (0, size - self.history.shape[1])))


@register
@dataclass(frozen=True)
class PositionState(Rows):
    """A position in the keys."""

    position: Int[Tensor, " B"]
    """`LocalMonotonic`: the number of queries so far. Hard monotonic mechanisms: the key at which the last query stopped; K if
    this query or an earlier one did not stop.
    """
