"""Local attention: each query attends only to a window of keys around a position p.

    weights_s = align_s                             for |s − p| ≤ D, else 0         `LocalMonotonic`
    weights_s = align_s · exp(−(s − p)² / (2σ²))    for |s − p| ≤ D, else 0         `LocalPredictive`

where s is the position of a key and align = normalizer of the scores within the window. For query t, `LocalMonotonic` has p =
min(t, S − 1); `LocalPredictive` has p = S · sigmoid(v_p·tanh(W_p q)) and σ = D/2. In code: `predicted_positions` and
`gaussian_weights`.

Positions count the existing keys: the first True of `key_mask` has position 0, the next one 1, and so on. S is the number
of existing keys. With padding at the end, the position is the index; masked keys elsewhere are skipped. `attn_mask` removes
keys from the window but does not change positions.
"""

from typing import Any, ClassVar, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_size
from regard.attention.base import Memory
from regard.attention.capabilities import Reweight
from regard.attention.learned import factory
from regard.attention.masks import Masks
from regard.attention.ordered.scorer import ScorerAttention, ScorerOptions
from regard.attention.ordered.states import PositionState
from regard.attention.scores.base import Weighed, finish_weights
from regard.attention.scores.products import General
from regard.shapes import check_shape


def in_window(position: Int[Tensor, "B K"], middle: Tensor, window: int) -> Bool[Tensor, "B Q K"]:
    """Return whether |s − p| ≤ D for keys at s (`position`), queries at p (`middle`, (B,Q)), and D (`window`)."""
    return (position[:, None] - middle[..., None]).abs() <= window


def predicted_positions(
    hidden: Float[Tensor, "B Q Dp"], position_weight: Float[Tensor, " Dp"], count: Int[Tensor, " B"]
) -> Float[Tensor, "B Q"]:
    """Return p = S · sigmoid(v_p · h), from h = tanh(W_p q) (`hidden`), v_p (`position_weight`) and S (`count`)."""
    # Half precision would round large positions. For the same reason this is a sum of products: autocast would compute a
    # matrix product in half precision.
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    return count[:, None] * (hidden.to(dtype) * position_weight.to(dtype)).sum(-1).sigmoid()


def gaussian_weights(
    align: Float[Tensor, "B Q K"], position: Int[Tensor, "B K"], middle: Float[Tensor, "B Q"], window: int
) -> Float[Tensor, "B Q K"]:
    """Return align · exp(−(s − p)² / (2σ²)) for keys at s (`position`), queries at p (`middle`), and σ = `window` / 2."""
    distance = position[:, None] - middle[..., None]
    return (align * (-2 * (distance / window).square()).exp()).to(align.dtype)


class LocalAttention(ScorerAttention):
    """Base class of `LocalMonotonic` and `LocalPredictive`, which have a window around a position; the scorer is `General`.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        window: D, number of positions on each side of the centre.
        options: Further arguments of `ScorerAttention`: key_size, scorer, device and dtype.
    """

    uses_weights = True
    default_scorer = General
    smallest_window: ClassVar[int] = 0

    def __init__(self, query_size: int, *, window: int = 10, **options: Unpack[ScorerOptions]) -> None:
        super().__init__(query_size, **options)
        self.window = check_size(type(self).__name__, "window", window, least=self.smallest_window)
        self.dropout, self.normalized = self.scorer.dropout, self.scorer.normalized

    def align(
        self, query: Tensor, memory: Memory, position: Tensor, middle: Tensor, masks: Masks
    ) -> tuple[Float[Tensor, "B Q K"], Masks]:
        """Return the weights of the scorer for the keys in the window around `middle`, and the masks with that window."""
        masks = masks.within(in_window(position, middle, self.window))
        return self.scorer.normalize(self.scorer.scores(query, memory), masks), masks


class LocalMonotonic(LocalAttention):
    """local-m: query t attends to the positions t − D … t + D only; weights = normalizer of the scores in the window.

    It suits queries and keys that advance at the same rate. The window is truncated at the first and the last key. The
    state holds t (B), which counts the queries of all calls from 0.

    Reference: Luong, Pham, Manning 2015, section 3.2 (with eq. 7: no Gaussian in local-m).
    Differs from the paper: the paper does not define what happens if there are more queries than keys. Here the window stays at
    the last key, p_t = min(t, S − 1), so that each query has a key to attend to.

    The arguments are those of `LocalAttention`; the window is 0 or more.

    Example:
        >>> context, weights = LocalMonotonic(256, window=3)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    stateful: bool = True

    def weigh(self, query: Tensor, memory: Memory, state: Any, masks: Masks, reweight: Reweight | None) -> Weighed:
        """Return the scorer's weights within the window of each query, and the number of queries so far."""
        batch, queries = query.shape[:2]
        start = torch.zeros(batch, dtype=torch.long, device=query.device) if state is None else state.position
        check_shape("state.position", start, "B", {"B": batch})
        position, count = _positions(memory)
        middle = torch.minimum(start[:, None] + torch.arange(queries, device=query.device), count[:, None] - 1)
        weights, masks = self.align(query, memory, position, middle, masks)
        return Weighed(finish_weights(weights, masks, reweight), PositionState(start + queries))


class LocalPredictive(LocalAttention):
    """local-p: each query predicts its position p = S·sigmoid(v_p·tanh(W_p q)) and attends around it.

    weights_s = align_s · exp(−(s − p)² / (2σ²)) for |s − p| ≤ D, else 0, where align = normalizer of the scores within the
    window, and σ = D/2. p gets its gradient through the Gaussian. **The weights of a row do not sum to one**: the paper does
    not normalise them again, and neither does this class.

    Shapes: W_p (Dp,Dq), v_p (Dp), and those of the scorer.

    Reference: Luong, Pham, Manning 2015, section 3.2, eqs. 9–10.
    Differs from the paper: positions count from 0, so that p = S lies just after the last key.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        position_size: Dp, width of the layer that predicts the position, ≥ 1; None for Dq.
        window: D, number of positions on each side of the centre, ≥ 1.
        options: Further arguments of `ScorerAttention`: key_size, scorer, device and dtype.

    Example:
        >>> context, weights = LocalPredictive(256, window=3)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    smallest_window = 1  # σ is half of it
    needs_whole_source = True  # the position is a share of the number of keys

    def __init__(
        self, query_size: int, *, position_size: int | None = None, window: int = 10, **options: Unpack[ScorerOptions]
    ) -> None:
        super().__init__(query_size, window=window, **options)
        self.normalized = False
        size = check_size("LocalPredictive", "position_size", query_size if position_size is None else position_size)
        self.position_projection = nn.Linear(query_size, size, bias=False, **factory(options))
        self.position_weight = nn.Parameter(torch.empty(size, **factory(options)).uniform_(-(size**-0.5), size**-0.5))

    def predict(self, query: Float[Tensor, "B Q Dq"], count: Int[Tensor, " B"]) -> Float[Tensor, "B Q"]:
        """Return p = S·sigmoid(v_p·tanh(W_p q)), between 0 and the number S of existing keys (`count`)."""
        return predicted_positions(self.position_projection(query).tanh(), self.position_weight, count)

    def weigh(self, query: Tensor, memory: Memory, state: Any, masks: Masks, reweight: Reweight | None) -> Weighed:
        """Return the scorer's weights within the window of each query, multiplied by the Gaussian."""
        position, count = _positions(memory)
        middle = self.predict(query, count)
        weights, masks = self.align(query, memory, position, middle, masks)
        return Weighed(finish_weights(gaussian_weights(weights, position, middle, self.window), masks, reweight))


def _positions(memory: Memory) -> tuple[Int[Tensor, "B K"], Int[Tensor, " B"]]:
    """Return the position of each key among the existing keys, and the number S of existing keys."""
    if memory.key_mask is None:
        (batch, keys), device = memory.value.shape[:2], memory.value.device
        return torch.arange(keys, device=device).expand(batch, keys), torch.full((batch,), keys, device=device)
    return memory.key_mask.cumsum(1) - 1, memory.key_mask.sum(1)
