"""Encoded corpora of sentence pairs, labelled texts, and plain texts.

A plain text is a row of ids between the start symbol and the end symbol. A long text is split into several rows, called
blocks. Each block except the first begins with the last id of the previous block, so every id except the start symbol is
predicted exactly once. A row takes 24 bytes of memory, for the positions and lengths of its two lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.text.batching import Batch, Tensors
from regard.text.copying import Copier
from regard.text.mapped import Ids, Indices, MappedCorpus, Offsets, Redraw, Rows, pad_rows
from regard.text.split import ranges
from regard.text.symbols import END, PAD, START, UNKNOWN


class EncodedCorpus(MappedCorpus):
    """Encoded sentence pairs with their texts, in a file."""

    copier: Copier | None = None
    """Adds the ids of copied words to the batches; None for models that do not copy words."""
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
        self._source_starts, source_lengths = self._rows("source")
        self._target_starts, target_lengths = self._rows("target")
        self.source_lengths, self.target_lengths = source_lengths + 1, target_lengths + 1
        """Number of source tokens and of target tokens of each pair, including the end symbol."""

    def batch(self, indices: Indices, redraw: Sequence[Redraw | None] = (None, None)) -> Batch:
        """Return the tensors of some pairs, padded to the longest sentence on each side; `redraw` replaces their ids."""
        rows = np.asarray(indices, np.int64)
        source, source_mask = self._sources(rows, redraw[0])
        target, target_mask = self._gather(self._target_starts[rows], self.target_lengths[rows], redraw[1])
        target_in = np.empty_like(target)
        target_in[:, :1] = START
        # The input is shifted by one step, without the end symbol; padding stays padding.
        target_in[:, 1:] = np.where(target_mask[:, 1:], target[:, :-1], PAD)
        batch = Batch(
            *map(torch.from_numpy, (source, source_mask, target_in, target, target_mask, rows.copy())),
        )
        return batch if self.copier is None else self.copier.add_to(batch, *self.texts(rows))

    def _sources(self, rows: npt.NDArray[np.int64], redraw: Redraw | None) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        return self._gather(self._source_starts[rows], self.source_lengths[rows], redraw)

    def texts(self, indices: Indices) -> tuple[list[str], list[str]]:
        """Return the raw texts of both sides of some pairs, in the order of `indices`."""
        return self._texts("source_text", indices), self._texts("target_text", indices)

    def _gather(
        self, starts: Offsets, lengths: Ids, redraw: Redraw | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the padded rows of ids, each with an end symbol, and a mask that is False at padding."""
        flat = self._flat
        if redraw is not None:
            flat, starts, lengths = redraw(flat, starts, lengths - 1)
            lengths = lengths + 1
        ids, mask = pad_rows(flat, starts, lengths)  # the id behind each row becomes the end symbol
        ids[np.arange(len(ids)), lengths - 1] = END
        return ids, mask


_NUM_LABELS, _MULTIPLE = b"num_labels", b"multiple"


@dataclass(frozen=True)
class LabelledBatch(Tensors):
    """Texts and their labels as tensors."""

    tokens: Int[Tensor, "B S"]
    """Ids, padded at the end; an empty text is one unknown symbol."""
    mask: Bool[Tensor, "B S"]
    """True at tokens, False at padding."""
    label: Int[Tensor, " B"] | Float[Tensor, "B C"]
    """Number of each text's label; if texts may have several labels, 1 for each label of the text and 0 for all others."""
    index: Int[Tensor, " B"]


class LabelledCorpus(MappedCorpus):
    """Encoded texts with their labels and the original texts, in a file."""

    schema = pa.schema(
        [
            pa.field("tokens", pa.large_list(pa.int32())),
            pa.field("labels", pa.large_list(pa.int32())),
            pa.field("text", pa.large_string()),
        ]
    )

    @classmethod
    def schema_for(cls, *, num_labels: int, multiple: bool) -> pa.Schema:
        """Return the schema of a new corpus, with the number of labels and `multiple` in its metadata."""
        return cls.schema.with_metadata({_NUM_LABELS: str(num_labels), _MULTIPLE: str(int(multiple))})

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._starts, self.lengths = self._rows("tokens")
        self._label_starts, self._label_counts = self._rows("labels")
        self.num_labels, self.multiple = int(self._metadata[_NUM_LABELS]), self._metadata[_MULTIPLE] == b"1"

    @property
    def labels(self) -> npt.NDArray[np.int32] | npt.NDArray[np.bool_]:
        """Number of each text's label, (N,); if texts may have several labels, a mask that is True at their labels, (N,C)."""
        return self._labels_of(np.arange(len(self)))

    def batch(self, indices: Indices, redraw: Sequence[Redraw | None] = (None,)) -> LabelledBatch:
        """Return the tensors of some texts, padded to the longest; `redraw` replaces their ids."""
        rows = np.asarray(indices, np.int64)
        texts = self._flat, self._starts[rows], self.lengths[rows]
        tokens, mask = pad_rows(*(texts if redraw[0] is None else redraw[0](*texts)))
        label = torch.from_numpy(self._labels_of(rows))
        return LabelledBatch(
            tokens=torch.from_numpy(tokens),
            mask=torch.from_numpy(mask),
            label=label.float() if self.multiple else label.long(),
            index=torch.from_numpy(rows.copy()),
        )

    def texts(self, indices: Indices) -> list[str]:
        """Return the raw texts, in the order of `indices`."""
        return self._texts("text", indices)

    def _labels_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32] | npt.NDArray[np.bool_]:
        starts, counts = self._label_starts[rows], self._label_counts[rows]
        if not self.multiple:
            return self._flat[starts]
        chosen = np.zeros((len(rows), self.num_labels), np.bool_)
        chosen[np.repeat(np.arange(len(rows)), counts), self._flat[ranges(starts, counts)]] = True
        return chosen


def cut_rows(ids: Ids, offsets: Offsets, longest: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Prepare texts for a classifier: truncate rows to `longest` tokens, and replace empty rows with one unknown symbol.

    Returns:
        The rows, and a mask of the rows that were truncated, (n,).
    """
    lengths = np.diff(offsets)
    cut = lengths > longest
    if not cut.any() and lengths.all():
        return (ids, offsets), cut  # nearly always, so this is the fast form
    kept, last = np.minimum(lengths, longest), np.append(ids, PAD)[offsets[1:] - 1]
    ids = ids[ranges(offsets[:-1], kept)]
    begins = np.cumsum(kept) - kept
    if END in last[cut]:  # a pretrained tokenizer's end symbol stays the last one
        ids[(begins + kept - 1)[cut & (last == END)]] = END
    ids = np.insert(ids, begins[kept == 0], UNKNOWN).astype(np.int32, copy=False)
    return (ids, np.r_[0, np.cumsum(np.maximum(kept, 1))].astype(np.int64)), cut


class TextCorpus(MappedCorpus):
    """Encoded plain texts: one row for each text, or several rows (blocks) for a long text."""

    schema = pa.schema([pa.field("tokens", pa.large_list(pa.int32()))])

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._starts, sizes = self._rows("tokens")
        self.lengths = sizes - 1
        """Number of predicted tokens in each row, including the end symbol."""

    def batch(self, indices: Indices, redraw: Sequence[Redraw | None] = (None,)) -> Batch:
        """Return the tensors of some rows, padded to the longest, as targets of empty sources; `redraw` replaces their ids."""
        rows = np.asarray(indices, np.int64)
        flat, starts, lengths = self._flat, self._starts[rows], self.lengths[rows]
        if redraw[0] is not None:
            flat, starts, lengths = redraw[0](flat, starts, lengths + 1)
            lengths = lengths - 1
        return as_batch(flat, starts, lengths, rows)


def as_batch(flat: Ids, starts: Offsets, lengths: Ids, index: npt.NDArray[np.int64]) -> Batch:
    """Return a batch whose targets are rows of `flat`, and whose sources are one end symbol each."""
    # The input of the decoder is the row without its last id, and the expected output is the row without its first id, so
    # `lengths` is one less than the rows' numbers of tokens.
    target_in, mask = pad_rows(flat, starts, lengths)
    target_out, _ = pad_rows(flat, starts + 1, lengths)
    return Batch(
        source=torch.full((len(index), 1), END),
        source_mask=torch.ones((len(index), 1), dtype=torch.bool),
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_mask=torch.from_numpy(mask),
        index=torch.from_numpy(index.copy()),
    )


def cut_blocks(ids: Ids, offsets: Offsets, longest: int) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Add start and end symbols to texts, and split long texts into blocks that predict at most `longest` tokens.

    Returns:
        The rows, and the index of each row's text.
    """
    predicted = np.diff(offsets) + 1
    count = len(predicted)
    whole = np.insert(ids, np.repeat(offsets, 2)[1:-1], np.tile((START, END), count)).astype(np.int32, copy=False)
    begins = offsets[:-1] + 2 * np.arange(count)
    parts = -(-predicted // longest)
    owner = np.repeat(np.arange(count), parts)
    first = longest * (np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts))
    sizes = np.minimum(longest, predicted[owner] - first) + 1
    return (whole[ranges(begins[owner] + first, sizes)], np.r_[0, np.cumsum(sizes)].astype(np.int64)), owner
