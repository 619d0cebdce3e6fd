"""Restrictions of a search: a minimum length, no repeated n-grams, a repetition penalty, suppressed words, diverse groups.

`Restrictions` are the settings, and `Restricted` is the extension of the beam that applies them. Reported log probabilities are
those of the model: a restriction only changes how the beam compares continuations.
"""

from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from regard.decoding.candidates import check_scores
from regard.decoding.extension import Extended
from regard.decoding.guidance import Prefix
from regard.errors import RequestError
from regard.text.symbols import END, PAD, START

_LONGEST_NGRAM = 100
_STRONGEST = 100.0
"""Largest repetition penalty and diversity; smaller values already have the full effect."""


@dataclass(frozen=True)
class Restrictions:
    """Outputs that a search must avoid, or may produce at a cost.

    Raises:
        RequestError: If a value is out of its range.
    """

    min_length: int = 0
    """Minimum number of words before the end symbol."""
    no_repeat_ngrams: int = 0
    """n: no sequence of n words occurs twice in a target (Paulus et al. 2018); 0 for no restriction."""
    repetition_penalty: float = 1.0
    """θ ≥ 1; when hypotheses are compared, the log probabilities of words that already occur in the target are multiplied by θ
    (Keskar et al. 2019, section 4.1, applied to log probabilities); 1 for no penalty.
    """
    suppressed: tuple[int, ...] = ()
    """Ids of words that are never produced, such as the unknown symbol."""
    groups: int = 1
    """Number of groups in a diverse beam search; 1 for an ordinary beam."""
    diversity: float = 0.5
    """λ ≥ 0, in nats: penalty of a word for each hypothesis of an earlier group that chose this word at the same step."""

    def __post_init__(self) -> None:
        if self.min_length < 0:
            raise RequestError(f"min_length is {self.min_length}, expected 0 (no minimum) or more")
        if not 0 <= self.no_repeat_ngrams <= _LONGEST_NGRAM:
            raise RequestError(
                f"no_repeat_ngrams is {self.no_repeat_ngrams}, expected 0 (no restriction) to {_LONGEST_NGRAM}; 3 is usual"
            )
        if not 1 <= self.repetition_penalty <= _STRONGEST:
            raise RequestError(
                f"repetition_penalty is {self.repetition_penalty}, expected 1 (no penalty) to {_STRONGEST:g}; 1.2 is usual"
            )
        if not isinstance(self.suppressed, Collection) or not all(isinstance(n, Integral) and n >= 0 for n in self.suppressed):
            raise RequestError(
                f"suppressed is {self.suppressed!r}, expected the ids of words that are never produced, such as (5, 4); "
                "phrases cannot be suppressed"
            )
        if END in self.suppressed:
            raise RequestError("suppressed contains the end symbol, without which no target ends; set max_length instead")
        if self.groups < 1:
            raise RequestError(f"groups is {self.groups}, expected 1 (an ordinary beam) or more")
        if not 0 <= self.diversity <= _STRONGEST:
            raise RequestError(f"diversity is {self.diversity}, expected 0 to {_STRONGEST:g}; 0.5 is usual")

    def __bool__(self) -> bool:
        """Return whether anything is restricted."""
        return self.restricts_words or self.groups > 1

    @property
    def restricts_words(self) -> bool:
        """Whether words can be forbidden or have a cost; the penalty between groups does not count."""
        return bool(self.min_length or self.no_repeat_ngrams or self.repetition_penalty > 1 or self.suppressed)

    def costs(self, log_probabilities: Float[Tensor, "B N V"], words: Int[Tensor, "B N T"]) -> Float[Tensor, "B N V"]:
        """Return the cost that comparisons subtract from the log probability of each next word; ∞ for forbidden words.

        If all words would be forbidden, the end symbol is allowed.

        Args:
            log_probabilities: Log probabilities of the next words.
            words: The T words of each target so far.
        """
        costs = torch.zeros_like(log_probabilities)
        if self.repetition_penalty > 1 and words.shape[-1]:
            values = log_probabilities.gather(-1, words) * (1 - self.repetition_penalty)
            costs.scatter_(-1, words, values)
        if self.no_repeat_ngrams:
            costs.scatter_(-1, self._repeating(words), torch.inf)
        for word in (PAD, START, *self.suppressed):  # one by one: PyTorch would copy a list of indices to a GPU
            costs[..., word] = torch.inf
        if words.shape[-1] < self.min_length:
            costs[..., END] = torch.inf
        costs[..., END].masked_fill_(costs.isinf().all(-1), 0.0)
        return costs

    def _repeating(self, words: Int[Tensor, "B N T"]) -> Int[Tensor, "B N M"]:
        """Return words that must not come next, because a sequence of n words would then occur twice, and padding."""
        size, length = self.no_repeat_ngrams, words.shape[-1]
        if length < size:
            return words[..., :0]
        ngrams = words.unfold(-1, size, 1)
        last = words[..., length - size + 1 :]
        repeats = (ngrams[..., :-1] == last[..., None, :]).all(-1)
        return torch.where(repeats, ngrams[..., -1], PAD)


NO_RESTRICTIONS = Restrictions()


class Restricted:
    """Extension that chooses the best continuations after subtracting the cost of restrictions from their log probabilities.

    A hypothesis keeps its repetition penalty: `handicap` is the sum of the costs of its words. A diverse beam (Vijayakumar
    et al. 2018, "Diverse Beam Search", eq. 5 with Hamming diversity) is split into groups of equal size. The groups choose one
    after another, and each group has a penalty for words that earlier groups chose at the same step.

    Args:
        beam_size: N, number of hypotheses in all groups together.
        restrictions: The restrictions.
        prefix: Words that targets must begin with, regardless of the restrictions.

    Raises:
        RequestError: If the beam cannot be split into groups of equal size.
    """

    def __init__(self, beam_size: int, restrictions: Restrictions, prefix: Prefix | None = None) -> None:
        if beam_size % restrictions.groups:
            raise RequestError(
                f"beam_size is {beam_size}, which does not split into {restrictions.groups} groups of equal size; set it to a "
                f"multiple of {restrictions.groups}"
            )
        self._beam_size, self._restrictions, self._prefix = beam_size, restrictions, prefix
        self._words: Tensor | None = None
        self.handicap: Tensor | None = None

    def extend(
        self,
        rows: Int[Tensor, " B"],
        step: int,
        total: Float[Tensor, "B N"],
        logits: Float[Tensor, "B N V"],
        end_cost: Float[Tensor, " B"] | None = None,
    ) -> Extended:
        """Choose the best continuations of each group."""
        log_probabilities = logits.float().log_softmax(-1)
        check_scores(log_probabilities.amax(-1))
        words = total.new_zeros((*total.shape, 0), dtype=torch.int64) if self._words is None else self._words
        handicap = torch.zeros_like(total) if self.handicap is None else self.handicap
        costs = self._restrictions.costs(log_probabilities, words)
        if self._prefix is not None and (forced := self._prefix.at(step, rows)) is not None:
            costs = _only(forced, costs)
        values = total[:, :, None] + log_probabilities
        compared = values - costs - handicap[:, :, None]
        if end_cost is not None:
            compared[..., END] -= end_cost[:, None]
        parent, chosen, possible = self._choose(compared)
        flat = parent * logits.shape[-1] + chosen
        self._words = torch.cat([words.gather(1, parent[..., None].expand(-1, -1, words.shape[-1])), chosen[..., None]], -1)
        self.handicap = handicap.gather(1, parent) + costs.flatten(1).gather(1, flat).masked_fill(~possible, 0.0)
        return parent, chosen, values.flatten(1).gather(1, flat).masked_fill(~possible, -torch.inf)

    def _choose(self, compared: Float[Tensor, "B N V"]) -> tuple[Int[Tensor, "B M"], Int[Tensor, "B M"], Bool[Tensor, "B M"]]:
        """Return the hypothesis and the word of each chosen continuation, group by group, and whether each is possible."""
        vocabulary_size, num_groups = compared.shape[-1], self._restrictions.groups
        size = self._beam_size // num_groups
        same = compared.new_zeros(len(compared), vocabulary_size)  # how often earlier groups chose each word at this step
        parents, words, possible = [], [], []
        for group in range(num_groups):
            first = group * size if compared.shape[1] > 1 else 0  # all groups begin with the one empty hypothesis
            own = compared[:, first : first + size] if num_groups > 1 else compared
            own = (own - self._restrictions.diversity * same[:, None] if group else own).flatten(1)
            if num_groups > 1:  # each group keeps its size, even if a small vocabulary has fewer words
                own = pad(own, (0, max(size - own.shape[1], 0)), value=-torch.inf)
            value, place = own.topk(min(size, own.shape[1]), 1)
            parents.append((place // vocabulary_size + first).clamp(max=compared.shape[1] - 1))
            words.append(place % vocabulary_size)
            possible.append(~value.isneginf())
            same.scatter_add_(1, words[-1], possible[-1].float())
        return torch.cat(parents, 1), torch.cat(words, 1), torch.cat(possible, 1)

    def keep(self, kept: Int[Tensor, " M"]) -> None:
        """Keep only the sentences whose indices in the last call of `extend` are in `kept`."""
        if self._words is not None and self.handicap is not None:
            self._words, self.handicap = self._words[kept], self.handicap[kept]


def _only(forced: Int[Tensor, " B"], costs: Float[Tensor, "B N V"]) -> Float[Tensor, "B N V"]:
    """In sentences with a forced word, set the cost of this word to 0, and the cost of all other words to ∞."""
    alone = torch.full_like(costs[:, 0], torch.inf).scatter_(1, forced[:, None], 0.0)
    return torch.where((forced != PAD)[:, None, None], alone[:, None], costs)
