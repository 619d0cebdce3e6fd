"""Checks of the arguments of every search."""

from collections.abc import Collection

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.decoding.guidance import Guidance
from regard.errors import RequestError, nearest
from regard.models.seq2seq import Seq2Seq

_LONGEST = 500
"""Bound of the default length, so that a runaway sentence ends."""
MOST_STEPS = 100_000
"""Bound of a length that is asked for: a stranger's model may ask for it too, and never end."""


def length_limits(
    source_mask: Bool[Tensor, "B S"], max_length: int, guidance: Guidance | None = None, min_length: int = 0
) -> Int[Tensor, " B"]:
    """Return the steps that each sentence may take.

    Args:
        source_mask: True for the source's symbols.
        max_length: The limit, the end symbol included; 0 for 2·S + 20 with S the sentence's own length, at most 500, and as
            many more as the target must have.
        guidance: What targets must have.
        min_length: Minimum number of words of a target, the end symbol not included.

    Raises:
        RequestError: If `max_length` is negative or beyond 100,000, or leaves no place for what a target must have; or guidance
            is not for as many sentences, or `min_length` leaves no place for the end symbol.
    """
    if not 0 <= max_length <= MOST_STEPS:
        raise RequestError(f"max_length is {max_length}, expected 0 (twice the source and 20 more) to {MOST_STEPS:,}")
    if guidance is not None and len(guidance.prefixes) != len(source_mask):
        raise RequestError(
            f"got {len(source_mask)} sentences and guidance for {len(guidance.prefixes)}, expected as many of each"
        )
    if min_length >= (max_length or MOST_STEPS):
        raise RequestError(
            f"min_length is {min_length} words, but max_length is {max_length or MOST_STEPS:,} symbols, the end symbol "
            "included; raise max_length or lower min_length"
        )
    room = None if guidance is None else guidance.room(source_mask.device)
    if not max_length:
        limits = (2 * source_mask.sum(1) + 20).clamp(max=_LONGEST)
        return (limits if room is None else limits + room).clamp(min=min_length + 20)
    if room is not None and int(room.amax()) >= max_length:
        raise RequestError(
            f"max_length is {max_length}, but the prefix and the constraints of sentence {int(room.argmax())} need "
            f"{int(room.amax())} symbols and the end one more: allow at least {int(room.amax()) + 1}"
        )
    return torch.full((len(source_mask),), max_length, device=source_mask.device)


_WIDEST = 1000
"""Beyond this a beam costs memory and time, and finds nothing better."""
_LARGEST_REWARD = 100.0
"""Largest useful reward, in nats per symbol; beyond it, hardly any target ends before its limit."""


def check_beam(beam_size: int, n_best: int, length_penalty: float, length_reward: float) -> None:
    """Check what a beam search is asked for.

    Raises:
        RequestError: If a value is out of its range.
    """
    if not 1 <= beam_size <= _WIDEST:
        raise RequestError(f"beam_size is {beam_size}, expected 1 (greedy) to {_WIDEST:,}; 5 is usual")
    if not 1 <= n_best <= beam_size:
        raise RequestError(
            f"n_best is {n_best}, expected 1 to the beam size, {beam_size}: a beam of n finds n; ask for a wider beam"
        )
    if not 0 <= length_penalty < float("inf"):
        raise RequestError(f"length_penalty is {length_penalty}, expected 0 (none) or more; 1 is usual")
    if not 0 <= length_reward <= _LARGEST_REWARD:
        raise RequestError(f"length_reward is {length_reward}, expected 0 (none) to {_LARGEST_REWARD:g}; less than 1 is usual")


def check_sites(model: Seq2Seq, record: Collection[str]) -> None:
    """Check that the model has the attention sites to record.

    Raises:
        RequestError: If it lacks one.
    """
    for site in record:
        if site not in model.sites:
            known = ", ".join(model.sites) or "none"
            raise RequestError(f"record names the attention {site!r}; this model has: {known}{nearest(site, model.sites)}")
