"""Base class of mechanisms whose heads keep one matrix instead of all keys: each key changes it, and queries read it.

    S_t = step(S_{t−1}, k_t, v_t),    head_t = read(S_t, q_t)

This recurrence implies a weight for each query and key. The weights are computed from all keys, and only if they are needed.
Without weights, the time and memory of a step do not depend on the number of earlier keys.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.base import AttentionOutput, Memory, Rows, register
from regard.attention.capabilities import Reweight
from regard.attention.heads.attend import head_product
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.attention.heads.options import MapOptions
from regard.attention.masks import Masks
from regard.errors import RequestError
from regard.shapes import check_shape

# Number of positions that products of matrices compute together.
CHUNK = 64


@register
@dataclass(frozen=True)
class SummaryState(Rows):
    """Summary of all keys and values so far, one matrix for each head.

    It does not hold the keys themselves, so no weights can be computed from it.
    """

    summary: Float[Tensor, "B H E Es"]
    """The matrices S, in float32 or float64."""
    seen: Bool[Tensor, " B"]
    """For each row of the batch, whether at least one key so far exists (is not masked)."""


class RecurrentHeads(MultiHead):
    """S_t = step(S_{t−1}, k_t, v_t), head_t = read(S_t, q_t).

    If `causal` is False, `prepare` computes S after the last key, and all queries read this S. If `causal` is True, query i
    reads S after the key at its position, and a decoder's state is S (`SummaryState`), of constant size. Weights, an
    `attn_mask` and `reweight` need all keys; a step with one of them returns a `HeadMemory` of all keys as its state, and later
    steps keep all keys too. After a step that returned a `SummaryState`, no step can compute weights. Therefore, ask for
    weights in all steps or in none.

    The arguments are those of `MultiHead`: size, num_heads, key_size, value_size, bias, causal, device and dtype.
    """

    permutation_equivariant = True
    changes_weights = True

    def __init__(self, size: int, num_heads: int, *, value_size: int | None = None, **options: Unpack[MapOptions]) -> None:
        super().__init__(size, num_heads, value_size=value_size, **options)

    @abstractmethod
    def weights(
        self, query: Float[Tensor, "B H Q E"], memory: HeadMemory, mask: Bool[Tensor, "..."] | None, *, masked: bool
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights that the recurrence implies; if not `masked`, the mask does not follow from an `attn_mask`."""
        # Without an `attn_mask`, the mask hides only keys that do not exist and, if `causal`, later keys.

    @abstractmethod
    def read(self, query: Float[Tensor, "B H Q E"], summary: Float[Tensor, "B H E Es"]) -> Float[Tensor, "B H Q Ev"]:
        """Return read(S, q) for queries that read the same S."""

    @abstractmethod
    def summarize(self, memory: HeadMemory) -> Float[Tensor, "B H E Es"]:
        """Return S after the keys of `memory`."""

    @abstractmethod
    def scan(
        self, query: Float[Tensor, "B H T E"], memory: HeadMemory, summary: Float[Tensor, "B H E Es"] | None
    ) -> tuple[Float[Tensor, "B H T Ev"], Float[Tensor, "B H E Es"]]:
        """Return read(S_t, q_t) for all t, and S after the last key; S_t includes the key at the position t of the query.

        `summary` is S before the keys of `memory`, None for zeros.
        """

    def prepare(  # type: ignore[override]  # there are no positions
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> HeadMemory:
        """Project keys and values once, and summarise them in S if `causal` is False; see `Attention.prepare`."""
        memory = super().prepare(key, value, key_mask=key_mask)
        return memory if self.causal else replace(memory, summary=self.summarize(memory))

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
        exists = memory.exists
        batch, keys = exists.shape  # `len(exists)` would fix the size of the batch in an export
        queries = check_shape("query", query, f"B Q {self.query_size}", {"B": batch})["Q"]
        by_weights = need_weights or reweight is not None or attn_mask is not None
        if isinstance(state, SummaryState) and (by_weights or queries != keys):
            raise RequestError(
                f"{type(self).__name__}.attend got a state without keys, because earlier steps had need_weights=False; "
                "weights, attn_mask and reweight need the keys of all steps, so give need_weights=True in every step; "
                "without them, give each query its key, as in attend(x, prepare(x), state)"
            )
        if by_weights or isinstance(state, HeadMemory) or (self.causal and queries != keys):
            assert not isinstance(state, SummaryState)
            return super().attend(query, memory, state, attn_mask=attn_mask, reweight=reweight, need_weights=need_weights)
        heads = self.project_query(query)
        if memory.summary is not None:
            context, seen, after = self.read(heads, memory.summary), exists.any(1, keepdim=True), None
        else:
            before = exists.new_zeros(batch) if state is None else state.seen
            seen = torch.cat([before[:, None], exists], 1).cumsum(1) > 0  # before each query, and after the last one
            context, summary = self.scan(heads, memory, None if state is None else state.summary)
            seen, after = seen[:, 1:], SummaryState(summary, seen[:, -1])
        output = self.output(context.to(query.dtype), query)
        return AttentionOutput(output.masked_fill(~seen[..., None], 0)), after

    def mix(self, heads: Tensor, memory: HeadMemory, masks: Masks, **options: Any) -> tuple[Tensor, Tensor | None]:
        """Return the context of each head and the weights, computed from all keys."""
        weights = options["change_weights"](self.weights(heads, memory, masks.allowed, masked=masks.by_query))
        return head_product(weights.to(memory.value.dtype), memory.value), weights if options["need_weights"] else None


def in_chunks(x: Float[Tensor, "B H T X"]) -> Float[Tensor, "B H N C X"]:
    """Split the positions into N chunks of C positions, C ≤ `CHUNK`; the last chunk is padded with zeros."""
    if torch.compiler.is_exporting():  # the graph must work for any number of positions, so they form one chunk
        return x[:, :, None]
    size = min(CHUNK, x.shape[2])
    return nn.functional.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))
