"""Extensions of a beam: objects that choose the continuations that form the beam of the next step."""

from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.candidates import best_continuations
from regard.decoding.guidance import Prefix

Extended = tuple[Int[Tensor, "B M"], Int[Tensor, "B M"], Float[Tensor, "B M"]]
"""Parent, word and log probability of the next M hypotheses of each sentence. A parent is an index in the previous beam."""


class Extension(Protocol):
    """An object that chooses the next hypotheses of a beam."""

    @property
    def handicap(self) -> Tensor | None:
        """Amount (B,M) that comparisons subtract from the log probability of each hypothesis of the last step.

        None if nothing is subtracted.
        """
        ...

    def extend(
        self,
        rows: Int[Tensor, " B"],
        step: int,
        total: Float[Tensor, "B N"],
        logits: Float[Tensor, "B N V"],
        end_cost: Float[Tensor, " B"] | None = None,
    ) -> Extended:
        """Choose the continuations that form the next beam.

        Args:
            rows: Indices of the B sentences in the batch with which the search began.
            step: Number of the word, from 0.
            total: Log probabilities of the hypotheses; −∞ for those that do not continue.
            logits: Scores of their next words.
            end_cost: Amount that is subtracted from the log probability of the end symbol in comparisons; None for 0.

        Returns:
            The chosen continuations. M is the beam size, or less if fewer exist.
        """
        ...

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        """Keep only the sentences whose indices in the last call of `extend` are in `kept`."""
        ...


def end_cost_of(length_reward: float, limits: Int[Tensor, " B"], length: int) -> Float[Tensor, " B"] | None:
    """Return the cost of ending with `length` symbols: the reward for one more symbol, which hypotheses that continue will get.

    The cost is 0 at the limit, where hypotheses that do not end are cut. It is None if there is no reward.
    """
    return length_reward * (limits > length).float() if length_reward else None


@dataclass(frozen=True)
class BestOfAll:
    """Extension that chooses the best continuations over all hypotheses of a sentence, the best first.

    A word that is not among the `beam_size` best of its hypothesis cannot be among the `beam_size` best of all, so only the
    best words of each hypothesis are compared.
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
        """Choose the best continuations."""
        forced = None if self.prefix is None else self.prefix.at(step, rows)
        return best_continuations(total, logits, self.beam_size, forced=forced, end_cost=end_cost)

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        """Do nothing, because this extension keeps no data about sentences."""
