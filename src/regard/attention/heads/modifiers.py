"""Modifiers of multi-head attention: modules for the argument `modifiers` of `MultiHead`.

q_h, k_h ↦ g ∘ q_h / rms(q_h), g' ∘ k_h / rms(k_h)                `QKNorm`          in code: `nn.RMSNorm`
scores, weights ↦ P scores, P' weights over the heads             `TalkingHeads`    `mix_heads`
[head_1; …; head_H] ↦ [head_1; …; head_H] ∘ σ(W_g query)          `OutputGate`      its `output`
keys ↦ [k_1 … k_K, b_k, 0]                                        `AddedKeys`       its `extra`

The attention gives a modifier its sizes, device and type; so no modifier can be used by two attentions.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.arguments import CheckedModule, check_flag, check_number
from regard.attention.learned import normed
from regard.errors import ConfigError


def mix_heads(x: Float[Tensor, "B H Q K"], weight: Float[Tensor, "H H"]) -> Float[Tensor, "B H Q K"]:
    """Return y_h = Σ_g weight_hg x_g for each query and key."""
    return torch.einsum("hg,bgqk->bhqk", weight.to(x.dtype), x)


class HeadModifier(CheckedModule):
    """Base class of the modifiers of multi-head attention; by default, a modifier changes nothing.

    Your own modifier overrides the methods for the tensors that it changes, and `build` if it has parameters.
    """

    changes_weights: bool = False
    """Whether this modifier changes scores or weights; if True, no fused kernel computes them."""
    normalized: bool = True
    """Whether rows of weights that sum to one still sum to one after this modifier."""
    attached: bool = False
    """Whether the modifier belongs to an attention."""

    def attach(self, attention: Any, **factory: Any) -> None:
        """Build the parameters for an attention, which calls this at construction with its device and dtype."""
        if self.attached:  # to build its parameters again would change the other attention
            name = type(self).__name__
            raise ConfigError(f"this {name} already belongs to an attention; give each attention its own {name}")
        self.attached = True
        self.build(attention, **factory)

    def build(self, attention: Any, **factory: Any) -> None:
        """Build the parameters from sizes of the attention, such as `head_size`. Without parameters, this method is not needed.

        Args:
            attention: The `MultiHead`.
            factory: `device` and `dtype` of the parameters.
        """

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


class QKNorm(HeadModifier):
    """Queries and keys of each head divided by their root mean square, times a learned gain: g ∘ q / √(mean q² + ε).

    Therefore, training cannot enlarge the scores by making queries or keys longer, only through the gains. Queries and keys
    each have their own gain, g and g', which all heads share.

    Reference: Henry et al. 2020, "Query-key normalization for Transformers"; Qwen team 2025, "Qwen3 technical report",
    section 2, whose root mean square and gains replace the first paper's length of a vector and learned scale of the scores.

    Args:
        epsilon: ε, finite, > 0.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[QKNorm()])(torch.randn(2, 9, 256))
    """

    def __init__(self, *, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.epsilon = check_number("QKNorm", "epsilon", epsilon, above=0)

    def build(self, attention: Any, **factory: Any) -> None:
        self.query_norm = nn.RMSNorm(attention.head_size, eps=self.epsilon, **factory)
        self.key_norm = nn.RMSNorm(attention.head_size, eps=self.epsilon, **factory)

    def query(self, heads: Float[Tensor, "B H Q E"]) -> Float[Tensor, "B H Q E"]:
        return normed(heads, self.query_norm)

    def key(self, heads: Float[Tensor, "B G K E"]) -> Float[Tensor, "B G K E"]:
        return normed(heads, self.key_norm)


class TalkingHeads(HeadModifier):
    """Heads exchange scores before the normalizer and weights after it: P' normalizer(P scores), P and P' (H,H).

    **The reported weights are the weights after P'. Their rows need not sum to one, and they may be negative.** P and P' are
    initialised to the identity. Biases of positions and `score_bias` are added to the mixed scores, so P does not mix them.

    Reference: Shazeer et al. 2020, "Talking-heads attention", section 4 (P_l and P_w there; here, all have H heads).
    Differs from the paper: it does not say how P and P' are initialised.

    Args:
        before: Whether P mixes the scores.
        after: Whether P' mixes the weights. If False, the weights are those of the normalizer.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[TalkingHeads()])(torch.randn(2, 9, 256))
    """

    changes_weights = True
    score_weight: Tensor
    weight_weight: Tensor

    def __init__(self, *, before: bool = True, after: bool = True) -> None:
        super().__init__()
        self.before = check_flag("TalkingHeads", "before", before)
        self.after = check_flag("TalkingHeads", "after", after)
        if not before and not after:
            raise ConfigError("TalkingHeads(before=False, after=False): heads would exchange nothing; leave the modifier out")
        self.normalized = not after

    def build(self, attention: Any, **factory: Any) -> None:
        for name, is_used in (("score_weight", self.before), ("weight_weight", self.after)):
            start = torch.eye(attention.num_heads, **factory)
            self.register_parameter(name, nn.Parameter(start) if is_used else None)

    def scores(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        return mix_heads(scores, self.score_weight) if self.before else scores

    def weights(self, weights: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        return mix_heads(weights, self.weight_weight) if self.after else weights


class OutputGate(HeadModifier):
    """The contexts of all heads times a gate computed from the query: [head_1; …; head_H] ∘ σ(W_g query), W_g (H·E, D).

    With the gate, a query can ignore what it attended to. The paper finds fewer attention sinks and better language models.

    Reference: Qiu et al. 2025, "Gated attention for large language models", section 2.2 (the elementwise,
    head-specific gate G1).

    Args:
        bias: Whether W_g has a bias.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[OutputGate()])(torch.randn(2, 9, 256))
    """

    def __init__(self, *, bias: bool = False) -> None:
        super().__init__()
        self.bias = check_flag("OutputGate", "bias", bias)

    def build(self, attention: Any, **factory: Any) -> None:
        heads_size = attention.num_heads * attention.head_size
        self.gate_projection = nn.Linear(attention.query_size, heads_size, bias=self.bias, **factory)

    def output(self, heads: Float[Tensor, "B Q HE"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q HE"]:
        return heads * self.gate_projection(query).sigmoid()


class AddedKeys(HeadModifier):
    """One or two more keys, which every query may attend to: a learned key and value, a key and value of zeros, or both.

    The two correspond to `add_bias_kv` and `add_zero_attn` of `nn.MultiheadAttention`. **Reported weights do not include the
    added keys**, so rows sum to less than one. The added keys have no position. If all other keys are masked, a query attends
    to the added ones.

    Reference: the code of `nn.MultiheadAttention`; the key of zeros is from Miller 2023, "Attention is off by one".

    Args:
        learned: Whether there is a learned key and value (`add_bias_kv`).
        zero: Whether there is a key and value of zeros (`add_zero_attn`).

    Raises:
        ConfigError: If no key is added, or a learned key is added in an attention with rotary positions.

    Example:
        >>> context, weights = MultiHead(256, 4, modifiers=[AddedKeys()])(torch.randn(2, 9, 256))
    """

    normalized = False
    added_key: Tensor
    added_value: Tensor
    _like: Tensor

    def __init__(self, *, learned: bool = True, zero: bool = False) -> None:
        super().__init__()
        self.learned, self.zero = check_flag("AddedKeys", "learned", learned), check_flag("AddedKeys", "zero", zero)
        if not learned and not zero:
            raise ConfigError("AddedKeys(learned=False, zero=False): no key would be added; leave the modifier out")

    def build(self, attention: Any, **factory: Any) -> None:
        """Build the learned key and value; raise an error for a learned key together with rotary positions."""
        if self.learned and attention.positions is not None and attention.positions.rotates:
            raise ConfigError(
                "AddedKeys(learned=True) in an attention with rotary positions: the product of a rotated query and a key "
                "without a position would depend on the query's absolute position; use ALiBi or RelativeBias, or "
                "learned=False, zero=True"
            )
        self.shape = attention.num_kv_heads, 1, attention.head_size
        if not self.learned:  # an empty tensor with the type and device of the zeros
            self.register_buffer("_like", torch.empty(0, **factory), persistent=False)
        # Only the learned key is a parameter; `extra` appends the key of zeros to it.
        for name in ("added_key", "added_value"):
            parameter = nn.Parameter(torch.empty(self.shape, **factory)) if self.learned else None
            self.register_parameter(name, parameter)
            if parameter is not None:
                nn.init.normal_(parameter, std=(attention.num_kv_heads * attention.head_size) ** -0.5)

    def extra(self) -> tuple[Float[Tensor, "G N E"], Float[Tensor, "G N E"]]:
        """Return the added keys and values, first the learned ones, then zeros."""
        if not self.learned:
            return self._like.new_zeros(self.shape), self._like.new_zeros(self.shape)
        after = (0, 0, 0, int(self.zero))
        return nn.functional.pad(self.added_key, after), nn.functional.pad(self.added_value, after)
