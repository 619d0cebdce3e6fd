"""Encoded texts.

A text is a row of ids with the start symbol before it and the end symbol behind it. One that is too long stands in several
rows, the blocks, each of which begins with the last id of the block before: so every id but the start is predicted once.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from regard.text.batching import Batch
from regard.text.mapped import Ids, MappedCorpus, Offsets, Rows
from regard.text.symbols import END, PAD, START


class TextCorpus(MappedCorpus):
    """Encoded texts: a row for each text or block."""

    schema = pa.schema([pa.field("tokens", pa.large_list(pa.int32()))])

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._starts, sizes = self._file.rows("tokens")
        self.lengths = sizes - 1
        """Tokens that are predicted in each row, the end symbol included."""

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
        """Tensors of some rows, padded to the longest: targets of a source that says nothing.

        Args:
            indices: Positions of B rows, in [0, len(self)).

        Raises:
            IndexError: If a position is out of range.
        """
        rows = np.asarray(indices, np.int64)
        return as_batch(self._file.flat, self._starts[rows], self.lengths[rows], rows)


def as_batch(flat: Ids, starts: Offsets, lengths: Ids, index: npt.NDArray[np.int64]) -> Batch:
    """Rows as targets: what is fed and, one step ahead, what is predicted. The source of each is an end symbol.

    Args:
        flat: Where the rows stand.
        starts: Where each begins, (B,).
        lengths: Predicted tokens of each, (B,): one less than it has.
        index: What the rows are known by, (B,).
    """
    steps = np.arange(lengths.max(initial=1))
    mask = steps < lengths[:, None]
    places = (starts[:, None] + steps)[mask]
    target_in, target_out = np.full(mask.shape, PAD, np.int64), np.full(mask.shape, PAD, np.int64)
    target_in[mask], target_out[mask] = flat[places], flat[places + 1]
    return Batch(
        source=torch.full((len(index), 1), END),
        source_mask=torch.ones((len(index), 1), dtype=torch.bool),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_mask=torch.from_numpy(mask),
        index=torch.from_numpy(index.copy()),
    )


def cut_blocks(ids: Ids, offsets: Offsets, longest: int) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Texts as rows with their start and end symbols, the long ones in blocks.

    Args:
        ids: The tokens of n texts one after another, without special symbols.
        offsets: Where each begins, n + 1.
        longest: Most tokens that are predicted in a row.

    Returns:
        The rows, and the text of each.
    """
    predicted = np.diff(offsets) + 1
    count = len(predicted)
    whole = np.insert(ids, np.repeat(offsets, 2)[1:-1], np.tile((START, END), count)).astype(np.int32, copy=False)
    begins = offsets[:-1] + 2 * np.arange(count)
    parts = -(-predicted // longest)
    owner = np.repeat(np.arange(count), parts)
    first = longest * (np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts))
    sizes = np.minimum(longest, predicted[owner] - first) + 1
    ends = np.cumsum(sizes)
    places = np.repeat(begins[owner] + first - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    return (whole[places], np.r_[0, ends].astype(np.int64)), owner
