"""Base class of location-sensitive and coverage attention: additive attention whose scores depend on earlier weights.

score_t(q, k) = v · tanh(W_q q + W_k k + extra(history_t) + b),    history_{t+1} = update(history_t, weights_t)
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_flag, check_size
from regard.attention.base import AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.scored import ScoredAttention
from regard.shapes import check_shape


@dataclass(frozen=True)
class HistoryState:
    """Summary of the weights of earlier queries: one number for each key."""

    history: Float[Tensor, "B K"]
    """The summary in float32, or in float64 for keys in float64; sums in half precision would lose small weights."""

    def select(self, index: Int[Tensor, " M"]) -> "HistoryState":
        """Keep the given rows of the batch, in the given order."""
        return HistoryState(self.history[index])


torch.export.register_dataclass(HistoryState, serialized_type_name="regard.attention.HistoryState")


class HistoryAttention(ScoredAttention):
    """score(q, k) = v·tanh(W_q q + W_k k + extra(history) + b), computed for one query after another.

    A subclass defines what the history adds inside the tanh (`scores`), and how new weights change the history (`update`). The
    history is zero before the first query, so the weights of the first query are those of `Additive`.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        bias: Whether the sum inside the tanh has a bias b. The bias belongs to the key projection, which is computed once.
        normalizer: Module that computes weights from (scores, mask), or its name; None for a softmax.
        scale: Factor of the scores, > 0; None for 1.
        dropout: Probability to drop a weight in training mode, 0 ≤ dropout < 1. Reported weights are those before dropout.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, the normalizer is unknown, scale or dropout is out of its
            range, or `bias` is not a bool.
    """

    stateful: bool = True
    sequential: bool = True

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None,
        attention_size: int | None,
        bias: bool,
        normalizer: nn.Module | str | None,
        scale: float | None,
        dropout: float,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(query_size, key_size=key_size, normalizer=normalizer, scale=scale, dropout=dropout)
        self.attention_size = query_size if attention_size is None else attention_size
        check_size(type(self).__name__, "attention_size", self.attention_size)
        check_flag(type(self).__name__, "bias", bias)
        self.query_projection = nn.Linear(query_size, self.attention_size, bias=False, device=device, dtype=dtype)
        self.key_projection = nn.Linear(self.key_size, self.attention_size, bias=bias, device=device, dtype=dtype)
        self.score_weight = nn.Parameter(torch.empty(self.attention_size, device=device, dtype=dtype))
        nn.init.uniform_(self.score_weight, -(self.attention_size**-0.5), self.attention_size**-0.5)

    @abstractmethod
    def update(self, history: Float[Tensor, "B K"], weights: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the history after a query, from the history before it and the query's weights."""

    def loss(
        self, weights: Float[Tensor, "B Q K"], history: Float[Tensor, "B K"], mask: Bool[Tensor, "B Q K"] | None
    ) -> Float[Tensor, ""] | None:
        """Return the mechanism's own loss for the weights of a call; by default, return None.

        `history` is the history before the first query of the call.
        """
        return None

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K Da"]:
        """Return W_k k (+ b)."""
        return self.key_projection(key)

    @abstractmethod
    def scores(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, history: Float[Tensor, "B K"] | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Return the scores of queries that share one history; if `history` is None, use the history before the first query."""

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: HistoryState | None = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, Any]:
        """Attend with one query after another; see `Attention.attend`."""
        self.refuse_open_axis(query)
        mask = self.check(query, memory, attn_mask, score_bias)
        (batch, keys), queries = memory.value.shape[:2], query.shape[1]
        if mask is not None:
            mask = mask.expand(batch, queries, keys)
        before = self.begin(memory) if state is None else state.history
        check_shape("state.history", before, "B K", {"B": batch, "K": keys})
        history, rows = before, []
        for i in range(queries):
            scores = self.scores(query[:, i : i + 1], memory, history)
            allowed = None if mask is None else mask[:, i : i + 1]
            bias = None if score_bias is None else _row(score_bias, i)
            rows.append(reweighted(self.normalized_scores(scores, allowed, bias), allowed, reweight))
            history = self.update(history, rows[-1][:, 0].to(history.dtype))
        weights = torch.cat(rows, 1) if rows else before[:, None][:, :0].to(memory.value.dtype)
        output = AttentionOutput(self.mix(weights, memory), weights if need_weights else None, self.loss(weights, before, mask))
        return output, HistoryState(history)

    def score_vector(self) -> Float[Tensor, " Da"]:
        """Return scale · v."""
        return self.score_weight if self.scale == 1 else self.scale * self.score_weight

    def begin(self, memory: Memory) -> Float[Tensor, "B K"]:
        """Return the history before the first query: zeros."""
        dtype = torch.promote_types(memory.key.dtype, torch.float32)
        return memory.key.new_zeros(memory.value.shape[:2], dtype=dtype)


def _row(score_bias: Tensor, i: int) -> Tensor:
    """Return the bias of query i; a bias with a single row applies to all queries."""
    return score_bias if score_bias.shape[-2] == 1 else score_bias[..., i : i + 1, :]
