"""Encoded texts with their labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import DataError
from regard.text.mapped import Ids, MappedCorpus, Offsets, Rows, pad_rows
from regard.text.symbols import UNKNOWN

_NUM_LABELS, _MULTIPLE = b"num_labels", b"multiple"


@dataclass(frozen=True)
class LabelledBatch:
    """Texts and their labels as tensors."""

    tokens: Int[Tensor, "B S"]
    """Padded at the end; a text without tokens is one unknown symbol."""
    mask: Bool[Tensor, "B S"]
    """True at tokens, False at padding."""
    label: Int[Tensor, " B"] | Float[Tensor, "B C"]
    """The number of the label; where texts have several, a one at each of them and zeros elsewhere."""
    index: Int[Tensor, " B"]
    """Which texts of the corpus these are."""

    def __len__(self) -> int:
        return len(self.index)

    def pin_memory(self) -> "LabelledBatch":
        """Copy to page-locked memory, for faster copies to a GPU; `DataLoader(pin_memory=True)` calls it."""
        return LabelledBatch(**{name: tensor.pin_memory() for name, tensor in vars(self).items()})


class LabelledCorpus(MappedCorpus):
    """Encoded texts, their labels, and the texts themselves. In memory are 24 bytes per text."""

    schema = pa.schema(
        [
            pa.field("tokens", pa.large_list(pa.int32())),
            pa.field("labels", pa.large_list(pa.int32())),
            pa.field("text", pa.large_string()),
        ]
    )

    @classmethod
    def schema_for(cls, *, num_labels: int, multiple: bool) -> pa.Schema:
        """Return the columns of a new corpus, with the number of labels and whether a text may have none, one or many."""
        return cls.schema.with_metadata({_NUM_LABELS: str(num_labels), _MULTIPLE: str(int(multiple))})

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._starts, self.lengths = self._file.rows("tokens")
        self._label_starts, self._label_counts = self._file.rows("labels")
        try:
            self.num_labels = int(self._file.metadata[_NUM_LABELS])
            self.multiple = self._file.metadata[_MULTIPLE] == b"1"
        except (KeyError, ValueError) as error:
            raise DataError(f"{path}: does not say how many labels there are; delete it, and it is made again") from error
        if not self.multiple and (self._label_counts != 1).any():
            raise DataError(f"{path}: a text in it has not exactly one label; delete it, and it is made again")

    @property
    def labels(self) -> npt.NDArray[np.int32] | npt.NDArray[np.bool_]:
        """The number of each text's label, (N,); where texts have several, which ones, (N,C)."""
        return self._labels_of(np.arange(len(self)))

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> LabelledBatch:
        """Tensors of some texts, padded to the longest.

        Args:
            indices: Positions of B texts, in [0, len(self)).

        Raises:
            IndexError: If a position is out of range.
        """
        rows = np.asarray(indices, np.int64)
        starts, lengths = self._starts[rows], self.lengths[rows]
        tokens, mask = pad_rows(self._file.flat, starts, lengths)
        label = torch.from_numpy(self._labels_of(rows))
        return LabelledBatch(
            tokens=torch.from_numpy(tokens),
            mask=torch.from_numpy(mask),
            label=label.float() if self.multiple else label.long(),
            index=torch.from_numpy(rows.copy()),
        )

    def texts(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> list[str]:
        """The raw texts, in the order asked for.

        Raises:
            IndexError: If a position is out of range.
        """
        return self._file.texts(("text",), indices)[0]

    def _labels_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32] | npt.NDArray[np.bool_]:
        starts, counts = self._label_starts[rows], self._label_counts[rows]
        if not self.multiple:
            return self._file.flat[starts]
        chosen = np.zeros((len(rows), self.num_labels), np.bool_)
        ends = np.cumsum(counts)
        flat = np.repeat(starts - (ends - counts), counts) + np.arange(int(counts.sum()))
        chosen[np.repeat(np.arange(len(rows)), counts), self._file.flat[flat]] = True
        return chosen


def cut_rows(ids: Ids, offsets: Offsets, longest: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Rows as a classifier gets them: of longer ones the first `longest` tokens, of empty ones one unknown symbol.

    Args:
        ids: The tokens of n texts one after another.
        offsets: Where each begins, n + 1.
        longest: Most tokens of a row.

    Returns:
        The rows, and which were cut, (n,).
    """
    lengths = np.diff(offsets)
    cut = lengths > longest
    if not cut.any() and lengths.all():
        return (ids, offsets), cut
    kept = np.minimum(lengths, longest)
    steps = np.arange(len(ids)) - np.repeat(offsets[:-1], lengths)
    ids = ids[steps < np.repeat(kept, lengths)]
    begins = np.cumsum(kept) - kept
    ids = np.insert(ids, begins[kept == 0], UNKNOWN).astype(np.int32, copy=False)
    return (ids, np.r_[0, np.cumsum(np.maximum(kept, 1))].astype(np.int64)), cut
