from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ShapeError
from regard.evaluation.classification import score_labels
from regard.evaluation.comparison import bootstrap_macro_f1, bootstrap_mean, mcnemar


def rights(only_first: int, only_second: int, both: int = 3) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(1, 0)] * only_first + [(0, 1)] * only_second + [(1, 1)] * both
    first, second = np.array(pairs or [(1, 1)], dtype=bool).T
    return first, second


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_in_exact_fractions(b, c):
    tail = sum(Fraction(comb(b + c, i), 2 ** (b + c)) for i in range(min(b, c) + 1))
    assert mcnemar(*rights(b, c)).p == pytest.approx(float(min(Fraction(1), 2 * tail)), rel=1e-9)
    assert mcnemar(*rights(b, c)).p == mcnemar(*rights(c, b)).p


def test_mcnemar_of_many_texts():
    assert mcnemar(*rights(50_000, 50_000)).p == pytest.approx(1)
    assert mcnemar(*rights(49_000, 51_000)).p == pytest.approx(2.55e-10, rel=0.02)  # z = 1,999/√100,000
    assert 0 <= mcnemar(*rights(0, 10_000)).p < 1e-300


def test_few_texts_are_no_evidence():
    """However clear they are: three texts that favour one model do so by chance in a quarter of the cases."""
    assert bootstrap_mean(np.zeros(1), np.ones(1)).p == 1
    assert bootstrap_mean(np.zeros(3), np.ones(3)).p == 0.25
    right = np.eye(2)[[0, 1, 0]]
    assert bootstrap_macro_f1(right[:, ::-1], right, right).p == 0.25
    assert bootstrap_mean(np.zeros(12), np.ones(12)).p == 2.0**-11


def test_bootstrap_against_every_resample():
    # four texts, differences 1 1 0 −1: all 4⁴ resamples are equally likely
    first, second = np.array([0.0, 0, 1, 1]), np.array([1.0, 1, 1, 0])
    means = np.array([np.mean(drawn) for drawn in product(second - first, repeat=4)])
    found = bootstrap_mean(first, second, resamples=100_000)
    assert (found.first, found.second, found.difference) == (0.5, 0.75, 0.25)
    assert found.p == pytest.approx((abs(means - 0.25) >= 0.25).mean(), abs=0.006)
    assert (found.low, found.high) == (np.percentile(means, 2.5), np.percentile(means, 97.5))


def test_bootstrap_of_real_numbers_has_the_normal_interval():
    generator = np.random.default_rng(1)
    first = generator.normal(size=1000)
    second = first + 0.1 + generator.normal(size=1000)
    found = bootstrap_mean(first, second)
    spread = (second - first).std() / 1000**0.5
    assert found.low == pytest.approx(found.difference - 1.96 * spread, abs=0.006)
    assert found.high == pytest.approx(found.difference + 1.96 * spread, abs=0.006)
    assert found.p == pytest.approx(2 * 0.0008, abs=0.003) or found.p < 0.01


def test_no_difference_is_no_difference():
    same = np.array([0.0, 1.0, 1.0])
    found = bootstrap_mean(same, same)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_seeds():
    first, second = np.random.default_rng(1).random((2, 50))
    assert bootstrap_mean(first, second, seed=1) == bootstrap_mean(first, second, seed=1)
    assert bootstrap_mean(first, second, seed=1) != bootstrap_mean(first, second, seed=2)


def test_macro_f1_against_resampling_texts():
    generator = np.random.default_rng(1)
    labels = generator.integers(3, size=60)
    first, second = (np.where(generator.random(60) < part, labels, generator.integers(3, size=60)) for part in (0.5, 0.8))
    found = bootstrap_macro_f1(*(np.eye(3)[each] for each in (first, second, labels)), resamples=4000)
    names = ["a", "b", "c"]
    assert found.first == pytest.approx(score_labels(first, labels, names).macro_f1)
    assert found.second == pytest.approx(score_labels(second, labels, names).macro_f1)
    plain = []
    for _ in range(1500):
        drawn = generator.integers(60, size=60)
        plain.append(
            score_labels(second[drawn], labels[drawn], names).macro_f1
            - score_labels(first[drawn], labels[drawn], names).macro_f1
        )
    assert found.low == pytest.approx(np.percentile(plain, 2.5), abs=0.03)
    assert found.high == pytest.approx(np.percentile(plain, 97.5), abs=0.03)


def test_macro_f1_of_several_labels():
    labels = np.array([[1, 1], [0, 1], [0, 0], [1, 0]] * 10, dtype=bool)
    found = bootstrap_macro_f1(np.zeros_like(labels), labels, labels, resamples=200)
    assert (found.first, found.second) == (0, 1)
    assert found.p == pytest.approx(1 / 201)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_said():
    with pytest.raises(
        ShapeError, match=r"bootstrap_mean: the first model has scores \(2,\), the second \(3,\), expected \(N,\)"
    ):
        bootstrap_mean(np.zeros(2), np.zeros(3))
    with pytest.raises(ShapeError, match="resamples is 0, expected at least 1"):
        bootstrap_mean(np.zeros(2), np.zeros(2), resamples=0)
    with pytest.raises(ShapeError, match=r"second is float64 \(2, 3\), expected labels"):
        bootstrap_macro_f1(np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 2)))
