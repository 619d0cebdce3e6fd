from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from regard.text.corpora import LabelledCorpus, cut_rows
from regard.text.mapped import MappedWriter
from regard.text.symbols import PAD, UNKNOWN

NUM_LABELS = 5
row = st.tuples(st.lists(st.integers(4, 99), min_size=1, max_size=7), st.sets(st.integers(0, NUM_LABELS - 1)))
many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([number for row in rows for number in row], np.int32)
    return ids, np.r_[0, np.cumsum([len(row) for row in rows])].astype(np.int64)


def write(path: Path, chunks: list[list[tuple[list[int], list[int]]]], *, multiple: bool) -> LabelledCorpus:
    number = 0
    with MappedWriter(path, LabelledCorpus.schema_for(num_labels=NUM_LABELS, multiple=multiple)) as writer:
        for chunk in chunks:
            texts = [f"täxt {number + i}" for i in range(len(chunk))]
            writer.append((flat([tokens for tokens, _ in chunk]), flat([labels for _, labels in chunk])), (texts,))
            number += len(chunk)
    return LabelledCorpus(path)


@many
@given(chunks=st.lists(st.lists(row, min_size=1, max_size=6), max_size=4), seed=st.integers(0, 9), multiple=st.booleans())
def test_batches_are_those_of_a_plain_loop(tmp_path, chunks, seed, multiple):
    rows = [[(tokens, sorted(own) if multiple else [len(own) % NUM_LABELS]) for tokens, own in chunk] for chunk in chunks]
    corpus = write(tmp_path / "x.arrow", rows, multiple=multiple)
    texts = [text for chunk in rows for text in chunk]
    assert len(corpus) == len(texts)
    assert corpus.lengths.tolist() == [len(tokens) for tokens, _ in texts]
    indices = np.random.default_rng(seed).permutation(len(texts))[:5]
    batch = corpus.batch(indices)
    assert batch.index.tolist() == indices.tolist()
    assert batch.label.dtype == (torch.float32 if multiple else torch.int64)
    whole = corpus.labels
    for place, index in enumerate(indices):
        tokens, own = texts[index]
        assert batch.tokens[place][batch.mask[place]].tolist() == tokens
        label = batch.label[place]
        assert (label.nonzero()[:, 0].tolist() if multiple else [int(label)]) == own
        assert (np.flatnonzero(whole[index]).tolist() if multiple else [int(whole[index])]) == own
        assert corpus.texts([index]) == [f"täxt {index}"]
    assert (batch.tokens[~batch.mask] == PAD).all()
    assert not len(indices) or batch.mask.any(0).all()


@many
@given(rows=st.lists(st.lists(st.integers(4, 99), max_size=9), max_size=8), longest=st.integers(1, 9))
@example(rows=[[]], longest=1)
def test_rows_are_cut_and_empty_ones_filled(rows, longest):
    (ids, offsets), cut = cut_rows(*flat(rows), longest)
    assert cut.tolist() == [len(row) > longest for row in rows]
    got = [ids[start:stop].tolist() for start, stop in pairwise(offsets)]
    assert got == [row[:longest] or [UNKNOWN] for row in rows]
    assert (ids.dtype, offsets.dtype) == (np.int32, np.int64)
