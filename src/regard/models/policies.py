"""Policies of simultaneous translation: how much of the source has been read when each target word is chosen.

    g(t) = min(k + t − 1, |x|)        `WaitK`: read k words, then write and read in turn (Ma et al. 2019, section 3.2)
    g(t) = max_{i≤t} (stop_i)         `HardStops`: the key at which hard monotonic attention stops (Raffel et al. 2017)

Word t, counted from 1, is chosen after g(t) of the |x| source tokens have been read. The end symbol of the source is read
like a token; after it, the rest is translated as from a full sentence. The encoder must be causal, so that the
states of words that were read do not change when more words arrive. Then a search gives the same words for a growing source as
for the whole one.

Reference: Ma et al. 2019, "STACL: Simultaneous Translation with Implicit Anticipation and Controllable Latency".
Differs from the paper: the encoder is causal, so each state is computed once; the paper computes all states again for each
prefix of the source.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.base import Attention
from regard.attention.ordered.monotonic import MonotonicAttention, SoftToHard
from regard.errors import ConfigError


class Policy(ABC):
    """Rule that says how much of the source a model has read at each step."""

    site: str = ""
    """Attention site whose weights decide how much is read; empty if this depends only on the number of the step."""
    has_beam: bool = True
    """Whether beam search is possible, which revises earlier words after it has read later source words."""

    @abstractmethod
    def delays(self, num_steps: int, size: int, weights: Float[np.ndarray, "R S"] | None = None) -> Int[np.ndarray, " T"]:
        """Return g(t), the number of source tokens that were read when word t was chosen, for t from 1 to T.

        Args:
            num_steps: T, number of target words.
            size: |x|, number of source tokens.
            weights: Weights at `site`, with at least T rows; the end symbol of the source may have a further column.
        """


@dataclass(frozen=True)
class WaitK(Policy):
    """Read k source words, then write and read one word in turn: g(t) = min(k + t − 1, |x|)."""

    k: int
    has_beam = False

    def mask(self, first: int, num_steps: int, size: int, device: torch.device) -> Bool[Tensor, "T S"]:
        """Return which of `size` source words each step may read, counted from 0: the first k + step."""
        steps = torch.arange(first, first + num_steps, device=device)
        return torch.arange(size, device=device) < (self.k + steps)[:, None]

    def delays(self, num_steps: int, size: int, weights: np.ndarray | None = None) -> Int[np.ndarray, " T"]:
        """Return g(t) = min(k + t − 1, |x|)."""
        return np.minimum(self.k + np.arange(num_steps), size)


class HardStops(Policy):
    """Read up to the key at which hard monotonic attention stops; a query that stops at no key has read the whole source."""

    site = "cross"

    def delays(self, num_steps: int, size: int, weights: Float[np.ndarray, "R S"] | None = None) -> Int[np.ndarray, " T"]:
        """Return the position of the last key with a weight, counted from 1, or that of an earlier query if it is higher."""
        assert weights is not None
        used = weights[:num_steps] > 0
        last = used.shape[1] - used[:, ::-1].argmax(1)
        return np.minimum(np.maximum.accumulate(np.where(used.any(1), last, size)), size)


def build_wait(k: int, attentions: Sequence[Attention]) -> WaitK | None:
    """Return the policy of a model with these attentions to its source; None if k is 0.

    Raises:
        ConfigError: If an attention depends on words that are masked, such as on the length of the source, or is monotonic.
    """
    for attention in attentions if k else ():
        if isinstance(attention, SoftToHard | MonotonicAttention):
            raise ConfigError(
                f"model.wait_k is {k}, but a {type(attention).__name__} decides itself how much is read; set "
                "model.wait_k to 0, or choose another attention"
            )
        if attention.needs_whole_source:
            raise ConfigError(
                f"model.wait_k is {k}, but a {type(attention).__name__} needs the whole source before the first word; choose "
                "another attention to the source, such as additive or multi_head"
            )
    return WaitK(k) if k else None
