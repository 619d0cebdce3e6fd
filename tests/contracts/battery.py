"""What the batteries of attention share: inputs, masks, and which form of the kernels runs."""

import pytest
import torch
from contracts.cases.base import B, Case, K, Q
from torch import Tensor

from regard.attention import Attention
from regard.attention.fast import additive as kernel

MASKS = ["none", "key", "key_with_empty_row", "attn", "attn_with_empty_row", "attn_of_batch", "both"]
SHAPES = {"full": (B, Q, K), "batch_of_one": (1, Q, K), "one_key": (B, Q, 1), "one_query": (B, 1, K), "all_one": (1, 1, 1)}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 4e-2}


def forms(case: Case) -> list[str]:
    """Plain, and fast where a kernel stands beside the plain form: that of the additive scores."""
    return ["plain", "fast"] if any(hasattr(module, "score_weight") for module in case.build().modules()) else ["plain"]


def choose_kernels(patch: pytest.MonkeyPatch, *, fast: bool) -> None:
    """Fast forms by size never, or always and in blocks so small that there are many."""
    for name in ("SMALL", "SMALL_WITH_GRADIENT", "FEW"):
        patch.setattr(kernel, name, 0 if fast else 1 << 60)
    patch.setattr(kernel, "BLOCK", 90)
    patch.setattr(kernel, "QUERIES", 2)


def inputs(case: Case, attention: Attention, shape=(B, Q, K), dtype=torch.float64, seed=0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    batch, queries, keys = shape
    sizes = (queries, attention.query_size), (keys, attention.key_size), (keys, case.value_size)
    query, key, value = (torch.randn(batch, *size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes)
    return query, key, value


def masks(kind: str, shape=(B, Q, K)) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    batch, queries, keys = shape
    key_mask = torch.rand(batch, keys, generator=generator) < 0.7
    attn_mask = torch.rand(queries, keys, generator=generator) < 0.7
    of_batch = torch.rand(batch, queries, keys, generator=generator) < 0.7
    match kind:
        case "none":
            return {}
        case "key":
            key_mask[:, 0] = True
            return {"key_mask": key_mask}
        case "key_with_empty_row":
            key_mask[0] = False
            return {"key_mask": key_mask}
        case "attn":
            attn_mask[:, 0] = True
            return {"attn_mask": attn_mask}
        case "attn_with_empty_row":
            attn_mask[-1] = False
            return {"attn_mask": attn_mask}
        case "attn_of_batch":
            return {"attn_mask": of_batch}
        case _:
            return {"key_mask": key_mask, "attn_mask": of_batch}


def made(case: Case, dtype: torch.dtype = torch.float64) -> Attention:
    torch.manual_seed(0)
    return case.build().to(dtype)


def gradients(attention: Attention, tensors: tuple[Tensor, ...], **kwargs) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in tensors]
    out = attention(*leaves, **kwargs)
    total = (out.context * torch.arange(1, out.context.numel() + 1, device=out.context.device).view_as(out.context)).sum()
    if out.weights is not None:
        total = total + out.weights.square().sum()
    return [g for g in torch.autograd.grad(total, [*leaves, *attention.parameters()], allow_unused=True) if g is not None]
