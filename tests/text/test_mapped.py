"""Encoded corpora from a cache that others can write to."""

import numpy as np
import pyarrow as pa
import pytest

from regard.errors import DataError
from regard.text.corpora import EncodedCorpus
from regard.text.mapped import MappedWriter


def write(path):
    numbers = np.array([4, 5, 6], np.int32), np.array([0, 1, 3])
    with MappedWriter(path, EncodedCorpus.schema) as writer:
        writer.append((numbers, numbers), (["a", "bb"], ["ä", "b"]))
    return path


@pytest.mark.parametrize("forged", [[0, 1, 2**40], [0, 2**40, 3], [2**40] * 3, [0, -5, 3], [3, 1, 0]])
def test_offsets_beyond_the_file_are_refused(tmp_path, forged):
    path = write(tmp_path / "train.arrow")
    path.write_bytes(path.read_bytes().replace(np.array([0, 1, 3]).tobytes(), np.array(forged).tobytes(), 1))
    with pytest.raises(DataError, match=r"train\.arrow: is not an encoded corpus, or damaged .*; delete it, and regard writes"):
        EncodedCorpus(path)


def test_text_with_wrong_offsets_is_refused(tmp_path):
    path = write(tmp_path / "train.arrow")
    path.write_bytes(path.read_bytes().replace(np.array([0, 1, 3])[1:].tobytes(), np.array([1, 2**40]).tobytes()))
    with pytest.raises(DataError, match="is not an encoded corpus, or damaged"):
        EncodedCorpus(path)


def test_compressed_numbers_are_refused(tmp_path):
    """They lie outside of the mapped file."""
    path, options = tmp_path / "train.arrow", pa.ipc.IpcWriteOptions(compression="zstd")
    table = pa.Table.from_pydict(
        {field.name: [[7] * 999] if pa.types.is_large_list(field.type) else ["a"] for field in EncodedCorpus.schema},
        schema=EncodedCorpus.schema,
    )
    with path.open("wb") as sink, pa.ipc.new_file(sink, EncodedCorpus.schema, options=options) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match="its numbers are compressed"):
        EncodedCorpus(path)
