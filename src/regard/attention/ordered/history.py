"""Base class of location-sensitive and coverage attention: additive attention whose scores depend on earlier weights.

score_t(q, k) = v · tanh(W_q q + W_k k + extra(history_t) + b),    history_{t+1} = update(history_t, weights_t)
"""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.base import Memory
from regard.attention.capabilities import Reweight
from regard.attention.masks import Masks
from regard.attention.ordered.states import HistoryState
from regard.attention.scores.additive import Additive, fastest_scores
from regard.attention.scores.base import Weighed, finish_weights
from regard.shapes import check_shape


class HistoryAttention(Additive):
    """score(q, k) = v·tanh(W_q q + W_k k + extra(history) + b), computed for one query after another.

    A subclass defines what the history adds inside the tanh (`extra`), and how new weights change the history (`update`). The
    history is zero before the first query. The arguments are those of `Additive`.
    """

    stateful: bool = True
    sequential: bool = True

    @abstractmethod
    def update(self, history: Float[Tensor, "B K"], weights: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return the history after a query, from the history before it and the query's weights."""

    @abstractmethod
    def extra(self, history: Float[Tensor, "B K"], memory: Memory) -> Float[Tensor, "B K Da"]:
        """Return what the history adds inside the tanh for each key."""

    def scores(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, history: Float[Tensor, "B K"] | None = None
    ) -> Float[Tensor, "B Q K"]:
        """Return the scores of queries that share one history; None for the history before the first query."""
        key = memory.key + self.extra(self.begin(memory) if history is None else history, memory).to(memory.key.dtype)
        return fastest_scores(self.project_query(query), key, self.score_vector())

    def loss(self, weights: Float[Tensor, "B Q K"], history: Float[Tensor, "B K"], masks: Masks) -> Float[Tensor, ""] | None:
        """Return the loss for the weights of a call, from the history before its first query; None by default."""
        return None

    def weigh(self, query: Tensor, memory: Memory, state: Any, masks: Masks, reweight: Reweight | None) -> Weighed:
        """Return the weights of one query after another, and the history after the last one."""
        batch, keys = memory.value.shape[:2]
        before = self.begin(memory) if state is None else state.history
        check_shape("state.history", before, "B K", {"B": batch, "K": keys})
        history, rows = before, []
        for i in range(query.shape[1]):
            own = masks.row(i)
            scores = self.scores(query[:, i : i + 1], memory, history)
            rows.append(finish_weights(self.normalize(scores, own), own, reweight))
            history = self.update(history, rows[-1][:, 0].to(history.dtype))
        weights = torch.cat(rows, 1) if rows else before[:, None][:, :0].to(memory.value.dtype)
        return Weighed(weights, HistoryState(history), self.loss(weights, before, masks))

    def begin(self, memory: Memory) -> Float[Tensor, "B K"]:
        """Return the history before the first query: zeros."""
        dtype = torch.promote_types(memory.key.dtype, torch.float32)
        return memory.key.new_zeros(memory.value.shape[:2], dtype=dtype)
