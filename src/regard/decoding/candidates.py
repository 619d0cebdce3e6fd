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
from regard.text.symbols import END, PAD, START

_RUN = 64
"""Words that share a maximum; measured best of 32, 64, 128, 256 at V = 8,000 and k = 7."""
_BLOCK_ROWS = 16
"""Rows whose log probabilities exist at once, on a CPU, in one buffer; twice as quick as 64 rows in new memory each time."""


def best_words(
    logits: Float[Tensor, "B N V"], count: int, *, forced: Int[Tensor, " B"] | None = None
) -> tuple[Float[Tensor, "B N C"], Int[Tensor, "B N C"]]:
    """Return the most probable words of each hypothesis, and their log probabilities.

    Padding and the start symbol are never produced: where they are among the words, their log probability is −∞.
    Probabilities are over the whole vocabulary all the same, so that they equal those of a given target.

    Args:
        logits: Scores before the softmax; −∞ for a word that cannot follow. They are not changed.
        count: How many words are wanted that can be produced.
        forced: The one word that may follow in a sentence; padding where any may. It comes first, and all others have −∞.

    Returns:
        Log probabilities in float32, and the words. C is `count` + 2, or V where that is less.

    Raises:
        RequestError: If the scores hold NaN or +∞, or −∞ for all words that can be produced.
    """
    rows = logits.flatten(0, 1).float()
    words = _top(rows, min(count + 2, rows.shape[-1])).unflatten(0, logits.shape[:2])  # two more: padding and start
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
    """Return the most probable continuations of all hypotheses of a sentence together, the best first.

    Where the vocabulary is large, the runs of all hypotheses compete first, so that the selection for a sentence reads
    64·`count` words in all, not for each of its hypotheses. Padding and the start symbol are never produced.

    Args:
        total: Log probabilities of the hypotheses; −∞ for those that do not go on.
        logits: Scores of their next words; −∞ for a word that cannot follow. They are not changed.
        count: How many continuations are wanted.
        forced: As for `best_words`.
        end_cost: How much less than its log probability the end symbol counts when they are compared; ≥ 0, None for nothing.

    Returns:
        Which hypothesis each goes on from, its word, and its log probability. C is `count`, or less where so few exist.

    Raises:
        RequestError: As `best_words`.
    """
    num_runs = logits.shape[-1] // _RUN
    if forced is not None or logits.device.type != "cpu" or num_runs <= 2 * count:
        more = int(end_cost is not None)  # the end symbol may stand before a better word
        log_probabilities, words = best_words(logits, count + more, forced=forced)
        found, place = _best((total[:, :, None] + log_probabilities).flatten(1), words.flatten(1), count, end_cost)
        return place // words.shape[2], words.flatten(1).gather(1, place), found
    logits = logits.float()
    maxima = _producible_maxima(logits, end_cost)
    normalizer = log_normalizers(logits.flatten(0, 1)).view(total.shape)
    check_scores(maxima.amax(-1) - normalizer)
    # Rounded as the words' own values are below, so that none outruns its run (but the end symbol, by as much, at a cost).
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
    """Return the best `count` log probabilities, compared as `less_end_cost` has them, and their places."""
    place = less_end_cost(values, words, end_cost).topk(min(count, values.shape[1]), 1).indices
    return values.gather(1, place), place


def less_end_cost(
    values: Float[Tensor, "B M"], words: Int[Tensor, "B M"], end_cost: Float[Tensor, " B"] | None
) -> Float[Tensor, "B M"]:
    """Log probabilities as they are compared: those of the end symbol count `end_cost` less."""
    return values if end_cost is None else torch.where(words == END, values - end_cost[:, None], values)


def _producible_maxima(logits: Float[Tensor, "B N V"], end_cost: Float[Tensor, " B"] | None) -> Float[Tensor, "B N M"]:
    """Return the highest score of each run of 64 words, without padding and the start symbol; the last run may be shorter."""
    covered = logits.shape[-1] // _RUN * _RUN
    maxima = logits[..., :covered].unflatten(-1, (-1, _RUN)).amax(-1)
    allowed = [word for word in range(_RUN) if word not in (PAD, START, END)]
    end = logits[..., END] if end_cost is None else logits[..., END] - end_cost[:, None]
    maxima[..., 0] = torch.maximum(logits[..., allowed].amax(-1), end)
    rest = logits[..., covered:]
    return torch.cat([maxima, rest.amax(-1, keepdim=True)], -1) if rest.shape[-1] else maxima


def log_normalizers(rows: Float[Tensor, "R V"]) -> Float[Tensor, " R"]:
    """Return log Σ exp of each row, in blocks that stay in the cache."""
    found = torch.empty(len(rows))
    buffer = torch.empty(min(_BLOCK_ROWS, len(rows)), rows.shape[1])
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = rows[start : start + _BLOCK_ROWS]
        block = torch.log_softmax(part, -1, out=buffer[: len(part)])
        # The highest score is never far from the sum; what is lost in the difference is its own rounding.
        torch.sub(part.amax(-1), block.amax(-1), out=found[start : start + len(part)])
    return found


def check_scores(best: Float[Tensor, "*rows"]) -> None:
    """Check the best score of each row.

    Raises:
        RequestError: If one is NaN or infinite.
    """
    if not bool(torch.isfinite(best).all()):
        raise RequestError(
            "the model's scores for the next word are not finite (NaN or infinity): its weights are damaged, or its "
            "training went astray; go back to an earlier checkpoint, or train with a lower learning rate"
        )


def log_probabilities_of(logits: Float[Tensor, "B N V"], words: Int[Tensor, "B N C"]) -> Float[Tensor, "B N C"]:
    """Return log softmax of the logits in float32, for these words only."""
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
    """Return the places of the `count` highest scores of each row, through the maxima of runs where that is faster."""
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
