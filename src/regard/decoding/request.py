"""Checks of the arguments of every search."""

from collections.abc import Collection

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.config.training import length_misfit
from regard.decoding.guidance import Guidance
from regard.errors import RequestError, nearest
from regard.models.seq2seq import Seq2Seq

_LONGEST = 500
"""Largest limit that is computed from the length of a sentence; it cuts targets that would never end."""
MOST_STEPS = 100_000
"""Maximum length that can be requested. Without it, the settings of an untrusted model could request an endless search."""


def length_limits(
    source_mask: Bool[Tensor, "B S"], max_length: int, guidance: Guidance | None = None, min_length: int = 0
) -> Int[Tensor, " B"]:
    """Return the maximum number of steps of each sentence.

    Args:
        source_mask: True for the source's symbols, False for padding.
        max_length: Limit for all sentences, including the step for the end symbol. 0 for a limit of min(2·S + 20, 500) for a
            sentence with S source symbols, plus the number of words that `guidance` requires. This limit is never less than
            `min_length` + 20.
        guidance: Words that targets must begin with, and phrases that they must contain.
        min_length: Minimum number of words of a target, without the end symbol.

    Raises:
        RequestError: If `max_length` is negative, above 100,000, or too small for the required words or `min_length` words and
            the end symbol; or if `guidance` is for another number of sentences.
    """
    if not 0 <= max_length <= MOST_STEPS:
        raise RequestError(f"max_length is {max_length}, expected 0 to {MOST_STEPS:,}; 0 means twice the source length plus 20")
    if guidance is not None and len(guidance.prefixes) != len(source_mask):
        raise RequestError(
            f"got {len(source_mask)} sentences, but guidance for {len(guidance.prefixes)}; expected guidance for each sentence"
        )
    if min_length >= MOST_STEPS:
        raise RequestError(f"min_length is {min_length} tokens, expected at most {MOST_STEPS - 1:,}")
    if message := length_misfit(min_length, max_length):
        raise RequestError(message)
    room = None if guidance is None else guidance.room(source_mask.device)
    if not max_length:
        limits = (2 * source_mask.sum(1) + 20).clamp(max=_LONGEST)
        return (limits if room is None else limits + room).clamp(min=min_length + 20)
    if room is not None and int(room.amax()) >= max_length:
        raise RequestError(
            f"max_length is {max_length}, but the prefix and the constraints of a sentence need "
            f"{int(room.amax())} symbols plus the end symbol: allow at least {int(room.amax()) + 1}"
        )
    return torch.full((len(source_mask),), max_length, device=source_mask.device)


_WIDEST = 1000
"""Maximum beam size; larger beams cost memory and time without better results."""
_LARGEST_PENALTY = 10.0
"""Largest length penalty. Larger values could overflow; with this value, scores already depend almost only on the length."""
_LARGEST_REWARD = 100.0
"""Largest useful reward, in nats per symbol; beyond it, hardly any target ends before its limit."""


def check_beam(beam_size: int, n_best: int, length_penalty: float, length_reward: float) -> None:
    """Check the arguments of a search that concern the beam and the score.

    Raises:
        RequestError: If a value is out of its range.
    """
    if not 1 <= beam_size <= _WIDEST:
        raise RequestError(f"beam_size is {beam_size}, expected 1 (greedy) to {_WIDEST:,}; 5 is usual")
    if not 1 <= n_best <= beam_size:
        larger = "; raise beam_size or lower n_best" if n_best > beam_size else ""
        raise RequestError(f"n_best is {n_best}, expected 1 to beam_size, which is {beam_size}{larger}")
    if not 0 <= length_penalty <= _LARGEST_PENALTY:
        raise RequestError(f"length_penalty is {length_penalty}, expected 0 (none) to {_LARGEST_PENALTY:g}; 1 is usual")
    if not 0 <= length_reward <= _LARGEST_REWARD:
        raise RequestError(f"length_reward is {length_reward}, expected 0 (none) to {_LARGEST_REWARD:g}; less than 1 is usual")


def check_sites(model: Seq2Seq, record: Collection[str]) -> None:
    """Check that the model has the attention sites to record.

    Raises:
        RequestError: If the model does not have one of them.
    """
    for site in record:
        if site not in model.sites:
            known = ", ".join(model.sites) or "none"
            raise RequestError(f"record names the attention {site!r}; this model has: {known}{nearest(site, model.sites)}")
