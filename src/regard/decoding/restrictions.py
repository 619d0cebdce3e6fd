"""Restrictions of a search: a minimum length, no repeated n-grams (Paulus et al. 2018), a repetition penalty (Keskar et al.
2019, section 4.1, applied to log probabilities), and no unknown symbols.

Reported log probabilities are those of the model: a restriction only changes how a search compares continuations. A hypothesis
keeps the costs of its words.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.fields import facts_of
from regard.errors import RequestError
from regard.text.symbols import END, PAD, START, UNKNOWN


def check_ranges(settings: type, **values: Any) -> None:
    """Check numbers by the ranges of the fields of a dataclass that have the same names."""
    for name, value in values.items():
        if problem := facts_of(settings)[name].problem(value):
            raise RequestError(f"{name} is {problem}")


def restricts_words(decoding: DecodingConfig) -> bool:
    """Return whether words can be forbidden or have a cost; the penalty between groups does not count."""
    return bool(
        decoding.min_length or decoding.no_repeat_ngrams or decoding.repetition_penalty > 1 or decoding.suppress_unknown
    )


def word_costs(
    decoding: DecodingConfig,
    log_probabilities: Float[Tensor, "B N V"],
    words: Int[Tensor, "B N T"],
    forced: Int[Tensor, " B"] | None,
) -> Float[Tensor, "B N V"]:
    """Return the cost that comparisons subtract from the log probability of each next word; ∞ for forbidden words.

    The T `words` of each target so far decide. If all words would be forbidden, the end symbol is allowed. A word that is
    `forced` (see `regard.decoding.search.Step`) has no cost.
    """
    costs = torch.zeros_like(log_probabilities)
    if decoding.repetition_penalty > 1 and words.shape[-1]:
        values = log_probabilities.gather(-1, words) * (1 - decoding.repetition_penalty)
        costs.scatter_(-1, words, values)
    if decoding.no_repeat_ngrams:
        costs.scatter_(-1, _repeating(words, decoding.no_repeat_ngrams), torch.inf)
    suppressed = (UNKNOWN,) if decoding.suppress_unknown else ()
    for word in (PAD, START, *suppressed):  # one by one: PyTorch would copy a list of indices to a GPU
        costs[..., word] = torch.inf
    if words.shape[-1] < decoding.min_length:
        costs[..., END] = torch.inf
    impossible = costs.isinf() | log_probabilities.isneginf()  # a model that copies gives words of other sources −∞
    costs[..., END].masked_fill_(impossible.all(-1), 0.0)
    return costs if forced is None else costs.masked_fill_((forced != PAD)[:, None, None], 0.0)


def _repeating(words: Int[Tensor, "B N T"], size: int) -> Int[Tensor, "B N M"]:
    """Return words that must not come next, because a sequence of `size` words would then occur twice, and padding."""
    length = words.shape[-1]
    if length < size:
        return words[..., :0]
    ngrams = words.unfold(-1, size, 1)
    last = words[..., length - size + 1 :]
    repeats = (ngrams[..., :-1] == last[..., None, :]).all(-1)
    return torch.where(repeats, ngrams[..., -1], PAD)
