"""Average lagging, against the formula worked by hand and the cases of its paper."""

import pytest

from regard.evaluation.lagging import average_lagging
from regard.models.policies import WaitK


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("length", [7, 12])
def test_wait_k_lags_k_words_behind_if_lengths_are_equal(k, length):
    assert average_lagging(WaitK(k).delays(length, length), length) == pytest.approx(k, abs=1e-12)


def test_by_hand():
    # |x| = 4, |y| = 8, r = 2: wait-1 reads 1, 2, 3, 4, so τ = 4, and AL = ((1 − 0) + (2 − ½) + (3 − 1) + (4 − 1½)) / 4
    assert average_lagging([1, 2, 3, 4, 4, 4, 4, 4], 4) == pytest.approx(1.75, abs=1e-12)
    # |x| = 6, |y| = 3, r = ½: the translation ends early, so τ = |y|: ((1 − 0) + (2 − 2) + (3 − 4)) / 3
    assert average_lagging([1, 2, 3], 6) == pytest.approx(0.0, abs=1e-12)
    assert average_lagging([5, 5, 5], 5) == 5  # the whole sentence first: AL = |x|
    assert average_lagging([1], 1) == 1
