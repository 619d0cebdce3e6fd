"""Norm-weighted attention: the length of the vector that each key contributes to the output of all heads."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.capabilities import is_plain
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead


def norm_weights(attention: MultiHead, memory: HeadMemory, weights: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B Q K"]:
    """Return ‖Σ_h α_h,qk f_h(x_k)‖ divided by its sum over the keys k, where f_h(x) = W_o,h (W_v,h x + b_v,h).

    A key with a large weight contributes little if its vector is short, as is common for punctuation and the end symbol.

    Args:
        attention: The attention that computed the weights.
        memory: Keys and values of that attention.
        weights: α, the weights of the heads h for queries q and keys k.

    Returns:
        Norms whose rows sum to one, or to zero if all weights of a row are zero.

    Reference:
        Kobayashi, Kuribayashi, Yokoi, Inui 2020, Attention is Not Only a Weight, eq. 5, and eq. 7 for several heads.
        Differs from the paper: rows are divided by their sums, which does not change alignments.
    """
    weights, value = (x.float() if x.dtype in (torch.bfloat16, torch.float16) else x for x in (weights, memory.value))
    value = value.repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=1)
    output = attention.output_projection
    if is_plain(output):
        maps = output.weight.to(value.dtype).unflatten(1, (attention.num_heads, -1))  # (D,H,Da)
        taken = torch.einsum("bhka,dha->bhkd", value, maps)
    else:  # the map is called with the values of one head, and zeros for the other heads
        alone = (
            torch.einsum("bhka,hg->bhkga", value, torch.eye(attention.num_heads).to(value)).flatten(-2).to(memory.value.dtype)
        )
        taken = (output(alone) - output(torch.zeros_like(alone[:1, :1, :1]))).to(value.dtype)
    # ‖Σ_h α_h f_h‖² = Σ_hg α_h α_g f_h·f_g needs no vector for each pair of query and key.
    products = torch.einsum("bhkd,bgkd->bhgk", taken, taken)
    squares = (torch.einsum("bhqk,bhgk->bgqk", weights, products) * weights).sum(1)
    norms = squares.clamp_min(0).sqrt()
    total = norms.sum(-1, keepdim=True)
    return norms / total.clamp_min(torch.finfo(norms.dtype).tiny)
