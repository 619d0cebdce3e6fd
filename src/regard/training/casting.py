"""Weights of Transformer layers in half precision, converted together once for each batch.

Under autocast, each linear map converts its own weight and bias, and their gradients back: four operations. Here, one
operation converts the weights of all maps, and one their gradients. The result has the same bits.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.capabilities import is_exactly, is_plain
from regard.attention.heads.multihead import MultiHead
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.transformer import DecoderLayer, EncoderLayer
from regard.training.run import Run


def can_cast_once(run: Run) -> bool:
    """Return whether a run converts weights together: on a GPU, in one process, and not in compiled or recomputed layers."""
    training = run.config.training
    plain = not (training.compile_layers or training.recompute_layers)  # they call layers with their own weights
    return plain and run.machine.device.type == "cuda" and run.machine.precision != "float32" and run.team.ranks.alone


class CastOnce(nn.Module):
    """A module that is called with the weights of its Transformer layers in another type, that of autocast.

    Only maps of `MultiHead`, `FeedForward` and `GatedFeedForward` are converted, because nothing but their product reads their
    weights.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self._dtype = module, dtype
        parts = [
            (f"{prefix}.{name}.{inner}", linear)
            for prefix, layer in module.named_modules()
            if isinstance(layer, EncoderLayer | DecoderLayer)
            for name, part in layer.named_children()
            if any(is_exactly(part, kind) for kind in (MultiHead, FeedForward, GatedFeedForward))
            for inner, linear in part.named_children()
            if type(linear) is nn.Linear and is_plain(linear)
        ]
        self._weights = {f"{name}.{kind}": tensor for name, linear in parts for kind, tensor in linear.named_parameters()}

    def forward(self, *arguments: Any) -> Any:
        """Call the module."""
        if not self._weights:
            return self.module(*arguments)
        low = _Cast.apply(self._dtype, *self._weights.values())
        return torch.func.functional_call(self.module, dict(zip(self._weights, low, strict=True)), arguments)


class _Cast(torch.autograd.Function):
    """All tensors in another type, and their gradients back in the type of the tensors."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [tensor.dtype for tensor in tensors]
        ctx.set_materialize_grads(False)
        low = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
        torch._foreach_copy_(low, list(tensors))
        return tuple(low)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found = [grad for grad in grads if grad is not None]
        full = [torch.empty_like(one, dtype=dtype) for one, dtype in zip(grads, ctx.dtypes, strict=True) if one is not None]
        torch._foreach_copy_(full, found)
        back = iter(full)
        return None, *(None if grad is None else next(back) for grad in grads)
