"""Batches: each pair once, within the budget, in an order of seed and epoch, resumed exactly, shared without loss."""

import os
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from regard.errors import ConfigError
from regard.text.batching import Batch, BucketBatchSampler, length_batches

REAL = Path(os.environ.get("REGARD_DATA", "../shared/data"))
pairs = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=200)


def sampler(lengths, **settings) -> BucketBatchSampler:
    source, target = np.array(lengths, np.int32).T
    return BucketBatchSampler(source, target, **{"batch_tokens": 64, "seed": 1} | settings)


def random_lengths(number: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    source = generator.poisson(12, number) + 2
    return np.stack([source, np.maximum(source + generator.integers(-4, 5, number), 2)], axis=1)


def as_lists(batches) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(pairs, st.integers(1, 100), st.integers(0, 5), st.integers(0, 3))
def test_every_pair_comes_once_and_within_the_budget(lengths, budget, most, epoch):
    batches = sampler(lengths, batch_tokens=budget, batch_sentences=most)
    batches.resume_at(epoch, 0)
    drawn = as_lists(batches)
    assert sorted(chain.from_iterable(drawn)) == list(range(len(lengths)))
    assert len(drawn) == len(batches)
    for batch in drawn:
        assert len(batch) == 1 or max(max(lengths[index]) for index in batch) * len(batch) <= budget
        assert not most or len(batch) <= most


@given(pairs, st.integers(0, 2**70), st.integers(0, 9))
def test_the_order_is_a_function_of_seed_and_epoch(lengths, seed, epoch):
    first, second = sampler(lengths, seed=seed), sampler(lengths, seed=seed)
    list(first)
    first.resume_at(epoch + 1, 0)
    first.resume_at(epoch, 0)
    second.resume_at(epoch, 0)
    assert as_lists(first) == as_lists(second)


def test_the_order_stays_the_same_from_version_to_version():
    lengths = [(3, 4), (9, 2), (4, 4), (3, 4), (12, 11), (1, 1), (9, 9), (3, 4)]
    assert as_lists(sampler(lengths, batch_tokens=16)) == [[7, 0, 3, 2], [4], [1], [5], [6]]


@given(pairs, st.integers(0, 5), st.data())
def test_resuming_gives_what_was_left(lengths, epoch, data):
    whole, resumed = sampler(lengths), sampler(lengths)
    whole.resume_at(epoch, 0)
    position = data.draw(st.integers(0, len(whole)))
    resumed.resume_at(epoch, position)
    assert as_lists(resumed) == as_lists(resumed) == as_lists(whole)[position:]
    assert len(resumed) == len(whole)


@pytest.mark.parametrize("workers", [0, 2])
def test_serves_a_data_loader(workers):
    lengths = random_lengths(40)
    batches = sampler(lengths)
    context = "fork" if workers else None
    loader = DataLoader(range(40), batch_sampler=batches, num_workers=workers, collate_fn=list, multiprocessing_context=context)
    assert len(loader) == len(batches)
    batches.resume_at(3, 2)
    assert list(loader) == as_lists(batches)
    assert len(list(loader)) == len(batches) - 2


def test_ten_million_pairs_take_seconds():
    lengths = np.random.default_rng(0).poisson(10, (1_000_000, 2)).astype(np.int32) + 1
    start = time.process_time()
    batches = sampler(lengths, batch_tokens=4096)
    next(iter(batches))
    assert time.process_time() - start < 3  # a tenth of the ten million; 0.2 s where this was written


@pytest.mark.real
def test_real_pairs_are_padded_little():
    folder = REAL / "multi30k"
    if not folder.is_dir():
        pytest.skip("needs multi30k in ../shared/data or the folder in REGARD_DATA")
    sides = [(folder / f"train.lc.norm.tok.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "de")]
    lengths = np.array([[len(text.split()) + 1 for text in side] for side in sides]).T
    used = sum(len(batch) * lengths[batch].max(axis=0) for batch in sampler(lengths, batch_tokens=4096))
    assert 1 - lengths.sum() / used.sum() < 0.03


@given(st.lists(st.integers(0, 50), max_size=100), st.integers(1, 100))
def test_length_batches_cover_each_once_by_length(lengths, budget):
    batches = as_lists(length_batches(np.array(lengths, np.int32), budget))
    assert sorted(chain.from_iterable(batches)) == list(range(len(lengths)))
    in_order = [lengths[index] for batch in batches for index in batch]
    assert in_order == sorted(lengths, reverse=True)
    for batch in batches:
        assert batch
        assert len(batch) == 1 or lengths[batch[0]] * len(batch) <= budget


def test_a_batch_knows_its_length():
    ids, mask = torch.zeros(3, 5, dtype=torch.long), torch.ones(3, 5, dtype=torch.bool)
    assert len(Batch(ids, mask, ids, ids, mask, torch.arange(3))) == 3


def test_no_pairs_are_refused():
    with pytest.raises(ConfigError, match=r"^there are no examples to make batches of$"):
        BucketBatchSampler(np.zeros(0, np.int32), np.zeros(0, np.int32), batch_tokens=9, seed=1)


def test_positions_of_another_corpus_are_refused():
    with pytest.raises(ConfigError, match=r"position 7 of an epoch of 1 batches; did the run start with other data"):
        sampler([(1, 1)]).resume_at(0, 7)
