"""Multi-head latent attention: one short vector c_j represents key j and its value in all heads.

    c_j = norm(W_c key_j + b_c),    r_j = rotated(W_r key_j + b_r),    [q_h; p_h]: features of head h in W_q query + b_q
    score_hj = (q_h·U_h c_j + rotated(p_h)·r_j) / √(E + E_r) = [U_hᵀ q_h; rotated(p_h)]·[c_j; r_j] / √(E + E_r)
    head_h = Σ_j weight_hj V_h c_j = V_h Σ_j weight_hj c_j

q_h has E features; p_h and r_j have E_r features, which are rotated to their positions. The learned matrices U_h and V_h could
expand c_j to a key and a value of head h, but these keys and values are never computed. In code: `into_latents` returns
U_hᵀ q_h, and `from_latents` returns V_h Σ_j weight_hj c_j.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_instance, check_size
from regard.attention.attend import join_heads, split_heads
from regard.attention.capabilities import is_plain
from regard.attention.head_memory import HeadMemory
from regard.attention.learned import build_linear, normed
from regard.attention.masks import Masks
from regard.attention.multihead import MultiHead
from regard.attention.rotary import Rotary
from regard.errors import ConfigError, RequestError


def into_latents(heads: Float[Tensor, "B H Q E"], maps: Float[Tensor, "H E R"]) -> Float[Tensor, "B H Q R"]:
    """Return the products U_hᵀ q_h with the matrices U_h (`maps`), so that the keys U_h c_j need not be computed.

    The dot product of U_hᵀ q_h and c_j equals that of q_h and the key U_h c_j.
    """
    return heads @ maps.to(heads.dtype)


def from_latents(latents: Float[Tensor, "B H Q R"], maps: Float[Tensor, "H E R"]) -> Float[Tensor, "B H Q E"]:
    """Return V_h x_h for x_h = Σ_j weight_hj c_j and matrices V_h (`maps`): the weighted sum of the values V_h c_j."""
    return latents @ maps.mT.to(latents.dtype)


class LatentAttention(MultiHead):
    """score_hj = (q_h·U_h c_j + rotated(p_h)·r_j) / √(E + E_r), head_h = Σ_j weight_hj V_h c_j in H heads, E = D/H.

    c_j = norm(W_c key_j + b_c) has R features, and norm is an RMS norm. With `positions`, r_j = rotated(W_r key_j + b_r) has
    E_r features, which all heads share. The memory holds c and r: R + E_r numbers for each key, instead of 2 D in `MultiHead`.
    W_q query + b_q gives E features q_h and E_r features p_h for each head. The matrix U_h is applied to the queries and V_h to
    the weighted sums of c; the keys U_h c_j and values V_h c_j are never computed. context = W_o [head_1; …; head_H] + b_o
    (B,Q,D), weights (B,H,Q,K).

    With `positions`, query i of Q has the position i + K − Q, as in `MultiHead`; K includes the keys of the state. If a call
    gives values that are not the keys, the values V_h c_j use c_j = norm(W_c value_j + b_c), which the memory holds too.

    Reference: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1, eqs. 9–19, and section 3.1.2 for the norms.
    Differs from the paper: W_c, W_r, W_q and W_o have biases, unless `bias` is False; the rotary part can be left out.

    Args:
        size: D, width of queries and context, a multiple of `num_heads`.
        num_heads: H, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for D.
        latent_size: R, width of c, ≥ 1; None for D/2, rounded down.
        query_latent_size: Width, ≥ 1, of a short vector norm(W query + b), which then replaces the query in W_q query + b_q;
            None to use the query itself.
        positions: A `Rotary` for the rotary part; None to leave the part out.
        rotary_size: E_r, width of the rotary part, an even number; None for E/2, rounded down. It needs `positions`.
        bias: Whether the maps of queries and keys and the output map have biases.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1.
        causal: Whether a query may attend only to its own position and to earlier ones.
        window: Numbers of positions before and after a query's own that the query may attend to; None for no limit.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `num_heads` does not divide `size`, `positions` is not a
            `Rotary`, the width of the rotary part is odd or given without positions, `dropout` is out of its range, or `bias`
            or `causal` is not a bool.

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
        key_size: int | None = None,
        latent_size: int | None = None,
        query_latent_size: int | None = None,
        positions: Rotary | None = None,
        rotary_size: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        window: tuple[int, int] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            size,
            num_heads,
            key_size=key_size,
            value_size=key_size,
            bias=bias,
            dropout=dropout,
            causal=causal,
            window=window,
            device=device,
            dtype=dtype,
        )
        self.latent_size = max(size // 2, 1) if latent_size is None else latent_size
        self.query_latent_size, self.positions = query_latent_size, positions
        self.rotary_size = self._checked_rotary_size(rotary_size)
        self.permutation_equivariant = self.permutation_equivariant and positions is None
        self.scale = (self.head_size + self.rotary_size) ** -0.5
        for name, width in (("latent_size", self.latent_size), ("query_latent_size", query_latent_size)):
            if width is not None:
                check_size("LatentAttention", name, width)
        build = partial(build_linear, bias=bias, device=device, dtype=dtype)
        build_norm = partial(nn.RMSNorm, eps=1e-6, device=device, dtype=dtype)
        if query_latent_size is not None:
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

    def build_projections(self, build: object) -> None:
        """Build nothing: the constructor builds the maps, because their widths differ from those of the base class."""

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """Return [U_hᵀ q_h; p_h] for every query, with q_h instead of U_hᵀ q_h if `key_expansion` is not plain."""
        if self.query_latent_size is not None:
            query = normed(self.query_compression(query), self.query_norm)
        heads = split_heads(self.query_projection(query), self.num_heads)
        if not is_plain(self.key_expansion):
            return heads
        content, rotary = heads.split([self.head_size, self.rotary_size], -1)
        return torch.cat([into_latents(content, self._maps(self.key_expansion)), rotary], -1)

    def project(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"] | None
    ) -> tuple[Float[Tensor, "B 1 K E"], Float[Tensor, "B 1 K Ev"]]:
        """Return the keys [c; W_r key + b_r], not yet rotated, and the vectors c of the values.

        Without positions, the keys are c alone. If `value` is None, the second tensor has width 0, because the keys contain c.
        """
        latents = normed(self.compression(key), self.norm)
        values = latents[..., :0] if value is None else normed(self.compression(value), self.norm)
        keys = latents if self.positions is None else torch.cat([latents, self.rotary_projection(key)], -1)
        return keys[:, None], values[:, None]

    def rotate(self, memory: HeadMemory, start: int) -> HeadMemory:
        """Return the memory with the rotary part of its keys rotated to the positions start, start + 1, …"""
        return memory if self.positions is None else replace(memory, key=self._rotated(memory.key, start))

    def place(
        self, heads: Float[Tensor, "B H Q E"], memory: HeadMemory, positions: Int[Tensor, "... Q"] | None
    ) -> tuple[Float[Tensor, "B H Q E"], None]:
        """Return the queries with the rotary part rotated to their positions; there is no bias."""
        if positions is not None or memory.positions is not None:
            raise RequestError("LatentAttention has consecutive positions only; leave query_positions and key_positions out")
        return (heads if self.positions is None else self._rotated(heads, memory.length - heads.shape[2])), None

    def join(self, memory: HeadMemory, state: HeadMemory | None) -> tuple[HeadMemory, HeadMemory | None]:
        """Return the keys of the state, if there is one, followed by the new keys, and the next state.

        Raises:
            RequestError: If only the state or only the new keys have values that are not the keys.
        """
        if state is not None and state.value.shape[-1] != memory.value.shape[-1]:
            raise RequestError(
                "LatentAttention got a separate value tensor in some steps but not in others; pass one in all calls of "
                "prepare or in none"
            )
        return super().join(memory, state)

    def mix(
        self, heads: Tensor, memory: HeadMemory, masks: Masks, **options: Any
    ) -> tuple[Float[Tensor, "B Hv Q Ev"], Float[Tensor, "B Hv Q K"] | None]:
        """Return the weighted sums of the latents c, and the weights; expansions that are not plain are called here."""
        key, value = memory.key, memory.value if memory.value.shape[-1] else memory.key[..., : self.latent_size]
        if not is_plain(self.key_expansion):
            expanded = split_heads(self.key_expansion(key[:, 0, :, : self.latent_size]), self.num_heads)
            key = torch.cat([expanded, key[..., self.latent_size :].expand(-1, self.num_heads, -1, -1)], -1)
        if not is_plain(self.value_expansion):
            value = split_heads(self.value_expansion(value[:, 0]), self.num_heads)
        return super().mix(heads, replace(memory, key=key, value=value), masks, **options)

    def output(self, heads: Float[Tensor, "B H Q Ev"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Return W_o [V_1 x_1; …; V_H x_H] + b_o, where `heads` are the results of `mix`."""
        if is_plain(self.value_expansion):
            heads = from_latents(heads, self._maps(self.value_expansion))
        return self.output_projection(join_heads(heads))

    def _rotated(self, x: Float[Tensor, "B H T E"], start: int) -> Float[Tensor, "B H T E"]:
        """Return queries or keys with their last E_r features rotated to the positions start, start + 1, …"""
        assert self.positions is not None
        content, rotary = x.split([x.shape[-1] - self.rotary_size, self.rotary_size], -1)
        return torch.cat([content, self.positions.rotate(rotary, start)], -1)

    def _maps(self, expansion: nn.Linear) -> Float[Tensor, "H E R"]:
        """Split the weight of `key_expansion` into the matrices U_h, or the weight of `value_expansion` into V_h."""
        return expansion.weight.unflatten(0, (self.num_heads, -1))

    def _checked_rotary_size(self, rotary_size: int | None) -> int:
        """Return E_r, which is 0 without positions; raise an error if `positions` or `rotary_size` is invalid."""
        if self.positions is None:
            if rotary_size is not None:
                raise ConfigError(
                    f"LatentAttention(rotary_size={rotary_size}): rotary_size needs positions; give positions=Rotary(), or "
                    "leave rotary_size out"
                )
            return 0
        check_instance("LatentAttention", "positions", self.positions, Rotary, "Rotary()")
        width = max(self.head_size // 2, 1) if rotary_size is None else rotary_size
        check_size("LatentAttention", "rotary_size", width)
        self.positions.check(self.num_heads, width)
        return width
