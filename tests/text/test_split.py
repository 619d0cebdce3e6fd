import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.split import find_components, first_occurrences, hash_pairs, hash_texts, split_pairs

graphs = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=60)
many = settings(max_examples=200, deadline=None)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def components_by_hand(pairs: list[tuple[int, int]]) -> list[int]:
    label = list(range(len(pairs)))
    for _ in pairs:
        for i, a in enumerate(pairs):
            for j, b in enumerate(pairs):
                if a[0] == b[0] or a[1] == b[1]:
                    label[i] = label[j] = min(label[i], label[j])
    return label


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=14))
def test_components_are_those_of_a_plain_search(pairs):
    assert find_components(*arrays(pairs)).tolist() == components_by_hand(pairs)


def test_a_long_chain_is_one_component():
    order = np.random.default_rng(0).permutation(100_000)
    assert (find_components(order // 2, (order + 1) // 2) == 0).all()


@many
@given(pairs=graphs, dev_size=st.integers(0, 20), seed=st.integers(0, 99), max_pairs=st.integers(0, 70))
def test_no_side_is_shared_and_every_pair_is_somewhere(pairs, dev_size, seed, max_pairs):
    source, target = arrays(pairs)
    split = split_pairs(source, target, dev_size=dev_size, max_pairs=max_pairs, seed=seed)
    assert sorted([*split.train, *split.dev, *split.rest]) == list(range(len(pairs)))
    assert not set(source[split.train]) & set(source[split.dev])
    assert not set(target[split.train]) & set(target[split.dev])
    for part in (split.train, split.dev, split.rest):
        assert (np.diff(part) > 0).all()
    if max_pairs and len(pairs) > max_pairs:
        assert split.train.tolist() == list(range(max_pairs))
        assert len(split.dev) <= min(dev_size, max_pairs // 10)
    else:
        assert not len(split.rest)
        assert len(split.dev) <= min(dev_size, len(pairs) // 10)


@many
@given(pairs=graphs, seed=st.integers(0, 99))
def test_the_split_depends_on_equality_only(pairs, seed):
    source, target = arrays(pairs)
    renamed = np.random.default_rng(seed).permutation(26) * 7919 - 3
    first = split_pairs(source, target, dev_size=5, max_pairs=0, seed=seed)
    second = split_pairs(renamed[source], renamed[target], dev_size=5, max_pairs=0, seed=seed)
    assert first.dev.tolist() == second.dev.tolist()


def test_dev_is_filled_where_pairs_are_free_and_other_seeds_draw_others():
    source = target = np.arange(1000)
    draws = [split_pairs(source, target, dev_size=50, max_pairs=0, seed=seed).dev.tolist() for seed in (1, 1, 2)]
    assert len(draws[0]) == 50
    assert draws[0] == draws[1] != draws[2]
    assert len(split_pairs(source, target, dev_size=500, max_pairs=0, seed=1).dev) == 100
    assert len(split_pairs(source, target, dev_size=30, max_pairs=500, seed=1).dev) == 30


def test_one_large_group_stays_in_training():
    source = np.r_[np.zeros(900, np.int64), np.arange(1, 101)]
    split = split_pairs(source, np.arange(1000), dev_size=100, max_pairs=0, seed=1)
    assert split.dev.tolist() == list(range(900, 1000))


def test_dev_behind_max_pairs_avoids_what_training_holds():
    source, target = np.array([1, 2, 3] * 10 + [1, 40, 50]), np.r_[np.arange(30), 99, 5, 77]
    split = split_pairs(source, target, dev_size=3, max_pairs=30, seed=0)
    assert split.dev.tolist() == [32]
    assert split.rest.tolist() == [30, 31]


def test_hashes_tell_sides_and_order_apart():
    one, two = hash_texts(["a", "b", "a", "é"]), hash_texts(["b", "a", "b", ""])
    pairs = hash_pairs(one, two)
    assert pairs[0] == pairs[2]
    assert len(set(pairs.tolist())) == 3
    assert first_occurrences(pairs).tolist() == [True, True, False, True]


@pytest.mark.parametrize("size", [0, 1, 9])
def test_too_few_pairs_hold_out_none(size):
    split = split_pairs(np.arange(size), np.arange(size), dev_size=100, max_pairs=0, seed=1)
    assert (len(split.train), len(split.dev)) == (size, 0)
