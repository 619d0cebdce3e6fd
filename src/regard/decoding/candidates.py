"""Find the most probable next words, at little more cost than reading the scores once.

A row of the logits has V ≈ 10⁴ scores, of which a search needs a few. Two methods make this cheap on a CPU, where it would
otherwise cost as much as the model's step:

* The k best words of a row are in the k runs (64 consecutive words each) with the highest maxima. Computing maxima takes no
  longer than reading the scores, and the selection itself then reads 64·k words instead of V.
* log p = score − log Σ exp(score) is needed for the k best words only, but the sum includes all V words. It is computed in
  blocks of rows that fit into the cache, and the (B, N, V) log probabilities are never stored.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.finished import is_free_to_read
from regard.errors import RequestError
from regard.text.symbols import END, PAD, SPECIAL_TOKENS, START, UNKNOWN

_RUN = 64
"""Number of consecutive words in a run. Of 32, 64, 128 and 256 words, 64 are the fastest for V = 8,000 and k = 7."""
_BLOCK_ROWS = 16
"""Number of rows whose log probabilities are in memory at once on a CPU. One buffer for them is twice as fast as new memory
for 64 rows each time.
"""


def best_words(
    logits: Float[Tensor, "B N V"], count: int, *, forced: Int[Tensor, " B"] | None = None
) -> tuple[Float[Tensor, "B N C"], Int[Tensor, "B N C"]]:
    """Return the most probable words of each hypothesis, and their log probabilities.

    Padding and the start symbol are never produced: their log probability is −∞ if they are among the words. Probabilities
    still refer to the whole vocabulary, so that they equal the probabilities that `force` computes.

    Args:
        logits: Scores before the softmax; −∞ for a word that cannot follow. They are not changed.
        count: Number of words to find, apart from padding and the start symbol.
        forced: For each sentence the only word that may follow, or padding if any word may follow; None if any word may follow
            in all sentences. A forced word comes first in the result; the other words have log probability −∞.

    Returns:
        Log probabilities in float32, and the words. C is `count` + 2, but at most V.

    Raises:
        RequestError: If the scores contain NaN or +∞, or are −∞ for all words that can be produced. On a GPU, this is not
            checked here, see `check_scores`.
    """
    rows = logits.flatten(0, 1).float()
    words = _top(rows, min(count + 2, rows.shape[-1])).unflatten(0, logits.shape[:2])  # two more, for padding and start symbol
    if forced is not None:
        bound = (forced != PAD)[:, None]
        words[..., 0] = torch.where(bound, forced[:, None], words[..., 0])
    log_probabilities = log_probabilities_of(logits, words)
    if forced is not None:
        log_probabilities[..., 1:].masked_fill_(bound[..., None], -torch.inf)
    log_probabilities.masked_fill_((words == PAD) | (words == START), -torch.inf)
    check_scores(log_probabilities.amax(-1))
    return log_probabilities, words


def best_continuations(
    total: Float[Tensor, "B N"],
    logits: Float[Tensor, "B N V"],
    count: int,
    *,
    forced: Int[Tensor, " B"] | None = None,
    end_cost: Float[Tensor, " B"] | None = None,
) -> tuple[Int[Tensor, "B C"], Int[Tensor, "B C"], Float[Tensor, "B C"]]:
    """Return the most probable continuations over all hypotheses of a sentence, the best first.

    Padding and the start symbol are never produced. On a CPU, if the vocabulary is large and no word is forced, the runs (of 64
    consecutive words) of all hypotheses are compared first. So the selection reads 64·`count` words for a sentence, instead of
    64·`count` words for each of its hypotheses.

    Args:
        total: Log probabilities of the hypotheses; −∞ for those that do not continue.
        logits: Scores of their next words; −∞ for a word that cannot follow. They are not changed.
        count: Number of continuations to find.
        forced: As for `best_words`.
        end_cost: Amount, ≥ 0, that is subtracted from the log probability of the end symbol in comparisons; None for 0.

    Returns:
        For each continuation its hypothesis, its word, and its log probability. C is `count`, or less if fewer exist.

    Raises:
        RequestError: As for `best_words`.
    """
    num_runs = logits.shape[-1] // _RUN
    if forced is not None or logits.device.type != "cpu" or num_runs <= 2 * count:
        more = int(end_cost is not None)  # one more word, because the end symbol may rank lower once its cost is subtracted
        log_probabilities, words = best_words(logits, count + more, forced=forced)
        found, place = _best((total[:, :, None] + log_probabilities).flatten(1), words.flatten(1), count, end_cost)
        return place // words.shape[2], words.flatten(1).gather(1, place), found
    logits = logits.float()
    maxima = _producible_maxima(logits, end_cost)
    normalizer = log_normalizers(logits.flatten(0, 1)).view(total.shape)
    check_scores(maxima.amax(-1) - normalizer)
    # These are the operations of `values` below, so that rounding is the same, and no word exceeds the maximum of its run,
    # except the end symbol if it has a cost.
    runs = (total[:, :, None] + (maxima - normalizer[:, :, None])).flatten(1).topk(count, 1).indices
    parent, run = runs // maxima.shape[2], runs % maxima.shape[2]
    words = (run[:, :, None] * _RUN + torch.arange(_RUN)).flatten(1)
    within = words.clamp(max=logits.shape[2] - 1)
    parent = parent.repeat_interleave(_RUN, 1)
    values = logits.flatten(1).gather(1, parent * logits.shape[2] + within)
    values = total.gather(1, parent) + (values - normalizer.gather(1, parent))
    values.masked_fill_((words != within) | (words == PAD) | (words == START), -torch.inf)
    found, place = _best(values, words, count, end_cost)
    return parent.gather(1, place), words.gather(1, place), found


def _best(
    values: Float[Tensor, "B M"], words: Int[Tensor, "B M"], count: int, end_cost: Float[Tensor, " B"] | None
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return the `count` best log probabilities and their positions; `end_cost` affects the ranking, but not the values."""
    place = less_end_cost(values, words, end_cost).topk(min(count, values.shape[1]), 1).indices
    return values.gather(1, place), place


def less_end_cost(
    values: Float[Tensor, "B M"], words: Int[Tensor, "B M"], end_cost: Float[Tensor, " B"] | None
) -> Float[Tensor, "B M"]:
    """Return log probabilities for comparisons: `end_cost` is subtracted where the word is the end symbol."""
    return values if end_cost is None else torch.where(words == END, values - end_cost[:, None], values)


def _producible_maxima(logits: Float[Tensor, "B N V"], end_cost: Float[Tensor, " B"] | None) -> Float[Tensor, "B N M"]:
    """Return the highest score of each run of 64 words; the last run may be shorter.

    Padding and the start symbol do not count, and `end_cost` is subtracted from the score of the end symbol.
    """
    covered = logits.shape[-1] // _RUN * _RUN
    maxima = logits[..., :covered].unflatten(-1, (-1, _RUN)).amax(-1)
    end = logits[..., END] if end_cost is None else logits[..., END] - end_cost[:, None]
    # Use a slice and two single words, because PyTorch would convert a list of indices to a tensor at each step.
    words = logits[..., len(SPECIAL_TOKENS) : _RUN].amax(-1)
    maxima[..., 0] = torch.maximum(torch.maximum(words, logits[..., UNKNOWN]), end)
    rest = logits[..., covered:]
    return torch.cat([maxima, rest.amax(-1, keepdim=True)], -1) if rest.shape[-1] else maxima


def log_normalizers(rows: Float[Tensor, "R V"]) -> Float[Tensor, " R"]:
    """Return log Σ exp of each row, computed in blocks that fit into the cache."""
    found = torch.empty(len(rows))
    buffer = torch.empty(min(_BLOCK_ROWS, len(rows)), rows.shape[1])
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = rows[start : start + _BLOCK_ROWS]
        block = torch.log_softmax(part, -1, out=buffer[: len(part)])
        # log Σ exp is a score minus its log softmax. For the highest score, this is as exact as the score itself.
        torch.sub(part.amax(-1), block.amax(-1), out=found[start : start + len(part)])
    return found


def check_scores(best: Float[Tensor, "*rows"], *, wait: bool = False) -> None:
    """Check that the best score of each row is finite.

    On a GPU, reading the scores would wait for the GPU, so they are checked there only if `wait` is True. Otherwise, `Trace`
    finds scores that are not finite at the end of the search.

    Args:
        best: The best score of each row.
        wait: If True, check on a GPU too.

    Raises:
        RequestError: If a score is NaN or infinite.
    """
    if (wait or is_free_to_read(best)) and not bool(torch.isfinite(best).all()):
        raise _not_finite()


def check_totals(totals: np.ndarray) -> None:
    """Check the log probabilities of hypotheses after a step; they are NaN if a score of the model is NaN or +∞.

    Raises:
        RequestError: If a log probability is NaN.
    """
    if np.isnan(totals).any():
        raise _not_finite()


def _not_finite() -> RequestError:
    return RequestError(
        "the model's scores for the next word are not finite (NaN or infinity): its weights are damaged, or its "
        "training diverged; go back to an earlier checkpoint, or train with a lower learning rate"
    )


def log_probabilities_of(logits: Float[Tensor, "B N V"], words: Int[Tensor, "B N C"]) -> Float[Tensor, "B N C"]:
    """Return the log softmax of the logits in float32, for the given words only."""
    rows, chosen = logits.flatten(0, 1), words.flatten(0, 1)
    if rows.device.type != "cpu":
        return rows.float().log_softmax(-1).gather(-1, chosen).view(words.shape)
    found = torch.empty(chosen.shape)
    buffer = torch.empty(min(_BLOCK_ROWS, len(rows)), rows.shape[1])
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        block = buffer[: len(rows[part])].copy_(rows[part])
        torch.log_softmax(block, -1, out=block)
        torch.gather(block, -1, chosen[part], out=found[part])
    return found.view(words.shape)


def _top(rows: Float[Tensor, "R V"], count: int) -> Int[Tensor, "R C"]:
    """Return the positions of the `count` highest scores of each row, using the maxima of runs of 64 if that is faster."""
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
