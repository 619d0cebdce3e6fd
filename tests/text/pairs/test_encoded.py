import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.corpora import EncodedCorpus
from regard.text.mapped import MappedWriter
from regard.text.symbols import END, PAD, START

rows = st.lists(st.lists(st.integers(4, 99), max_size=7), min_size=1, max_size=5)
corpora = st.lists(st.lists(st.tuples(rows.map(lambda r: r[0]), rows.map(lambda r: r[0])), min_size=1, max_size=6), max_size=4)


def flat(sentences: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([number for sentence in sentences for number in sentence], np.int32)
    return ids, np.r_[0, np.cumsum([len(sentence) for sentence in sentences])].astype(np.int64)


def write(path: Path, chunks: list[list[tuple[list[int], list[int]]]]) -> EncodedCorpus:
    number = 0
    with MappedWriter(path, EncodedCorpus.schema) as writer:
        for chunk in chunks:
            texts = [f"s{number + i}" for i in range(len(chunk))], [f"täxt {number + i}" for i in range(len(chunk))]
            writer.append((flat([pair[0] for pair in chunk]), flat([pair[1] for pair in chunk])), texts)
            number += len(chunk)
    return EncodedCorpus(path)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks=corpora, seed=st.integers(0, 9))
def test_batches_are_those_of_a_plain_loop(tmp_path, chunks, seed):
    corpus = write(tmp_path / "x.arrow", chunks)
    pairs = [pair for chunk in chunks for pair in chunk]
    assert len(corpus) == len(pairs)
    assert corpus.source_lengths.tolist() == [len(pair[0]) + 1 for pair in pairs]
    assert corpus.target_lengths.tolist() == [len(pair[1]) + 1 for pair in pairs]
    indices = np.random.default_rng(seed).permutation(len(pairs))[:5]
    batch = corpus.batch(indices)
    assert batch.index.tolist() == indices.tolist()
    for row, index in enumerate(indices):
        source, target = pairs[index]
        assert batch.source[row][batch.source_mask[row]].tolist() == [*source, END]
        assert batch.target_in[row][batch.target_mask[row]].tolist() == [START, *target]
        assert batch.target_out[row][batch.target_mask[row]].tolist() == [*target, END]
        assert corpus.texts([index]) == ([f"s{index}"], [f"täxt {index}"])
    for ids, mask in (
        (batch.source, batch.source_mask),
        (batch.target_in, batch.target_mask),
        (batch.target_out, batch.target_mask),
    ):
        assert ids.dtype == torch.int64
        assert mask.dtype == torch.bool
        assert (ids[~mask] == PAD).all()
        assert not len(ids) or mask.any(0).all()


def test_a_pickled_corpus_opens_the_file_anew(tmp_path):
    corpus = pickle.loads(pickle.dumps(write(tmp_path / "x.arrow", [[([5], [6, 7])], [([8, 9], [])]])))
    assert corpus.batch([1]).source.tolist() == [[8, 9, END]]
    assert corpus.texts([1, 0])[0] == ["s1", "s0"]


def test_positions_out_of_range(tmp_path):
    corpus = write(tmp_path / "x.arrow", [[([5], [6])]])
    with pytest.raises(IndexError):
        corpus.batch([1])
    with pytest.raises(IndexError):
        corpus.texts([1])


def test_files_that_are_no_corpus(tmp_path):
    (tmp_path / "x").write_bytes(b"no Arrow at all")
    for path in (tmp_path / "x", tmp_path / "missing"):
        with pytest.raises(DataError, match=r"is not an encoded corpus, or damaged .*; delete it, and regard writes it again"):
            EncodedCorpus(path)
    with pa.OSFile(str(tmp_path / "y"), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("a", pa.int8())])):
        pass
    with pytest.raises(DataError, match="is an Arrow file with other columns"):
        EncodedCorpus(tmp_path / "y")
