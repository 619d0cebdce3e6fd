"""Two passes over the same batch that learn to predict the same: R-Drop and SimCut.

With p and q, the probabilities that the first and the second pass predict, the loss of a position is

    s·loss(p) + (1 − s)·loss(q) + a·KL(p ‖ q) + b·KL(q ‖ p),    KL(p ‖ q) = Σ_v p_v (log p_v − log q_v).

The passes differ in their random numbers for dropout. R-Drop has s = ½ and a = b = α/4. SimCut has s = 1, a = α and b = 0, and
hides tokens in the second pass: zeros replace their embeddings. Gradients flow through both passes.

Reference: Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", eq. 4, halved; Gao et al. 2022, "Bi-SimCut: A
    Simple Strategy for Boosting Neural Machine Translation", eq. 3.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.config import ConsistencyConfig, RDropConfig, SimCutConfig
from regard.errors import ConfigError
from regard.layers.cross_entropy import (
    CHUNK_ELEMENTS,
    GPU_ELEMENTS,
    SoftTargets,
    pad_vocabulary,
    plain_cross_entropy,
)
from regard.text.symbols import PAD


class Consistency(NamedTuple):
    """How two passes over a batch form a loss; see the formula of the module."""

    first_share: float
    """s, the share of the first pass in the loss on the gold words or labels."""
    forward: float
    """a, the weight of KL(p ‖ q)."""
    backward: float
    """b, the weight of KL(q ‖ p)."""
    cut: float = 0.0
    """Probability that a token is hidden in the second pass."""

    @classmethod
    def of(cls, config: ConsistencyConfig) -> Self | None:
        """Return what a run's settings (`training.consistency`) ask for; None for one pass."""
        match config:
            case RDropConfig(weight=weight):
                return cls(0.5, weight / 4, weight / 4)
            case SimCutConfig(weight=weight, cut=cut):
                return cls(1.0, weight, 0.0, cut)
        return None

    def loss(self, first: Tensor, second: Tensor, log_p: Tensor, log_q: Tensor, counts: Tensor | float = 1.0) -> Tensor:
        """Return s·first + (1 − s)·second + Σ counts·(a·KL(p ‖ q) + b·KL(q ‖ p)), from log p and log q (…,V), counts (…)."""
        weight = self.forward * log_p.exp()
        if self.backward:
            weight = weight - self.backward * log_q.exp()
        gold = first if self.first_share == 1 else self.first_share * first + (1 - self.first_share) * second
        return gold + ((weight * (log_p - log_q)).sum(dim=-1) * counts).sum()


@contextmanager
def reading_twice(model: nn.Module, consistency: Consistency) -> Iterator[None]:
    """Hide tokens in the second half of each batch that the model reads; the first half are the same examples, unchanged."""

    def hide(module: nn.Module, inputs: Any, embedded: Tensor) -> Tensor:
        kept = torch.rand(*embedded.shape[:-1], 1, device=embedded.device) >= consistency.cut
        kept[: len(kept) // 2] = True
        return embedded * kept

    with ExitStack() as hooks:
        if consistency.cut:
            words = [part for part in model.modules() if isinstance(part, nn.Embedding) and part.padding_idx == PAD]
            if not words:
                raise ConfigError(
                    f"training.consistency is sim_cut, which hides embeddings of tokens, but {type(model).__name__} has no "
                    f"nn.Embedding with padding_idx={PAD}; set training.consistency.kind to r_drop or none"
                )
            for part in words:
                hooks.callback(part.register_forward_hook(hide).remove)
        yield


def consistent_cross_entropy(
    features: Float[Tensor, "2 M D"],
    weight: Float[Tensor, "V D"] | None,
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " M"],
    consistency: Consistency,
    *,
    label_smoothing: float = 0.0,
    soft: SoftTargets | None = None,
    ignore_index: int = 0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum the loss of two passes over M positions, and −log p of the first; without a weight, `features` are the logits."""

    def loss_of(logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        log_p, log_q = functional.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        taught = None if soft is None else SoftTargets(soft.words[part], soft.probabilities[part], soft.weight)
        targets = target[part], label_smoothing, taught, ignore_index
        first, nll = plain_cross_entropy(log_p, *targets)
        second = first if consistency.first_share == 1 else plain_cross_entropy(log_q, *targets)[0]
        return consistency.loss(first, second, log_p, log_q, target[part] != ignore_index), nll

    if weight is None:
        return loss_of(features, slice(None))
    words = len(weight)
    weight, bias = pad_vocabulary(weight, bias)
    chunk = max(1, (CHUNK_ELEMENTS if features.is_cpu else GPU_ELEMENTS) // (2 * words))
    return _InChunks.apply(lambda logits, part: loss_of(logits[..., :words], part), chunk, features, weight, bias)


class _InChunks(torch.autograd.Function):
    """The sum of a loss over chunks of positions. The forward pass computes the gradients too, because it keeps no logits."""

    @staticmethod
    def forward(
        ctx: Any,
        loss_of: Callable[[Tensor, slice], tuple[Tensor, Tensor]],
        chunk: int,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        leaves = [one.detach().requires_grad_() for one in (weight, bias) if one is not None]
        sums: list[Tensor] = []
        d_features: list[Tensor] = []
        d_leaves: list[Tensor] = []
        for start in range(0, max(features.shape[1], 1), chunk):
            part = slice(start, start + chunk)
            rows = features[:, part].detach().requires_grad_()
            with torch.enable_grad():
                losses = loss_of(functional.linear(rows, *leaves), part)
            gradient, *others = torch.autograd.grad(losses[0], [rows, *leaves])
            d_features.append(gradient)
            d_leaves = [total.add_(one) for total, one in zip(d_leaves, others, strict=True)] if d_leaves else others
            values = [loss.detach() for loss in losses]
            sums = [total + one for total, one in zip(sums, values, strict=True)] if sums else values
        ctx.save_for_backward(torch.cat(d_features, dim=1), *d_leaves)
        ctx.mark_non_differentiable(sums[1])
        ctx.set_materialize_grads(False)
        return sums[0], sums[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [None if grads[0] is None else one * grads[0] for one in ctx.saved_tensors]
        return None, None, *scaled, *(None,) * (3 - len(scaled))
