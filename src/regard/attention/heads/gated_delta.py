"""Gated DeltaNet: each head stores values in a matrix that decays, and each key overwrites the value stored for this key.

    S_t = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ,    head_t = S_tᵀ q_t
    head_t = Σ_i A_ti v_i,    A = M (I + L)⁻¹ diag(β),    M_ti = a_ti q_t·k_i (i ≤ t),    L_ti = β_t a_ti k_t·k_i (i < t)

with a_ti = α_{i+1} … α_t. α_t is the share of S that remains at position t, and β_t is the share of the stored value that key
t overwrites. In code: `delta_step`, the recurrence, and `implied_weights`, the matrix A.
"""

import math
from functools import partial
from typing import Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.fast.fla import scan_fast
from regard.attention.heads.attend import head_product, join_heads
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.options import MapOptions
from regard.attention.heads.recurrent import RecurrentHeads, in_chunks
from regard.attention.learned import build_linear, normed, softplus
from regard.attention.precision import at_least_float32
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
    """Return A = M (I + L)⁻¹ diag(β), with log α and β in `gates`; see the module for M and L.

    `last` has a row for each query, with a 1 at the last key that the query reads, and 0 elsewhere.
    """
    # Small differences of large sums would lose digits in float32. Apple's GPUs have no float64.
    exact = gates.dtype if gates.is_mps else torch.float64
    faded, rate = gates[..., 0].cumsum(-1, dtype=exact), gates[..., 1]  # log (α_1 … α_t), β
    until = (faded[..., None, :] * last).sum(-1)  # log (α_1 … α_t) at each query's last key t
    seen = last.flip(-1).cumsum(-1).flip(-1) > 0  # the keys up to the last one
    # Differences of logarithms, because α_1 … α_t itself soon underflows. −∞ for later keys, whose exp would overflow.
    decay = (until[..., None] - faded[..., None, :]).where(seen, -math.inf).exp().to(rate.dtype)
    lower = rate[..., None] * strictly_lower(faded).to(rate.dtype) * (key @ key.mT)
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

    If no weights are needed, the cost grows with Q + K and not with Q·K; see `RecurrentHeads`. With an `attn_mask`, each query
    has its own recurrence, and memory grows with B·H·Q·K². A model with this mechanism cannot be exported to ONNX, which has no
    operation for triangular systems.

    Reference: Yang, Kautz, Hatamizadeh 2025, "Gated delta networks", eq. 10 (S there is the transpose), eqs. 8 and 9 with
    section 3.3 for the chunks, section 3.4 for the block; Schlag et al. 2021 (without α). Differs from the paper: no short
    convolutions of queries, keys and values (they belong to the layer), and the maps have biases, unless `bias` is False.

    The arguments are those of `MultiHead`, as far as `RecurrentHeads` has them.

    Example:
        >>> attention, x = GatedDeltaNet(512, 8, causal=True), torch.randn(2, 9, 512)
        >>> context, weights = attention(x)
        >>> without, state = attention.attend(x, attention.prepare(x), need_weights=False)
        >>> weights.shape, state.summary.shape
        (torch.Size([2, 8, 9, 9]), torch.Size([2, 8, 64, 64]))
    """

    normalized: bool = False
    permutation_equivariant: bool = False
    supports_onnx: bool = False

    def __init__(self, size: int, num_heads: int, *, value_size: int | None = None, **options: Unpack[MapOptions]) -> None:
        super().__init__(size, num_heads, value_size=value_size, **options)
        device, dtype = options.get("device"), options.get("dtype")
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
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"]
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
        return head_product(query, summary)

    def summarize(self, memory: HeadMemory) -> Float[Tensor, "B H E Ev"]:
        return self.scan(torch.zeros_like(memory.key), memory, None)[1]

    def scan(
        self, query: Float[Tensor, "B H T E"], memory: HeadMemory, summary: Float[Tensor, "B H E Ev"] | None
    ) -> tuple[Float[Tensor, "B H T Ev"], Float[Tensor, "B H E Ev"]]:
        """Return S_tᵀ q_t for each query, and S after the last key: one step of the recurrence for one key, chunks for more."""
        key, value, gates = memory.key, memory.value.to(memory.key.dtype), memory.gates
        assert gates is not None
        if summary is None:
            summary = key.new_zeros(*key.shape[:2], key.shape[3], value.shape[3])
        if key.shape[2] == 1:
            summary = delta_step(summary, key[:, :, 0], value[:, :, 0], gates[:, :, 0])
            return head_product(query, summary), summary
        return scan_fast("gated_delta", scan_chunks, query, key, value, gates, summary, dtype=memory.value.dtype)

    def _last(self, queries: int, key: Tensor) -> Float[Tensor, "Q K"]:
        """Return a matrix whose row for a query has a 1 at the last key that the query reads; zeros if there is no such key."""
        keys = key.shape[2]
        position = torch.arange(queries, device=key.device) + (keys - queries)
        if not self.causal:
            position = torch.full_like(position, keys - 1)
        return (position[:, None] == torch.arange(keys, device=key.device)).to(key.dtype)


def strictly_lower(faded: Float[Tensor, "*any T"]) -> Float[Tensor, "*any T T"]:
    """Return exp(c_t − c_i) for i < t, and zero elsewhere; c is `faded`."""
    ones = torch.ones(faded.shape[-1], faded.shape[-1], dtype=torch.bool, device=faded.device)
    return (faded[..., None] - faded[..., None, :]).where(ones.tril(-1), -math.inf).exp()


def solve_unit_lower(
    lower: Float[Tensor, "*#any T T"], right: Float[Tensor, "*#any X Y"], *, left: bool
) -> Float[Tensor, "*any X Y"]:
    """Return (I + L)⁻¹ R if `left`, else R (I + L)⁻¹, for a strictly lower triangular L."""
    return torch.linalg.solve_triangular(lower, right, upper=False, left=left, unitriangular=True)


def scan_chunks(
    query: Float[Tensor, "B H T E"],
    key: Float[Tensor, "B H T E"],
    value: Float[Tensor, "B H T Ev"],
    gates: Float[Tensor, "B H T 2"],
    summary: Float[Tensor, "B H E Ev"],
) -> tuple[Float[Tensor, "B H T Ev"], Float[Tensor, "B H E Ev"]]:
    """Return S_tᵀ q_t for each position, and the last S; `summary` is S before the first position.

    For a chunk of C positions with queries Q, keys K, values V and rates β, the matrix S before the chunk, and c_t = log (α_1 …
    α_t), where position 1 is the first position of the chunk, with L_ti = β_t exp(c_t − c_i) k_t·k_i (i < t):

        U = (I + L)⁻¹ diag(β) (V − diag(exp c) K S),    S ← exp(c_C) S + (diag(exp(c_C − c)) K)ᵀ U
        results = diag(exp c) Q S + (exp(c_t − c_i) q_t·k_i)_{i ≤ t} U

    `gates` holds log α and β, zero for keys that do not exist.

    Reference: Yang, Kautz, Hatamizadeh 2025, "Gated delta networks", section 3.3.
    """
    # Speed-up over the recurrence on a CPU in float32, forward and with gradients: 1.6 and 4.6 at B,H,T,E = 32,4,30,64; 1.75
    # and 7.3 at 4,8,512,64 (`benchmarks/log.md`).
    length = key.shape[2]
    if length == 0:
        return value, summary
    q, k, v, g = (in_chunks(x) for x in (query, key, value, gates))
    faded, rate = g[..., 0].cumsum(-1), g[..., 1:]
    decay, kept = faded.exp()[..., None], (faded[..., -1:] - faded).exp()[..., None]
    within = strictly_lower(faded)
    # Solve for both right-hand sides at once: diag(β) V, and diag(β exp c) K, whose solution is multiplied by S in the loop.
    both = solve_unit_lower(rate * within * (k @ k.mT), rate * torch.cat([v, decay * k], -1), left=True)
    new, old = both.split([v.shape[-1], k.shape[-1]], -1)
    own = (q @ k.mT) * (within + torch.eye(k.shape[3], dtype=k.dtype, device=k.device))
    q, k, results = decay * q, kept * k, []
    # Only S passes from chunk to chunk; all that does not depend on it is computed above for all chunks at once.
    for n in range(k.shape[2]):
        written = new[:, :, n] - old[:, :, n] @ summary
        results.append(q[:, :, n] @ summary + own[:, :, n] @ written)
        summary = decay[:, :, n, -1:] * summary + k[:, :, n].mT @ written
    return torch.cat(results, 2)[:, :, :length], summary
