"""Encoded corpora: rows of numbers and of text in memory-mapped Arrow files, so that they need not fit into memory."""

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard import disk
from regard.errors import DataError
from regard.text.symbols import PAD

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Rows = tuple[Ids, Offsets]
"""The concatenated numbers of n rows, and n + 1 offsets: row i is `numbers[offsets[i]:offsets[i + 1]]`."""
Indices = Sequence[int] | npt.NDArray[np.int64]
"""Positions of rows."""


class MappedWriter(ExitStack):
    """A context manager that writes an encoded corpus to a file, chunk by chunk.

    The schema has first the columns of numbers, then the columns of text.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__()
        self._schema = schema
        sink = self.enter_context(disk.whole_file(path))
        self._writer = self.enter_context(pa.ipc.new_file(sink, schema))

    def append(self, numbers: Sequence[Rows], texts: Sequence[Sequence[str]]) -> None:
        """Append rows: the values of the columns of numbers, and of the columns of text."""
        lists = [pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids)) for ids, offsets in numbers]
        strings = [pa.array(column, pa.large_string()) for column in texts]
        self._writer.write_batch(pa.record_batch([*lists, *strings], schema=self._schema))


class MappedCorpus:
    """An encoded corpus in a memory-mapped file that a `MappedWriter` wrote with the columns of `schema`.

    Only its path is pickled, and worker processes open the file again. Rows of numbers are slices of one int32 array, `_flat`.
    """

    schema: ClassVar[pa.Schema]
    """The columns of the file."""
    multiple: bool = False
    """Whether a row may have several labels."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._buffer = pa.memory_map(str(path)).read_buffer()
            reader = pa.ipc.open_file(self._buffer)
            if reader.schema != self.schema:
                raise DataError(f"{path}: is an Arrow file with other columns; delete it, and regard writes it again")
            self._metadata: Mapping[bytes, bytes] = reader.schema.metadata or {}
            self._batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            for batch in self._batches:
                batch.validate(full=True)  # Arrow and NumPy trust offsets: a wrong one would end the process
                if any(not self._is_mapped(column.values.buffers()[1]) for column in batch if hasattr(column, "values")):
                    raise pa.ArrowInvalid("its numbers are compressed")
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{path}: is not an encoded corpus, or damaged ({error}); delete it, and regard writes it again"
            ) from error
        self._whole = np.frombuffer(self._buffer, np.int32, self._buffer.size // 4)
        self._handle = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)
        self._state = self._look()
        self._ends = np.cumsum([batch.num_rows for batch in self._batches], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __reduce__(self) -> tuple:
        return type(self), (self.path,)

    def _is_mapped(self, part: pa.Buffer | None) -> bool:
        return not part or 0 <= part.address - self._buffer.address <= self._buffer.size - part.size

    def _look(self) -> tuple[int, int]:
        state = os.fstat(self._handle)
        return state.st_size, state.st_mtime_ns

    @property
    def _flat(self) -> Ids:
        """The whole file as one int32 array, after a check that no other program has written to it since."""
        if self._look() != self._state:
            raise DataError(f"{self.path}: has changed while it was in use; do not change the cache, and resume the run")
        return self._whole

    def _rows(self, name: str) -> tuple[Offsets, Ids]:
        """Return the index in `_flat` at which each row of a column of numbers begins, and the length of each row."""
        starts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for batch in self._batches:
            column = batch.column(name)
            offsets = column.offsets.to_numpy()
            values = column.values.buffers()[1]
            begin = (values.address - self._buffer.address) // 4 if values is not None and values.size else 0
            starts.append(offsets[:-1] + begin)
            lengths.append(np.diff(offsets).astype(np.int32))
        return np.concatenate(starts), np.concatenate(lengths)

    def _texts(self, name: str, indices: Indices) -> list[str]:
        """Return the texts of some rows of a column, in the order of `indices`."""
        rows = np.arange(len(self))[np.asarray(indices, np.int64)]
        blocks = np.searchsorted(self._ends, rows, side="right")
        places = (rows - np.r_[0, self._ends][blocks]).tolist()
        return [self._batches[block].column(name)[place].as_py() for block, place in zip(blocks.tolist(), places, strict=True)]


Redraw = Callable[[Ids, Offsets, Ids], tuple[Ids, Offsets, Ids]]
"""A function that replaces rows of ids: from an array, and the starts and lengths of rows in it, to those of the new rows. Each
new row is followed by an unused number."""


def pad_rows(flat: Ids, starts: Offsets, lengths: Ids) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return rows of ids, padded at the end to the longest, and a mask that is True at ids."""
    steps = np.arange(lengths.max(initial=1))
    mask = steps < lengths[:, None]
    ids = np.full(mask.shape, PAD, np.int64)
    ids[mask] = flat[(starts[:, None] + steps)[mask]]
    return ids, mask
