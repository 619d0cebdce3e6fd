"""Greedy search: the best word at each step."""

from collections.abc import Collection

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.decoding.beginning import Follow, begin_search
from regard.decoding.extension import BestOfAll, Extension, end_cost_of
from regard.decoding.finished import Finished, is_free_to_read, may_hold
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import Hypothesis, score_of
from regard.decoding.request import check_beam, check_sites, length_limits
from regard.decoding.restrictions import NO_RESTRICTIONS, Restricted, Restrictions
from regard.errors import RequestError
from regard.models.seq2seq import Seq2Seq
from regard.reweight import ReweightBySite
from regard.text.symbols import END, START


@torch.inference_mode()
def greedy(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    *,
    length_penalty: float = 1.0,
    length_reward: float = 0.0,
    max_length: int = 0,
    guidance: Guidance | None = None,
    restrictions: Restrictions = NO_RESTRICTIONS,
    record: Collection[str] = (),
    reweight: ReweightBySite | None = None,
    follow: Follow | None = None,
) -> list[Hypothesis]:
    """Take the most probable word at each step, until it is the end symbol or the length limit is reached.

    Before the limit, the length reward is subtracted from the log probability of the end symbol. Finished sentences leave the
    batch.

    Args:
        model: The model, in evaluation mode.
        source: Source tokens, each sentence with its end symbol.
        source_mask: True for the source's symbols, False for padding.
        length_penalty: α of the reported score, see `score_of`; it does not affect the search.
        length_reward: r of `score_of`, in nats. Before the limit, the end symbol is taken only if its log probability exceeds
            that of every other word by more than r.
        max_length: Maximum number of steps, including the one for the end symbol. 0 for a limit of min(2·S + 20, 500) for a
            sentence with S source symbols, plus the number of words that `guidance` requires. This limit is never less than
            `restrictions.min_length` + 20.
        guidance: Words that targets must begin with; required phrases need `beam_search`.
        restrictions: Restrictions such as a minimum length or words that targets must not contain; groups need `beam_search`.
        record: Attention sites to record.
        reweight: Functions that replace attention weights, by site; see `regard.reweight`. The new weights are recorded.
        follow: Function that is called after each step with the indices of the R sentences in this step, and their new words
            (R, 1).

    Returns:
        A hypothesis for each sentence; it is unfinished if it reached the length limit.

    Raises:
        RequestError: If an argument is out of range, or the model's scores are not finite.
    """
    check_beam(1, 1, length_penalty, length_reward)
    check_sites(model, record)
    model.check_reweight(reweight)
    if guidance is not None and guidance.constrains:
        raise RequestError("greedy search does not support required phrases; use beam_search, with a beam of one")
    if not len(source):
        return []
    limits = length_limits(source_mask, max_length, guidance, restrictions.min_length)
    prefix = None if guidance is None else guidance.prefix(source.device)
    extension: Extension = Restricted(1, restrictions, prefix) if restrictions else BestOfAll(1, prefix)
    model, state, trace = begin_search(model, source, source_mask, record, reweight, follow)
    rows = torch.arange(len(source), device=source.device)
    tokens = torch.full((len(source), 1), START, device=source.device)
    total = torch.zeros((len(source), 1), device=source.device)
    going, finished = torch.ones_like(tokens, dtype=torch.bool), Finished()
    length = 0
    while True:
        length += 1
        logits, attention, state = model.step(tokens, state, record=record, reweight=reweight)
        end_cost = end_cost_of(length_reward, limits, length)
        _, tokens, total = extension.extend(rows, length - 1, total, logits, end_cost)
        if not is_free_to_read(tokens):  # sentences that have finished may remain in the batch for some steps
            tokens, total = tokens.masked_fill(~going, END), total.masked_fill(~going, -torch.inf)
        trace.add(rows, torch.zeros_like(tokens), tokens, total, attention)
        ended, cut = going & (tokens == END), going & (limits <= length)[:, None]
        if may_hold(ended | cut):
            worth = total if extension.handicap is None else total - extension.handicap
            score = score_of(worth, float(length), length_penalty, length_reward)
            trace.end(ended, score, finished=True)
            trace.end(cut & ~ended, score, finished=False)
            going = going & ~ended & ~cut
        kept = finished.others(~going[:, 0])
        if kept is not None:
            if not len(kept):
                break
            rows, tokens, total, limits, going = rows[kept], tokens[kept], total[kept], limits[kept], going[kept]
            state = state.keep(kept)
            extension.keep(kept)
    return [found for [found] in trace.best(1)]
