"""Temporary storage for texts that are being prepared: the texts are on disk, their line numbers and hashes in memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.text.clean import Chunk
from regard.text.mapped import MappedWriter
from regard.text.split import Hashes, hash_texts

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

    def __len__(self) -> int:
        return len(self.lines)

    def chunks(self, chosen: Chosen, size: int) -> Iterator[tuple[npt.NDArray[np.int64], Texts]]:
        """Yield the chosen rows in order, at most `size` at a time, with their positions.

        Args:
            chosen: A mask of the rows to read.
            size: Maximum number of rows in a chunk.
        """
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


def spool_texts(chunks: Iterable[Chunk], names: Sequence[str], path: Path) -> Spool:
    """Write texts to a file while they are read.

    Args:
        chunks: The texts and their line numbers.
        names: The names of the columns.
        path: The file.
    """
    hashes: list[list[Hashes]] = [[np.zeros(0, np.int64)] for _ in names]
    lines = [np.zeros(0, np.int64)]
    with MappedWriter(path, pa.schema([pa.field(name, pa.large_string()) for name in names])) as writer:
        for chunk in chunks:
            writer.append((), chunk.columns)
            for known, column in zip(hashes, chunk.columns, strict=True):
                known.append(hash_texts(column))
            lines.append(np.asarray(chunk.line, np.int64))
    return Spool(path, tuple(np.concatenate(known) for known in hashes), np.concatenate(lines))
