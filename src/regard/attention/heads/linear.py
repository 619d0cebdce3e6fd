"""Linear attention: a product of features replaces the softmax, so that one matrix for each head summarises all keys.

    weight_ij = φ(q_i)·φ(k_j) / Σ_l φ(q_i)·φ(k_l),    φ(x) = elu(x) + 1
    S_t = S_{t−1} + φ(k_t) [v_t; 1]ᵀ,    [numerator; denominator] = S_tᵀ φ(q_t),    head_t = numerator / denominator

In code: `feature_map` and `linear_weights` compute the matrix of weights; `add_key` and `read_heads` compute the recurrence,
and `scan_chunks` computes it for many positions.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.fast.fla import scan_fast
from regard.attention.heads.attend import head_product
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.recurrent import RecurrentHeads, in_chunks
from regard.attention.precision import at_least_float32, without_float16


def feature_map(x: Float[Tensor, "B H T E"]) -> Float[Tensor, "B H T E"]:
    """Return φ(x) = elu(x) + 1: x + 1 above zero, and exp(x) below."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def linear_weights(
    query: Float[Tensor, "B H Q E"], key: Float[Tensor, "B H K E"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "B H Q K"]:
    """Return φ(q_i)·φ(k_j) / Σ_l φ(q_i)·φ(k_l) over allowed keys l, for features φ(q) and φ(k)."""
    scores = head_product(query, key.transpose(2, 3))
    scores = scores if mask is None else scores.where(mask, 0)
    return divided(scores, scores.sum(-1, keepdim=True))


def add_key(summary: Float[Tensor, "B H E Es"], key: Float[Tensor, "B H E"], value: Float[Tensor, "B H Es"]) -> Tensor:
    """Return S_t = S_{t−1} + φ(k_t) [v_t; 1]ᵀ, from S_{t−1} (`summary`), φ(k_t) (`key`) and [v_t; 1] (`value`)."""
    return summary + key[..., None] * value[..., None, :]


def read_heads(query: Float[Tensor, "B H Q E"], summary: Float[Tensor, "B H E Es"]) -> Float[Tensor, "B H Q Ev"]:
    """Return numerator / denominator, where [numerator; denominator] = Sᵀ φ(q), from φ(q) (`query`) and S (`summary`)."""
    found = head_product(query, summary)
    return divided(found[..., :-1], found[..., -1:])


def divided(part: Tensor, total: Tensor) -> Tensor:
    """Return part / total; where the total is zero, all parts of it are zero too, and so is the result."""
    return part / total.where(total > 0, 1)


class LinearAttention(RecurrentHeads):
    """weight_ij = φ(q_i)·φ(k_j) / Σ_l φ(q_i)·φ(k_l), φ(x) = elu(x) + 1, in H heads; context = W_o [head_1; …; head_H] + b_o.

    q, k and v are those of `MultiHead`. Context (B,Q,D), weights (B,H,Q,K).
    Like softmax weights, the weights are positive and sum to one, but they are flatter, because they grow with a product
    and not with its exponential. In a call without weights, `attn_mask` or `reweight`, the cost grows with Q + K and not with
    Q·K: each head keeps the sum S = Σ_t φ(k_t) [v_t; 1]ᵀ, a matrix of D/H × (D/H + 1) numbers, instead of the keys; see
    `RecurrentHeads`.

    Reference: Katharopoulos et al. 2020, "Transformers are RNNs", eqs. 4–7 and 16–20.
    Differs from the paper: if all φ(q)·φ(k) of a query are zero, its weights are zero; the authors' code adds a small number to
    the denominator of each query.

    The arguments are those of `MultiHead`, as far as `RecurrentHeads` has them.

    Example:
        >>> attention, x = LinearAttention(512, 8, causal=True), torch.randn(2, 9, 512)
        >>> context, weights = attention(x)
        >>> without, state = attention.attend(x, attention.prepare(x), need_weights=False)
        >>> weights.shape, state.summary.shape
        (torch.Size([2, 8, 9, 9]), torch.Size([2, 8, 64, 65]))
    """

    def project_query(self, query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """Return φ(q) divided by its largest feature, so that no product overflows; the divisor cancels in the weights."""
        features = feature_map(at_least_float32(super().project_query(query)))
        largest = features.detach().amax(-1, keepdim=True)
        return divided(features, largest)

    def project(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"]
    ) -> tuple[Float[Tensor, "B H K E"], Float[Tensor, "B H K Ev"]]:
        """Return φ(k), and the values."""
        keys, values = super().project(key, value)
        return feature_map(at_least_float32(keys)), values

    def weights(
        self, query: Float[Tensor, "B H Q E"], memory: HeadMemory, mask: Bool[Tensor, "..."] | None, *, masked: bool
    ) -> Float[Tensor, "B H Q K"]:
        """Return φ(q_i)·φ(k_j) / Σ_l φ(q_i)·φ(k_l), with the sum over the keys l that the query may attend to."""
        # The denominator of many keys can exceed the largest number of float16.
        with without_float16(query.device):
            return linear_weights(query, memory.key, mask).to(memory.value.dtype)

    def read(self, query: Float[Tensor, "B H Q E"], summary: Float[Tensor, "B H E Es"]) -> Float[Tensor, "B H Q Ev"]:
        with without_float16(query.device):
            return read_heads(query, summary)

    def summarize(self, memory: HeadMemory) -> Float[Tensor, "B H E Es"]:
        """Return Σ_t φ(k_t) [v_t; 1]ᵀ."""
        key, value = self._features(memory)
        with without_float16(key.device):
            return key.transpose(2, 3) @ value

    def scan(
        self, query: Float[Tensor, "B H T E"], memory: HeadMemory, summary: Float[Tensor, "B H E Es"] | None
    ) -> tuple[Float[Tensor, "B H T Ev"], Float[Tensor, "B H E Es"]]:
        """Return head_t = numerator / denominator of S_tᵀ φ(q_t) for each query t, and S after the last key."""
        key, value = self._features(memory)
        if summary is None:
            summary = key.new_zeros(*key.shape[:2], key.shape[3], value.shape[3])
        if key.shape[2] == 1:
            summary = add_key(summary, key[:, :, 0], value[:, :, 0])
            return self.read(query, summary), summary
        with without_float16(query.device):
            parts, summary = scan_fast("linear", scan_chunks, query, key, value, summary, dtype=memory.value.dtype)
        return divided(parts[..., :-1], parts[..., -1:]), summary

    def _features(self, memory: HeadMemory) -> tuple[Tensor, Tensor]:
        """Return φ(k), set to zero for keys that do not exist, and [v; 1]."""
        key = memory.key if memory.key_mask is None else memory.key.where(memory.key_mask[:, None, :, None], 0)
        return key, nn.functional.pad(memory.value.to(key.dtype), (0, 1), value=1.0)


def scan_chunks(
    query: Float[Tensor, "B H T E"],
    key: Float[Tensor, "B H T E"],
    value: Float[Tensor, "B H T Es"],
    summary: Float[Tensor, "B H E Es"],
) -> tuple[Float[Tensor, "B H T Es"], Float[Tensor, "B H E Es"]]:
    """Return S_tᵀ q_t for each position t, with S_t = S_0 + Σ_{i≤t} k_i v_iᵀ, and the last S; S_0 is `summary`.

    For a chunk c of positions, the results are Q_c S_{c−1} + (Q_c K_cᵀ ⊙ causal) V_c, and S_c = S_{c−1} + K_cᵀ V_c.

    Reference: Hua et al. 2022, "Transformer quality in linear time", section 3.2.
    """
    # Time and memory grow with the number of positions, not with its square. Speed-up over the recurrence on a CPU in float32,
    # forward and with gradients: 3.6 and 4.9 at B,H,T,E = 32,4,30,64; 2.7 and 18 at 4,8,512,64 (`benchmarks/log.md`).
    length = query.shape[2]
    if not length:
        return value, summary
    q, k, v = (in_chunks(x) for x in (query, key, value))
    # S after and before each chunk, of all chunks at once: a cumulative sum over the chunks.
    after = summary[:, :, None] + (k.transpose(3, 4) @ v).cumsum(2)
    before = torch.cat([summary[:, :, None], after[:, :, :-1]], 2)
    products = q @ before + (q @ k.transpose(3, 4)).tril() @ v
    return products.flatten(2, 3)[:, :, :length], after[:, :, -1]
