import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.split import LabelRows, draw_dev, find_components, find_groups, first_occurrences, hash_pairs, hash_texts

graphs = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=60)
many = settings(max_examples=200, deadline=None)


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def hold_out(source: np.ndarray, target: np.ndarray, **options: int) -> np.ndarray:
    """Return the positions of the pairs to hold out."""
    labels = LabelRows(np.zeros(0, np.int32), np.zeros(1, np.int64))
    return np.flatnonzero(draw_dev(find_groups(source, target, labels, 0), labels, **options))


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
@given(pairs=graphs, dev_size=st.integers(0, 20), seed=st.integers(0, 99), after=st.integers(0, 70))
def test_no_side_is_shared(pairs, dev_size, seed, after):
    source, target = arrays(pairs)
    dev = hold_out(source, target, dev_size=dev_size, seed=seed, after=after)
    others = np.setdiff1d(np.arange(len(pairs)), dev)
    assert not set(source[others]) & set(source[dev])
    assert not set(target[others]) & set(target[dev])
    assert dev.min(initial=after) >= after
    assert len(dev) <= min(dev_size, len(pairs) // 10)


@many
@given(pairs=graphs, seed=st.integers(0, 99))
def test_the_split_depends_on_equality_only(pairs, seed):
    source, target = arrays(pairs)
    renamed = np.random.default_rng(seed).permutation(26) * 7919 - 3
    first = hold_out(source, target, dev_size=5, seed=seed)
    second = hold_out(renamed[source], renamed[target], dev_size=5, seed=seed)
    assert first.tolist() == second.tolist()


def test_dev_is_filled_where_pairs_are_free_and_other_seeds_draw_others():
    source = target = np.arange(1000)
    draws = [hold_out(source, target, dev_size=50, seed=seed).tolist() for seed in (1, 1, 2)]
    assert len(draws[0]) == 50
    assert draws[0] == draws[1] != draws[2]
    assert len(hold_out(source, target, dev_size=500, seed=1)) == 100
    assert len(hold_out(source, target, dev_size=30, after=500, seed=1)) == 30


def test_one_large_group_stays_in_training():
    source = np.r_[np.zeros(900, np.int64), np.arange(1, 101)]
    assert hold_out(source, np.arange(1000), dev_size=100, seed=1).tolist() == list(range(900, 1000))


def test_dev_behind_the_first_pairs_avoids_what_these_hold():
    source, target = np.array([1, 2, 3] * 10 + [1, 40, 50]), np.r_[np.arange(30), 99, 5, 77]
    assert hold_out(source, target, dev_size=3, after=30, seed=0).tolist() == [32]


def test_hashes_tell_sides_and_order_apart():
    one, two = hash_texts(["a", "b", "a", "é"]), hash_texts(["b", "a", "b", ""])
    pairs = hash_pairs(one, two)
    assert pairs[0] == pairs[2]
    assert len(set(pairs.tolist())) == 3
    assert first_occurrences(pairs).tolist() == [True, True, False, True]


@pytest.mark.parametrize("size", [0, 1, 9])
def test_too_few_pairs_hold_out_none(size):
    assert not len(hold_out(np.arange(size), np.arange(size), dev_size=100, seed=1))
