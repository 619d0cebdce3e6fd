"""Base class of mechanisms with several heads and their projections; a subclass computes weights from queries and keys.

    head_h = Σ_k weight_hk v_hk,    context = W_o [head_1; …; head_H] + b_o

`multihead.MultiHead` is a separate class with more options and fused kernels; a subclass of this base has to define only
`weights`.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_dropout, check_flag, check_size
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.masks import causal_mask, combine_masks, match_axes, zero_masked
from regard.attention.multihead import head_product, join_heads, split_heads
from regard.attention.sparse import at_least_float32
from regard.errors import ConfigError, RequestError
from regard.shapes import check_shape


@dataclass(frozen=True)
class GatedMemory(Memory):
    """Keys and values of each head, with gates that are computed from the keys; also the state of a causal decoder."""

    key: Float[Tensor, "B G K E"]
    """The projected keys of G heads; G is 1 if all heads share them."""
    value: Float[Tensor, "B G K Ev"]
    """The projected values."""
    key_mask: Bool[Tensor, "B K"] | None = None
    """Booleans (B,K), True where a key exists; None if all exist."""
    gates: Float[Tensor, "B H K X"] | None = None
    """Gates: X numbers for each head and key; None for a mechanism without gates."""
    summary: Float[Tensor, "B H E Es"] | None = None
    """All keys and values in one matrix for each head, for mechanisms that read such a matrix; else None."""

    def select(self, index: Int[Tensor, " M"]) -> "GatedMemory":
        """Keep the given rows of the batch, in the given order."""
        mask, gates, summary = (None if x is None else x[index] for x in (self.key_mask, self.gates, self.summary))
        return GatedMemory(self.key[index], self.value[index], mask, gates, summary)

    def join(self, later: "GatedMemory") -> "GatedMemory":
        """Return a memory with these keys, values and gates, followed by those of `later`."""
        key, value = torch.cat([self.key, later.key], 2), torch.cat([self.value, later.value], 2)
        gates = None if self.gates is None or later.gates is None else torch.cat([self.gates, later.gates], 2)
        if self.key_mask is None and later.key_mask is None:
            return GatedMemory(key, value, None, gates)
        return GatedMemory(key, value, torch.cat([self.exists, later.exists], 1), gates)

    def part(self, start: int, end: int | None = None) -> "GatedMemory":
        """Return a memory with the keys from `start` up to, but not including, `end` (None for the end), without copies."""
        mask = None if self.key_mask is None else self.key_mask[:, start:end]
        gates = None if self.gates is None else self.gates[:, :, start:end]
        return GatedMemory(self.key[:, :, start:end], self.value[:, :, start:end], mask, gates)

    @property
    def exists(self) -> Bool[Tensor, "B K"]:
        """The key mask as a tensor, even if all keys exist."""
        if self.key_mask is not None:
            return self.key_mask
        return self.key.new_ones(self.key.shape[0], self.key.shape[2], dtype=torch.bool)


torch.export.register_dataclass(GatedMemory, serialized_type_name="regard.attention.GatedMemory")


class ProjectedHeads(Attention):
    """head_h = Σ_k weight_hk v_hk, context = W_o [head_1; …; head_H] + b_o, with weights that a subclass defines.

    If `causal`, query i of Q has the position i + K − Q and attends to no later key. The mechanism is then `stateful`: its
    state is the memory of all keys so far, as for `MultiHead`. A query that may not attend to any key gets a zero context.

    Args:
        size: D, width of queries and context, a multiple of `num_heads`.
        num_heads: H, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for D.
        value_size: Dv, width of the values, ≥ 1; None for Dk, because without a value the keys are the values.
        bias: Whether the four maps have biases.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1.
        causal: Whether a query may attend only to its own position and to earlier ones.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, `num_heads` does not divide `size`, `dropout` is out of its
            range, or `bias` or `causal` is not a bool.
    """

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        key_size: int | None,
        value_size: int | None,
        bias: bool,
        causal: bool,
        dropout: float = 0.0,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        called = type(self).__name__
        self.size = self.query_size = size
        self.key_size = size if key_size is None else key_size
        self.value_size = self.key_size if value_size is None else value_size
        sizes = {"size": size, "num_heads": num_heads, "key_size": self.key_size, "value_size": self.value_size}
        for name, number in sizes.items():
            check_size(called, name, number)
        if size % num_heads:
            raise ConfigError(f"{called}(size={size}, num_heads={num_heads}): size must be a multiple of num_heads")
        check_dropout(called, dropout)
        for name, flag in (("bias", bias), ("causal", causal)):
            check_flag(called, name, flag)
        self.num_heads, self.head_size, self.dropout, self.causal = num_heads, size // num_heads, dropout, causal
        self.stateful = causal
        self.permutation_equivariant = type(self).permutation_equivariant and not causal
        self.build_projections(partial(build_linear, bias=bias, device=device, dtype=dtype))

    def build_projections(self, build: Callable[[int, int], nn.Linear]) -> None:
        """Build the maps of queries, keys, values and output; `build(inputs, outputs)` returns one map of these widths."""
        self.query_projection = build(self.size, self.size)
        self.key_projection = build(self.key_size, self.size)
        self.value_projection = build(self.value_size, self.size)
        self.output_projection = build(self.size, self.size)

    @abstractmethod
    def weights(
        self,
        query: Float[Tensor, "B H Q E"],
        memory: GatedMemory,
        mask: Bool[Tensor, "..."] | None,
        bias: Float[Tensor, "..."] | None,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights.

        Args:
            query: The queries, as `project_query` returns them.
            memory: The keys and values.
            mask: True where a query may attend to a key; it broadcasts to the weights. None if every query may attend to every
                key.
            bias: Numbers to add to the scores, which broadcast to the weights; None without a bias. If a mechanism has
                no scores, its `attend` has no argument `score_bias`, and `bias` is None.
        """

    def masked_weights(
        self,
        query: Float[Tensor, "B H Q E"],
        memory: GatedMemory,
        mask: Bool[Tensor, "..."],
        bias: Float[Tensor, "..."] | None,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights of a call with an `attn_mask`; by default, the result of `weights`.

        An `attn_mask` may hide any key from any query, and some mechanisms then need another computation. In calls without an
        `attn_mask`, `mask` hides only keys that do not exist, keys with a bias of −∞ and, if `causal`, later keys.
        """
        return self.weights(query, memory, mask, bias)

    def project_query(self, query: Float[Tensor, "B Q D"], position: int) -> Float[Tensor, "B H Q E"]:
        """Return the features of the queries for each head; `position` is the position of the first query."""
        return split_heads(self.query_projection(query), self.num_heads)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B G K E"]:
        """Return the features of the keys for each head."""
        return split_heads(self.key_projection(key), self.num_heads)

    def project_value(self, value: Float[Tensor, "B K Dv"]) -> Float[Tensor, "B G K Ev"]:
        """Return the values of each head."""
        return split_heads(self.value_projection(value), self.num_heads)

    def project(
        self, key: Float[Tensor, "B K Dk"], value: Float[Tensor, "B K Dv"] | None
    ) -> tuple[Float[Tensor, "B G K E"], Float[Tensor, "B G K Ev"]]:
        """Return the features and the values of each head; `value` is None if the keys are the values."""
        return self.project_key(key), self.project_value(key if value is None else value)

    def build_gates(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B H K X"] | None:
        """Return the gates of the keys, which `prepare` sets to zero for keys that do not exist; None by default."""
        return None

    def output(self, heads: Float[Tensor, "B H Q Ev"], query: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Return W_o [head_1; …; head_H] + b_o."""
        return self.output_projection(join_heads(heads))

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> GatedMemory:
        """Project keys and values once; see `Attention.prepare`."""
        value = key if value is None else value
        sizes = check_shape("key", key, f"B K {self.key_size}")
        check_shape("value", value, f"B K {self.value_size}", sizes)
        zeroed = zero_masked(key, key_mask)
        keys, values = self.project(zeroed, None if value is key else zero_masked(value, key_mask))
        gates = self.build_gates(zeroed)
        if gates is not None and key_mask is not None:
            gates = gates.where(key_mask[:, None, :, None], 0)
        return GatedMemory(keys, values, key_mask, gates)

    def attend(
        self,
        query: Float[Tensor, "B Q D"],
        memory: Memory,
        state: Any = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, Any]:
        """Attend with each query to the keys of the state (if given) and of `memory`; see `Attention.attend` and the class."""
        assert isinstance(memory, GatedMemory)
        self.refuse_state_unless_causal(state)
        sizes = check_shape("query", query, f"B Q {self.query_size}", {"B": memory.key.shape[0]})
        memory = self.join(state, memory)
        queries, keys = sizes["Q"], memory.key.shape[2]
        heads = self.project_query(query, keys - queries)
        mask = combine_masks(
            memory.key_mask, attn_mask, score_bias, batch=sizes["B"], queries=queries, keys=keys, heads=self.num_heads
        )
        bias = None if score_bias is None else match_axes(score_bias, self.num_heads)
        if self.causal and (queries > 1 or mask is not None):
            own = causal_mask(queries, keys, device=query.device)
            mask = own if mask is None else own & mask
        if mask is None and keys == 0:
            mask = torch.ones(queries, 0, dtype=torch.bool, device=query.device)  # no key to attend to
        if attn_mask is None or mask is None:
            found = self.weights(heads, memory, mask, bias)
        else:
            found = self.masked_weights(heads, memory, mask, bias)
        weights = reweighted(found, mask, reweight)
        values = self.values(memory)
        kept = nn.functional.dropout(weights, self.dropout, self.training).to(values.dtype)
        output = self.output(head_product(kept, values), query)
        if mask is not None:
            some = mask.any(-1)
            output = output.masked_fill(~(some.any(1) if some.ndim == 3 else some)[..., None], 0)
        return AttentionOutput(output, weights if need_weights else None), memory if self.causal else None

    def join(self, state: GatedMemory | None, memory: GatedMemory) -> GatedMemory:
        """Return the keys of the state, if there is one, followed by the new keys."""
        return memory if state is None else state.join(memory)

    def values(self, memory: GatedMemory) -> Float[Tensor, "B G K Ev"]:
        """Return the values that are multiplied by the weights."""
        return memory.value

    def context_size(self, value_size: int) -> int:
        """Return D, which does not depend on the width of the values."""
        return self.size

    def refuse_state_unless_causal(self, state: object) -> None:
        """Raise an error if a state is given and the mechanism is not causal.

        Raises:
            RequestError: If a state is given to a mechanism that is not causal.
        """
        if state is not None and not self.causal:
            raise RequestError(
                f"{type(self).__name__}.attend got a state, but only a causal attention keeps the keys of earlier queries; "
                "build it with causal=True, or leave the state out"
            )


def normed(features: Float[Tensor, "... E"], norm: nn.RMSNorm) -> Float[Tensor, "... E"]:
    """Return features divided by their root mean square, times the weights of `norm`; half types are computed in float32."""
    wide = at_least_float32(features)
    return nn.functional.rms_norm(wide, norm.normalized_shape, norm.weight.to(wide.dtype), norm.eps).to(features.dtype)


def build_linear(inputs: int, outputs: int, **options: Any) -> nn.Linear:
    """Return a linear map with Xavier's uniform initial weights and, if it has a bias, a bias of zeros."""
    linear = nn.Linear(inputs, outputs, **options)
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x)).

    PyTorch's softplus is not used, because its gradient fails in graphs compiled ahead of time (PyTorch 2.13).
    """
    return torch.logaddexp(x, torch.zeros_like(x))
