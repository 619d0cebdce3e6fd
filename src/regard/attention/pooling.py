"""Attention without a query: a learned average of a sequence, context = Σ_k weight_k h_k, with one of these scores:

    e_k = w·h_k + b                 `AttentionPooling`          in code: `linear_scores`        weights = softmax_k(e)
    e_k = v·tanh(W h_k + b)         `AdditivePooling`                    `tanh_scores`
    e_ik = v_i·tanh(W h_k)          `MultiHeadPooling`, head i           `tanh_scores`
    e_k = v·(tanh(W h_k) ⊙ σ(U h_k))  `GatedPooling`                     `gated_scores`
    e_k = 0                         `MeanPooling`: weight_k = 1/K

`pool(values, key_mask=…, reweight=…)` returns a context of width `output_size`, and weights (`Pooling`). Weights and averages
cost little, so they are computed in at least float32, also under autocast.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, Never, TypedDict, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.arguments import CheckedModule, check_flag, check_size, check_tensor, refuse_call
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.learned import factory
from regard.attention.masks import hide, resolve_masks, zero_masked, zero_rows
from regard.attention.normalizers.base import build_normalizer
from regard.shapes import check_shape


def linear_scores(values: Float[Tensor, "B K D"], projection: nn.Linear) -> Float[Tensor, "B 1 K"]:
    """Return e_k = w·h_k + b."""
    return projection(values).transpose(1, 2)


def tanh_scores(projected: Float[Tensor, "B K Da"], score_weight: Float[Tensor, "H Da"]) -> Float[Tensor, "B H K"]:
    """Return e_ik = v_i·tanh(x_k) for each head i, from the projected values x = W h + b."""
    return (projected.tanh() @ score_weight.T).transpose(1, 2)


def gated_scores(
    projected: Float[Tensor, "B K Da"], gate: Float[Tensor, "B K Da"], score_weight: Float[Tensor, "1 Da"]
) -> Float[Tensor, "B 1 K"]:
    """Return e_k = v·(tanh(x_k) ⊙ σ(g_k)), from the projected values x = W h + b and g = U h + c."""
    return ((projected.tanh() * gate.sigmoid()) @ score_weight.T).transpose(1, 2)


class Pooled(NamedTuple):
    """Context and weights of a batch of sequences. If the values have no batch axis, the results have none either."""

    context: Float[Tensor, "*B D"]
    """Σ_k weight_k value_k, (B,D); with several heads, their contexts are concatenated, (B,H·D)."""
    weights: Float[Tensor, "*heads K"]
    """Weights (B,K), or (B,H,K) with heads."""


_ARGUMENTS = ("values", "key_mask", "reweight")
_BY_POSITION = (
    "values is the only positional argument. Give the mask by name: key_mask=… (B, K), in which True means that a value exists"
)


class Pooling(CheckedModule, ABC):
    """Base class of every pooling: weights from the values alone, context = Σ_k weight_k value_k.

    Args:
        size: D, width of the pooled values, ≥ 1.
        num_heads: H, ≥ 1; None for one head, whose weights have no head axis.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or an option has a wrong type.
    """

    def __init__(self, size: int, *, num_heads: int | None = None) -> None:
        super().__init__()
        check_size(type(self).__name__, "size", size)
        if num_heads is not None:
            check_size(type(self).__name__, "num_heads", num_heads)
        self.size, self.num_heads = size, num_heads
        self.output_size = size if num_heads is None else num_heads * size
        """Width of the context."""

    @abstractmethod
    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        """Return weights (B,K) or (B,H,K), zero for masked values, which are already set to zero in `values`."""

    def forward(
        self,
        values: Float[Tensor, "*B K D"],
        *further: Never,
        key_mask: Bool[Tensor, "*B K"] | None = None,
        reweight: Reweight | None = None,
        **others: Never,
    ) -> Pooled:
        """Pool each sequence of the batch.

        Args:
            values: The values h, (B,K,D), or (K,D) for a single sequence; then no argument and no result has an axis B.
            further: Must be empty, and so must `others`: they raise an error that shows the correct call.
            key_mask: True where a value exists, False for padding; None if all exist. A row without values gives zeros.
            reweight: Function of the weights and a boolean mask that returns the weights to use instead.
            others: See `further`.

        Returns:
            Context and weights: `context, weights = pool(values)`.

        Raises:
            ShapeError: If sizes do not match, or the mask is not boolean.
            ArgumentError: If an argument is unknown or is not a tensor.
        """
        called = type(self).__name__
        if further or others:
            refuse_call(called, further, others, _ARGUMENTS, _BY_POSITION)
        check_tensor(called, "values", values)
        if values.ndim == 2:
            pooled = self.forward(values[None], key_mask=None if key_mask is None else key_mask[None], reweight=reweight)
            return Pooled(pooled.context[0], pooled.weights[0])
        check_shape("values", values, f"B K {self.size}")
        values = zero_masked(values, key_mask)
        if torch.is_autocast_enabled(values.device.type):
            values = values.to(torch.promote_types(values.dtype, torch.float32))
        weights = self.weigh(values, key_mask)
        if reweight is not None:
            mask = key_mask if key_mask is None or weights.ndim == 2 else key_mask[:, None]
            weights = reweighted(weights, mask, reweight)
        rows = (weights if weights.ndim == 3 else weights[:, None]).to(values.dtype)
        with torch.autocast(values.device.type, enabled=False):  # because autocast would compute the average in a half type
            return Pooled((rows @ values).flatten(1), weights)


class PoolingOptions(TypedDict, total=False):
    """Arguments of `ScoredPooling` that subclasses pass on to it, documented there."""

    normalizer: nn.Module | str | None
    device: torch.device | str | None
    dtype: torch.dtype | None


class ScoredPooling(Pooling):
    """Base class of the poolings that turn scores of the values into weights.

    Args:
        size: D, width of the pooled values, ≥ 1.
        num_heads: H, ≥ 1; None for one head, whose weights have no head axis.
        normalizer: Module that computes weights from scores, or its name, such as "sparsemax"; None for a softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.
    """

    def __init__(
        self,
        size: int,
        *,
        num_heads: int | None = None,
        normalizer: nn.Module | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size, num_heads=num_heads)
        self.normalizer = build_normalizer(type(self).__name__, normalizer, num_heads or 1)

    @abstractmethod
    def scores(self, values: Float[Tensor, "B K D"]) -> Float[Tensor, "B H K"]:
        """Return the scores of each head; H is 1 for a pooling without an axis for heads."""

    def weigh(self, values: Float[Tensor, "B K D"], key_mask: Bool[Tensor, "B K"] | None) -> Float[Tensor, "B *H K"]:
        masks = resolve_masks(key_mask, None, batch=values.shape[0], queries=1, keys=values.shape[1], heads=1)
        # (B,H,1,K), the axes of attention with heads, because a normalizer may have a number for each head.
        scores = hide(self.scores(values).to(values.dtype)[:, :, None], masks.mask)
        weights = zero_rows(self.normalizer(scores), masks.empty)[:, :, 0]
        return weights[:, 0] if self.num_heads is None else weights


class AttentionPooling(ScoredPooling):
    """e_k = w·h_k + b, weights = softmax_k(e), context = Σ_k weight_k h_k.

    The bias cancels in a softmax, but not in a normalizer such as a sigmoid.

    Reference: Lin et al. 2017 and Yang et al. 2016, who add a tanh layer, as in `AdditivePooling`.

    Args:
        size: D, width of the pooled values, ≥ 1.
        bias: Whether there is a bias b.
        options: Further arguments of `ScoredPooling`: normalizer, device and dtype.

    Example:
        >>> context, weights = AttentionPooling(256)(torch.randn(2, 9, 256))
    """

    def __init__(self, size: int, *, bias: bool = True, **options: Unpack[PoolingOptions]) -> None:
        super().__init__(size, **options)
        check_flag(type(self).__name__, "bias", bias)
        self.projection = nn.Linear(size, 1, bias=bias, **factory(options))

    def scores(self, values: Float[Tensor, "B K D"]) -> Float[Tensor, "B H K"]:
        return linear_scores(values, self.projection)


class AdditivePooling(ScoredPooling):
    """e_k = v·tanh(W h_k + b), weights = softmax_k(e), context = Σ_k weight_k h_k.

    Shapes: W (Da,D), b (Da), v (Da).

    Reference: Yang et al. 2016, eqs. 5–7 (v is their context vector u_w); Lin et al. 2017, eq. 5 (without b).

    Args:
        size: D, width of the pooled values, ≥ 1.
        num_heads: H, ≥ 1, for the heads of `MultiHeadPooling`; None for one head, whose weights have no head axis.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        bias: Whether there is a bias b.
        options: Further arguments of `ScoredPooling`: normalizer, device and dtype.

    Example:
        >>> pool = AdditivePooling(256)
        >>> context, weights = pool(torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 256]), torch.Size([2, 9]))
    """

    def __init__(
        self,
        size: int,
        *,
        num_heads: int | None = None,
        attention_size: int | None = None,
        bias: bool = True,
        **options: Unpack[PoolingOptions],
    ) -> None:
        super().__init__(size, num_heads=num_heads, **options)
        width = size if attention_size is None else attention_size
        self.attention_size = check_size(type(self).__name__, "attention_size", width)
        self.projection = nn.Linear(size, width, bias=check_flag(type(self).__name__, "bias", bias), **factory(options))
        shape = (width,) if num_heads is None else (num_heads, width)
        self.score_weight = nn.Parameter(torch.empty(shape, **factory(options)).uniform_(-(width**-0.5), width**-0.5))

    def scores(self, values: Float[Tensor, "B K D"]) -> Float[Tensor, "B H K"]:
        return tanh_scores(self.projection(values), self.score_weight.view(-1, self.attention_size))


class MultiHeadPooling(AdditivePooling):
    """e_ik = v_i·tanh(W h_k) for each head i, weights = softmax_k(e), context = [Σ_k weight_1k h_k; …; Σ_k weight_Hk h_k].

    The heads (called hops in the paper) share W, and each pools all D features, so the context has width H·D.

    Shapes: W (Da,D), v (H,Da).

    Reference: Lin et al. 2017, eqs. 6–7.
    Differs from the paper: its penalty ‖A Aᵀ − I‖² on similar heads (eq. 8), with the weights A (H,K), is left out.

    Args:
        size: D, width of the pooled values, ≥ 1.
        num_heads: H, ≥ 1.
        attention_size: Da, width of the tanh layer, ≥ 1; None for D.
        options: Further arguments of `ScoredPooling`: normalizer, device and dtype.

    Example:
        >>> context, weights = MultiHeadPooling(256, 4)(torch.randn(2, 9, 256))
    """

    def __init__(
        self, size: int, num_heads: int, *, attention_size: int | None = None, **options: Unpack[PoolingOptions]
    ) -> None:
        super().__init__(size, num_heads=num_heads, attention_size=attention_size, bias=False, **options)


class GatedPooling(AdditivePooling):
    """e_k = v·(tanh(W h_k) ⊙ σ(U h_k)), weights = softmax_k(e), context = Σ_k weight_k h_k.

    ⊙ multiplies feature by feature, and σ is the sigmoid 1/(1 + e^−x). The tanh is nearly linear around 0, and the gate lets
    the score depend on products of features. It was made for a bag of instances, such as the parts of a large image, with one
    label for the whole bag: the weights say which instances decided (multiple instance learning). The order of the instances
    doesn't matter, and bags of different sizes are padded and get a `key_mask`.

    Shapes: W and U (Da,D), v (Da).

    Reference: Ilse, Tomczak, Welling 2018, eq. 9; without the gate (eq. 8), it is `AdditivePooling(size, bias=False)`.

    Args:
        size: D, width of the pooled values, ≥ 1.
        attention_size: Da, width of the tanh layer and of the gate, ≥ 1; None for D.
        bias: Whether W h_k and U h_k get biases, which the paper's formula lacks and its program has.
        options: Further arguments of `ScoredPooling`: normalizer, device and dtype.

    Example:
        >>> pool = GatedPooling(512, attention_size=128)
        >>> bags, exists = torch.randn(4, 30, 512), torch.arange(30) < torch.tensor([[30], [12], [7], [1]])
        >>> context, weights = pool(bags, key_mask=exists)
    """

    def __init__(
        self, size: int, *, attention_size: int | None = None, bias: bool = False, **options: Unpack[PoolingOptions]
    ) -> None:
        super().__init__(size, attention_size=attention_size, bias=bias, **options)
        self.gate_projection = nn.Linear(size, self.attention_size, bias=bias, **factory(options))

    def scores(self, values: Float[Tensor, "B K D"]) -> Float[Tensor, "B H K"]:
        return gated_scores(self.projection(values), self.gate_projection(values), self.score_weight[None])


class MeanPooling(ScoredPooling):
    """weight_k = 1/K, context = the mean of the K existing values; a baseline for measuring the effect of learned weights.

    Reference: Wiegreffe, Pinter 2019, section 3.1, where it is called uniform attention.

    Args:
        size: D, width of the pooled values, ≥ 1.
        device: Ignored; there are no parameters.
        dtype: Ignored; there are no parameters.

    Example:
        >>> context, weights = MeanPooling(256)(torch.randn(2, 9, 256))
    """

    def __init__(self, size: int, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__(size)

    def scores(self, values: Float[Tensor, "B K D"]) -> Float[Tensor, "B H K"]:
        return values.new_zeros(values.shape[0], 1, values.shape[1])
