"""What every search asks of its arguments."""

from collections.abc import Collection

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import RequestError, nearest
from regard.models.seq2seq import Seq2Seq

_LONGEST = 500
"""Bound of the default length, so that a runaway sentence ends."""


def length_limits(source_mask: Bool[Tensor, "B S"], max_length: int) -> Int[Tensor, " B"]:
    """Steps that each sentence may take.

    Args:
        source_mask: True for the source's symbols.
        max_length: The limit, the end symbol included; 0 for 2·S + 20 with S the sentence's own length, at most 500.

    Raises:
        RequestError: If `max_length` is negative.
    """
    if max_length < 0:
        raise RequestError(f"max_length is {max_length}, expected 0 (twice the source and 20 more) or more")
    if max_length:
        return torch.full((len(source_mask),), max_length, device=source_mask.device)
    return (2 * source_mask.sum(1) + 20).clamp(max=_LONGEST)


_WIDEST = 1000
"""Beyond this a beam costs memory and time, and finds nothing better."""


def check_beam(beam_size: int, n_best: int, length_penalty: float) -> None:
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


def check_sites(model: Seq2Seq, record: Collection[str]) -> None:
    """Check that the model has the attention sites to record.

    Raises:
        RequestError: If it lacks one.
    """
    for site in record:
        if site not in model.sites:
            known = ", ".join(model.sites) or "none"
            raise RequestError(f"record names the attention {site!r}; this model has: {known}{nearest(site, model.sites)}")
