"""The most probable next words, at little more cost than one look at the scores.

A row of the logits has V ≈ 10⁴ scores, of which a search wants a handful. Two things keep this cheap on a CPU, where
it would otherwise cost as much as the model's step:

* The k best of a row lie in the k runs of 64 words with the highest maxima. Maxima are found at memory speed, and the
  selection proper then sees 64·k words instead of V.
* log p = score − log Σ exp(score) is wanted for the k best words only, but the sum runs over all of V. It is computed in
  blocks of rows that stay in the cache, and the (B, N, V) log probabilities are never stored.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import RequestError
from regard.text.symbols import PAD, START

_RUN = 64
"""Words that share a maximum; measured best of 32, 64, 128, 256 at V = 8,000 and k = 7."""
_BLOCK_ROWS = 64
"""Rows whose log probabilities exist at once, on a CPU."""


def best_words(logits: Float[Tensor, "B N V"], count: int) -> tuple[Float[Tensor, "B N C"], Int[Tensor, "B N C"]]:
    """The most probable words of each hypothesis, and their log probabilities.

    Padding and the start symbol are never produced: where they are among the words, their log probability is −∞.
    Probabilities are over the whole vocabulary all the same, so that they equal those of a given target.

    Args:
        logits: Scores before the softmax; −∞ for a word that cannot follow. They are not changed.
        count: How many words are wanted that can be produced.

    Returns:
        Log probabilities in float32, and the words. C is `count` + 2, or V where that is less.

    Raises:
        RequestError: If the scores hold NaN or +∞, or −∞ for all words that can be produced.
    """
    rows = logits.flatten(0, 1).float()
    words = _top(rows, min(count + 2, rows.shape[-1]))  # two more: padding and the start symbol
    block = _BLOCK_ROWS if rows.device.type == "cpu" else len(rows)
    parts = zip(rows.split(block), words.split(block), strict=True)
    log_probabilities = torch.cat([part.log_softmax(-1).gather(-1, word) for part, word in parts])
    log_probabilities.masked_fill_((words == PAD) | (words == START), -torch.inf)
    if not bool(torch.isfinite(log_probabilities.amax(-1)).all()):
        raise RequestError(
            "the model's scores for the next word are not finite (NaN or infinity): its weights are damaged, or its "
            "training went astray; go back to an earlier checkpoint, or train with a lower learning rate"
        )
    shape = logits.shape[:2]
    return log_probabilities.unflatten(0, shape), words.unflatten(0, shape)


def _top(rows: Float[Tensor, "R V"], count: int) -> Int[Tensor, "R C"]:
    """The places of the `count` highest scores of each row, through the maxima of runs where that is faster."""
    num_runs = rows.shape[-1] // _RUN
    if rows.device.type != "cpu" or num_runs <= 2 * count:
        return rows.topk(count, -1).indices
    covered = num_runs * _RUN
    runs = rows[:, :covered].unflatten(-1, (num_runs, _RUN))
    best_runs = runs.amax(-1).topk(count, -1).indices
    row = torch.arange(len(rows))[:, None]
    candidates = torch.cat([runs[row, best_runs].flatten(1), rows[:, covered:]], -1)
    place = candidates.topk(count, -1).indices
    in_runs = best_runs.gather(-1, (place // _RUN).clamp_(max=count - 1)) * _RUN + place % _RUN
    return torch.where(place < count * _RUN, in_runs, place + (covered - count * _RUN))
