"""Normalizers whose rows of weights may sum to less than one: a query that needs no key is not forced to attend.

    w_k = exp(s_k) / (exp(b) + Σ_j exp(s_j))               `SoftmaxSink`, "sink"          in code: `sink_weights`
    w_k = max(exp(s_k) − 1, 0) / Σ_j |exp(s_j) − 1|        `Softpick`, "softpick"                  `softpick_weights`

The weights of a softmax must sum to one; trained models put weight that they do not need on the first key, the *attention
sink*. With these normalizers, that weight goes to no key. Like all normalizers, they are called with (scores, mask).
"""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import check_finite, check_flag, check_size
from regard.attention.kernels.softmax import softmax
from regard.attention.learned import build_number
from regard.attention.sparse import at_least_float32


def sink_weights(scores: Float[Tensor, "*any K"], sink: Float[Tensor, "..."] | float) -> Float[Tensor, "*any K"]:
    """Return the softmax over the scores and an additional score b (`sink`), without the weight of b."""
    rows = torch.cat([scores, torch.zeros_like(scores[..., :1]) + sink], -1)
    return softmax(rows)[..., :-1]


def softpick_weights(scores: Float[Tensor, "*any K"], *, epsilon: float = 1e-6) -> Float[Tensor, "*any K"]:
    """Return max(e^s − 1, 0) / (Σ |e^s − 1| + ε): keys with a score of zero or less get zero weight."""
    highest = scores.detach().amax(-1, keepdim=True).clamp(min=0)
    one = (-highest).exp()  # all terms are divided by e^highest, so that none overflows
    terms = (scores - highest).exp() - one
    return terms.clamp(min=0) / (terms.abs().sum(-1, keepdim=True) + epsilon * one)


class SoftmaxSink(nn.Module):
    """w_k = exp(s_k) / (exp(b) + Σ_j exp(s_j)): a softmax with one more score b, whose weight is dropped.

    **The weights of a row sum to less than one**; the rest, exp(b) / (…), goes to no key.

    Reference: Miller 2023, "Attention is off by one" (b = 0); OpenAI 2025, "gpt-oss model card", section 2.2 (b learned, one
    for each head).

    Args:
        num_heads: H, for scores (B,H,Q,K) and a learned b for each head; None for one b.
        learned: Whether training changes b.
        initial: Initial value of b, finite.
        device: Device of b, as in `torch.nn`.
        dtype: Type of b, as in `torch.nn`.

    Raises:
        ConfigError: If an argument is of the wrong kind, `num_heads` is below 1, or `initial` is not finite.

    Example:
        >>> SoftmaxSink()(torch.zeros(4))
        tensor([0.2000, 0.2000, 0.2000, 0.2000])
    """

    normalized: ClassVar[bool] = False
    """The sum of the weights of a row is between zero and one."""

    def __init__(
        self,
        num_heads: int | None = None,
        *,
        learned: bool = False,
        initial: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_heads is not None:
            check_size("SoftmaxSink", "num_heads", num_heads)
        check_flag("SoftmaxSink", "learned", learned)
        check_finite("SoftmaxSink", "initial", initial)
        self.num_heads, self.learned = num_heads, learned
        self.sink = build_number(initial, learned=learned, num_heads=num_heads, device=device, dtype=dtype)

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        rows = at_least_float32(scores)
        if mask is None:
            return sink_weights(rows, self.sink).to(scores.dtype)
        return sink_weights(rows.where(mask, -torch.inf), self.sink).where(mask, 0).to(scores.dtype)

    def extra_repr(self) -> str:
        """Return `num_heads` and `learned`, for `print`."""
        return ", ".join([*([] if self.num_heads is None else [f"num_heads={self.num_heads}"]), f"learned={self.learned}"])


class Softpick(nn.Module):
    """w_k = max(exp(s_k) − 1, 0) / Σ_j |exp(s_j) − 1|: keys with a score of zero or less get exactly zero.

    **The weights of a row may sum to less than one**: keys with negative scores count in the denominator only. A row without a
    positive score has zero weights.

    Reference: Zuhri, Fuadi, Aji 2025, "Softpick: no attention sink, no massive activations with rectified softmax", eq. 4 (ε =
    10⁻⁶ in the denominator).

    Example:
        >>> Softpick()(torch.tensor([0.0, 1.0, -1.0]))
        tensor([0.0000, 0.7311, 0.0000])
    """

    normalized: ClassVar[bool] = False
    """The sum of the weights of a row is between zero and one."""

    def forward(self, scores: Float[Tensor, "*any K"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "*any K"]:
        """Return weights of the scores' shape and type; `mask` is boolean and broadcasts to them."""
        if not scores.shape[-1]:
            return scores
        rows = at_least_float32(scores)
        # Masked scores become zero, because a score of zero adds zero to the denominator.
        weights = softpick_weights(rows if mask is None else rows.where(mask, 0))
        return (weights if mask is None else weights.where(mask, 0)).to(scores.dtype)
