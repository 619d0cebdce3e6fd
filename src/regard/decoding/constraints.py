"""Beam search for targets that contain given phrases: lexical constraints by dynamic beam allocation.

A hypothesis contains some of its sentence's phrases, and perhaps the first words of another phrase. Besides the most probable
words, a step considers for each hypothesis every word that begins a missing phrase or continues the unfinished one. These
candidates are grouped into *banks* by the number of constraint words (words of phrases) that they contain. The places of the
beam go to the best candidate of each bank, then to the second best of each, and so on, beginning with the bank that has the
most constraint words. So candidates with many constraint words do not compete with those without any, and the beam has the same
size as without constraints.

Two rules ensure that every target contains its phrases: the end symbol may follow only if no phrase is missing, and candidates
that leave too few steps for the missing phrases are removed. A candidate that continues a phrase always exists, so a search
always finds a target.

All hypotheses of all sentences are computed at once. A sentence without phrases has one bank, so its result is the same as
without constraints (`Best`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.guidance import Guidance, padded
from regard.decoding.search import Chooser, Chosen, Step
from regard.text.symbols import END, PAD, UNKNOWN


@dataclass(frozen=True)
class _Progress:
    """Progress of each hypothesis through the phrases of its sentence."""

    met: Bool[Tensor, "B N C"]  # phrases that the hypothesis contains; True for padding
    phrase: Int[Tensor, "B N"]  # the unfinished phrase, if `position` is not 0
    position: Int[Tensor, "B N"]  # number of words of that phrase so far; 0 if no phrase is unfinished
    closed: Bool[Tensor, "B N"]  # whether the last word ended a phrase

    def pick(self, index: Int[Tensor, "B M"]) -> "_Progress":
        met = self.met.gather(1, index[..., None].expand(-1, -1, self.met.shape[2]))
        return _Progress(met, self.phrase.gather(1, index), self.position.gather(1, index), self.closed.gather(1, index))

    def keep(self, kept: Int[Tensor, " M"]) -> "_Progress":
        return _Progress(self.met[kept], self.phrase[kept], self.position[kept], self.closed[kept])


@dataclass(frozen=True)
class _Phrases:
    """The phrases that the targets of B sentences must contain: at most C phrases per sentence, of at most L words."""

    words: Int[Tensor, "B C L"]  # the words of each phrase, followed by padding
    lengths: Int[Tensor, "B C"]  # 0 for a phrase that is padding
    before: Bool[Tensor, "B C C"]  # [c,d]: phrase d equals phrase c and precedes it
    limits: Int[Tensor, " B"]

    @classmethod
    def of(cls, phrases: Sequence[Sequence[Sequence[int]]], limits: Int[Tensor, " B"]) -> "_Phrases":
        most = max(map(len, phrases))
        flat = padded([phrase for own in phrases for phrase in [*own, *[()] * (most - len(own))]])
        words = flat.view(len(phrases), most, -1).to(limits.device)
        same = (words[:, :, None] == words[:, None]).all(-1)
        return cls(words, (words != PAD).sum(-1), same.tril(-1), limits)

    def keep(self, kept: Int[Tensor, " M"]) -> "_Phrases":
        return _Phrases(self.words[kept], self.lengths[kept], self.before[kept], self.limits[kept])

    def begin(self) -> _Progress:
        """Return the initial progress, in which all phrases are missing."""
        nothing = torch.zeros_like(self.limits)[:, None]
        return _Progress((self.lengths == 0)[:, None], nothing, nothing, nothing.bool())

    def met_words(self, met: Bool[Tensor, "B N C"]) -> Int[Tensor, "B N"]:
        return (met * self.lengths[:, None]).sum(-1)

    def next_words(self, now: _Progress) -> Int[Tensor, "B N C"]:
        """Return, for each hypothesis and phrase, the word that continues or begins it; padding for a complete phrase."""
        within = self._within(now)
        # Hypotheses whose log probability is NaN or −∞ may have a position beyond the last word.
        place = (within * now.position[..., None]).clamp(max=self.words.shape[-1] - 1)[..., None]
        words = self.words[:, None].expand(-1, now.met.shape[1], -1, -1).gather(3, place)[..., 0]
        # Of several equal phrases, the first that is missing comes next; the others get padding.
        earlier = (self.before[:, None] & ~now.met[:, :, None]).any(-1)
        return words.masked_fill(now.met | (earlier & ~within), PAD)

    def broken(self, now: _Progress, words: Int[Tensor, "B N K"]) -> Int[Tensor, "B N K"]:
        """Return the number of words of the unfinished phrase after a word that does not continue it."""
        # 1 if this word is the first word of the phrase, so that the phrase begins again; else 0.
        first = self.words[:, None, :, 0].expand_as(now.met).gather(2, now.phrase[..., None])
        return ((words == first) & (now.position[..., None] > 0)).long()

    def _within(self, now: _Progress) -> Bool[Tensor, "B N C"]:
        numbers = torch.arange(self.lengths.shape[1], device=self.lengths.device)
        return (now.phrase[..., None] == numbers) & (now.position[..., None] > 0)

    def reached(self, now: _Progress) -> Int[Tensor, "B N C"]:
        """Return the number of words of each phrase that a hypothesis has after the word that `next_words` returns for it."""
        return self._within(now) * now.position[..., None] + 1


class Constrained(Chooser):
    """Chooser of continuations that lead to given phrases.

    The limit of each sentence must be enough for its prefix, its phrases and the end symbol.

    Reference:
        Post & Vilar 2018, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural Machine Translation",
        section 3.
    Differs from the paper: the banks that have candidates take places in turn, whereas the paper gives each bank a share
    and redistributes unused places; candidates that leave too few steps for the missing phrases are removed; an interrupted
    phrase may begin again at once.
    """

    def __init__(self, beam_size: int, guidance: Guidance, limits: Int[Tensor, " B"]) -> None:
        self.width, self.reorders = beam_size, beam_size > 1
        self._continues = None if guidance.continues is None else guidance.continues.to(limits.device)
        self._phrases = _Phrases.of(guidance.phrases, limits)
        self._now = self._phrases.begin()

    def choose(self, step: Step) -> Chosen:
        """Choose the best candidates of each bank."""
        words, values = self._candidates(step)
        progress = self._after(words)
        allowed = self._allowed(words, progress, step)
        total = (step.total[:, :, None] + values.masked_fill(~allowed, -torch.inf)).flatten(1)
        bank, flat = self._phrases.met_words(progress.met) + progress.position, words.flatten(1)
        ranks = total if step.end_cost is None else torch.where(flat == END, total - step.end_cost[:, None], total)
        choice = _deal(ranks, bank, min(self.width, bank.shape[1]))
        self._now = progress.pick(choice)
        return choice // words.shape[2], flat.gather(1, choice), total.gather(1, choice)

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        self._phrases, self._now = self._phrases.keep(kept), self._now.keep(kept)

    def _candidates(self, step: Step) -> tuple[Int[Tensor, "B N K"], Float[Tensor, "B N K"]]:
        """Return the most probable words, those that continue phrases and the end symbol, and their log probabilities."""
        log_probabilities = step.log_probabilities
        values, words = log_probabilities.topk(min(self.width + 1, log_probabilities.shape[-1]), -1)
        extra = self._phrases.next_words(self._now)
        if step.forced is not None:  # a forced unknown symbol and one in a phrase replace different words
            extra = extra.masked_fill((step.forced == UNKNOWN)[:, None, None], PAD)
        # The end symbol is always a candidate, because a beam without it could not finish.
        extra = torch.cat((extra, extra.new_full((*extra.shape[:2], 1), END)), -1)
        # A probable word that occurs again among the others is hidden here, so that it is not chosen twice.
        values = values.masked_fill((words[..., None] == extra[:, :, None]).any(-1), -torch.inf)
        return torch.cat((words, extra), -1), torch.cat((values, log_probabilities.gather(-1, extra)), -1)

    def _after(self, words: Int[Tensor, "B N K"]) -> _Progress:
        """Return the progress after each candidate; the N·K candidates of a sentence are in one row."""
        now, phrases = self._now, self._phrases
        # The candidates of a hypothesis are `plain` probable words, a word for each phrase, and the end symbol.
        count = phrases.lengths.shape[1]
        plain = words.shape[2] - count - 1
        batch, beam = now.phrase.shape
        numbers = torch.arange(count, device=words.device).expand(batch, beam, -1)
        reached = phrases.reached(now)
        complete = reached == phrases.lengths[:, None]
        broken = phrases.broken(now, words[..., :plain])
        nothing = broken.new_zeros(batch, beam, 1)
        phrase = torch.cat((now.phrase[..., None].expand(-1, -1, plain), numbers, nothing), -1)
        position = torch.cat((broken, reached.masked_fill(complete, 0), nothing), -1)
        closed = torch.cat((torch.zeros_like(broken, dtype=torch.bool), complete, nothing.bool()), -1)
        met = now.met[:, :, None].expand(-1, -1, words.shape[2], -1).clone()
        met[:, :, plain : plain + count] |= torch.diag_embed(complete)
        return _Progress(met.flatten(1, 2), phrase.flatten(1), position.flatten(1), closed.flatten(1))

    def _allowed(self, words: Int[Tensor, "B N K"], progress: _Progress, step: Step) -> Bool[Tensor, "B N K"]:
        """Return a mask that is True for the candidates that may be chosen."""
        phrases = self._phrases
        # Enough steps must remain for the missing phrases, and the end symbol may not come before them.
        missing = phrases.lengths.sum(-1)[:, None] - phrases.met_words(progress.met) - progress.position
        left = (phrases.limits - step.number - 1)[:, None]
        fits = ((missing == 0) | (missing < left)).view(words.shape) & ~((words == END) & (missing > 0).view(words.shape))
        if self._continues is None:
            return fits
        # A subword must not continue the last word of a complete phrase, except in the prefix, which must follow in any case.
        plain = words.shape[2] - phrases.lengths.shape[1] - 1
        glued = self._continues[words] & self._now.closed[..., None]
        glued[..., plain:] = False
        if step.forced is not None:
            glued &= (step.forced == PAD)[:, None, None]
        return fits & ~glued


def _deal(scores: Float[Tensor, "B K"], bank: Int[Tensor, "B K"], count: int) -> Int[Tensor, "B M"]:
    """Return the indices of at most `count` candidates: the best of each bank, then the second best of each, and so on."""
    # Two stable sorts order the candidates by bank and, within a bank, by score.
    by_score = scores.argsort(dim=1, descending=True, stable=True)
    order = by_score.gather(1, bank.gather(1, by_score).argsort(dim=1, stable=True))
    sorted_bank = bank.gather(1, order)
    # The rank within a bank is the distance from the bank's first candidate.
    place = torch.arange(bank.shape[1], device=bank.device)
    rank = place - torch.searchsorted(sorted_bank, sorted_bank)
    # In each round, the bank with the most constraint words comes first; impossible candidates come last.
    highest = bank.amax(1, keepdim=True)
    turn = rank * (highest + 1) + (highest - sorted_bank)
    turn = turn.masked_fill(scores.gather(1, order) == -torch.inf, torch.iinfo(turn.dtype).max)
    return order.gather(1, turn.argsort(dim=1, stable=True)[:, :count])
