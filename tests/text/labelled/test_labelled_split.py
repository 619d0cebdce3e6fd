import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.split import LabelRows, draw_dev, draw_fold, find_groups, take_first

NUM_LABELS = 4
many = settings(max_examples=80, deadline=None)
texts = st.lists(st.tuples(st.integers(0, 30), st.sets(st.integers(0, NUM_LABELS - 1), max_size=3)), min_size=1, max_size=60)


def rows(labels: list[set[int]]) -> LabelRows:
    flat = [number for own in labels for number in sorted(own)]
    return LabelRows(np.array(flat, np.int32), np.r_[0, np.cumsum([len(own) for own in labels])].astype(np.int64))


def arrays(drawn: list[tuple[int, set[int]]], rename: int = 0) -> tuple[np.ndarray, LabelRows]:
    names = np.random.default_rng(rename).permutation(31) * 7919 - 3 if rename else np.arange(31)
    return names[[text for text, _ in drawn]], rows([own for _, own in drawn])


@many
@given(drawn=texts, dev_size=st.integers(0, 20), seed=st.integers(0, 99))
def test_equal_texts_stay_together_and_no_label_leaves_training(drawn, dev_size, seed):
    hashes, labels = arrays(drawn)
    groups = find_groups(hashes, hashes, labels, NUM_LABELS)
    dev = draw_dev(groups, labels, dev_size=dev_size, seed=seed)
    assert not set(hashes[dev]) & set(hashes[~dev])
    assert dev.sum() <= min(dev_size, len(drawn) // 10)
    trained = {number for (_, own), held in zip(drawn, dev, strict=True) if not held for number in own}
    assert trained == {number for _, own in drawn for number in own}


@many
@given(drawn=texts, folds=st.integers(2, 6), seed=st.integers(0, 99))
def test_folds_share_no_text_and_make_up_the_whole(drawn, folds, seed):
    hashes, labels = arrays(drawn)
    groups = find_groups(hashes, hashes, labels, NUM_LABELS)
    parts = [draw_fold(groups, folds=folds, fold=fold, seed=seed) for fold in range(1, folds + 1)]
    assert (np.sum(parts, axis=0) == 1).all()
    for part in parts:
        assert not set(hashes[part]) & set(hashes[~part])
    if len(set(hashes.tolist())) == len(drawn):
        sizes = [part.sum() for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_labels_keep_their_parts():
    own = [{0}] * 700 + [{1}] * 200 + [{2}] * 95 + [{3}] * 5
    hashes, labels = np.arange(1000), rows(own)
    groups = find_groups(hashes, hashes, labels, NUM_LABELS)
    draws = [draw_dev(groups, labels, dev_size=60, seed=seed) for seed in (1, 1, 2)]
    for dev in draws:
        assert labels.take(np.flatnonzero(dev)).counts(NUM_LABELS).tolist() == [42, 12, 6, 0]
    assert draws[0].tolist() == draws[1].tolist() != draws[2].tolist()
    assert draw_dev(groups, labels, dev_size=500, seed=1).sum() == 100
    for fold in range(1, 6):
        counts = labels.take(np.flatnonzero(draw_fold(groups, folds=5, fold=fold, seed=1))).counts(NUM_LABELS)
        assert counts.tolist() == [140, 40, 19, 1]


def test_the_rarest_label_of_several_decides():
    labels = rows([{0}, {0, 1}, {0, 2}, {2}, set(), {0}])
    hashes = np.array([5, 6, 7, 8, 9, 5])
    groups = find_groups(hashes, hashes, labels, 3)
    assert groups.of.tolist() == [0, 1, 2, 3, 4, 0]
    assert groups.stratum.tolist() == [0, 1, 2, 2, -1]
    assert groups.sizes.tolist() == [2, 1, 1, 1, 1]


@pytest.mark.parametrize(("size", "wanted"), [(99, [0, 1, 2, 3, 4, 5, 6]), (3, [0, 1, 4]), (1, [0, 4])])
def test_the_first_of_each_label_are_taken(size, wanted):
    assert take_first(np.array([0, 0, 0, 0, 1, 1, 0]), size).tolist() == wanted


def test_rows_are_taken_in_any_order():
    taken = rows([{0, 2}, set(), {1}]).take(np.array([2, 0, 1]))
    assert taken.flat.tolist() == [1, 0, 2]
    assert taken.offsets.tolist() == [0, 1, 3, 3]
    assert taken.owners().tolist() == [0, 1, 1]
