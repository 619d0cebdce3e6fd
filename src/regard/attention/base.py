"""Interface of every attention mechanism: one call, which consists of two steps.

    context, weights = attention(query, key, value, key_mask=…, attn_mask=…, need_weights=True)

Decoders call the two steps directly: `prepare` projects the keys once, and `attend` uses them for each query. Masks are
boolean, and True means "may attend". A query that may not attend to any key gets zero weights, a zero context and finite
gradients. A mechanism stores nothing between calls; if it has a state, `attend` returns the state for the next call.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Never, Self, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.arguments import CheckedModule, check_tensor, refuse_call
from regard.attention.capabilities import Observable, Reweight
from regard.attention.masks import KeyMask
from regard.errors import ShapeError

T = TypeVar("T")


def register(cls: type[T]) -> type[T]:
    """Register a dataclass of tensors as a pytree, which `torch.export` and `torch.func` accept and return."""
    torch.export.register_dataclass(cls, serialized_type_name=f"regard.attention.{cls.__name__}")
    return cls


@register
@dataclass(frozen=True)
class AttentionOutput:
    """Context and weights of a batch of queries; can be unpacked into these two, like the result of `nn.MultiheadAttention`.

    If the inputs have no batch axis, context and weights have none either.

    Example:
        >>> output = ScaledDot(8)(torch.randn(2, 5, 8), torch.randn(2, 9, 8))
        >>> context, weights = output
        >>> context is output.context is output[0]
        True
    """

    context: Float[Tensor, "*B Q Dv"]
    """The context of each query: Σ_k weight_k value_k. Mechanisms with heads project the sums of all heads."""
    weights: Float[Tensor, "*heads Q K"] | None = None
    """Weights (B,Q,K), or (B,H,Q,K) with heads, before dropout; None if `need_weights` was False."""
    loss: Float[Tensor, ""] | None = None
    """Scalar loss of a mechanism that has its own loss (coverage); else None. `nn.DataParallel` does not gather this loss."""

    def __post_init__(self) -> None:
        # nn.DataParallel joins the contexts and the weights of its replicas, and calls this class with an iterator over both.
        if not isinstance(self.context, Tensor) and isinstance(self.context, Iterator):
            context, weights = self.context
            object.__setattr__(self, "context", context)
            object.__setattr__(self, "weights", weights)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.context, self.weights))

    def __getitem__(self, index: int) -> Any:
        """Return the context (0) or the weights (1)."""
        return (self.context, self.weights)[index]

    def __len__(self) -> int:
        return 2


class Rows:
    """Base class of memories and states: frozen dataclasses of tensors whose first axis is the batch."""

    def select(self, index: Int[Tensor, " M"]) -> Self:
        """Keep the given rows of the batch, in the given order."""
        kept: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]
        for name, part in kept.items():
            kept[name] = part[index] if isinstance(part, Tensor) else part.select(index) if isinstance(part, Rows) else part
        return type(self)(**kept)


@register
@dataclass(frozen=True)
class Memory(Rows):
    """Prepared keys and values, computed once and used by many queries."""

    key: Float[Tensor, "B K Da"]
    """The keys, projected if the mechanism projects them."""
    value: Float[Tensor, "B K Dv"]
    """The values; zero where `key_mask` is False."""
    key_mask: Bool[Tensor, "B K"] | None = None
    """Booleans (B,K), True where a key exists; None if all exist."""


_ARGUMENTS = (
    *("query", "key", "value", "key_mask", "attn_mask", "score_bias"),
    *("query_positions", "key_positions", "reweight", "need_weights"),
)
_BY_POSITION = (
    "the positional arguments are query, key and value. Give masks by name: key_mask=… (B, K), in which True means that a key "
    "exists, or attn_mask=… (Q, K), in which True means 'may attend'"
)


class Attention(Observable, CheckedModule, ABC):
    """Base class of every mechanism that has a query: weights = f(query, key), context = Σ_k weight_k value_k.

    Your own mechanism overrides `prepare` and `attend`. If it computes a score for each query and key, use the base class
    `ScoredAttention`, which needs less code.
    """

    normalized: bool = True
    """Whether the weights of each query sum to one (to zero if the query may not attend to any key)."""
    permutation_equivariant: bool = True
    """Whether permuting the keys permutes the weights in the same way."""
    stateful: bool = False
    """Whether `attend` returns a state, such as earlier weights or the keys of earlier steps, which the next call needs.
    Queries must then come in order.
    """

    sequential: bool = False
    """Whether the queries of a call are computed one after another. If True, `torch.export` needs a fixed number of queries (B
    and K may be dynamic), so export a step with one query and call it for each query.
    """
    has_loss: bool = False
    """Whether the mechanism returns its own loss, which is added to the training loss."""
    needs_whole_source: bool = False
    """Whether weights and context depend on keys that `attn_mask` hides, such as on the number of keys."""
    supports_fused: bool = False
    """Whether fused kernels may compute scores, weights and context at once; most are used only if no weights are needed."""
    supports_onnx: bool = True
    """Whether ONNX has all operations of the mechanism."""

    query_size: int
    """Dq, width of the queries."""
    key_size: int
    """Dk, width of the keys; values may have any width unless a class says otherwise."""

    def context_size(self, value_size: int) -> int:
        """Return the width of the context for values of a given width; both are equal unless the mechanism projects values."""
        return value_size

    @abstractmethod
    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Memory:
        """Project the keys once.

        Args:
            key: The keys.
            value: The values; None if the keys are the values.
            key_mask: True where a key exists; None if all exist.

        Returns:
            The memory that `attend` needs.

        Raises:
            ShapeError: If the sizes of an axis or of the mask do not match, or the mask is not boolean.
        """

    @abstractmethod
    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: Any = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, Any]:
        """Attend with each query.

        Args:
            query: The queries.
            memory: Result of `prepare`.
            state: Second result of the previous call of `attend`, for a stateful mechanism; None for the first call.
            attn_mask: True where a query may attend to a key: (Q,K), (B,Q,K) or (B,H,Q,K), where all axes but K may be 1.
            score_bias: Numbers that are added to the scores before the normalizer, in a shape that `attn_mask` may have. Where
                the bias is −∞, the query may not attend. A monotonic mechanism adds it to the logits of its probabilities.
            reweight: Function that replaces the weights before the context is computed. It is called once for all queries, or
                once for each query if the replaced weights change the weights of later queries.
            need_weights: Whether to return the weights. If False, the fastest path is taken.

        Returns:
            The output, and the state for the next call (None for a mechanism without a state).

        Raises:
            ShapeError: If the sizes of an axis, of the mask or of the bias do not match, the mask is not boolean, or the bias
                is not of a floating type.
            RequestError: If a state is given to a mechanism that has no state.
        """

    def forward(
        self,
        query: Float[Tensor, "*B Q Dq"],
        key: Float[Tensor, "*B K Dk"] | None = None,
        value: Float[Tensor, "*B K Dv"] | None = None,
        *further: Never,
        key_mask: Bool[Tensor, "*B K"] | None = None,
        attn_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        query_positions: Int[Tensor, "... Q"] | None = None,
        key_positions: Int[Tensor, "... K"] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
        **others: Never,
    ) -> AttentionOutput:
        """Prepare and attend in one call.

        Args:
            query: The queries (B,Q,Dq), or (Q,Dq) for a single sequence; then no argument and no result has an axis B.
            key: The keys; None for self-attention, in which the queries attend to each other.
            value: The values; None if the keys are the values.
            further: Must be empty: masks are given by name.
            key_mask: True where a key exists, False for padding; None if all exist.
            attn_mask: True where a query may attend to a key: (Q,K), (B,Q,K) or (B,H,Q,K), where all axes but K may be 1.
            score_bias: Numbers that are added to the scores, in a shape that `attn_mask` may have; see `attend`.
            query_positions: Positions of the queries, for mechanisms with positions (`MultiHead`); None for consecutive ones.
            key_positions: Positions of the keys; None for consecutive ones, or, in self-attention, for the queries' positions.
            reweight: Function that replaces the weights; see `attend`.
            need_weights: Whether to return the weights. If False, the fastest path is taken.
            others: Must be empty: other names raise an error that shows the correct call.

        Returns:
            Context and weights: `context, weights = attention(query, key, value)`.

        Raises:
            ShapeError: If the sizes of an axis or of a mask do not match, a mask is not boolean, or a value is given without a
                key.
            ArgumentError: If an argument is unknown or is not a tensor.
            TypeError: If this mechanism has no such argument.
        """
        if further or others:
            refuse_call(type(self).__name__, further, others, _ARGUMENTS, _BY_POSITION)
        if key is None:
            self._check_self_attention(query, value)
            key, key_positions = query, query_positions if key_positions is None else key_positions
        if not (isinstance(query, Tensor) and isinstance(key, Tensor) and (value is None or isinstance(value, Tensor))):
            for name, tensor in (("query", query), ("key", key), ("value", value)):
                check_tensor(type(self).__name__, name, tensor)
        if query.ndim == 2:
            masks = {"key_mask": key_mask, "attn_mask": attn_mask, "score_bias": score_bias}
            positions = {"query_positions": query_positions, "key_positions": key_positions}
            return self._of_one_sequence(query, key, value, masks, reweight=reweight, need_weights=need_weights, **positions)
        if key is query and value is None and query_positions is None and key_positions is None:
            memory = self.prepare_self(query, key_mask=key_mask)
        else:
            placed: dict[str, Any] = {} if key_positions is None else {"key_positions": key_positions}
            memory = self.prepare(key, value, key_mask=key_mask, **placed)
        options: dict[str, Any] = {"attn_mask": attn_mask, "reweight": reweight, "need_weights": need_weights}
        # A class whose `attend` has no such argument refuses it.
        options |= {} if score_bias is None else {"score_bias": score_bias}
        options |= {} if query_positions is None else {"query_positions": query_positions}
        return self.attend(query, memory, **options)[0]

    def prepare_self(self, x: Float[Tensor, "B T D"], *, key_mask: Bool[Tensor, "B T"] | KeyMask | None = None) -> Memory:
        """Prepare for one call of `attend` in which the queries are `x` too; `MultiHead` may compute all maps at once.

        A `KeyMask` is given to a `MultiHead` only.
        """
        assert not isinstance(key_mask, KeyMask)
        return self.prepare(x, key_mask=key_mask)

    def _check_self_attention(self, query: object, value: object) -> None:
        called = type(self).__name__
        check_tensor(called, "query", query)
        if value is not None:
            raise ShapeError(f"{called} got a value without a key; give both, as in attention(query, key, value)")
        if self.query_size != self.key_size:
            raise ShapeError(
                f"{called} got no key, so the query attends to itself, but its queries have width {self.query_size} and "
                f"its keys have width {self.key_size}; give a key, as in attention(query, key)"
            )

    def _of_one_sequence(
        self, query: Tensor, key: Tensor, value: Tensor | None, masks: dict[str, Any], **options: Any
    ) -> AttentionOutput:
        """Attend with queries without a batch axis: add this axis to all inputs, and remove it from the results."""
        key_mask = masks["key_mask"]
        for name, tensor, axes in (("key", key, 2), ("value", value, 2), ("key_mask", key_mask, 1)):
            if tensor is not None and tensor.ndim != axes:
                raise ShapeError(
                    f"query has shape {tuple(query.shape)}, without a batch axis, and {name} has {tuple(tensor.shape)}; give "
                    "all of them a batch axis, as in query[None], or none"
                )
        for name, mask in masks.items():  # (K) becomes (1,K), and (H,Q,K) becomes (1,H,Q,K)
            masks[name] = mask[None] if mask is not None and (mask is key_mask or mask.ndim == 3) else mask
        batched = query[None]
        keys, values = batched if key is query else key[None], None if value is None else value[None]
        output = self.forward(batched, keys, values, **masks, **options)
        return AttentionOutput(output.context[0], None if output.weights is None else output.weights[0], output.loss)
