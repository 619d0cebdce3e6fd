"""Beam search over whole batches.

Each step extends the live hypotheses of a sentence (those without an end symbol) by every word, and keeps the `beam_size`
continuations with the highest log probabilities (and rewards, see below). Continuations with the end symbol leave the beam, and
the next step fills their places with other hypotheses. A finished hypothesis Y has the score

    (log p(Y | X) + r·|Y|) / ((5 + |Y|) / 6)^α        |Y| counts the end symbol

with the length reward r and the length penalty α. A hypothesis that continues gets at least one more symbol than one that ends
now, and so at least one more reward r. To compare the two, a step subtracts r from the log probability of the one that ends,
except at the length limit. The search of a sentence stops when

* `beam_size` hypotheses have finished,
* no live hypothesis can become one of the `n_best`, or
* the sentence's length limit is reached. Hypotheses that are cut there rank after all finished ones.

The second rule needs an upper bound of the final score of a live hypothesis. Its log probability can only decrease, and it gets
at most r·limit of rewards, so the numerator is at most log p(live) + r·limit. The denominator grows with the length: if this
numerator is negative, the bound divides it by the denominator at the limit, and otherwise by the one at the current length.

A beam of one is greedy search. The results for a sentence do not depend on the other sentences in the batch. An `Extension`
chooses the continuations that stay in the beam: the best ones, or those that lead to required phrases.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.beginning import begin_search
from regard.decoding.constraints import Constrained
from regard.decoding.extension import BestOfAll, Extension, end_cost_of
from regard.decoding.finished import Finished, is_free_to_read, may_hold
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import Hypothesis, Length, score_of
from regard.decoding.request import check_beam, check_sites, length_limits
from regard.decoding.restrictions import NO_RESTRICTIONS, Restricted, Restrictions
from regard.decoding.trace import Trace
from regard.errors import RequestError
from regard.models.seq2seq import DecoderState, Seq2Seq
from regard.reweight import ReweightBySite
from regard.text.symbols import END, START


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    *,
    beam_size: int = 5,
    n_best: int = 1,
    length_penalty: float = 1.0,
    length_reward: float = 0.0,
    max_length: int = 0,
    guidance: Guidance | None = None,
    restrictions: Restrictions = NO_RESTRICTIONS,
    record: Collection[str] = (),
    reweight: ReweightBySite | None = None,
) -> list[list[Hypothesis]]:
    """Search for the targets with the best scores.

    Args:
        model: The model, in evaluation mode.
        source: Source tokens, each sentence with its end symbol.
        source_mask: True for the source's symbols, False for padding.
        beam_size: N, number of hypotheses kept at each step, ≥ 1.
        n_best: Number of hypotheses to return for each sentence, at most `beam_size`.
        length_penalty: α ≥ 0 of `score_of`; 0 for no penalty. Without penalty and reward, log probabilities decide, which
            favours short targets.
        length_reward: r ≥ 0 of `score_of`, in nats per symbol; 0 for no reward.
        max_length: Maximum number of steps, including the one for the end symbol. 0 for a limit of min(2·S + 20, 500) for a
            sentence with S source symbols, plus the number of words that `guidance` requires. This limit is never less than
            `restrictions.min_length` + 20.
        guidance: Words that targets must begin with, and phrases that they must contain.
        restrictions: Restrictions such as a minimum length or words that targets must not contain; they cannot be combined
            with required phrases.
        record: Attention sites to record.
        reweight: Functions that replace attention weights, by site; see `regard.reweight`. The new weights are recorded.

    Returns:
        For each sentence up to `n_best` hypotheses: finished ones first, then those that were cut at the limit, both by
        decreasing score; of equal scores, the one that ended earlier comes first. There are fewer than `n_best` only if the
        search finds fewer different ones.

    Raises:
        RequestError: If an argument is out of range, or the model's scores are not finite.

    Reference:
        Wu et al. 2016, "Google's Neural Machine Translation System", section 7 (without the coverage penalty);
        for the reward see `score_of`.
    """
    check_beam(beam_size, n_best, length_penalty, length_reward)
    check_sites(model, record)
    model.check_reweight(reweight)
    if not len(source):
        return []
    limits = length_limits(source_mask, max_length, guidance, restrictions.min_length)
    extension = _extension(beam_size, guidance, restrictions, limits)
    model, state, trace = begin_search(model, source, source_mask, record, reweight)
    live, finished = _Live.begin(limits, n_best, length_penalty, length_reward), Finished()
    while True:
        logits, attention, state = model.step(live.tokens, state, record=record, reweight=reweight)
        end_cost = end_cost_of(length_reward, live.limits, live.length + 1)
        parent, tokens, total = extension.extend(live.rows, live.length, live.total, logits, end_cost)
        total = live.without_done(total)
        trace.add(live.rows, parent, tokens, total, attention)
        done = live.advance(tokens, total, trace, beam_size=beam_size, handicap=extension.handicap)
        kept = finished.others(done)
        if kept is not None:
            live.keep(kept)
            extension.keep(kept)
            if not len(kept):
                break
            state, parent = state.keep(kept), parent[kept]
        state = _follow(state, parent, logits.shape[1])
    if isinstance(extension, Constrained):  # several hypotheses may have the same words
        return [_different(found)[:n_best] for found in trace.best(beam_size)]
    return trace.best(n_best)


def _extension(beam_size: int, guidance: Guidance | None, restrictions: Restrictions, limits: Int[Tensor, " B"]) -> Extension:
    if guidance is not None and guidance.constrains:
        if restrictions:
            raise RequestError(
                "required phrases and restrictions (a minimum length, no repeated n-grams, a repetition penalty, suppressed "
                "words or groups) are both given; leave one of the two out"
            )
        return Constrained(beam_size, guidance, limits)
    prefix = None if guidance is None else guidance.prefix(limits.device)
    return Restricted(beam_size, restrictions, prefix) if restrictions else BestOfAll(beam_size, prefix)


def _different(found: list[Hypothesis]) -> list[Hypothesis]:
    """Return the hypotheses without duplicates; the first of equal ones stays."""
    first: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in found:
        first.setdefault(tuple(hypothesis.tokens), hypothesis)
    return list(first.values())


@dataclass
class _Live:
    """The live hypotheses of the sentences that are still in the batch."""

    rows: Int[Tensor, " B"]  # index of the sentence in the whole batch, with which the search began
    tokens: Int[Tensor, "B N"]  # last word of each hypothesis
    total: Float[Tensor, "B N"]  # log probability of each hypothesis; −∞ if it has ended
    limits: Int[Tensor, " B"]  # maximum number of steps of each sentence
    num_finished: Int[Tensor, " B"]  # number of finished hypotheses of each sentence
    best: Float[Tensor, "B M"]  # the n_best highest scores of finished hypotheses, decreasing; −∞ if there are fewer
    length_penalty: float
    length_reward: float
    length: int = 0  # number of steps so far
    handicap: Float[Tensor, "B N"] | None = None  # cost that restrictions add to each hypothesis; None for zero
    _done: Bool[Tensor, " B"] | None = None  # sentences whose search has ended; None before the first step

    @classmethod
    def begin(cls, limits: Int[Tensor, " B"], n_best: int, length_penalty: float, length_reward: float) -> "_Live":
        num, device = len(limits), limits.device
        return cls(
            rows=torch.arange(num, device=device),
            tokens=torch.full((num, 1), START, device=device),
            total=torch.zeros((num, 1), device=device),
            limits=limits,
            num_finished=torch.zeros(num, dtype=torch.int64, device=device),
            best=torch.full((num, n_best), -torch.inf, device=device),
            length_penalty=length_penalty,
            length_reward=length_reward,
        )

    def advance(
        self, tokens: Tensor, total: Tensor, trace: Trace, *, beam_size: int, handicap: Tensor | None
    ) -> Bool[Tensor, " B"]:
        """Add the hypotheses of a step, remove those that end, and return True for each sentence whose search is done."""
        self.length += 1
        self.handicap = handicap
        ended = (tokens == END) & total.isfinite()
        if may_hold(ended):
            score = self._score(total, float(self.length))
            trace.end(ended, score, finished=True)
            self.num_finished = self.num_finished + ended.sum(1)
            pool = torch.cat([self.best, score.masked_fill(~ended, -torch.inf)], 1)
            self.best = pool.topk(self.best.shape[1], 1).values
            total = total.masked_fill(ended, -torch.inf)
        cut = self.limits <= self.length
        if may_hold(cut):
            score = self._score(total, float(self.length))
            trace.end(cut[:, None] & total.isfinite(), score, finished=False)
        self.tokens, self.total = tokens, total
        self._done = (self.num_finished >= beam_size) | (self._bound() <= self.best[:, -1]) | cut
        return self._done

    def without_done(self, total: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """Return the log probabilities, with −∞ for done sentences; on a GPU, these stay in the batch for some more steps."""
        if self._done is None or is_free_to_read(total):
            return total
        return total.masked_fill(self._done[:, None], -torch.inf)

    def _score(self, total: Tensor, length: Length) -> Tensor:
        return score_of(self._worth(total), length, self.length_penalty, self.length_reward)

    def _worth(self, total: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """Return the values by which hypotheses are compared: their log probability minus the cost of restrictions."""
        return total if self.handicap is None else total - self.handicap

    def _bound(self) -> Float[Tensor, " B"]:
        """Return for each sentence an upper bound of the final scores of its live hypotheses."""
        best, most = self._worth(self.total).amax(1), self.limits.float()
        bound = score_of(best, most, self.length_penalty, self.length_reward)
        if not self.length_reward:
            return bound
        rewarded = best + self.length_reward * (most - self.length)
        return torch.maximum(bound, score_of(rewarded, float(self.length), self.length_penalty, self.length_reward))

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        """Keep only the sentences with the indices `kept` in the current batch."""
        self.rows, self.tokens, self.total = self.rows[kept], self.tokens[kept], self.total[kept]
        self.limits, self.num_finished, self.best = self.limits[kept], self.num_finished[kept], self.best[kept]
        self._done = None if self._done is None else self._done[kept]


def _follow(state: DecoderState, parent: Int[Tensor, "B N"], num_before: int) -> DecoderState:
    """Return the state in which each hypothesis continues its parent. On a CPU, an unchanged order needs no copy."""
    if parent.shape[1] == num_before and is_free_to_read(parent):
        own = torch.arange(num_before, device=parent.device)
        if bool((parent == own).all()):
            return state
    return state.select(parent)
