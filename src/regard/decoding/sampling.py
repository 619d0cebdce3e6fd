"""Targets drawn from what the model thinks of them, word by word.

Each word is drawn from p(word)^(1/τ), renormalised over the words that the settings leave. Chance comes from a generator of
each sentence's own, so that what is drawn for it does not depend on what else is in the batch, nor on how many are drawn.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.beginning import Follow, begin_search
from regard.decoding.candidates import check_scores
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import Hypothesis, score_of
from regard.decoding.request import check_beam, check_sites, length_limits
from regard.decoding.restrictions import NO_RESTRICTIONS, Restrictions
from regard.errors import RequestError
from regard.models.seq2seq import Seq2Seq
from regard.reweight import ReweightBySite
from regard.text.symbols import END, PAD, START

_MOST = 1000
_NUCLEUS = 256
"""Words that are sorted first where a nucleus is wanted; nearly always they hold it."""
_COLDEST = 1e-30
"""Below this temperature scores would leave float32; the most probable word is all that is drawn long before."""
_BLOCK_ROWS = 64
"""Rows whose distribution functions exist at once, on a CPU."""


@dataclass(frozen=True)
class Sampling:
    """How targets are drawn.

    Raises:
        RequestError: If a setting is out of range.
    """

    count: int = 1
    """Samples of each sentence, 1 to 1,000."""
    temperature: float = 1.0
    """τ > 0: below 1 prefers what is probable, above 1 evens out."""
    top_k: int = 0
    """Draw among the k most probable words only; 0 for all."""
    top_p: float = 1.0
    """Draw among the fewest most probable words whose probabilities sum to p or more, 0 < p ≤ 1; after `top_k`."""
    seed: int = 0
    """With a sentence's number it decides what is drawn."""
    first: int = 0
    """Number of the first sentence, so that a file may be worked through in parts."""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= _MOST:
            raise RequestError(f"count is {self.count} samples a sentence, expected 1 to {_MOST:,}")
        if not 0 < self.temperature < float("inf"):
            raise RequestError(
                f"temperature is {self.temperature}, expected more than 0; 1 draws from the model as it is, and for the most "
                "probable word at each step search with a beam of one"
            )
        if self.top_k < 0:
            raise RequestError(f"top_k is {self.top_k}, expected 0 (all words) or more")
        if not 0 < self.top_p <= 1:
            raise RequestError(f"top_p is {self.top_p}, expected more than 0 and at most 1 (all words)")
        if self.seed < 0 or self.first < 0:
            raise RequestError(f"seed is {self.seed} and first {self.first}, expected 0 or more of both")


@torch.inference_mode()
def sample(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    sampling: Sampling = Sampling(),
    *,
    numbers: Sequence[int] | None = None,
    length_penalty: float = 1.0,
    length_reward: float = 0.0,
    max_length: int = 0,
    guidance: Guidance | None = None,
    restrictions: Restrictions = NO_RESTRICTIONS,
    record: Collection[str] = (),
    reweight: ReweightBySite | None = None,
    follow: Follow | None = None,
) -> list[list[Hypothesis]]:
    """Draw targets.

    Args:
        model: In evaluation mode.
        source: Each ends with the end symbol.
        source_mask: True for the source's symbols, False for padding.
        sampling: How to draw.
        numbers: The sentences' numbers, which seed their generators; None for 0, 1, …
        length_penalty: α of the reported score.
        length_reward: r of the reported score.
        max_length: Most steps, the end symbol's included; 0 for 2·S + 20 of each sentence's own length S, at most 500.
        guidance: What targets must begin with; phrases need `beam_search`.
        restrictions: What targets may not hold, or only at a cost, which is taken from the log probabilities before a word is
            drawn; groups need `beam_search`.
        record: Attention sites to record.
        reweight: Maps attention weights to those used in their place, by site; see `regard.reweight`. Recorded are those used.
        follow: Function that is called after each step with the rows of `source` that are still drawn and their words (R, N);
            a sample's words after its end symbol have no meaning.

    Returns:
        For each sentence `sampling.count` hypotheses, in the order drawn. Their log probabilities are the model's own, whatever
        the settings.

    Raises:
        RequestError: If an argument is out of range, or the model's scores are not finite.

    Reference:
        Fan et al. 2018 (top-k), section 5; Holtzman et al. 2020 (top-p), eq. 2–3.
    """
    check_beam(1, 1, length_penalty, length_reward)
    check_sites(model, record)
    model.check_reweight(reweight)
    if guidance is not None and guidance.constrains:
        raise RequestError("sampling does not look for constraints: leave one of the two out, or search with a beam")
    if not len(source):
        return []
    if restrictions.groups > 1:
        raise RequestError(f"groups is {restrictions.groups}, but sampling has no beam to split; leave groups out")
    limits = length_limits(source_mask, max_length, guidance, restrictions.min_length)
    prefix = None if guidance is None else guidance.prefix(source.device)
    chance = _chance(sampling, range(len(source)) if numbers is None else numbers, limits)
    rows = torch.arange(len(source), device=source.device)
    places = torch.arange(sampling.count, device=source.device).expand(len(source), -1)
    model, state, trace = begin_search(model, source, source_mask, record, reweight, follow)
    state = state.select(torch.zeros_like(places))
    tokens, total = torch.full_like(places, START), torch.zeros(places.shape, device=source.device)
    going, step = torch.ones_like(places, dtype=torch.bool), 0
    words = tokens[..., None][..., :0]
    while len(rows):
        logits, attention, state = model.step(tokens, state, record=record, reweight=reweight)
        log_probabilities = logits.float().log_softmax(-1)
        offered = log_probabilities - restrictions.costs(log_probabilities, words) if restrictions else log_probabilities
        tokens = _draw(offered, sampling, chance[rows, :, step])
        if prefix is not None and (forced := prefix.at(step, rows)) is not None:
            tokens = torch.where((forced != PAD)[:, None], forced[:, None], tokens)
        if restrictions:
            words = torch.cat([words, tokens[..., None]], -1)
        step += 1
        total = total + log_probabilities.gather(-1, tokens[..., None])[..., 0].masked_fill(~going, 0)
        trace.add(rows, places[rows], tokens, total, attention)
        ended, cut = going & (tokens == END), (limits[rows] == step)[:, None]
        score = score_of(total, float(step), length_penalty, length_reward)
        trace.end(ended, score, finished=True)
        trace.end(going & ~ended & cut, score, finished=False)
        going = going & ~ended & ~cut
        kept = going.any(1).nonzero()[:, 0]
        if len(kept) < len(rows):
            rows, tokens, total, going, state = rows[kept], tokens[kept], total[kept], going[kept], state.keep(kept)
            words = words[kept]
    return trace.all()


def _chance(sampling: Sampling, numbers: Sequence[int], limits: Int[Tensor, " B"]) -> Float[Tensor, "B N T"]:
    """Return the numbers in [0, 1) for each sentence, sample and step."""
    chance = torch.zeros(len(limits), sampling.count, int(limits.amax()), dtype=torch.float64)
    for row, (number, limit) in enumerate(zip(numbers, limits.tolist(), strict=True)):
        generator = np.random.default_rng([sampling.seed, sampling.first + number])
        chance[row, :, :limit] = torch.from_numpy(generator.random((sampling.count, limit)))
    return chance.to(limits.device)


def _draw(log_probabilities: Float[Tensor, "B N V"], sampling: Sampling, chance: Float[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Return a word for each, some rows at a time so that they stay in the cache."""
    rows, each = log_probabilities.flatten(0, 1), chance.flatten()
    block = _BLOCK_ROWS if rows.device.type == "cpu" else len(rows)
    drawn = [_draw_rows(part, sampling, own) for part, own in zip(rows.split(block), each.split(block), strict=True)]
    return torch.cat(drawn).view(chance.shape)


def _draw_rows(log_probabilities: Float[Tensor, "R V"], sampling: Sampling, chance: Float[Tensor, " R"]) -> Int[Tensor, " R"]:
    """Return the word where chance falls in the distribution function of those that are left."""
    scores = log_probabilities / max(sampling.temperature, _COLDEST)
    scores[:, [PAD, START]] = -torch.inf
    check_scores(scores.amax(-1))
    probabilities = scores.softmax(-1)
    words = None
    if sampling.top_k or sampling.top_p < 1:
        probabilities, words = _nucleus(probabilities, sampling)
    reached = probabilities.cumsum(-1, dtype=torch.float64)
    place = torch.searchsorted(reached, (chance * reached[:, -1])[:, None], right=True)
    # Rounding may put chance at the very end: the last word that has a probability is meant.
    last = torch.searchsorted(reached, reached[:, -1:].contiguous())
    place = torch.minimum(place, last)
    return (place if words is None else words.gather(-1, place))[:, 0]


def _nucleus(probabilities: Float[Tensor, "R V"], sampling: Sampling) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """Return the words that the settings leave, the most probable first; zero for those they do not."""
    count = min(sampling.top_k or _NUCLEUS, probabilities.shape[-1])
    found, words = probabilities.topk(count, -1)
    if not sampling.top_k and bool((found.sum(-1) < sampling.top_p).any()):  # rarely: all words have to be sorted
        found, words = probabilities.sort(dim=-1, descending=True, stable=True)
    if sampling.top_p < 1:
        found = found / found.sum(-1, keepdim=True) if sampling.top_k else found
        reached = found.cumsum(-1, dtype=torch.float64)
        found = found.masked_fill(reached - found >= sampling.top_p, 0)
    return found, words
