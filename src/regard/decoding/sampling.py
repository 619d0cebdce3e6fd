"""Sample targets word by word from the model's distribution.

Each word is drawn from p(word)^(1/τ) with the temperature τ, renormalised over the words that the settings allow. Each
sentence has its own random generator, so that its samples do not depend on the other sentences in the batch, or on the number
of samples.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Le
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.language import SamplingSettings
from regard.config.settings import override
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.restrictions import check_ranges, restricts_words, word_costs
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
from regard.machine import exact_dtype
from regard.models.seq2seq import Seq2Seq, Source
from regard.reweight import ReweightBySite

# Number of most probable words that are sorted first for `top_p`; they nearly always contain all words that it allows.
_NUCLEUS = 256
# Lowest temperature in computations. It replaces lower temperatures, with which scores would overflow in float32. At this
# temperature, only the most probable word is drawn.
_COLDEST = 1e-30


@dataclass(frozen=True)
class Sampling(SamplingSettings):
    """Settings of sampling."""

    count: Annotated[int, Ge(1), Le(1000)] = 1
    """Number of samples of each sentence."""
    first: Annotated[int, Ge(0), Le(2**63 - 1)] = 0
    """Number of the first sentence, so that a file can be processed in parts."""

    def __post_init__(self) -> None:
        check_ranges(Sampling, **vars(self))


@torch.inference_mode()
def sample(
    model: Seq2Seq,
    source: Source,
    source_mask: Bool[Tensor, "B S"],
    sampling: Sampling = Sampling(),
    decoding: DecodingConfig = DEFAULT_DECODING,
    *,
    numbers: Sequence[int] | None = None,
    guidance: Guidance | None = None,
    record: Collection[str] = (),
    reweight: ReweightBySite | None = None,
    follow: Follow | None = None,
    **settings: Any,
) -> list[list[Hypothesis]]:
    """Sample targets.

    Args:
        model: The model, in evaluation mode.
        source: Source tokens, each sentence with its end symbol.
        source_mask: True for the source's symbols, False for padding.
        sampling: Settings of sampling.
        decoding: Restrictions, whose costs are subtracted from the log probabilities before a word is drawn, the maximum
            length, and the length penalty and reward of the reported score. Beam and groups have no effect.
        numbers: Number of each sentence; None for 0, 1, … Together with `sampling.seed` and `sampling.first`, it seeds the
            generator of the sentence.
        guidance: Words that targets must begin with; required phrases need `beam_search`.
        record: Attention sites to record.
        reweight: As for `beam_search`.
        follow: As for `beam_search`; a sample's words after its end symbol have no meaning.
        settings: As for `beam_search`.

    Returns:
        For each sentence `sampling.count` hypotheses, in the order of drawing. Their log probabilities are those of the model;
        temperature, `top_k`, `top_p` and restrictions do not change them.

    Reference:
        Fan et al. 2018 (top-k), section 5; Holtzman et al. 2020 (top-p), eq. 2–3.
    """
    decoding = override(decoding, settings, "sample")
    check_request(model, decoding, 1, record, reweight)
    if guidance is not None and guidance.constrains:
        raise RequestError("sampling does not support phrases that targets must contain: leave them out, or use a beam search")
    if not len(source):
        return []
    limits = length_limits(source_mask, decoding, guidance)
    chooser = _Drawn(sampling, _chance(sampling, range(len(source)) if numbers is None else numbers, limits), decoding)
    ranking = Ranking(limits, sampling.count, decoding.length_penalty, decoding.length_reward)
    trace = run_search(
        model, source, source_mask, chooser, ranking, guidance=guidance, record=record, reweight=reweight, follow=follow
    )
    return trace.all()


def _chance(sampling: Sampling, numbers: Sequence[int], limits: Int[Tensor, " B"]) -> Float[Tensor, "B N T"]:
    """Return a random number in [0, 1) for each sentence, sample and step."""
    chance = torch.zeros(len(limits), sampling.count, int(limits.amax()), dtype=torch.float64)
    for row, (number, limit) in enumerate(zip(numbers, limits.tolist(), strict=True)):
        # The numbers of a sentence depend on its number alone, so batches and parts of a file do not change them.
        generator = np.random.default_rng([sampling.seed, sampling.first + number])
        chance[row, :, :limit] = torch.from_numpy(generator.random((sampling.count, limit)))
    return chance.to(limits.device, exact_dtype(limits.device))


class _Drawn(Chooser):
    """Chooser that continues each hypothesis with a random word, given a random number for each sentence, sample and step."""

    def __init__(self, sampling: Sampling, chance: Float[Tensor, "B N T"], decoding: DecodingConfig) -> None:
        self.width, self._sampling, self._chance, self._decoding = sampling.count, sampling, chance, decoding
        self._restricts = restricts_words(decoding)
        self._places = torch.arange(sampling.count, device=chance.device).expand(len(chance), -1)
        self._words = chance.new_zeros((*chance.shape[:2], 0), dtype=torch.int64)

    def choose(self, step: Step) -> Chosen:
        """Draw a word for each hypothesis; the first step draws the first words of all samples of a sentence."""
        values = step.log_probabilities.expand(-1, self.width, -1)
        offered = values
        if self._restricts:
            offered = values - word_costs(self._decoding, values, self._words, step.forced)
        chance = self._chance[step.rows, :, min(step.number, self._chance.shape[2] - 1)]
        words = _draw(offered, self._sampling, chance)
        if self._restricts:
            self._words = torch.cat([self._words, words[..., None]], -1)
        # In the first step, all samples continue the one empty hypothesis.
        parent = self._places[: len(words)].clamp(max=step.total.shape[1] - 1)
        return parent, words, step.total + values.gather(-1, words[..., None])[..., 0]

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        self._words = self._words[kept]


def _draw(log_probabilities: Float[Tensor, "B N V"], sampling: Sampling, chance: Float[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Return for each hypothesis the first allowed word at which the cumulative share of probability exceeds `chance`."""
    probabilities = (log_probabilities / max(sampling.temperature, _COLDEST)).softmax(-1)
    words = None
    if sampling.top_k or sampling.top_p < 1:
        probabilities, words = _nucleus(probabilities, sampling)
    reached = probabilities.cumsum(-1, dtype=exact_dtype(probabilities.device))
    place = torch.searchsorted(reached, (chance * reached[..., -1])[..., None], right=True)
    # If rounding moves `chance` beyond the end, take the last word with a positive probability. If all are NaN, take any word:
    # the search then finds that its log probability is NaN or −∞.
    last = torch.searchsorted(reached, reached[..., -1:].contiguous())
    place = torch.minimum(place, last).clamp(max=reached.shape[-1] - 1)
    return (place if words is None else words.gather(-1, place))[..., 0]


def _nucleus(probabilities: Float[Tensor, "B N V"], sampling: Sampling) -> tuple[Float[Tensor, "B N K"], Int[Tensor, "B N K"]]:
    """Return probabilities and their words, the highest first; the probability is 0 for words that `top_p` excludes."""
    count = min(sampling.top_k or _NUCLEUS, probabilities.shape[-1])
    found, words = probabilities.topk(count, -1)
    if not sampling.top_k and bool((found.sum(-1) < sampling.top_p).any()):  # rare case: all words must be sorted
        found, words = probabilities.sort(dim=-1, descending=True, stable=True)
    if sampling.top_p < 1:
        found = found / found.sum(-1, keepdim=True) if sampling.top_k else found
        reached = found.cumsum(-1, dtype=exact_dtype(found.device))
        found = found.masked_fill(reached - found >= sampling.top_p, 0)
    return found, words
