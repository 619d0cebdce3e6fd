"""Multi-head latent attention: one short vector c_j represents key j and its value in all heads.

    c_j = norm(W_c key_j + b_c),    r_j = rotated(W_r key_j + b_r),    [q_h; p_h]: features of head h in W_q query + b_q
    score_hj = (q_h·U_h c_j + rotated(p_h)·r_j) / √(E + E_r) = [U_hᵀ q_h; rotated(p_h)]·[c_j; r_j] / √(E + E_r)
    head_h = Σ_j weight_hj V_h c_j = V_h Σ_j weight_hj c_j

The learned matrices U_h and V_h could expand c_j to a key and a value of head h, but these keys and values are never computed.
In code: `into_latents` returns U_hᵀ q_h, and `from_latents` returns V_h Σ_j weight_hj c_j.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_instance, check_size
from regard.attention.capabilities import is_plain
from regard.attention.heads.attend import join_heads, split_heads
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.attention.heads.options import MapOptions
from regard.attention.heads.rotary import Rotary
from regard.attention.learned import build_linear, normed
from regard.attention.masks import Masks
from regard.errors import ConfigError


def into_latents(heads: Float[Tensor, "B H Q E"], maps: Float[Tensor, "H E R"]) -> Float[Tensor, "B H Q R"]:
    """Return U_hᵀ q_h for matrices U_h (`maps`); its product with c_j equals that of q_h and the key U_h c_j."""
    return heads @ maps.to(heads.dtype)


def from_latents(latents: Float[Tensor, "B H Q R"], maps: Float[Tensor, "H E R"]) -> Float[Tensor, "B H Q E"]:
    """Return V_h x_h for matrices V_h (`maps`); if x_h = Σ_j weight_hj c_j, it is the weighted sum of the values V_h c_j."""
    return latents @ maps.mT.to(latents.dtype)


class LatentAttention(MultiHead):
    """score_hj = (q_h·U_h c_j + rotated(p_h)·r_j) / √(E + E_r), head_h = Σ_j weight_hj V_h c_j in H heads, E = D/H.

    c_j = norm(W_c key_j + b_c) has R features, and norm is an RMS norm. With `positions`, r_j = rotated(W_r key_j + b_r) has
    E_r features, which all heads share. The memory holds c and r: R + E_r numbers for each key, instead of 2 D in `MultiHead`.
    W_q query + b_q gives E features q_h and E_r features p_h for each head. The keys U_h c_j and values V_h c_j are never
    computed. context = W_o [head_1; …; head_H] + b_o (B,Q,D), weights (B,H,Q,K). If a call gives values that are not the keys,
    the values V_h c_j use c_j = norm(W_c value_j + b_c), which the memory holds too.

    Reference: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1, eqs. 9–19, and section 3.1.2 for the norms.
    Differs from the paper: W_c, W_r, W_q and W_o have biases, unless `bias` is False; the rotary part can be left out.

    Args:
        latent_size: R, width of c, ≥ 1; None for D/2, rounded down.
        query_latent_size: Width, ≥ 1, of a short vector norm(W query + b), which then replaces the query in W_q query + b_q;
            None to use the query itself.
        positions: A `Rotary` for the rotary part; None to leave the part out.
        rotary_size: E_r, width of the rotary part, an even number; None for E/2, rounded down. It needs `positions`.

    The other arguments are those of `MultiHead`.

    Example:
        >>> attention = LatentAttention(512, 8, latent_size=96, positions=Rotary(), causal=True)
        >>> context, weights = attention(torch.randn(2, 9, 512))
        >>> attention.prepare(torch.randn(2, 9, 512)).key.shape  # 96 + 32 numbers for each key
        torch.Size([2, 1, 9, 128])
    """

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        latent_size: int | None = None,
        query_latent_size: int | None = None,
        positions: Rotary | None = None,
        rotary_size: int | None = None,
        dropout: float = 0.0,
        window: tuple[int, int] | None = None,
        **options: Unpack[MapOptions],
    ) -> None:
        super().__init__(size, num_heads, dropout=dropout, window=window, **options)
        self.latent_size = max(size // 2, 1) if latent_size is None else latent_size
        self.query_latent_size, self.positions, self.rotary_size = query_latent_size, positions, 0
        if positions is not None:
            check_instance("LatentAttention", "positions", positions, Rotary, "Rotary()")
            self.rotary_size = max(self.head_size // 2, 1) if rotary_size is None else rotary_size
            check_size("LatentAttention", "rotary_size", self.rotary_size)
            positions.check(num_heads, self.rotary_size)
        elif rotary_size is not None:
            raise ConfigError(
                f"LatentAttention(rotary_size={rotary_size}): rotary_size needs positions; give positions=Rotary(), or "
                "leave rotary_size out"
            )
        self.permutation_equivariant = self.permutation_equivariant and positions is None
        self.scale = (self.head_size + self.rotary_size) ** -0.5
        check_size("LatentAttention", "latent_size", self.latent_size)
        bias, device, dtype = options.get("bias", True), options.get("device"), options.get("dtype")
        build = partial(build_linear, bias=bias, device=device, dtype=dtype)
        build_norm = partial(nn.RMSNorm, eps=1e-6, device=device, dtype=dtype)
        if query_latent_size is not None:
            check_size("LatentAttention", "query_latent_size", query_latent_size)
            self.query_compression, self.query_norm = build(size, query_latent_size), build_norm(query_latent_size)
        self.query_projection = build(query_latent_size or size, num_heads * (self.head_size + self.rotary_size))
        self.compression, self.norm = build(self.key_size, self.latent_size), build_norm(self.latent_size)
        if positions is not None:
            self.rotary_projection = build(self.key_size, self.rotary_size)
        # U and V need no bias: a bias in U would add the same number to all scores of a query, and a bias in V would act like
        # the bias of W_o.
        self.key_expansion = build_linear(self.latent_size, size, bias=False, device=device, dtype=dtype)
        self.value_expansion = build_linear(self.latent_size, size, bias=False, device=device, dtype=dtype)
        self.output_projection = build(size, size)

    def build_projections(self, build: Callable[[int, int], nn.Linear]) -> None:
        """Build nothing: the constructor builds the maps, because their widths differ from those of the base class."""

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """Return [U_hᵀ q_h; p_h] for every query, with q_h instead of U_hᵀ q_h if `key_expansion` is not plain."""
        if self.query_latent_size is not None:
            query = normed(self.query_compression(query), self.query_norm)
        heads = split_heads(self.query_projection(query), self.num_heads)
        if not is_plain(self.key_expansion):
            return heads
        content, rotary = heads.split([self.head_size, self.rotary_size], -1)
        return torch.cat([into_latents(content, self._matrices(self.key_expansion)), rotary], -1)

    def project(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"]
    ) -> tuple[Float[Tensor, "B 1 K E"], Float[Tensor, "B 1 K Ev"]]:
        """Return the keys [c; W_r key + b_r], not yet rotated, and the vectors c of the values."""
        latents = normed(self.compression(key), self.norm)
        # If the keys are the values, the keys contain c already, so that a state holds it once.
        values = latents[..., :0] if value is key else normed(self.compression(value), self.norm)
        keys = latents if self.positions is None else torch.cat([latents, self.rotary_projection(key)], -1)
        return keys[:, None], values[:, None]

    def rotate(self, heads: Float[Tensor, "B H T E"], positions: Tensor | int) -> Float[Tensor, "B H T E"]:
        """Return queries or keys with their last E_r features rotated to their positions."""
        content, rotary = heads.split([heads.shape[-1] - self.rotary_size, self.rotary_size], -1)
        return torch.cat([content, super().rotate(rotary, positions)], -1)

    def mix(
        self, heads: Tensor, memory: HeadMemory, masks: Masks, **options: Any
    ) -> tuple[Float[Tensor, "B Hv Q Ev"], Float[Tensor, "B Hv Q K"] | None]:
        """Return the weighted sums of the latents c, and the weights; expansions that are not plain are called here."""
        latents, rotary = memory.key.split([self.latent_size, self.rotary_size], -1)
        key, value = memory.key, memory.value if memory.value.shape[-1] else latents
        if not is_plain(self.key_expansion):
            expanded = split_heads(self.key_expansion(latents[:, 0]), self.num_heads)
            key = torch.cat([expanded, rotary.expand(-1, self.num_heads, -1, -1)], -1)
        if not is_plain(self.value_expansion):
            value = split_heads(self.value_expansion(value[:, 0]), self.num_heads)
        return super().mix(heads, replace(memory, key=key, value=value), masks, **options)

    def output(self, heads: Float[Tensor, "B H Q Ev"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Return W_o [V_1 x_1; …; V_H x_H] + b_o, where `heads` are the results of `mix`."""
        if is_plain(self.value_expansion):
            heads = from_latents(heads, self._matrices(self.value_expansion))
        return self.output_projection(join_heads(heads))

    def _matrices(self, expansion: nn.Linear) -> Float[Tensor, "H E R"]:
        """Return the matrices U_h of `key_expansion`, or V_h of `value_expansion`."""
        return expansion.weight.unflatten(0, (self.num_heads, -1))
