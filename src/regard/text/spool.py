"""Temporary storage for examples that are being prepared: texts on disk; line numbers, hashes and labels in memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.text.clean import Chunk
from regard.text.labelled.labels import sort_names
from regard.text.mapped import MappedWriter
from regard.text.split import Hashes, Indices, LabelRows, hash_texts

Texts = tuple[list[str], ...]
"""Texts of some rows: one list for each column."""
Chosen = npt.NDArray[np.bool_]
"""A mask of the chosen rows."""


@dataclass(frozen=True)
class Spool:
    """Texts on disk, which are read to learn vocabularies, and again to encode the texts."""

    path: Path
    hashes: tuple[Hashes, ...]
    """Hashes of the texts of each column."""
    lines: npt.NDArray[np.int64]
    names: list[str]
    """All labels, in natural order; empty for data without labels."""
    labels: LabelRows
    """The labels of each row, as indices into `names`."""
    multiple: bool
    """Whether rows may have several labels."""

    def __len__(self) -> int:
        return len(self.lines)

    def count_labels(self, chosen: Chosen) -> dict[str, int]:
        """Return the number of chosen rows with each label."""
        counts = self.labels.take(np.flatnonzero(chosen)).counts(len(self.names)) if self.names else np.zeros(0, np.int64)
        return dict(zip(self.names, counts.tolist(), strict=True))

    def chunks(self, chosen: Chosen, size: int) -> Iterator[tuple[Indices, Texts]]:
        """Yield the chosen rows in order, at most `size` at a time, with their positions."""
        with pa.memory_map(str(self.path)) as file:
            reader = pa.ipc.open_file(file)
            begin = 0
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                places = np.flatnonzero(chosen[begin : begin + batch.num_rows])
                for first in range(0, len(places), size):
                    rows = places[first : first + size]
                    yield rows + begin, tuple(column.to_pylist() for column in batch.take(pa.array(rows)).columns)
                begin += batch.num_rows


def spool_texts(chunks: Iterable[Chunk], columns: Sequence[str], path: Path) -> Spool:
    """Write texts to a file while they are read, and collect their labels; `columns` are the names of the texts' columns."""
    hashes: list[list[Hashes]] = [[np.zeros(0, np.int64)] for _ in columns]
    lines = [np.zeros(0, np.int64)]
    numbers: dict[str, int] = {}  # labels in the order in which they are read
    flat, counts = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    multiple = False
    with MappedWriter(path, pa.schema([pa.field(name, pa.large_string()) for name in columns])) as writer:
        for chunk in chunks:
            writer.append((), chunk.columns)
            for known, column in zip(hashes, chunk.columns, strict=True):
                known.append(hash_texts(column))
            lines.append(np.asarray(chunk.line, np.int64))
            labels = list(chain.from_iterable(chunk.labels))
            for name in dict.fromkeys(labels):
                numbers.setdefault(name, len(numbers))
            flat.append(np.fromiter(map(numbers.__getitem__, labels), np.int32, len(labels)))
            counts.append(np.fromiter(map(len, chunk.labels), np.int64, len(chunk.labels)))
            multiple = chunk.multiple
    names = sort_names(numbers)
    place = np.empty(len(names), np.int32)
    place[[numbers[name] for name in names]] = np.arange(len(names))
    rows = LabelRows(place[np.concatenate(flat)], np.r_[0, np.cumsum(np.concatenate(counts))])
    return Spool(path, tuple(map(np.concatenate, hashes)), np.concatenate(lines), names, rows, multiple)
