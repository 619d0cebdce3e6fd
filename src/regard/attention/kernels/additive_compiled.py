"""Additive scores by the formula of `kernels.additive`, as loops for `torch.compile` that store no (B,Q,K,H) tensor.

With E = e^{2q}, F = e^{2k} and d_h = 1 + E_h F_h,

    s = Σ_h v_h − 2 Σ_h v_h / d_h,    two fractions over one denominator: v₁/d₁ + v₂/d₂ = (v₁ d₂ + v₂ d₁) / (d₁ d₂),

which halves the number of divisions. d is limited to 2³⁰, so that the product of two denominators stays finite; for larger d,
tanh is 1 in float32. With r = 1/d, all gradients follow from two sums over the keys, or, for the gradient of the keys, over
the queries:

    Σ_j g_ij r_ijh   and   Σ_j g_ij r_ijh (1 − r_ijh).

Speed-up over the blocks of `kernels.additive` in a compiled caller, forward and with gradients, at B,Q,K,H = 32,30,30,256:
2.5 to 3 and 2.8 to 3.2; at 4,512,512,256: 4.8 and 4.4. Speed-up over the formula with a tanh, compiled by PyTorch: 6 and 5 at
the first size, 16 and 20 at the second (`benchmarks/log.md`).

If |q| or |k| is above 43, E or F may overflow or lose digits in float32. `in_range` finds such inputs, and the scores are then
computed by `kernels.additive`.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.private_torch import has_compiler

LARGE = 1 << 20
"""Minimum number of elements (B·Q·K·H) for the compiled loops; `is_compiled` checks the other conditions."""
RANGE = 43.0
"""Limit of |q| and |k|: e^{2·43} and its inverse are normal numbers in float32."""
_CEILING = 0x4E800000
"""The bits of 2³⁰. Positive floats have the same order as their bits, and comparing bits takes one instruction."""


def is_compiled(query: Tensor, key: Tensor) -> bool:
    """Return whether the compiled loops support these sizes and types on this machine."""
    enough = query.shape[0] * query.shape[1] * key.shape[1] * key.shape[2] >= LARGE
    return enough and query.device.type == "cpu" and query.dtype == key.dtype != torch.float64 and has_compiler()


def in_range(query: Tensor, key: Tensor, key_exponential: Tensor | None = None) -> bool:
    """Return True only if the exponentials of all queries and keys are normal numbers in float32; False if an input is NaN."""
    if key_exponential is not None:  # NaN where a key is too large
        return _in_range(query) and math.isfinite(key_exponential.sum().item())
    return _in_range(query) and _in_range(key)


def _in_range(x: Tensor) -> bool:
    low, high = x.aminmax()
    return -RANGE < low.item() <= high.item() < RANGE


def scores(
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    score_weight: Float[Tensor, " H"],
    key_exponential: Float[Tensor, "B K H"] | None = None,
) -> Float[Tensor, "B Q K"]:
    """Return Σ_h v_h tanh(q_ih + k_jh) for inputs that are `in_range`.

    `key_exponential` is e^{2·key} if it was computed before.
    """
    e, f, v = _exponential(query), _exponential(key) if key_exponential is None else key_exponential, score_weight.float()
    if v.shape[0] % 2:
        e, f, v = (functional.pad(x, (0, 1)) for x in (e, f, v))
    return _compiled(_scores)(e, f, v).to(query.dtype)


def gradients(
    grad: Float[Tensor, "B Q K"],
    query: Float[Tensor, "B Q H"],
    key: Float[Tensor, "B K H"],
    score_weight: Float[Tensor, " H"],
    key_exponential: Float[Tensor, "B K H"] | None,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients for query, key and score weight; gradients that are not needed are empty."""
    e, f = _exponential(query), _exponential(key) if key_exponential is None else key_exponential
    v, g = 4 * score_weight.float(), grad.float().contiguous()
    grad_q, grad_k, grad_v = v.new_empty(3, 0).unbind()
    if needs[0] or needs[2]:
        first, slope = _compiled(_row_sums)(e, f, g)
        grad_q = slope.mul_(v) if needs[0] else grad_q
        grad_v = g.sum() - 2 * first.sum((0, 1)) if needs[2] else grad_v
    if needs[1]:
        grad_k = _compiled(_row_sums)(f, e, g.transpose(1, 2).contiguous())[1].mul_(v)
    return grad_q.to(query.dtype), grad_k.to(key.dtype), grad_v.to(score_weight.dtype)


def _exponential(x: Tensor) -> Tensor:
    return (2 * x.float()).exp_()


def _scores(e: Tensor, f: Tensor, v: Tensor) -> Tensor:
    half = v.shape[0] // 2
    d1 = _denominator(e[:, :, None, :half], f[:, None, :, :half])
    d2 = _denominator(e[:, :, None, half:], f[:, None, :, half:])
    return v.sum() - 2 * ((v[:half] * d2 + v[half:] * d1) / (d1 * d2)).sum(-1)


def _denominator(e: Tensor, f: Tensor) -> Tensor:
    return (1 + e * f).view(torch.int32).clamp_max(_CEILING).view(torch.float32)


def _row_sums(e: Tensor, f: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    r = 1 / (1 + e[:, :, None] * f[:, None])
    first = grad[..., None] * r
    return first.sum(2), (first * (1 - r)).sum(2)


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    # fullgraph=True: PyTorch raises an error instead of falling back to eager operations with their (B,Q,K,H) tensors.
    # dynamic=True: new sizes need no new compilation, which would take seconds. The option allows the compiler to use one
    # instruction for a multiply-add, which rounds only once.
    options: dict[str, Any] = {"cpp.enable_floating_point_contract_flag": "fast"}
    return torch.no_grad()(torch.compile(function, fullgraph=True, dynamic=True, options=options))
