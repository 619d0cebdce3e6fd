"""The search loop: greedy search, beam search and sampling.

Each step extends the live hypotheses of a sentence (those without an end symbol) by every word. A *chooser* decides which of
these continuations form the next step: the ones with the highest log probabilities (`best`), those that lead to required
phrases (`constraints`), or random ones (`sampling`). Continuations with the end symbol leave the beam, and the next step fills
their places with other hypotheses. Greedy search is a beam of one. A finished hypothesis Y has the score

    (log p(Y | X) + r·|Y|) / ((5 + |Y|) / 6)^α        |Y| counts the end symbol

with the length reward r and the length penalty α. A hypothesis that continues gets at least one more symbol than one that ends
now, and so at least one more reward r. To compare the two, a step subtracts r from the log probability of the one that ends,
except at the length limit. The search of a sentence stops when

* as many hypotheses have finished as the beam has places,
* no live hypothesis can become one of the `n_best`, or
* the sentence's length limit is reached. Hypotheses that are cut there rank after all finished ones.

The second rule needs an upper bound of the final score of a live hypothesis. Its log probability can only decrease, and it gets
at most r·limit of rewards, so the numerator is at most log p(live) + r·limit. The denominator grows with the length: if this
numerator is negative, the bound divides it by the denominator at the limit, and otherwise by the one at the current length.

The results for a sentence do not depend on the other sentences in the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.training import describe_length_conflict
from regard.decoding.guidance import Guidance
from regard.decoding.hypothesis import length_penalty_of, score_of
from regard.decoding.restrictions import check_ranges
from regard.decoding.trace import Trace, not_finite
from regard.errors import RequestError, nearest
from regard.inference import pack
from regard.models.seq2seq import DecoderState, Seq2Seq, Source
from regard.reweight import ReweightBySite
from regard.text.symbols import END, PAD, START

DEFAULT_DECODING = DecodingConfig()
# Maximum length that can be requested. Without it, the settings of an untrusted model could request an endless search.
MOST_STEPS = 100_000
# Largest limit that is computed from the length of a sentence; it cuts targets that would never end.
_LONGEST = 500
# Share of the sentences in a batch that must have finished before a CPU copies the others into a smaller batch. Copying them
# after each finished sentence takes 10% more time for 1,000 sentences of 12 words.
_LEAST_DONE = 0.2
# Number of steps that a GPU computes before the search reads which sentences have finished.
_STEPS_AHEAD = 8

Chosen = tuple[Int[Tensor, "B M"], Int[Tensor, "B M"], Float[Tensor, "B M"]]
"""Parent, word and log probability of the next M hypotheses of each sentence. A parent is an index in the previous step."""

Follow = Callable[[Tensor, Tensor], None]
"""Function that is called after each step with the indices of the R sentences in this step, and their new words (R, N)."""


@dataclass(frozen=True)
class Step:
    """A step of a search: the live hypotheses of B sentences, and the scores of their next words."""

    rows: Int[Tensor, " B"]
    """Indices of the sentences in the batch with which the search began."""
    number: int
    """Number of the word, from 0."""
    total: Float[Tensor, "B N"]
    """Log probabilities of the hypotheses; −∞ for those that do not continue."""
    log_probabilities: Float[Tensor, "B N V"]
    """Log probabilities of the next words; −∞ for padding, the start symbol, and all words but one if that word is forced."""
    forced: Int[Tensor, " B"] | None
    """The only word that may follow in each sentence, or padding if any word may; None if no word is forced."""
    end_cost: Float[Tensor, " B"] | None
    """Amount, ≥ 0, that is subtracted from the log probability of the end symbol in comparisons; None for 0."""


class Chooser(ABC):
    """An object that chooses the continuations that form the next step."""

    width: int
    """Maximum number of hypotheses of a sentence."""
    reorders: bool = False
    """Whether a hypothesis may continue another one than that of its own index."""
    handicap: Tensor | None = None
    """Amount (B,M) that comparisons subtract from the log probability of each hypothesis of the last step; None for nothing."""

    @abstractmethod
    def choose(self, step: Step) -> Chosen:
        """Choose the continuations of a step; there are fewer than `width` if fewer exist."""

    @abstractmethod
    def keep(self, kept: Int[Tensor, " M"]) -> None:
        """Keep only the sentences whose indices in the last step are in `kept`."""


@dataclass(frozen=True)
class Ranking:
    """The score of hypotheses and the length limits, by which a search compares hypotheses and decides when it stops."""

    limits: Int[Tensor, " B"]
    """Maximum number of steps of each sentence."""
    n_best: int
    length_penalty: float
    length_reward: float

    def score(self, worth: Float[Tensor, "B N"], length: int) -> Float[Tensor, "B N"]:
        """Return the scores of hypotheses that end with `length` symbols."""
        return score_of(worth, float(length), self.length_penalty, self.length_reward)

    def bound(self, worth: Float[Tensor, "B N"], length: int) -> Float[Tensor, " B"]:
        """Return for each sentence an upper bound of the final scores of its live hypotheses."""
        most = worth.amax(1)
        if self.length_reward:
            most = most + self.length_reward * self.limits.float()
        now = length_penalty_of(float(length), self.length_penalty)
        return torch.maximum(most / self._penalty_at_limit, most / now)

    @cached_property
    def _penalty_at_limit(self) -> Float[Tensor, " B"]:
        return length_penalty_of(self.limits.float(), self.length_penalty)

    def end_cost(self, length: int) -> Float[Tensor, " B"] | None:
        """Return the cost of ending with `length` symbols: the reward for one more symbol, except at the limit."""
        return self.length_reward * (self.limits > length).float() if self.length_reward else None

    def keep(self, kept: Int[Tensor, " M"]) -> "Ranking":
        """Return the ranking of the sentences with the indices `kept`."""
        return replace(self, limits=self.limits[kept])


def run_search(
    model: Seq2Seq,
    source: Source,
    source_mask: Bool[Tensor, "B S"],
    chooser: Chooser,
    ranking: Ranking,
    *,
    guidance: Guidance | None,
    record: Collection[str],
    reweight: ReweightBySite | None,
    follow: Follow | None = None,
) -> Trace:
    """Extend hypotheses step by step until the search of every sentence has stopped, and return the history of the search."""
    device, width = source.device, chooser.width
    prefix = None if guidance is None else guidance.prefix(device)
    model = pack(model, len(source))
    state = model.encode(source, source_mask, record=record, reweight=reweight)
    trace, length = Trace(source_mask), 0
    rows = torch.arange(len(source), device=device)
    words = torch.full((len(source), 1), START, device=device)
    total = torch.zeros(words.shape, device=device)
    best = total.new_full((len(source), width), -torch.inf)  # the highest scores of finished hypotheses, decreasing
    while len(rows):
        logits, attention, state = model.step(words, state, record=record, reweight=reweight)
        forced = prefix[rows, length] if prefix is not None and length < prefix.shape[1] else None
        values = _producible(logits, forced)
        before, length = words.shape[1], length + 1
        step = Step(rows, length - 1, total, values, forced, ranking.end_cost(length))
        parent, words, total = chooser.choose(step)
        if is_free_to_read(total) and bool(total.isnan().any()):  # on a GPU, the trace finds this at the end
            raise not_finite()
        trace.add(rows, parent, words, total, attention)
        if follow is not None:  # finished hypotheses get no word except the end symbol
            follow(rows, words.masked_fill(total.isneginf(), END))
        worth = total if chooser.handicap is None else total - chooser.handicap
        ended, cut = (words == END) & total.isfinite(), ranking.limits <= length
        if may_hold(ended):
            score = ranking.score(worth, length)
            trace.end(ended, score, finished=True)
            best = torch.cat((best, score.masked_fill(~ended, -torch.inf)), 1).topk(width, 1).values
            total, worth = (each.masked_fill(ended, -torch.inf) for each in (total, worth))
        if may_hold(cut):
            trace.end(cut[:, None] & total.isfinite(), ranking.score(worth, length), finished=False)
        done = cut | ~best[:, -1].isneginf() | (ranking.bound(worth, length) <= best[:, ranking.n_best - 1])
        total = total.masked_fill(done[:, None], -torch.inf)  # until the batch shrinks, they stay in it without live hypotheses
        # Reading a value waits for a GPU.
        ready = done.sum() >= _LEAST_DONE * len(done) if is_free_to_read(done) else length % _STEPS_AHEAD == 0
        if ready and len(going := (~done).nonzero()[:, 0]) < len(rows):
            rows, words, total, best, parent = (each[going] for each in (rows, words, total, best, parent))
            ranking, state = ranking.keep(going), state.keep(going)
            chooser.keep(going)
        if chooser.reorders or words.shape[1] != before:
            state = _follow_parents(state, parent, before)
    return trace


def _producible(logits: Float[Tensor, "B N V"], forced: Int[Tensor, " B"] | None) -> Float[Tensor, "B N V"]:
    """Return the log probabilities of the next words, in float32; −∞ for padding, the start symbol, and words not forced."""
    # Probabilities refer to the whole vocabulary, so that they equal those that `force` computes.
    values = logits.log_softmax(-1, dtype=torch.float32)
    values[..., PAD] = values[..., START] = -torch.inf
    if forced is None:
        return values
    others = torch.ones_like(values[:, 0], dtype=torch.bool).scatter_(1, forced[:, None], False)
    return values.masked_fill_((others & (forced != PAD)[:, None])[:, None], -torch.inf)


def _follow_parents(state: DecoderState, parent: Int[Tensor, "B N"], before: int) -> DecoderState:
    """Return the state in which each hypothesis continues its parent. On a CPU, an unchanged order needs no copy."""
    own = torch.arange(before, device=parent.device)
    same = parent.shape[1] == before and is_free_to_read(parent) and bool((parent == own).all())
    return state if same else state.select(parent)


def is_free_to_read(tensor: Tensor) -> bool:
    """Return whether a search can read values of the tensor at each step without waiting."""
    # On a GPU, reading waits until earlier operations have run; PyTorch's device `meta` has no values.
    return tensor.device.type not in ("cuda", "meta")


def may_hold(mask: Tensor) -> bool:
    """Return whether an element of the mask may be True: exact on a CPU; always True on a GPU, where reading would wait."""
    return not is_free_to_read(mask) or bool(mask.any())


def length_limits(
    source_mask: Bool[Tensor, "B S"], decoding: DecodingConfig, guidance: Guidance | None = None
) -> Int[Tensor, " B"]:
    """Return the maximum number of steps of each sentence, including the one for the end symbol.

    Without a `max_length`, it is min(2·S + 20, 500) for a sentence with S source symbols, plus the number of words that
    `guidance` requires, and at least `min_length` + 20.
    """
    max_length, min_length = decoding.max_length, decoding.min_length
    if not 0 <= max_length <= MOST_STEPS:
        raise RequestError(f"max_length is {max_length}, expected 0 to {MOST_STEPS:,}; 0 means twice the source length plus 20")
    if min_length >= MOST_STEPS:
        raise RequestError(f"min_length is {min_length} tokens, expected at most {MOST_STEPS - 1:,}")
    if message := describe_length_conflict(min_length, max_length):
        raise RequestError(message)
    if guidance is not None and len(guidance.prefixes) != len(source_mask):
        raise RequestError(
            f"got {len(source_mask)} sentences, but guidance for {len(guidance.prefixes)}; expected guidance for each sentence"
        )
    required = torch.zeros_like(source_mask[:, 0], dtype=torch.int64) if guidance is None else guidance.room(source_mask.device)
    if not max_length:
        return ((2 * source_mask.sum(1) + 20).clamp(max=_LONGEST) + required).clamp(min=min_length + 20)
    if guidance is not None and (most := int(required.amax())) >= max_length:
        raise RequestError(
            f"max_length is {max_length}, but the prefix and the constraints of a sentence need {most} symbols plus the end "
            f"symbol: allow at least {most + 1}"
        )
    return torch.full_like(required, max_length)


def check_request(
    model: Seq2Seq, decoding: DecodingConfig, n_best: int, record: Collection[str], reweight: ReweightBySite | None
) -> None:
    """Check the arguments that every search and `force` have."""
    check_ranges(DecodingConfig, **vars(decoding))
    beam_size = decoding.beam_size
    if not 1 <= n_best <= beam_size:
        larger = "; raise beam_size or lower n_best" if n_best > beam_size else ""
        raise RequestError(f"n_best is {n_best}, expected 1 to beam_size, which is {beam_size}{larger}")
    for site in record:
        if site not in (*model.sites, *model.measures):
            known = ", ".join(model.sites) or "none"
            raise RequestError(f"record names the attention {site!r}; this model has: {known}{nearest(site, model.sites)}")
    model.check_reweight(reweight)
