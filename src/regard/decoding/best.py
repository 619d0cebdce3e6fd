"""Greedy search and beam search: the best continuations of all hypotheses of a sentence form the next step.

With restrictions, continuations are compared by their log probability minus a cost. With several groups, each group has its
part of the beam, and a penalty for words that earlier groups chose at the same step.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from regard.config import DecodingConfig
from regard.config.settings import override
from regard.decoding.constraints import Constrained
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.restrictions import restricts_words, word_costs
from regard.decoding.search import (
    DEFAULT_DECODING,
    Chooser,
    Chosen,
    Follow,
    Ranking,
    Step,
    check_request,
    length_limits,
    run_search,
)
from regard.errors import RequestError
from regard.models.seq2seq import Seq2Seq, Source
from regard.reweight import ReweightBySite
from regard.text.symbols import END

# Number of consecutive words in a run; see `best_continuations`.
_RUN = 64
# Up to this number of values, comparing all of them is as fast.
_FEW = 1 << 16


def greedy(
    model: Seq2Seq,
    source: Source,
    source_mask: Bool[Tensor, "B S"],
    decoding: DecodingConfig = DEFAULT_DECODING,
    **options: Any,
) -> list[Hypothesis]:
    """Take the most probable word at each step: a `beam_search` with a beam of one, which returns one hypothesis per sentence.

    Before the limit, the length reward is subtracted from the log probability of the end symbol. The length penalty only
    affects the reported score.
    """
    found = beam_search(model, source, source_mask, replace(decoding, beam_size=1), **options)
    return [hypothesis for [hypothesis] in found]


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    source: Source,
    source_mask: Bool[Tensor, "B S"],
    decoding: DecodingConfig = DEFAULT_DECODING,
    *,
    n_best: int = 1,
    guidance: Guidance | None = None,
    record: Collection[str] = (),
    reweight: ReweightBySite | None = None,
    follow: Follow | None = None,
    **settings: Any,
) -> list[list[Hypothesis]]:
    """Search for the targets with the best scores, see `score_of`; a beam of one is a greedy search.

    Args:
        model: The model, in evaluation mode.
        source: Source tokens, each sentence with its end symbol.
        source_mask: True for the source's symbols, False for padding.
        decoding: Settings of the search, such as the size of the beam, the length penalty, and restrictions, which cannot be
            combined with required phrases. Those of a whole translator (`replace_unknown`, `batch_tokens`, `precision`) have no
            effect. For `max_length`, see `length_limits`.
        n_best: Number of hypotheses to return for each sentence, at most the size of the beam.
        guidance: Words that targets must begin with, and phrases that they must contain.
        record: Attention sites to record.
        reweight: Functions that replace attention weights, by site; see `regard.reweight`. The new weights are recorded.
        follow: Function that is called after each step with the indices of the R sentences in this step, and their new words
            (R, N).
        settings: Settings that replace those in `decoding`: `beam_size=4`.

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
    decoding = override(decoding, settings, "beam_search")
    check_request(model, decoding, n_best, record, reweight)
    if decoding.beam_size > 1 and model.policy is not None and not model.policy.has_beam:
        raise RequestError(
            f"beam_size is {decoding.beam_size}, but this model chooses each word before it reads on (model.wait_k), and "
            "beam search revises earlier words; set beam_size to 1"
        )
    if not len(source):
        return []
    limits = length_limits(source_mask, decoding, guidance)
    phrases = guidance if guidance is not None and guidance.constrains else None
    in_groups = decoding.groups > 1 < decoding.beam_size
    if phrases is not None and (restricts_words(decoding) or in_groups):
        raise RequestError(
            "required phrases and restrictions (a minimum length, no repeated n-grams, a repetition penalty, suppressed "
            "words or groups) are both given; leave one of the two out"
        )
    chooser: Chooser = Best(decoding) if phrases is None else Constrained(decoding.beam_size, phrases, limits)
    # Several hypotheses may have the same words, because they met the phrases in different ways or belong to different groups.
    wanted = decoding.beam_size if (phrases is not None or in_groups) and n_best > 1 else n_best
    ranking = Ranking(limits, wanted, decoding.length_penalty, decoding.length_reward)
    trace = run_search(
        model, source, source_mask, chooser, ranking, guidance=guidance, record=record, reweight=reweight, follow=follow
    )
    return [_different(found)[:n_best] for found in trace.best(wanted)]


def _different(found: list[Hypothesis]) -> list[Hypothesis]:
    """Return the hypotheses without duplicates; the first of equal ones stays."""
    first: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in found:
        first.setdefault(tuple(hypothesis.tokens), hypothesis)
    return list(first.values())


class Best(Chooser):
    """Chooser of the best continuations over all hypotheses of a sentence, or of each group of them."""

    def __init__(self, decoding: DecodingConfig) -> None:
        beam_size, groups = decoding.beam_size, decoding.groups if decoding.beam_size > 1 else 1
        if beam_size % groups:
            raise RequestError(
                f"beam_size is {beam_size}, which does not split into {groups} groups of equal size; set it to a multiple of "
                f"{groups}"
            )
        self.width, self.reorders, self._groups = beam_size, beam_size > 1, groups
        self._decoding = decoding
        self._words: Tensor | None = None  # the words of each hypothesis so far, if restrictions depend on them

    def choose(self, step: Step) -> Chosen:
        values, worth, costs = step.log_probabilities, step.total, None
        if restricts_words(self._decoding):
            words = worth.new_zeros((*worth.shape, 0), dtype=torch.int64) if self._words is None else self._words
            costs = word_costs(self._decoding, values, words, step.forced)
            worth = worth if self.handicap is None else worth - self.handicap
        compared = values if costs is None else values - costs
        if step.end_cost is not None:
            ending = values[..., END].clone()  # copying all values would take longer than the selection
            compared[..., END] -= step.end_cost[:, None]
        choose = best_continuations if self._groups == 1 else self._choose_by_group
        parent, chosen, rank = choose(worth, compared, self.width // self._groups)
        if step.end_cost is not None:
            values[..., END] = ending
        place, possible = parent * values.shape[-1] + chosen, ~rank.isneginf()
        total = (step.total.gather(1, parent) + values.flatten(1).gather(1, place)).masked_fill(~possible, -torch.inf)
        if costs is not None:
            before = 0.0 if self.handicap is None else self.handicap.gather(1, parent)
            self.handicap = before + costs.flatten(1).gather(1, place).masked_fill(~possible, 0.0)
            words = words.gather(1, parent[..., None].expand(-1, -1, words.shape[-1]))
            self._words = torch.cat([words, chosen[..., None]], -1)
        return parent, chosen, total

    def _choose_by_group(self, worth: Float[Tensor, "B N"], compared: Float[Tensor, "B N V"], size: int) -> Chosen:
        """Return hypothesis, word and rank of each chosen continuation, group by group, with `size` places for each group."""
        vocabulary_size = compared.shape[-1]
        same = compared.new_zeros(len(compared), vocabulary_size)  # how often earlier groups chose each word at this step
        chosen = []
        for group in range(self._groups):
            first = group * size if compared.shape[1] > 1 else 0  # all groups begin with the one empty hypothesis
            part = slice(first, first + size)
            ranks = (worth[:, part, None] + compared[:, part] - self._decoding.diversity * same[:, None]).flatten(1)
            # Each group keeps its size, even if a small vocabulary has fewer words.
            rank, place = pad(ranks, (0, max(size - ranks.shape[1], 0)), value=-torch.inf).topk(size, 1)
            parent, word = (place // vocabulary_size + first).clamp(max=compared.shape[1] - 1), place % vocabulary_size
            same.scatter_add_(1, word, rank.isfinite().float())
            chosen.append((parent, word, rank))
        parent, word, rank = (torch.cat(column, 1) for column in zip(*chosen, strict=True))
        return parent, word, rank

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        if self._words is not None and self.handicap is not None:
            self._words, self.handicap = self._words[kept], self.handicap[kept]


def best_continuations(worth: Float[Tensor, "B N"], values: Float[Tensor, "B N V"], count: int) -> Chosen:
    """Return the continuations with the highest sums of `worth` and `values` over all hypotheses of a sentence.

    The best continuation is the first; there are fewer than `count` if fewer exist.
    """
    # On a CPU, selecting k of N·V ≈ 50,000 sums takes four times as long as reading them. But the k best words are in the k
    # runs (of 64 consecutive words) with the highest maxima. Computing maxima takes no longer than reading, and the selection
    # then compares 64·k words. With 250 hypotheses and 9,700 words, a step takes 2.8 ms, and 6.2 ms without runs.
    size = values.shape[2]
    covered = size // _RUN * _RUN
    if values.device.type != "cpu" or values.numel() <= _FEW or covered <= 2 * count * _RUN:
        sums = (worth[:, :, None] + values).flatten(1)
        found, place = sums.topk(min(count, sums.shape[1]), 1)
        return place // size, place % size, found
    # The sum of a run's best word and its hypothesis ranks the run; only words in the best `count` runs can be chosen.
    maxima = values[..., :covered].unflatten(-1, (-1, _RUN)).amax(-1)
    if covered < size:  # the last run is shorter
        maxima = torch.cat([maxima, values[..., covered:].amax(-1, keepdim=True)], -1)
    run = (worth[:, :, None] + maxima).flatten(1).topk(count, 1).indices
    parent, run = run // maxima.shape[2], run % maxima.shape[2]
    words = (run[:, :, None] * _RUN + torch.arange(_RUN)).flatten(1)
    parent, within = parent.repeat_interleave(_RUN, 1), words.clamp(max=size - 1)
    sums = worth.gather(1, parent) + values.flatten(1).gather(1, parent * size + within)
    found, place = sums.masked_fill_(words != within, -torch.inf).topk(count, 1)
    return parent.gather(1, place), words.gather(1, place), found
