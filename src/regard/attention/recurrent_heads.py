"""Base class of mechanisms whose heads keep one matrix instead of all keys: each key changes it, and queries read it.

    S_t = step(S_{t−1}, k_t, v_t),    head_t = read(S_t, q_t)

This recurrence implies a weight for each query and key. The weights are computed from all keys, and only if they are needed.
Without weights, the time and memory of a step do not depend on the number of earlier keys.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.attend import head_product
from regard.attention.base import AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.head_memory import HeadMemory
from regard.attention.masks import resolve_masks, zero_rows
from regard.attention.multihead import MultiHead
from regard.errors import RequestError, ShapeError
from regard.shapes import check_shape


@dataclass(frozen=True)
class SummaryState:
    """Summary of all keys and values so far, one matrix for each head.

    It does not hold the keys themselves, so no weights can be computed from it.
    """

    summary: Float[Tensor, "B H E Es"]
    """The matrices S, in float32 or float64."""
    seen: Bool[Tensor, " B"]
    """For each row of the batch, whether at least one key so far exists (is not masked)."""

    def select(self, index: Int[Tensor, " M"]) -> "SummaryState":
        """Keep the given rows of the batch, in the given order."""
        return SummaryState(self.summary[index], self.seen[index])


torch.export.register_dataclass(SummaryState, serialized_type_name="regard.attention.SummaryState")


class RecurrentHeads(MultiHead):
    """S_t = step(S_{t−1}, k_t, v_t), head_t = read(S_t, q_t); see the subclasses for the arguments.

    If `causal` is False, each query reads the matrix after the last key. The state of a causal mechanism is a `SummaryState`,
    of constant size. Weights, an `attn_mask` and `reweight` need all keys; a step with one of them returns a `HeadMemory` of
    all keys as its state. After a step that returned a `SummaryState`, no step can compute weights. Therefore, ask for weights
    in all steps or in none.
    """

    permutation_equivariant = True

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

    @abstractmethod
    def weights(
        self, query: Float[Tensor, "B H Q E"], memory: HeadMemory, mask: Bool[Tensor, "..."] | None, *, masked: bool
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights that the recurrence implies.

        Args:
            query: The queries, as `project_query` returns them.
            memory: The keys and values.
            mask: True where a query may attend to a key; it broadcasts to the weights. None if every query may attend to every
                key.
            masked: Whether the caller gave an `attn_mask`, which may hide any key from any query. Otherwise, `mask` hides only
                keys that do not exist and, if `causal`, later keys.
        """

    @abstractmethod
    def summarize(self, memory: HeadMemory, summary: Float[Tensor, "B H E Es"] | None) -> Float[Tensor, "B H E Es"]:
        """Return S after the keys of `memory`; `summary` is S before these keys, None for zeros."""

    @abstractmethod
    def read(self, query: Float[Tensor, "B H Q E"], summary: Float[Tensor, "B H E Es"]) -> Float[Tensor, "B H Q Ev"]:
        """Return read(S, q) for queries that read the same S."""

    @abstractmethod
    def scan(
        self, query: Float[Tensor, "B H T E"], memory: HeadMemory, summary: Float[Tensor, "B H E Es"] | None
    ) -> tuple[Float[Tensor, "B H T Ev"], Float[Tensor, "B H E Es"]]:
        """Return read(S_t, q_t) for all t, and S after the last key; S_t includes the key at the position t of the query."""

    def prepare(  # type: ignore[override]  # there are no positions
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> HeadMemory:
        """Project keys and values once, and summarise them in S if `causal` is False; see `Attention.prepare`."""
        memory = super().prepare(key, value, key_mask=key_mask)
        if self.causal:
            return memory
        summary = self.summarize(memory, None)
        return replace(memory, summary=summary)

    def attend(  # type: ignore[override]  # there are no scores to add a score_bias to
        self,
        query: Float[Tensor, "B Q D"],
        memory: Memory,
        state: HeadMemory | SummaryState | None = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, HeadMemory | SummaryState | None]:
        """Attend with each query to the keys of the state (if given) and of `memory`; see `Attention.attend` and the class."""
        assert isinstance(memory, HeadMemory)
        self.check_state(state)
        if need_weights or reweight is not None or attn_mask is not None:
            if isinstance(state, SummaryState):
                raise RequestError(
                    f"{type(self).__name__}.attend got a state without keys, because earlier steps had need_weights=False; "
                    "weights, attn_mask and reweight need the keys of all steps, so give need_weights=True in every step"
                )
            return self._by_weights(query, memory, state, attn_mask, reweight, need_weights)
        check_shape("query", query, f"B Q {self.query_size}", {"B": memory.key.shape[0]})
        heads = self.project_query(query)
        if not self.causal:
            assert memory.summary is not None
            seen, after = memory.exists.any(1, keepdim=True), None
            found = self.read(heads, memory.summary)
        else:
            found, seen, after = self._scan(heads, memory, state)
        output = self.output(found.to(query.dtype), query).masked_fill(~seen[..., None], 0)
        return AttentionOutput(output), after

    def _by_weights(
        self,
        query: Tensor,
        memory: HeadMemory,
        state: HeadMemory | None,
        attn_mask: Tensor | None,
        reweight: Reweight | None,
        need_weights: bool,
    ) -> tuple[AttentionOutput, HeadMemory | None]:
        """Attend with the matrix of weights, computed from all keys."""
        sizes = check_shape("query", query, f"B Q {self.query_size}", {"B": memory.key.shape[0]})
        memory, state = self.join(memory, state)
        queries, keys, heads = sizes["Q"], memory.key.shape[2], self.project_query(query)
        masks = resolve_masks(
            memory.key_mask,
            attn_mask,
            batch=sizes["B"],
            queries=queries,
            keys=keys,
            heads=self.num_heads,
            own=self.own_mask(queries, keys, query.device),
        )
        weights = self.weights(heads, memory, masks.allowed, masked=attn_mask is not None)
        weights = reweighted(weights, masks.allowed, reweight)
        output = self.output(head_product(weights.to(memory.value.dtype), memory.value), query)
        return AttentionOutput(zero_rows(output, masks.empty), weights if need_weights else None), state

    def _scan(
        self, heads: Tensor, memory: HeadMemory, state: HeadMemory | SummaryState | None
    ) -> tuple[Tensor, Tensor, SummaryState]:
        """Return the results of the queries, a mask (B,Q) of the queries that read at least one key, and the next state."""
        summary, seen_before = None, memory.exists.new_zeros(len(heads))
        if isinstance(state, HeadMemory):
            memory = state.join(memory)
        elif state is not None:
            summary, seen_before = state.summary, state.seen
        earlier = memory.key.shape[2] - heads.shape[2]  # keys before the position of the first query
        if earlier < 0 and state is not None:
            raise ShapeError(
                f"{type(self).__name__}.attend got {heads.shape[2]} queries and {memory.key.shape[2]} new keys with a state; "
                "give each query its key, as in attend(x, prepare(x), state)"
            )
        seen = (memory.exists.cumsum(1) > 0) | seen_before[:, None]
        last = torch.cat([seen_before[:, None], seen], 1)[:, -1]
        if earlier > 0:
            summary = self.summarize(memory.part(0, earlier), summary)
            memory, seen = memory.part(earlier), seen[:, earlier:]
        before = max(-earlier, 0)  # queries before the first key, which see no key
        aligned = heads[:, :, before:]
        if aligned.shape[2]:
            found, summary = self.scan(aligned, memory, summary)
        else:
            summary = self.summarize(memory, summary)
            found = self.read(aligned, summary)
        if before:
            found = torch.cat([found.new_zeros(*found.shape[:2], before, found.shape[3]), found], 2)
            seen = torch.cat([seen.new_zeros(len(seen), before), seen], 1)
        return found, seen, SummaryState(summary, last)
