"""How a beam goes on from one step to the next: which continuations of its hypotheses take their places."""

from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.candidates import best_continuations
from regard.decoding.guidance import Prefix

Extended = tuple[Int[Tensor, "B M"], Int[Tensor, "B M"], Float[Tensor, "B M"]]
"""Parent, word and log probability of the M hypotheses that the beam holds next."""


class Extension(Protocol):
    """Chooses the next hypotheses of a beam."""

    @property
    def handicap(self) -> Tensor | None:
        """(B,M): how much less than their log probability the hypotheses last chosen are worth; None for nothing."""
        ...

    def extend(
        self,
        rows: Int[Tensor, " B"],
        step: int,
        total: Float[Tensor, "B N"],
        logits: Float[Tensor, "B N V"],
        end_cost: Float[Tensor, " B"] | None = None,
    ) -> Extended:
        """Choose among all continuations.

        Args:
            rows: The sentences' places in the batch.
            step: Which word this is, from 0.
            total: Log probabilities of the hypotheses; −∞ for those that do not go on.
            logits: Scores of their next words.
            end_cost: What the end symbol is worth less than its log probability; None for nothing.

        Returns:
            M is the beam size, or less where so few exist yet.
        """
        ...

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        """Go on with these of the sentences last extended only."""
        ...


def end_cost_of(length_reward: float, limits: Int[Tensor, " B"], length: int) -> Float[Tensor, " B"] | None:
    """Return the cost of ending with `length` symbols under a reward for length: the others will have at least one more symbol.

    It is 0 at the limit, where hypotheses that do not end are cut.
    """
    return length_reward * (limits > length).float() if length_reward else None


@dataclass(frozen=True)
class BestOfAll:
    """The best continuations of all hypotheses together, best first.

    A word outside the best `beam_size` of its own hypothesis cannot be among the best `beam_size` of all, so only those are
    compared.
    """

    beam_size: int
    prefix: Prefix | None = None
    handicap: Tensor | None = None

    def extend(
        self,
        rows: Int[Tensor, " B"],
        step: int,
        total: Float[Tensor, "B N"],
        logits: Float[Tensor, "B N V"],
        end_cost: Float[Tensor, " B"] | None = None,
    ) -> Extended:
        """Choose the best."""
        forced = None if self.prefix is None else self.prefix.at(step, rows)
        return best_continuations(total, logits, self.beam_size, forced=forced, end_cost=end_cost)

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        """Nothing is remembered of a sentence."""
