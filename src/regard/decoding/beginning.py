"""The first steps that greedy search, beam search and sampling have in common."""

from collections.abc import Callable, Collection

from jaxtyping import Bool, Int
from torch import Tensor

from regard.decoding.trace import Trace
from regard.inference import pack
from regard.models.seq2seq import DecoderState, Seq2Seq
from regard.reweight import ReweightBySite

Follow = Callable[[Tensor, Tensor], None]
"""Function that gets the rows of the source that a step was for, and the words that it chose (R, N)."""


def begin_search(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    record: Collection[str],
    reweight: ReweightBySite | None,
    follow: Follow | None = None,
) -> tuple[Seq2Seq, DecoderState, Trace]:
    """Pack the model for search, encode the sources, and begin to trace hypotheses.

    Args:
        model: In evaluation mode.
        source: Each ends with the end symbol.
        source_mask: True for the source's symbols, False for padding.
        record: Attention sites to record.
        reweight: Maps attention weights to those used in their place, by site.
        follow: Function that is called after each step.
    """
    packed = pack(model, len(source))
    return packed, packed.encode(source, source_mask, record=record, reweight=reweight), Trace(source_mask, follow)
