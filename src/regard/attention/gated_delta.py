"""Gated DeltaNet: each head stores values in a matrix that decays, and each key overwrites the value stored for this key.

    S_t = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ,    head_t = S_tᵀ q_t
    head_t = Σ_i A_ti v_i,    A = M (I + L)⁻¹ diag(β),    M_ti = a_ti q_t·k_i (i ≤ t),    L_ti = β_t a_ti k_t·k_i (i < t)

with a_ti = α_{i+1} … α_t. α_t is the share of S that remains at position t, and β_t is the share of the stored value that key
t overwrites. In code: `delta_step`, the recurrence, and `implied_weights`, the matrix A.
"""

import math
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.attend import head_product, join_heads
from regard.attention.head_memory import HeadMemory
from regard.attention.kernels.delta_chunks import scan_chunks, solve_unit_lower, strictly_lower
from regard.attention.learned import at_least_float32, build_linear, normed, softplus
from regard.attention.recurrent_heads import RecurrentHeads
from regard.attention.scores.cosine import unit_vectors


def delta_step(
    summary: Float[Tensor, "B H E Ev"], key: Float[Tensor, "B H E"], value: Float[Tensor, "B H Ev"], gates: Tensor
) -> Float[Tensor, "B H E Ev"]:
    """Return S_t = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ, with log α and β in `gates` (B,H,2)."""
    faded = gates[..., :1, None].exp() * summary
    found = (key[..., None] * faded).sum(-2)
    return faded + key[..., None] * (gates[..., 1:] * (value - found))[..., None, :]


def implied_weights(
    query: Float[Tensor, "*#any Q E"],
    key: Float[Tensor, "*#any K E"],
    gates: Float[Tensor, "*#any K 2"],
    last: Float[Tensor, "Q K"],
) -> Float[Tensor, "*any Q K"]:
    """Return A = M (I + L)⁻¹ diag(β), where the docstring of the module defines M and L.

    `last` has a row for each query, with a 1 at the last key that the query reads, and 0 elsewhere. `gates` holds log α and β.
    """
    faded, rate = gates[..., 0].cumsum(-1), gates[..., 1]  # log (α_1 … α_t), β
    until = (faded[..., None, :] * last).sum(-1)  # log (α_1 … α_t) at each query's last key t
    seen = last.flip(-1).cumsum(-1).flip(-1) > 0
    decay = (until[..., None] - faded[..., None, :]).where(seen, -math.inf).exp()
    lower = rate[..., None] * strictly_lower(faded) * (key @ key.mT)
    return solve_unit_lower(lower, decay * (query @ key.mT), left=False) * rate[..., None, :]


class GatedDeltaNet(RecurrentHeads):
    """S_t = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ in H heads; context = W_o (norm(S_tᵀ q_t) ∘ SiLU(W_g query)) + b_o.

    q and k are D/H features of SiLU(W_q query) and SiLU(W_k key), scaled to length one; v is D/H features of SiLU(W_v value).
    The three maps have biases if `bias` is True. β = σ(W_β key) in (0, 1) is the share of the stored value that a key
    overwrites, and α = exp(−exp(A) softplus(W_α key + a)) in (0, 1) is the share of S that remains. norm is the RMS norm of
    each head. Context (B,Q,D), weights (B,H,Q,K).

    **The weights are the matrix A that the recurrence implies: head_t = Σ_i A_ti v_i. They may be negative, and rows do
    not sum to one.** They depend on the order of the keys: if the same key comes again before the query, the earlier key
    loses weight. A masked key is skipped: it neither changes S nor makes S decay.

    If `causal` is False, `prepare` computes S after the last key, and all queries read this S. If `causal` is True, query i
    reads S after the key at its position. A causal decoder's state is S (`SummaryState`), or all keys if weights, an
    `attn_mask` or `reweight` are used. If no weights are needed, the cost grows with Q + K and not with Q·K. With an
    `attn_mask`, each query has its own recurrence, and memory grows with B·H·Q·K². A model with this mechanism cannot be
    exported to ONNX, which has no operation for triangular systems.

    Reference: Yang, Kautz, Hatamizadeh 2025, "Gated delta networks", eq. 10 (S there is the transpose), eqs. 8 and 9 with
    section 3.3 for the chunks, section 3.4 for the block; Schlag et al. 2021 (without α). Differs from the paper: no short
    convolutions of queries, keys and values (they belong to the layer), and the maps have biases, unless `bias` is False.

    Args:
        size: D, width of queries and context, a multiple of `num_heads`.
        num_heads: H, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for D.
        value_size: Dv, width of the values, ≥ 1; None for Dk, because without a value the keys are the values.
        bias: Whether the maps of queries, keys, values and output have biases.
        causal: Whether a query may attend only to its own position and to earlier ones.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `num_heads` does not divide `size`, or `bias` or `causal` is
            not a bool.

    Example:
        >>> attention = GatedDeltaNet(512, 8, causal=True)
        >>> x = torch.randn(2, 9, 512)
        >>> context, weights = attention(x)
        >>> without, state = attention.attend(x, attention.prepare(x), need_weights=False)
        >>> weights.shape, state.summary.shape
        (torch.Size([2, 8, 9, 9]), torch.Size([2, 8, 64, 64]))
    """

    normalized: bool = False
    permutation_equivariant: bool = False
    supports_onnx: bool = False  # ONNX has no operation for triangular systems

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        bias: bool = True,
        causal: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            size, num_heads, key_size=key_size, value_size=value_size, bias=bias, causal=causal, device=device, dtype=dtype
        )
        build = partial(build_linear, bias=False, device=device, dtype=dtype)
        self.gate_projection = build(size, size)
        self.decay_projection, self.rate_projection = build(self.key_size, num_heads), build(self.key_size, num_heads)
        # As in Mamba 2: exp(A) between 1 and 16, softplus(a) between 0.001 and 0.1, so that most heads decay slowly at first.
        self.decay_scale = nn.Parameter(torch.empty(num_heads, device=device, dtype=dtype).uniform_(1, 16).log())
        step = torch.empty(num_heads, device=device, dtype=dtype).uniform_(math.log(1e-3), math.log(0.1)).exp()
        self.decay_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.norm = nn.RMSNorm(self.head_size, eps=1e-5, device=device, dtype=dtype)

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """Return q: the features of each head after a SiLU, scaled to length one."""
        return unit_vectors(nn.functional.silu(at_least_float32(super().project_query(query))))

    def project(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"] | None
    ) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K Ev"]]:
        """Return k and v: the features of each head after a SiLU; those of k are scaled to length one."""
        keys, values = super().project(key, value)
        return unit_vectors(nn.functional.silu(at_least_float32(keys))), nn.functional.silu(values)

    def build_gates(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B H K 2"]:
        """Return log α and β."""
        scale, bias = (at_least_float32(x) for x in (self.decay_scale, self.decay_bias))
        step = softplus(at_least_float32(self.decay_projection(key)) + bias)
        rate = at_least_float32(self.rate_projection(key)).sigmoid()
        return torch.stack([-scale.exp() * step, rate], -1).transpose(1, 2)

    def weights(
        self, query: Float[Tensor, "B H Q E"], memory: HeadMemory, mask: Bool[Tensor, "..."] | None, *, masked: bool
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights A; with an `attn_mask`, each query has a recurrence of its own over the keys that it sees."""
        assert memory.gates is not None
        if not masked or mask is None:
            last = self._last(query.shape[2], memory.key)
            return implied_weights(query, memory.key, memory.gates, last).to(memory.value.dtype)
        gates = memory.gates[:, :, None].where(mask.expand(*query.shape[:3], memory.key.shape[2])[..., None], 0)
        last = self._last(1, memory.key)
        return implied_weights(query[:, :, :, None], memory.key[:, :, None], gates, last)[:, :, :, 0].to(memory.value.dtype)

    def output(self, heads: Float[Tensor, "B H Q Ev"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Return W_o ([norm(head_1); …; norm(head_H)] ∘ SiLU(W_g query)) + b_o."""
        return self.output_projection(join_heads(normed(heads, self.norm)) * nn.functional.silu(self.gate_projection(query)))

    def read(self, query: Float[Tensor, "B H Q E"], summary: Float[Tensor, "B H E Es"]) -> Float[Tensor, "B H Q Ev"]:
        """Return Sᵀ q."""
        return head_product(query, summary)

    def summarize(self, memory: HeadMemory, summary: Float[Tensor, "B H E Es"] | None) -> Float[Tensor, "B H E Es"]:
        """Return S after the keys of `memory`; `summary` is S before them, None for zeros."""
        return self._by_chunks(None, memory, summary)[1]

    def scan(
        self, query: Float[Tensor, "B H T E"], memory: HeadMemory, summary: Float[Tensor, "B H E Es"] | None
    ) -> tuple[Float[Tensor, "B H T Ev"], Float[Tensor, "B H E Es"]]:
        """Return S_tᵀ q_t for each query, and S after the last key.

        A single position with a `summary` takes one step of the recurrence. In all other cases, chunks are used.
        """
        if query.shape[2] > 1 or summary is None:
            found, summary = self._by_chunks(query, memory, summary)
            assert found is not None
            return found, summary
        assert memory.gates is not None
        value = memory.value.to(summary.dtype)
        summary = delta_step(summary, memory.key[:, :, 0], value[:, :, 0], memory.gates[:, :, 0])
        return head_product(query, summary), summary

    def _by_chunks(self, query: Tensor | None, memory: HeadMemory, summary: Tensor | None) -> tuple[Tensor | None, Tensor]:
        key, value = memory.key, memory.value.to(memory.key.dtype)
        assert memory.gates is not None
        if summary is None:
            summary = key.new_zeros(*key.shape[:2], key.shape[3], value.shape[3])
        return scan_chunks(query, key, value, memory.gates, summary)

    def _last(self, queries: int, key: Tensor) -> Float[Tensor, "Q K"]:
        """Return a matrix whose row for a query has a 1 at the last key that the query reads; zeros if there is no such key."""
        keys = key.shape[2]
        position = torch.arange(queries, device=key.device) + (keys - queries)
        if not self.causal:
            position = torch.full_like(position, keys - 1)
        return (position[:, None] == torch.arange(keys, device=key.device)).to(key.dtype)
