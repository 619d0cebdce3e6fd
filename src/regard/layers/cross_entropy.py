"""Cross entropy of an output layer without storing all its logits.

For the features f_m of position m, the output layer's weight W and bias b, and the gold word y_m,

    z_m = W f_m + b,    nll_m = log Σ_v exp z_mv − z_m,y_m,
    loss_m = (1 − ε)·nll_m + ε·(log Σ_v exp z_mv − mean_v z_mv)

with label smoothing ε (Szegedy et al. 2016). A soft target gives probabilities p_m of some words, such as those of a teacher
(Hinton et al. 2015). If λ is its share in the loss, the loss is

    (1 − λ)·loss_m + λ·(log Σ_v exp z_mv − Σ_v p_mv z_mv).

The logits of M positions and V words are by far the largest tensor of a translator. Here they are computed for a chunk of rows
(positions) at a time, and converted to their gradient in place while they are in the cache. Wijmans et al. 2024 (Cut
cross-entropy) and Hsu et al. 2024 (Liger) do the same on GPUs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from regard.attention.precision import compute_dtype
from regard.shapes import check_shape

# Number of float32 logits in memory at once on a CPU: a few megabytes, which fit into the cache.
CHUNK_ELEMENTS = 1 << 20
# Number of gradients of logits, in the dtype of the products, that are collected for one large product on a CPU.
BUFFER_ELEMENTS = 1 << 22
# The value of `CHUNK_ELEMENTS` and `BUFFER_ELEMENTS` on a GPU.
GPU_ELEMENTS = 1 << 26
# Number of positions whose logits are in memory at once if a function computes them.
CALLED_ROWS = 512
# Smallest probability whose logarithm is computed directly; float32 stores smaller ones with fewer digits or as zero.
SMALLEST = 1e-30
# On a CPU, rows are padded to a multiple of this number, because a product with a new number of rows takes about a millisecond
# to set up.
ROW_ALIGNMENT = 32
# Vocabularies are padded to a multiple of this. Otherwise, float32 products run at about half the speed on a CPU, and products
# of half types do not use the tensor cores of a GPU.
ALIGNMENT, GPU_ALIGNMENT = 16, 8


class SoftTargets(NamedTuple):
    """Probabilities of some words at each position, as a target of the loss."""

    words: Int[Tensor, "M K"]
    """Ids of words in [0, V), all different in a row."""
    probabilities: Float[Tensor, "M K"]
    """Their probabilities, which sum to one in each row. All other words have probability zero."""
    weight: float
    """λ in [0, 1], the share of this target in the loss; the gold word has the share 1 − λ."""


def pad_vocabulary(weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None) -> tuple[Tensor, Tensor | None]:
    """Pad the vocabulary with unused words to a multiple of `ALIGNMENT`; the caller must cut the logits to V words."""
    missing = -weight.shape[0] % (ALIGNMENT if weight.is_cpu else GPU_ALIGNMENT)
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
    soft: SoftTargets | None = None,
    ignore_index: int = 0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum the cross entropy of `features @ weight.T + bias` with `target`.

    Under autocast, the products run in autocast's dtype; sums and exponentials are in float32 (float64 for float64 inputs).

    Args:
        features: Features from which words are predicted, one row per position.
        weight: Weight of the output layer.
        bias: Bias of the output layer; None if it has none.
        target: Ids of the gold words in [0, V). Positions whose gold word is `ignore_index` are ignored.
        label_smoothing: ε in [0, 1).
        soft: Soft targets in addition to the gold words; None for gold words only.
        ignore_index: Id of padding.

    Returns:
        The summed loss, and the summed negative log-likelihood of the gold words in nats, without smoothing and without a
        gradient.

    Raises:
        ShapeError: If sizes do not match.
    """
    sizes = check_shape("features", features, "M D")
    sizes = check_shape("weight", weight, "V D", sizes)
    check_shape("target", target, "M", sizes)
    if bias is not None:
        check_shape("bias", bias, "V", sizes)
    if soft is not None:
        sizes = check_shape("soft.words", soft.words, "M K", sizes)
        check_shape("soft.probabilities", soft.probabilities, "M K", sizes)
    dtype = compute_dtype(features)
    loss, nll = _LinearCrossEntropy.apply(features, weight, bias, target, label_smoothing, soft, ignore_index, dtype)
    return loss, nll


def plain_linear_cross_entropy(
    features: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    target: Tensor,
    *,
    label_smoothing: float = 0.0,
    soft: SoftTargets | None = None,
    ignore_index: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute the result of `linear_cross_entropy` with all logits at once; without a weight, `features` are the logits."""
    logits = features if weight is None else functional.linear(features, weight, bias)
    return plain_cross_entropy(functional.log_softmax(logits, dim=-1), target, label_smoothing, soft, ignore_index)


def plain_cross_entropy(
    log_probability: Float[Tensor, "M V"],
    target: Int[Tensor, " M"],
    label_smoothing: float = 0.0,
    soft: SoftTargets | None = None,
    ignore_index: int = 0,
    num_words: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the result of `linear_cross_entropy` from the logarithms of the words' probabilities.

    Label smoothing gives probability to the first `num_words` words only; None for all.
    """
    loss = nll = -log_probability.gather(1, target[:, None])[:, 0]
    if label_smoothing:
        loss = (1 - label_smoothing) * nll - label_smoothing * log_probability[:, :num_words].mean(dim=-1)
    if soft is not None:
        expected = (soft.probabilities * log_probability.gather(1, soft.words)).sum(dim=-1)
        loss = (1 - soft.weight) * loss - soft.weight * expected
    counts = target != ignore_index
    return loss.where(counts, 0).sum(), nll.where(counts, 0).sum().detach()


def called_cross_entropy(
    logits: Callable[[Tensor], Tensor],
    features: Float[Tensor, "M D"],
    target: Int[Tensor, " M"],
    *,
    num_words: int | None = None,
    label_smoothing: float = 0.0,
    soft: SoftTargets | None = None,
    ignore_index: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute the result of `linear_cross_entropy` for a function of the features that computes more than a linear map.

    The logits of each chunk of positions are computed again for the gradient, so that the logits of all positions are never in
    memory at once. Label smoothing gives probability to the first `num_words` words only; None for all.
    """

    def sums_of(rows: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        taught = None if soft is None else SoftTargets(soft.words[part], soft.probabilities[part], soft.weight)
        log_p = functional.log_softmax(logits(rows), dim=-1)
        return plain_cross_entropy(log_p, target[part], label_smoothing, taught, ignore_index, num_words)

    starts = range(0, max(len(features), 1), CALLED_ROWS)
    parts = [slice(start, start + CALLED_ROWS) for start in starts]
    found = [checkpoint(sums_of, features[part], part, use_reentrant=False) for part in parts]
    loss, nll = (torch.stack(sums).sum() for sums in zip(*found, strict=True))
    return loss, nll


class _LinearCrossEntropy(torch.autograd.Function):
    """Cross entropy whose forward pass computes the gradients too, because it does not keep the logits."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        label_smoothing: float,
        soft: SoftTargets | None,
        ignore_index: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(features.device.type, enabled=False):
            own_bias = None if bias is None else bias.detach()
            chunked = _ChunkedPass(features.detach(), weight.detach(), own_bias, target, soft, dtype)
            gradients = chunked.run(label_smoothing, ignore_index, ctx.needs_input_grad[:3])
        ctx.save_for_backward(*gradients)
        ctx.dtypes = features.dtype, weight.dtype, None if bias is None else bias.dtype
        loss, nll = chunked.sums or (features.new_zeros((), dtype=chunked.exact) for _ in range(2))
        nll = nll.clone() if nll is loss else nll
        ctx.mark_non_differentiable(nll)
        ctx.set_materialize_grads(False)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        scaled = [None if g is None or grads[0] is None else g.to(dtype) * grads[0].to(dtype) for g, dtype in saved]
        return (*scaled, None, None, None, None, None)


class _ChunkedPass:
    """The computation of losses and gradients for all positions, a chunk at a time."""

    def __init__(
        self,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        soft: SoftTargets | None,
        dtype: torch.dtype,
    ) -> None:
        self.exact = torch.float64 if features.dtype == torch.float64 else torch.float32
        self.on_cpu = features.device.type == "cpu"
        self.given, self.words = len(features), len(weight)
        self.target, self.features = target, features.to(dtype)
        self.soft = None if soft is None else soft._replace(probabilities=soft.probabilities.to(self.exact))
        self.weight, self.bias = pad_vocabulary(weight.to(dtype), None if bias is None else bias.to(dtype))
        self.sums: tuple[Tensor, Tensor] | None = None
        """The loss and the negative log-likelihood of the chunks so far; None before the first chunk."""

    def run(
        self, label_smoothing: float, ignore_index: int, needs: Sequence[bool]
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Sum the losses, and return the needed gradients of features, weight and bias."""
        if self.on_cpu and (missing := -self.given % ROW_ALIGNMENT):
            self.features = functional.pad(self.features, (0, 0, 0, missing))
            self.target = functional.pad(self.target, (0, missing), value=ignore_index)
            if self.soft is not None:
                words, probabilities, share = self.soft
                padding = (0, 0, 0, missing)
                self.soft = SoftTargets(functional.pad(words, padding), functional.pad(probabilities, padding), share)
        if label_smoothing:  # mean_v z_mv of all positions at once, from the mean of the words' weights
            mean_word = self.weight[: self.words].to(self.exact).mean(0)
            self.mean_logits = self.features.to(self.exact) @ mean_word
            if self.bias is not None:
                self.mean_logits += self.bias[: self.words].to(self.exact).mean()
        rows = len(self.features)
        chunk = _rows((CHUNK_ELEMENTS if self.on_cpu else GPU_ELEMENTS) // self.words)
        held = max(chunk, _rows((BUFFER_ELEMENTS if self.on_cpu else GPU_ELEMENTS) // self.words))
        buffer = self.features.new_empty(min(held, rows), len(self.weight)) if any(needs) else None
        d_features = torch.empty_like(self.features) if needs[0] else None
        d_weight: Tensor | None = None
        d_bias = self.features.new_zeros(self.words, dtype=self.exact) if needs[2] else None
        for begin in range(0, rows, held):
            end = min(begin + held, rows)
            for start in range(begin, end, chunk):
                part = slice(start, min(start + chunk, end))
                place = None if buffer is None else buffer[start - begin : part.stop - begin]
                softmax, counts = self._losses(part, place, label_smoothing, ignore_index)
                if place is not None:
                    apart = not self.on_cpu and softmax is not place and d_bias is None
                    self._gradient_of_logits(softmax, part, None if apart else counts, label_smoothing)
                    if apart:  # a GPU sets rows to zero while it copies them
                        torch.mul(softmax, counts[:, None], out=place)
                    elif softmax is not place:
                        place.copy_(softmax)
                    if d_bias is not None:
                        d_bias += softmax[:, : self.words].sum(dim=0)
            if buffer is None:
                continue
            d_logits = buffer[: end - begin]
            if d_features is not None:
                torch.mm(d_logits, self.weight, out=d_features[begin:end])
            if needs[1]:
                product = (d_logits.T @ self.features[begin:end])[: self.words].to(self.exact)
                d_weight = product if d_weight is None else d_weight.add_(product)
        return None if d_features is None else d_features[: self.given], d_weight, d_bias

    def _losses(self, part: slice, place: Tensor | None, label_smoothing: float, ignore_index: int) -> tuple[Tensor, Tensor]:
        """Add a chunk's losses to the sums, and return its softmax, and the positions that count.

        The softmax is stored in `place` if the dtype allows it. The unused words that pad the vocabulary get probability 0.
        """
        target = self.target[part]
        counts = target != ignore_index
        logits = functional.linear(self.features[part], self.weight, self.bias)
        if len(self.weight) > self.words:
            logits[:, self.words :] = -torch.inf
        out = place if place is not None and place.dtype == self.exact else None
        gold = logits.gather(1, target[:, None])[:, 0].to(self.exact)
        if self.on_cpu:
            softmax = torch.softmax(logits, -1, self.exact, out=out)
            # One logarithm for each row takes less time than a sum over all words. It needs a probability that is neither NaN
            # nor too small for full precision, which a GPU would have to be asked for.
            probability = softmax.gather(1, target[:, None])[:, 0]
            certain = bool((probability >= SMALLEST).all())
            nll = -probability.log() if certain else logits.to(self.exact).logsumexp(-1) - gold
        else:  # two passes over all words instead of four
            softmax = torch.log_softmax(logits, -1, self.exact, out=out)
            nll = -softmax.gather(1, target[:, None])[:, 0]
            softmax.exp_()
        loss = nll
        if label_smoothing:
            loss = torch.add(nll, gold - self.mean_logits[part], alpha=label_smoothing)
        if self.soft is not None:
            words, probabilities, share = self.soft
            expected = (probabilities[part] * logits.gather(1, words[part])).sum(-1)
            loss = (1 - share) * loss + share * (nll + gold - expected)
        total_nll = nll.where(counts, 0).sum()  # not times `counts`: the loss of padding may be infinite
        total = total_nll if loss is nll else loss.where(counts, 0).sum()
        self.sums = (total, total_nll) if self.sums is None else (self.sums[0] + total, self.sums[1] + total_nll)
        return softmax, counts

    def _gradient_of_logits(self, softmax: Tensor, part: slice, counts: Tensor | None, label_smoothing: float) -> None:
        """Subtract the target from the softmax in place, and set rows to zero that do not count (None: all do).

        With the letters of the module, the target is (1 − λ)·((1 − ε)·onehot(y) + ε/V) + λ·p.
        """
        target = self.target[part]
        gold_share = 1.0 if self.soft is None else 1 - self.soft.weight
        if label_smoothing:
            softmax[:, : self.words].sub_(gold_share * label_smoothing / self.words)
        softmax.scatter_add_(1, target[:, None], softmax.new_full((len(target), 1), gold_share * (label_smoothing - 1)))
        if self.soft is not None:
            softmax.scatter_add_(1, self.soft.words[part], -self.soft.weight * self.soft.probabilities[part])
        if counts is not None and (not self.on_cpu or not bool(counts.all())):
            softmax *= counts[:, None]


def _rows(limit: int) -> int:
    """Return `limit`, rounded down to a multiple of `ROW_ALIGNMENT` unless it is smaller than that, but at least 1."""
    return max(1, limit - limit % ROW_ALIGNMENT if limit >= ROW_ALIGNMENT else limit)
