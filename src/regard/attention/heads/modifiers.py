"""Modifiers of multi-head attention: modules for the argument `modifiers` of `MultiHead`.

q_h, k_h ↦ g ∘ q_h / rms(q_h), g' ∘ k_h / rms(k_h)                `QKNorm`          in code: `nn.RMSNorm`
scores, weights ↦ P scores, P' weights over the heads             `TalkingHeads`    `mix_heads`
[head_1; …; head_H] ↦ [head_1; …; head_H] ∘ σ(W_g query)          `OutputGate`      its `output`
keys ↦ [k_1 … k_K, b_k, 0]                                        `AddedKeys`       its `extra`
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_number, check_size, describe_arguments
from regard.attention.heads.positions import check_equal
from regard.attention.learned import normed
from regard.errors import ConfigError


def mix_heads(x: Float[Tensor, "B H Q K"], weight: Float[Tensor, "H H"]) -> Float[Tensor, "B H Q K"]:
    """Return y_h = Σ_g weight_hg x_g for each query and key."""
    return torch.einsum("hg,bgqk->bhqk", weight.to(x.dtype), x)


class HeadModifier(nn.Module):
    """Base class of the modifiers of multi-head attention; by default, a modifier changes nothing.

    Your own modifier overrides the methods for the tensors that it changes.
    """

    changes_weights: bool = False
    """Whether this modifier changes scores or weights; if True, no fused kernel computes them."""
    normalized: bool = True
    """Whether rows of weights that sum to one still sum to one after this modifier."""

    def check(self, attention: Any) -> None:
        """Raise a `ConfigError` if the attention does not fit this modifier. The attention calls this once, at construction."""

    def query(self, heads: Float[Tensor, "B H Q E"]) -> Float[Tensor, "B H Q E"]:
        """Return the changed queries; rotary positions are applied afterwards."""
        return heads

    def key(self, heads: Float[Tensor, "B G K E"]) -> Float[Tensor, "B G K E"]:
        """Return the changed keys; rotary positions are applied afterwards."""
        return heads

    def extra(self) -> tuple[Float[Tensor, "G N E"], Float[Tensor, "G N E"]] | None:
        """Return keys and values for every query, which are appended to those of the call; None to append nothing."""
        return None

    def scores(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        """Return the changed scores; biases are added afterwards."""
        return scores

    def weights(self, weights: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        """Return the changed weights; this is called after the normalizer."""
        return weights

    def output(self, heads: Float[Tensor, "B Q HE"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q HE"]:
        """Return the changed contexts of all heads; the output map is applied afterwards."""
        return heads

    def extra_repr(self) -> str:
        """Return sizes and options, for `print`."""
        return describe_arguments(self)


class QKNorm(HeadModifier):
    """Queries and keys of each head divided by their root mean square, times a learned gain: g ∘ q / √(mean q² + ε).

    Therefore, training cannot enlarge the scores by making queries or keys longer, only through the gains. Queries and keys
    each have their own gain, g and g', which all heads share.

    Reference: Henry et al. 2020, "Query-key normalization for Transformers"; Qwen team 2025, "Qwen3 technical
    report", section 2.
    Differs from the first paper in the same way as Qwen3 and Gemma 3: the root mean square replaces the length of a vector, and
    a learned gain for each feature replaces the single learned scale of the scores.

    Args:
        head_size: E, width of a head, ≥ 1.
        epsilon: ε, finite, ≥ 0.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If the width is not a whole number of 1 or more, ε is out of its range, or the attention has heads of
            another width.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[QKNorm(64)])(torch.randn(2, 9, 256))
    """

    def __init__(
        self,
        head_size: int,
        *,
        epsilon: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.head_size = check_size("QKNorm", "head_size", head_size)
        self.epsilon = check_number("QKNorm", "epsilon", epsilon, least=0)
        self.query_norm = nn.RMSNorm(head_size, eps=epsilon, device=device, dtype=dtype)
        self.key_norm = nn.RMSNorm(head_size, eps=epsilon, device=device, dtype=dtype)

    def check(self, attention: Any) -> None:
        """Raise an error for heads of another width."""
        check_equal("QKNorm", "head_size", self.head_size, attention.head_size)

    def query(self, heads: Float[Tensor, "B H Q E"]) -> Float[Tensor, "B H Q E"]:
        """Return g ∘ q / rms(q)."""
        return normed(heads, self.query_norm)

    def key(self, heads: Float[Tensor, "B G K E"]) -> Float[Tensor, "B G K E"]:
        """Return g' ∘ k / rms(k)."""
        return normed(heads, self.key_norm)


class TalkingHeads(HeadModifier):
    """Heads exchange scores before the normalizer and weights after it: P' normalizer(P scores), P and P' (H,H).

    **The reported weights are the weights after P'. Their rows need not sum to one, and they may be negative.** P and P' are
    initialised to the identity. Biases of positions and `score_bias` are added to the mixed scores, so P does not mix them.

    Reference: Shazeer et al. 2020, "Talking-heads attention", section 4 (P_l and P_w there; here, all have H heads).
    Differs from the paper: it does not say how P and P' are initialised.

    Args:
        num_heads: H, ≥ 1.
        before: Whether P mixes the scores.
        after: Whether P' mixes the weights. If False, the weights are those of the normalizer.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If the number of heads is not a whole number of 1 or more or differs from the attention's, or neither
            scores nor weights are mixed.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[TalkingHeads(4)])(torch.randn(2, 9, 256))
    """

    changes_weights = True
    normalized = False
    score_weight: Tensor
    weight_weight: Tensor

    def __init__(
        self,
        num_heads: int,
        *,
        before: bool = True,
        after: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = check_size("TalkingHeads", "num_heads", num_heads)
        self.before = check_flag("TalkingHeads", "before", before)
        self.after = check_flag("TalkingHeads", "after", after)
        if not before and not after:
            raise ConfigError("TalkingHeads(before=False, after=False): heads would exchange nothing; leave the modifier out")
        self.normalized = not after
        for name, is_used in (("score_weight", before), ("weight_weight", after)):
            start = torch.eye(num_heads, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(start) if is_used else None)

    def check(self, attention: Any) -> None:
        """Raise an error for another number of heads."""
        check_equal("TalkingHeads", "num_heads", self.num_heads, attention.num_heads)

    def scores(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        """Return P scores."""
        return mix_heads(scores, self.score_weight) if self.before else scores

    def weights(self, weights: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        """Return P' weights."""
        return mix_heads(weights, self.weight_weight) if self.after else weights


class OutputGate(HeadModifier):
    """The contexts of all heads times a gate computed from the query: [head_1; …; head_H] ∘ σ(W_g query), W_g (H·E, D).

    With the gate, a query can ignore what it attended to. The paper finds fewer attention sinks and better language models.

    Reference: Qiu et al. 2025, "Gated attention for large language models", section 2.2 (the elementwise,
    head-specific gate G1).

    Args:
        query_size: D, width of the queries, ≥ 1.
        heads_size: H·E, width of all heads together, ≥ 1; None for D.
        bias: Whether W_g has a bias.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, or differs from the attention's, or `bias` is not a bool.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[OutputGate(256)])(torch.randn(2, 9, 256))
    """

    def __init__(
        self,
        query_size: int,
        *,
        heads_size: int | None = None,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.query_size = check_size("OutputGate", "query_size", query_size)
        self.heads_size = check_size("OutputGate", "heads_size", query_size if heads_size is None else heads_size)
        check_flag("OutputGate", "bias", bias)
        self.gate_projection = nn.Linear(query_size, self.heads_size, bias=bias, device=device, dtype=dtype)

    def check(self, attention: Any) -> None:
        """Raise an error for queries or heads of another width."""
        check_equal("OutputGate", "query_size", self.query_size, attention.query_size)
        check_equal("OutputGate", "heads_size", self.heads_size, attention.num_heads * attention.head_size)

    def output(self, heads: Float[Tensor, "B Q HE"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q HE"]:
        """Return heads ∘ σ(W_g query)."""
        return heads * self.gate_projection(query).sigmoid()


class AddedKeys(HeadModifier):
    """One or two more keys, which every query may attend to: a learned key and value, a key and value of zeros, or both.

    The two correspond to `add_bias_kv` and `add_zero_attn` of `nn.MultiheadAttention`. **Reported weights do not include the
    added keys**, so rows sum to less than one. The added keys have no position. If all other keys are masked, a query attends
    to the added ones.

    Reference: the code of `nn.MultiheadAttention`; the key of zeros is from Miller 2023, "Attention is off by one".

    Args:
        num_heads: G, number of heads of the keys and values, ≥ 1.
        head_size: E, width of a head, ≥ 1.
        learned: Whether there is a learned key and value (`add_bias_kv`).
        zero: Whether there is a key and value of zeros (`add_zero_attn`).
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more or differs from the attention's, no key is added, or a learned
            key is added in an attention with rotary positions.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[AddedKeys(4, 64)])(torch.randn(2, 9, 256))
    """

    normalized = False

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        *,
        learned: bool = True,
        zero: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = check_size("AddedKeys", "num_heads", num_heads)
        self.head_size = check_size("AddedKeys", "head_size", head_size)
        self.learned, self.zero = check_flag("AddedKeys", "learned", learned), check_flag("AddedKeys", "zero", zero)
        if not learned and not zero:
            raise ConfigError("AddedKeys(learned=False, zero=False): no key would be added; leave the modifier out")
        shape = (num_heads, 1, head_size)
        # Only the learned key is a parameter; `extra` appends the key of zeros to it.
        self.added_key = nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) if learned else None
        self.added_value = nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) if learned else None
        for parameter in (self.added_key, self.added_value):
            if parameter is not None:
                nn.init.normal_(parameter, std=(num_heads * head_size) ** -0.5)

    def check(self, attention: Any) -> None:
        """Raise an error for another number or width of key heads, and for a learned key together with rotary positions."""
        check_equal("AddedKeys", "num_heads", self.num_heads, attention.num_kv_heads, "num_kv_heads")
        check_equal("AddedKeys", "head_size", self.head_size, attention.head_size)
        if self.learned and attention.positions is not None and attention.positions.rotates:
            raise ConfigError(
                "AddedKeys(learned=True) in an attention with rotary positions: the product of a rotated query and a key "
                "without a position would depend on the query's absolute position; use ALiBi or RelativeBias, or "
                "learned=False, zero=True"
            )

    def extra(self) -> tuple[Float[Tensor, "G N E"], Float[Tensor, "G N E"]]:
        """Return the added keys and values, first the learned ones, then zeros."""
        shape = (self.num_heads, 1, self.head_size)
        if self.added_key is None or self.added_value is None:
            return torch.zeros(shape), torch.zeros(shape)
        if not self.zero:
            return self.added_key, self.added_value
        return nn.functional.pad(self.added_key, (0, 0, 0, 1)), nn.functional.pad(self.added_value, (0, 0, 0, 1))
