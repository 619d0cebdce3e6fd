"""Restrictions of a search: a minimum length, no repeated n-grams, a repetition penalty, suppressed words, diverse groups.

Reported log probabilities are those of the model: a restriction only changes how a search compares continuations. A hypothesis
keeps the costs of its words.
"""

from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.fields import facts_of
from regard.errors import RequestError
from regard.text.symbols import END, PAD, START, UNKNOWN


def check_ranges(settings: type, **values: Any) -> None:
    """Check numbers by the ranges of the fields of the same names.

    Args:
        settings: The dataclass with these fields.
        values: The numbers.

    Raises:
        RequestError: If a number is out of its range.
    """
    for name, value in values.items():
        if problem := facts_of(settings)[name].problem(value):
            raise RequestError(f"{name} is {problem}")


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
    """λ ≥ 0, in nats: penalty of a word for each hypothesis of an earlier group that chose this word at the same step
    (Vijayakumar et al. 2018, "Diverse Beam Search", eq. 5 with Hamming diversity). The groups have equal sizes and choose one
    after another.
    """

    def __post_init__(self) -> None:
        own = {name: value for name, value in vars(self).items() if name != "suppressed"}
        check_ranges(DecodingConfig, **own)
        if not isinstance(self.suppressed, Collection) or not all(isinstance(n, Integral) and n >= 0 for n in self.suppressed):
            raise RequestError(
                f"suppressed is {self.suppressed!r}, expected the ids of words that are never produced, such as (5, 4); "
                "phrases cannot be suppressed"
            )
        if END in self.suppressed:
            raise RequestError("suppressed contains the end symbol, without which no target ends; set max_length instead")

    def __bool__(self) -> bool:
        """Return whether anything is restricted."""
        return self.restricts_words or self.groups > 1

    @property
    def restricts_words(self) -> bool:
        """Whether words can be forbidden or have a cost; the penalty between groups does not count."""
        return bool(self.min_length or self.no_repeat_ngrams or self.repetition_penalty > 1 or self.suppressed)

    def costs(
        self, log_probabilities: Float[Tensor, "B N V"], words: Int[Tensor, "B N T"], forced: Int[Tensor, " B"] | None
    ) -> Float[Tensor, "B N V"]:
        """Return the cost that comparisons subtract from the log probability of each next word; ∞ for forbidden words.

        If all words would be forbidden, the end symbol is allowed. A forced word has no cost.

        Args:
            log_probabilities: Log probabilities of the next words.
            words: The T words of each target so far.
            forced: For each sentence the only word that may follow, or padding if any word may; None if no word is forced.
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
        return costs if forced is None else costs.masked_fill_((forced != PAD)[:, None, None], 0.0)

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


def restrictions_of(decoding: DecodingConfig) -> Restrictions:
    """Return the restrictions that a configuration defines."""
    return Restrictions(
        min_length=decoding.min_length,
        no_repeat_ngrams=decoding.no_repeat_ngrams,
        repetition_penalty=decoding.repetition_penalty,
        suppressed=(UNKNOWN,) if decoding.suppress_unknown else (),
        groups=decoding.groups if decoding.beam_size > 1 else 1,
        diversity=decoding.diversity,
    )
