"""Normalizers whose rows of weights may sum to less than one: a query that needs no key is not forced to attend.

    w_k = exp(s_k) / (exp(b) + Σ_j exp(s_j))                `SoftmaxSink`, "sink"                in code: `sink_weights`
    w_k = max(exp(s_k) − 1, 0) / Σ_j |exp(s_j) − 1|         `Softpick`, "softpick"                        `softpick_weights`
    w_k = β_k Π_{j > k} (1 − β_j),  β = 1/(1 + exp(−s))     `StickBreaking`, "stick_breaking"    `stick_breaking_weights`

The weights of a softmax must sum to one; trained models put weight that they do not need on the first key, the *attention
sink*. With these normalizers, that weight goes to no key.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_number, check_size
from regard.attention.fast.softmax import softmax
from regard.attention.learned import build_number
from regard.attention.normalizers.base import Normalizer


def sink_weights(scores: Float[Tensor, "*any K"], sink: Float[Tensor, "..."] | float) -> Float[Tensor, "*any K"]:
    """Return the softmax over the scores and an additional score b (`sink`), without the weight of b."""
    return softmax(torch.cat([scores, torch.zeros_like(scores[..., :1]) + sink], -1))[..., :-1]


def softpick_weights(scores: Float[Tensor, "*any K"], *, epsilon: float = 1e-6) -> Float[Tensor, "*any K"]:
    """Return max(e^s − 1, 0) / (Σ |e^s − 1| + ε)."""
    highest = scores.detach().amax(-1, keepdim=True).clamp(min=0)
    one = (-highest).exp()  # all terms are divided by e^highest, so that none overflows
    above, below = scores.clamp(min=0), scores.clamp(max=0)
    # With expm1, because a difference of exponentials would lose the digits of scores near zero: e^s − 1 = −e^s (e^−s − 1).
    gains, losses = -(above - highest).exp() * torch.expm1(-above), -one * torch.expm1(below)
    return gains / ((gains + losses).sum(-1, keepdim=True) + epsilon * one)


def stick_breaking_weights(scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
    """Return β_k Π_{j > k} (1 − β_j), computed in logarithms."""
    left = -nn.functional.softplus(scores)  # log(1 − β)
    # The logarithm of the share that the keys after k leave: sums from the end, without key k itself.
    after = nn.functional.pad(left, (0, 1))[..., 1:].flip(-1).cumsum(-1).flip(-1)
    return (nn.functional.logsigmoid(scores) + after).exp()


class SoftmaxSink(Normalizer):
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

    Example:
        >>> SoftmaxSink()(torch.zeros(4))
        tensor([0.2000, 0.2000, 0.2000, 0.2000])
    """

    name = "sink"
    normalized = False

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
        self.num_heads = None if num_heads is None else check_size("SoftmaxSink", "num_heads", num_heads)
        self.learned = check_flag("SoftmaxSink", "learned", learned)
        self.initial = check_number("SoftmaxSink", "initial", initial)
        self.sink = build_number(initial, learned=learned, num_heads=num_heads, device=device, dtype=dtype)

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        return sink_weights(scores, self.sink)


class Softpick(Normalizer):
    """w_k = max(exp(s_k) − 1, 0) / Σ_j |exp(s_j) − 1|: keys with a score of zero or less get exactly zero.

    **The weights of a row may sum to less than one**: keys with negative scores count in the denominator only.

    Reference: Zuhri, Fuadi, Aji 2025, "Softpick: no attention sink, no massive activations with rectified softmax", eq. 4 (ε =
    10⁻⁶ in the denominator).

    Example:
        >>> Softpick()(torch.tensor([0.0, 1.0, -1.0]))
        tensor([0.0000, 0.7311, 0.0000])
    """

    name = "softpick"
    normalized = False

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        """Return max(exp(s) − 1, 0) / Σ |exp(s) − 1|; a score of −∞, which is a masked one, adds nothing to the sum."""
        return softpick_weights(scores.where(scores != -torch.inf, 0))


class StickBreaking(Normalizer):
    """w_k = β_k Π_{j > k} (1 − β_j) with β = σ(s): from the last key to the first, each takes the share β of the rest.

    **The weights of a row sum to less than one, and depend on the order of the keys.** This normalizer is made for causal
    attention: with `MultiHead(…, causal=True)`, the last allowed key is the one at the query's own position. Later keys take
    their share first, so that no positions are needed.

    Reference: Tan et al. 2025, "Scaling stick-breaking attention", eqs. 1 to 3. Differs from the paper: a query may attend to
    its own position where the mask allows it.

    Example:
        >>> StickBreaking()(torch.zeros(3))
        tensor([0.1250, 0.2500, 0.5000])
    """

    name = "stick_breaking"
    normalized = False
    permutation_equivariant = False

    def weights(self, scores: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
        return stick_breaking_weights(scores)
