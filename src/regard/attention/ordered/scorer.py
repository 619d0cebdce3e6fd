"""Base class of mechanisms, such as local and monotonic ones, that use the scores of another mechanism, their scorer."""

from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor

from regard.attention.arguments import check_instance, check_size
from regard.attention.base import Memory
from regard.attention.scores.base import ScoredAttention, WeightedAttention
from regard.errors import ConfigError


class ScorerOptions(TypedDict, total=False):
    """Arguments of `ScorerAttention` that subclasses pass on to it, documented there."""

    key_size: int | None
    scorer: ScoredAttention | None
    device: torch.device | str | None
    dtype: torch.dtype | None


class ScorerAttention(WeightedAttention):
    """Base class of mechanisms that compute their weights from the scores of a scorer.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for the scorer's, or Dq without a scorer.
        scorer: Mechanism with the same widths, without a state, whose scores are used; None for the class's default.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.
    """

    permutation_equivariant: bool = False
    default_scorer: ClassVar[type[ScoredAttention]]
    """Class of the scorer that is built if none is given."""
    uses_weights: ClassVar[bool] = False
    """Whether the scorer's weights are used, too; if not, the scorer must not have dropout."""

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        scorer: ScoredAttention | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.scorer = self.build_scorer("scorer", scorer, query_size, key_size, device=device, dtype=dtype)
        self.query_size, self.key_size = query_size, self.scorer.key_size

    def build_scorer(
        self, name: str, scorer: ScoredAttention | None, query_size: int, key_size: int | None, **factory: Any
    ) -> ScoredAttention:
        """Return the argument `name`, or a default scorer for None; raise a `ConfigError` if it does not fit."""
        called = type(self).__name__
        check_size(called, "query_size", query_size)
        if scorer is None:
            return self.default_scorer(query_size, key_size=key_size, **factory)
        check_instance(called, name, scorer, ScoredAttention, "Additive(256)")
        kind = type(scorer).__name__
        if scorer.stateful:
            raise ConfigError(f"{called}({name}={kind}): expected a {name} without a state, such as General, Dot or Additive")
        if scorer.dropout and not self.uses_weights:
            raise ConfigError(
                f"{called}({name}={kind}): only the scores of a {name} are used, not its weights; build it without dropout"
            )
        expected = query_size, scorer.key_size if key_size is None else key_size
        if expected != (scorer.query_size, scorer.key_size):
            raise ConfigError(
                f"{called}(query_size={expected[0]}, key_size={expected[1]}, {name}={kind}(query_size={scorer.query_size}, "
                f"key_size={scorer.key_size})): build the {name} with the same widths"
            )
        return scorer

    def prepare(self, key: Tensor, value: Tensor | None = None, *, key_mask: Tensor | None = None) -> Memory:
        """Project the keys once, with the scorer."""
        return self.scorer.prepare(key, value, key_mask=key_mask)
