"""Encoded pairs on disk: Arrow files, memory-mapped, so that memory does not grow with the corpus."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from regard.errors import DataError
from regard.text.batching import Batch
from regard.text.symbols import END, PAD, START

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]

SCHEMA = pa.schema(
    [
        pa.field("source", pa.large_list(pa.int32())),
        pa.field("target", pa.large_list(pa.int32())),
        pa.field("source_text", pa.large_string()),
        pa.field("target_text", pa.large_string()),
    ]
)


class EncodedWriter:
    """Writes an encoded corpus, some thousand pairs at a time; a context manager."""

    def __init__(self, path: Path) -> None:
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, SCHEMA)

    def __enter__(self) -> "EncodedWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._writer.close()
        self._sink.close()

    def write(
        self, source: tuple[Ids, Offsets], target: tuple[Ids, Offsets], source_texts: Sequence[str], target_texts: Sequence[str]
    ) -> None:
        """Append pairs.

        Args:
            source: Ids of all the sources in a row, without special symbols, and where each begins: n + 1 offsets from 0.
            target: The same for the targets.
            source_texts: The n raw texts.
            target_texts: The n raw texts.
        """
        sides = [pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids)) for ids, offsets in (source, target)]
        texts = [pa.array(side, pa.large_string()) for side in (source_texts, target_texts)]
        self._writer.write_batch(pa.record_batch([*sides, *texts], schema=SCHEMA))


class EncodedCorpus:
    """Pairs of encoded sentences and their texts, in a memory-mapped Arrow file.

    Besides the mapped file it holds 24 bytes a pair: where each side begins, and its length. It can be pickled (workers open
    the file anew).

    Args:
        path: A file written by `EncodedWriter`.

    Raises:
        DataError: If the file is missing or not one.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            # The whole file is one array of int32; a sentence is where the address of its Arrow buffer points to.
            buffer = pa.memory_map(str(path)).read_buffer()
            reader = pa.ipc.open_file(buffer)
            if reader.schema != SCHEMA:
                raise DataError(f"{path}: is an Arrow file of other columns; delete it, and it is made again")
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{path}: is not an encoded corpus, or damaged ({error}); delete it, and it is made again"
            ) from error
        self._flat = np.frombuffer(buffer, np.int32, buffer.size // 4)
        self._source_starts, self.source_lengths = _find_rows(batches, "source", buffer.address)
        self._target_starts, self.target_lengths = _find_rows(batches, "target", buffer.address)
        self._texts = [(batch.column("source_text"), batch.column("target_text")) for batch in batches]
        self._ends = np.cumsum([batch.num_rows for batch in batches], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __reduce__(self) -> tuple[type["EncodedCorpus"], tuple[Path]]:
        return EncodedCorpus, (self.path,)

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
        rows = np.arange(len(self))[np.asarray(indices, np.int64)]
        blocks = np.searchsorted(self._ends, rows, side="right")
        begins = np.r_[0, self._ends][blocks]
        sources, targets = [], []
        for block, place in zip(blocks.tolist(), (rows - begins).tolist(), strict=True):
            source, target = self._texts[block]
            sources.append(source[place].as_py())
            targets.append(target[place].as_py())
        return sources, targets

    def _gather(self, starts: Offsets, lengths: Ids) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Rows of ids with the end symbol after each, padded, and the mask of both."""
        steps = np.arange(lengths.max(initial=1))
        mask = steps < lengths[:, None]
        last = steps == lengths[:, None] - 1
        ids = np.full(mask.shape, PAD, np.int64)
        inner = mask & ~last
        ids[inner] = self._flat[(starts[:, None] + steps)[inner]]
        ids[last] = END
        return ids, mask


def _find_rows(batches: Sequence[pa.RecordBatch], name: str, base: int) -> tuple[Offsets, Ids]:
    """Where each row of a column begins in the file, in int32 from its start, and its length with the end symbol."""
    starts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for batch in batches:
        column = batch.column(name)
        offsets = column.offsets.to_numpy()
        values = column.values.buffers()[1]
        begin = (values.address - base) // 4 if values is not None and values.size else 0
        starts.append(offsets[:-1] + begin)
        lengths.append((np.diff(offsets) + 1).astype(np.int32))
    return np.concatenate(starts), np.concatenate(lengths)
