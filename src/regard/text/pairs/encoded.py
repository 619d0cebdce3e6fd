"""Encoded sentence pairs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from regard.text.batching import Batch
from regard.text.mapped import Ids, MappedCorpus, Offsets, pad_rows
from regard.text.symbols import END, PAD, START


class EncodedCorpus(MappedCorpus):
    """Pairs of encoded sentences and their texts. In memory are 24 bytes per pair: where each side begins, and its length."""

    schema = pa.schema(
        [
            pa.field("source", pa.large_list(pa.int32())),
            pa.field("target", pa.large_list(pa.int32())),
            pa.field("source_text", pa.large_string()),
            pa.field("target_text", pa.large_string()),
        ]
    )

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._source_starts, source_lengths = self._file.rows("source")
        self._target_starts, target_lengths = self._file.rows("target")
        self.source_lengths, self.target_lengths = source_lengths + 1, target_lengths + 1
        """With the end symbol."""

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
        """Tensors of some pairs, padded to the longest of each side.

        Args:
            indices: Positions of B pairs, in [0, len(self)).

        Returns:
            Sources that end with the end symbol; targets as the decoder is fed them (the start symbol first) and as it should
            answer (the end symbol last); masks that are True at symbols.

        Raises:
            IndexError: If a position is out of range.
        """
        rows = np.asarray(indices, np.int64)
        source, source_mask = self._gather(self._source_starts[rows], self.source_lengths[rows])
        target, target_mask = self._gather(self._target_starts[rows], self.target_lengths[rows])
        target_in = np.empty_like(target)
        target_in[:, :1] = START
        # What is fed is one step behind: the end symbol falls off, and padding stays padding.
        target_in[:, 1:] = np.where(target_mask[:, 1:], target[:, :-1], PAD)
        return Batch(
            source=torch.from_numpy(source),
            source_mask=torch.from_numpy(source_mask),
            target_in=torch.from_numpy(target_in),
            target_out=torch.from_numpy(target),
            target_mask=torch.from_numpy(target_mask),
            index=torch.from_numpy(rows.copy()),
        )

    def texts(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> tuple[list[str], list[str]]:
        """The raw texts of both sides of some pairs, in the order asked for.

        Raises:
            IndexError: If a position is out of range.
        """
        source, target = self._file.texts(("source_text", "target_text"), indices)
        return source, target

    def _gather(self, starts: Offsets, lengths: Ids) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Rows of ids with the end symbol after each, padded, and the mask of both."""
        ids, mask = pad_rows(self._file.flat, starts, lengths - 1, int(lengths.max(initial=1)))
        rows = np.arange(len(ids))
        ids[rows, lengths - 1], mask[rows, lengths - 1] = END, True
        return ids, mask
