"""All pairs of one reading: their texts on disk, and in memory 24 bytes of each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.text.readers import PairChunk
from regard.text.split import Hashes, hash_texts

SCHEMA = pa.schema([pa.field("source", pa.large_string()), pa.field("target", pa.large_string())])

Texts = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Spool:
    """Pairs that were read once and are gone over again: for vocabularies, then to encode them."""

    path: Path
    source_hashes: Hashes
    target_hashes: Hashes
    lines: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lines)

    def chunks(self, chosen: npt.NDArray[np.bool_], size: int) -> Iterator[tuple[npt.NDArray[np.int64], Texts]]:
        """The chosen pairs in order, at most `size` at a time, each time with their positions.

        Args:
            chosen: For every pair, whether it is wanted.
            size: Pairs in a chunk.
        """
        with pa.memory_map(str(self.path)) as file:
            reader = pa.ipc.open_file(file)
            begin = 0
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                wanted = np.flatnonzero(chosen[begin : begin + batch.num_rows])
                for first in range(0, len(wanted), size):
                    rows = wanted[first : first + size]
                    part = batch.take(pa.array(rows))
                    yield rows + begin, (part.column(0).to_pylist(), part.column(1).to_pylist())
                begin += batch.num_rows


def spool_pairs(chunks: Iterable[PairChunk], path: Path) -> Spool:
    """Write pairs to a file as they come."""
    sources, targets, lines = [], [], []
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for chunk in chunks:
            texts = [pa.array(side, pa.large_string()) for side in (chunk.source, chunk.target)]
            writer.write_batch(pa.record_batch(texts, schema=SCHEMA))
            sources.append(hash_texts(chunk.source))
            targets.append(hash_texts(chunk.target))
            lines.append(np.asarray(chunk.line, np.int64))
    return Spool(path, np.concatenate(sources), np.concatenate(targets), np.concatenate(lines))
