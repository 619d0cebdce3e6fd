"""How large what a head takes from each key is: its weight times the length of the vector that the weight stands before."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.head_memory import HeadMemory
from regard.attention.multihead import MultiHead


def norm_weights(attention: MultiHead, memory: HeadMemory, weights: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B Q K"]:
    """Return ‖Σ_h α_h,qk f_h(x_k)‖ over its sum over k,    f_h(x) = W_o,h (W_v,h x + b_v,h)

    A key with a large weight counts little if its vector is short, as those of punctuation and of the end symbol often are.

    Args:
        attention: Whose weights they are.
        memory: The keys and values that it read.
        weights: α, those of its heads.

    Returns:
        Rows sum to one, or to zero where nothing was attended to.

    Reference:
        Kobayashi, Kuribayashi, Yokoi, Inui 2020, Attention is Not Only a Weight, eq. 5, and eq. 7 for several heads.
        Differs from the paper: rows are divided by their sums, which changes no alignment.
    """
    weights, value = (x.float() if x.dtype in (torch.bfloat16, torch.float16) else x for x in (weights, memory.value))
    value = value.repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=1)
    maps = attention.output_projection.weight.to(value.dtype).unflatten(1, (attention.num_heads, -1))  # (D,H,Da)
    taken = torch.einsum("bhka,dha->bhkd", value, maps)
    # ‖Σ_h α_h f_h‖² = Σ_hg α_h α_g f_h·f_g: no vector for each query and key.
    products = torch.einsum("bhkd,bgkd->bhgk", taken, taken)
    squares = (torch.einsum("bhqk,bhgk->bgqk", weights, products) * weights).sum(1)
    norms = squares.clamp_min(0).sqrt()
    total = norms.sum(-1, keepdim=True)
    return norms / total.clamp_min(torch.finfo(norms.dtype).tiny)
