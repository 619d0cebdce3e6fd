"""Cross entropy of an output layer that never holds all its logits.

For features f_m, the output layer's weight W and bias b, and the gold word y_m,

    z_m = W f_m + b,    nll_m = log Σ_v exp z_mv − z_m,y_m,
    loss_m = (1 − ε)·nll_m + ε·(log Σ_v exp z_mv − mean_v z_mv)

with label smoothing ε (Szegedy et al. 2016). The logits of M positions and V words are by far the largest thing a translator
computes: they are made a chunk of rows at a time, turned into their own gradient in place while they are in the cache, and
forgotten. Wijmans et al. 2024 (Cut cross-entropy) and Hsu et al. 2024 (Liger) do so on GPUs.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.shapes import check_shape

CHUNK_ELEMENTS = 1 << 20
"""Float32 logits at once on a CPU: a few megabytes, so that the passes over them meet the cache."""
BUFFER_ELEMENTS = 1 << 23
"""Gradients of logits, in the dtype of the products, that wait for one large product."""
GPU_ELEMENTS = 1 << 26
"""Both, on a GPU."""
ROW_ALIGNMENT = 32
"""Rows are made a multiple of this, since a product of a size not met before costs a CPU about a millisecond to set up."""
ALIGNMENT = 16
"""Products with a vocabulary that is no multiple of this run at about half the speed in float32 on a CPU."""


def pad_vocabulary(weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None) -> tuple[Tensor, Tensor | None]:
    """Add words that nobody asks for, up to a multiple of `ALIGNMENT`; logits are to be cut to V."""
    missing = -weight.shape[0] % ALIGNMENT
    if not missing:
        return weight, bias
    return functional.pad(weight, (0, 0, 0, missing)), None if bias is None else functional.pad(bias, (0, missing))


def linear_cross_entropy(
    features: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " M"],
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = 0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum the cross entropy of `features @ weight.T + bias` with `target`.

    Under autocast the products run in its dtype; sums and exponentials are float32 throughout (float64 for float64).

    Args:
        features: What the words are predicted from, one row a position.
        weight: The output layer.
        bias: Its bias, if it has one.
        target: Gold words, in [0, V). Rows equal to `ignore_index` count nothing.
        label_smoothing: ε in [0, 1).
        ignore_index: The padding word.

    Returns:
        The summed loss, and the summed negative log-likelihood in nats, without smoothing and without a gradient.

    Raises:
        ShapeError: If the axes do not fit.
    """
    sizes = check_shape("features", features, "M D")
    sizes = check_shape("weight", weight, "V D", sizes)
    check_shape("target", target, "M", sizes)
    if bias is not None:
        check_shape("bias", bias, "V", sizes)
    device = features.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype
    loss, nll = _LinearCrossEntropy.apply(features, weight, bias, target, label_smoothing, ignore_index, dtype)
    return loss, nll


def plain_linear_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = 0,
) -> tuple[Tensor, Tensor]:
    """The same with all the logits at once: what `linear_cross_entropy` is held to."""
    log_probability = functional.log_softmax(functional.linear(features, weight, bias), dim=-1)
    nll = -log_probability.gather(1, target[:, None])[:, 0]
    loss = (1 - label_smoothing) * nll - label_smoothing * log_probability.mean(dim=-1)
    counts = target != ignore_index
    return (loss * counts).sum(), (nll * counts).sum().detach()


class _LinearCrossEntropy(torch.autograd.Function):
    """Forward computes the gradients too: the logits are at hand only once."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        label_smoothing: float,
        ignore_index: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.float64 if features.dtype == torch.float64 else torch.float32
        on_cpu = features.device.type == "cpu"
        given, f = len(features), features.detach().to(dtype)
        if on_cpu and (missing := -given % ROW_ALIGNMENT):
            f = functional.pad(f, (0, 0, 0, missing))
            target = functional.pad(target, (0, missing), value=ignore_index)
        w, b = pad_vocabulary(weight.detach().to(dtype), None if bias is None else bias.detach().to(dtype))
        needs_features, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        d_features = torch.empty_like(f) if needs_features else None
        d_weight: Tensor | None = None
        d_bias = torch.zeros(len(weight), dtype=exact, device=w.device) if needs_bias else None
        gradients = needs_features or needs_weight or needs_bias
        loss, nll = features.new_zeros((), dtype=exact), features.new_zeros((), dtype=exact)
        rows, vocabulary = len(f), len(weight)
        chunk = _rows((CHUNK_ELEMENTS if on_cpu else GPU_ELEMENTS) // vocabulary)
        held = max(chunk, _rows((BUFFER_ELEMENTS if on_cpu else GPU_ELEMENTS) // vocabulary))
        buffer = f.new_zeros(min(held, rows), len(w)) if gradients else None
        with torch.autocast(features.device.type, enabled=False):
            for begin in range(0, rows, held):
                end = min(begin + held, rows)
                for start in range(begin, end, chunk):
                    part = slice(start, min(start + chunk, end))
                    counts = target[part] != ignore_index
                    logits = functional.linear(f[part], w, b)[:, :vocabulary].to(exact)
                    softmax = logits.softmax(dim=-1)
                    # log Σ exp z = z_max − log softmax_max, which is never far from zero.
                    normalizer = logits.amax(dim=-1) - softmax.amax(dim=-1).log()
                    part_nll = normalizer - logits.gather(1, target[part, None])[:, 0]
                    nll += (part_nll * counts).sum()
                    if label_smoothing:
                        part_nll = torch.lerp(part_nll, normalizer - logits.mean(dim=-1), label_smoothing)
                    loss += (part_nll * counts).sum()
                    if buffer is not None:
                        _gradient_of_logits(softmax, target[part], counts, label_smoothing)
                        buffer[start - begin : part.stop - begin, :vocabulary].copy_(softmax)
                        if d_bias is not None:
                            d_bias += softmax.sum(dim=0)
                if buffer is None:
                    continue
                d_logits = buffer[: end - begin]
                if d_features is not None:
                    torch.mm(d_logits, w, out=d_features[begin:end])
                if needs_weight:
                    product = (d_logits.T @ f[begin:end])[:vocabulary].to(exact)
                    d_weight = product if d_weight is None else d_weight.add_(product)
        ctx.save_for_backward(None if d_features is None else d_features[:given], d_weight, d_bias)
        ctx.dtypes = features.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        scaled = [None if g is None else g.to(dtype) * grads[0].to(dtype) for g, dtype in saved]
        return (*scaled, None, None, None, None)


def _rows(limit: int) -> int:
    """So many rows at most, an aligned number where that is possible."""
    return max(1, limit - limit % ROW_ALIGNMENT if limit >= ROW_ALIGNMENT else limit)


def _gradient_of_logits(softmax: Tensor, target: Tensor, counts: Tensor, label_smoothing: float) -> None:
    """Turn the softmax, in place, into softmax − (1 − ε)·onehot(y) − ε/V, and rows that do not count into zero."""
    if label_smoothing:
        softmax -= label_smoothing / softmax.shape[-1]
    softmax.scatter_add_(1, target[:, None], softmax.new_full((len(target), 1), label_smoothing - 1))
    if not bool(counts.all()):
        softmax *= counts[:, None]
