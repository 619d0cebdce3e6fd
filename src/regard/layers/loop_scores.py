"""Attention inside a hand-written loop: one query per sentence and step, with the same keys in all steps.

A tape is an object that records the steps for their gradients. Its caller runs `forward` for each step, then `backward` for
each step in reverse order, and then `finish`, which returns the gradients that can be computed once for all steps.

With a query q, the keys k_s of the source positions s, and a score weight v, the scores equal those of `regard.attention`,
which a test verifies:

    additive  e_s = Σ_h v_h tanh(q_h + k_sh)        bilinear  e_s = Σ_h q_h k_sh

The tanh of additive scores is avoided: tanh(a + b) = 1 − 2/(1 + e^{2a} e^{2b}), and Σ_h v_h cancels in the softmax. So one
multiplication, one addition and one reciprocal per element are enough, and e^{2k} is computed once for all steps. The tanh
itself is used if some |k| exceeds `KEY_LIMIT`, for float64, and on devices other than a CPU.

Speed relative to autograd through the same steps, forward and backward (`benchmarks/log.md`): with 32 sentences of 30 keys,
width 256 and 30 steps, additive scores are 2.1 and bilinear scores 1.8 to 2 times as fast; with 64 sentences of 15 keys, width
512 and 15 steps, 2.2 and 1.9 times.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.base import Attention
from regard.attention.capabilities import is_plain
from regard.attention.scores.additive import Additive, WeightNormAdditive
from regard.attention.scores.concat import Concat, SumConcat
from regard.attention.scores.products import Dot, General, ScaledDot
from regard.machine import exact_dtype

# Largest |k| for which e^{2k} is used. Then |q| can be limited to `QUERY_LIMIT` without any effect: beyond that limit, |q + k|
# is at least 10, where tanh is exactly ±1 in float32.
KEY_LIMIT = 20.0
QUERY_LIMIT = 30.0
# Maximum number of values (steps · sentences · keys · width) that are kept for the backward pass: reciprocals, or tanh if it is
# used. If there are more, they are computed again.
KEPT_ELEMENTS = 1 << 25


@dataclass(frozen=True)
class LoopScore:
    """Parameters of a score v·tanh(W q + k) or k·(W q); k is a key as `prepare` returns it, and weights are a softmax."""

    query_weight: Float[Tensor, "Da Dq"]
    """W."""
    score_weight: Float[Tensor, " Da"] | None
    """v of an additive score; None for a product."""


def find_loop_score(attention: Attention, device: torch.device) -> LoopScore | None:
    """Return the parameters of the score of a mechanism that a hand-written loop may compute itself, else None.

    The loop serves exactly the classes named here, with a softmax, without active dropout, unobserved, and with linear maps
    that only multiply by their weights. Any other mechanism is called at each step, so it may compute whatever it wants.
    """
    kind, scored = type(attention), cast(Any, attention)
    if kind not in (Additive, WeightNormAdditive, Concat, SumConcat, Dot, ScaledDot, General) or attention.observed:
        return None
    if not scored.is_softmax():
        return None
    if kind in (Dot, ScaledDot):
        unit = torch.eye(attention.query_size, dtype=exact_dtype(device), device=device)
        return LoopScore(scored.scale * unit, None)
    linear = scored.query_projection if kind in (Additive, WeightNormAdditive) else scored.projection
    if not is_plain(linear):
        return None
    if kind is General:
        return LoopScore(linear.weight if scored.scale == 1 else scored.scale * linear.weight, None)
    return LoopScore(linear.weight[:, : attention.query_size], scored.score_vector())


class ScoreTape(ABC):
    """Base of both tapes, which computes the softmax of the scores, the weighted sum of the values, and their gradients."""

    def __init__(self, num_steps: int, keys: Tensor, values: Tensor, key_mask: Tensor | None) -> None:
        """Store `keys` (B,S,A) and `values` (B,S,P), whose dtype is used for scores, weights and contexts.

        In `key_mask`, each sentence must have at least one valid key.
        """
        batch, source, _ = keys.shape
        self.keys, self.values = keys, values
        # The values of the mask are read on a CPU only; elsewhere, reading them would wait for the device.
        waits = keys.device.type != "cpu"
        self.blocked = None if key_mask is None or (not waits and bool(key_mask.all())) else ~key_mask
        self.weights = keys.new_empty(num_steps, batch, source)
        self.queries = keys.new_empty(num_steps, batch, keys.shape[2])

    def forward(self, step: int, query: Tensor) -> Tensor:
        """Return the context Σ_s weight_s value_s (B,P) of a query (B,A)."""
        self.queries[step] = query
        scores = self.scores(step)
        if self.blocked is not None:
            scores = scores.masked_fill_(self.blocked, -torch.inf)
        weights = torch.softmax(scores, dim=-1, out=self.weights[step])
        return torch.bmm(weights[:, None], self.values)[:, 0]

    def backward(self, step: int, d_context: Tensor, d_weights: Tensor | None) -> Tensor:
        """Return the gradient of the query (B,A), from the gradients of the context and of the weights."""
        weights = self.weights[step]
        flow = torch.bmm(self.values, d_context[:, :, None])[:, :, 0]
        if d_weights is not None:
            flow += d_weights
        flow *= weights
        return self.scores_backward(step, flow.addcmul_(weights, flow.sum(dim=-1, keepdim=True), value=-1))

    def values_gradient(self, d_contexts: Tensor) -> Tensor:
        """Return the gradient of the values, from the gradients of all contexts (T,B,P)."""
        return torch.bmm(self.weights.permute(1, 2, 0), d_contexts.transpose(0, 1))

    @abstractmethod
    def scores(self, step: int) -> Tensor:
        """Return the scores (B,S) of the step's query."""

    @abstractmethod
    def scores_backward(self, step: int, d_scores: Tensor) -> Tensor:
        """Return the gradient of the query (B,A), from the gradient of the scores."""


class AdditiveTape(ScoreTape):
    """The tape of additive scores, v·tanh(q + k)."""

    def __init__(self, num_steps: int, keys: Tensor, values: Tensor, key_mask: Tensor | None, score_weight: Tensor) -> None:
        super().__init__(num_steps, keys, values, key_mask)
        self.score_weight = score_weight
        simple = keys.dtype == torch.float64 or keys.device.type != "cpu"
        self.exact = simple or bool((keys.abs().amax() > KEY_LIMIT).item())
        self.exponentials = keys if self.exact else keys.mul(2).exp_()
        self.kept = keys.new_empty(num_steps, *keys.shape) if num_steps * keys.numel() <= KEPT_ELEMENTS else None
        self.spare = torch.empty_like(keys) if self.kept is None else keys
        self.d_keys = torch.zeros_like(keys)
        self.d_score_weight = torch.zeros_like(score_weight)

    def scores(self, step: int) -> Tensor:
        buffer = self._squash(step, self.spare if self.kept is None else self.kept[step])
        scores = torch.mv(buffer.view(-1, buffer.shape[-1]), self.score_weight).view(buffer.shape[:2])
        return scores if self.exact else scores.mul_(-2)

    def _squash(self, step: int, out: Tensor) -> Tensor:
        """Return tanh(q + k) if `exact`, else r = 1/(1 + e^{2q} e^{2k}), for which tanh(q + k) = 1 − 2r."""
        query = self.queries[step, :, None]
        if self.exact:
            return torch.add(self.keys, query, out=out).tanh_()
        grown = query.clamp(-QUERY_LIMIT, QUERY_LIMIT).mul_(2).exp_()
        return torch.mul(self.exponentials, grown, out=out).add_(1).reciprocal_()

    def scores_backward(self, step: int, d_scores: Tensor) -> Tensor:
        squashed = self._squash(step, self.spare) if self.kept is None else self.kept[step]
        # The slope of tanh is 1 − tanh² = 4 r (1 − r). Factors that all terms share, such as 4, are applied to the sums.
        self.d_score_weight += torch.mv(squashed.view(-1, squashed.shape[-1]).T, d_scores.reshape(-1))
        if self.exact:
            slope = torch.addcmul(squashed.new_ones(()), squashed, squashed, value=-1)
        else:
            slope = torch.addcmul(squashed, squashed, squashed, value=-1)
        self.d_keys.addcmul_(slope, d_scores[:, :, None])
        return torch.bmm(d_scores[:, None], slope)[:, 0].mul_(self._scale())

    def _scale(self) -> Tensor:
        return self.score_weight if self.exact else 4 * self.score_weight

    def finish(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of the keys and of the score weight, and reset the sums for another backward pass."""
        found = self.d_keys * self._scale(), self.d_score_weight * (1 if self.exact else -2)
        self.d_keys.zero_()
        self.d_score_weight.zero_()
        return found


class BilinearTape(ScoreTape):
    """The tape of bilinear scores, q·k."""

    def __init__(self, num_steps: int, keys: Tensor, values: Tensor, key_mask: Tensor | None) -> None:
        super().__init__(num_steps, keys, values, key_mask)
        self.d_scores = torch.empty_like(self.weights)

    def scores(self, step: int) -> Tensor:
        return torch.bmm(self.keys, self.queries[step, :, :, None])[:, :, 0]

    def scores_backward(self, step: int, d_scores: Tensor) -> Tensor:
        self.d_scores[step] = d_scores
        return torch.bmm(d_scores[:, None], self.keys)[:, 0]

    def finish(self) -> tuple[Tensor, None]:
        """Return the gradient of the keys, and None, because there is no score weight."""
        return torch.bmm(self.d_scores.permute(1, 2, 0), self.queries.transpose(0, 1)), None


def build_score_tape(
    num_steps: int, keys: Tensor, values: Tensor, key_mask: Tensor | None, score_weight: Tensor | None
) -> AdditiveTape | BilinearTape:
    """Return an additive tape if there is a score weight v, else a bilinear one."""
    if score_weight is None:
        return BilinearTape(num_steps, keys, values, key_mask)
    return AdditiveTape(num_steps, keys, values, key_mask, score_weight)
