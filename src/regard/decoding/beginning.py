"""The start of greedy search, beam search and sampling."""

from collections.abc import Callable, Collection

from jaxtyping import Bool, Int
from torch import Tensor

from regard.decoding.trace import Trace
from regard.inference import pack
from regard.models.seq2seq import DecoderState, Seq2Seq
from regard.reweight import ReweightBySite

Follow = Callable[[Tensor, Tensor], None]
"""Function that is called after each step with the indices of the R sentences in this step, and their new words (R, N)."""


def begin_search(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    source_mask: Bool[Tensor, "B S"],
    record: Collection[str],
    reweight: ReweightBySite | None,
    follow: Follow | None = None,
) -> tuple[Seq2Seq, DecoderState, Trace]:
    """Return the model, packed for fast steps if possible, its state after encoding the sources, and an empty trace.

    Args:
        model: The model, in evaluation mode.
        source: Source tokens, each sentence with its end symbol.
        source_mask: True for the source's symbols, False for padding.
        record: Attention sites to record.
        reweight: Functions that replace attention weights, by site.
        follow: Function that is called after each step, see `Follow`; None for none.
    """
    packed = pack(model, len(source))
    return packed, packed.encode(source, source_mask, record=record, reweight=reweight), Trace(source_mask, follow)
