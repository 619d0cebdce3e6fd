import numpy as np
import pytest

from regard.viz.numbers import amount, decimals, fixed, greatest, percent, probability, tick, units


@pytest.mark.parametrize(("scale", "places"), [(0, 2), (1, 2), (0.1, 2), (np.float32(0.01), 3), (0.004, 4), (50, 2), (1e6, 0)])
def test_the_greatest_weight_has_two_digits_that_count(scale, places):
    assert decimals(float(scale)) == places


def test_there_is_no_negative_zero():
    assert [fixed(value, 3) for value in (-0.0004, -0.0, -0.0006)] == ["0.000", "0.000", "-0.001"]
    assert tick(-0.0) == "0"
    assert amount(-0.001, 2) == "0"
    assert amount(0.385, 2) == "0.39"


def test_what_is_not_certain_is_not_shown_as_certain():
    assert [probability(value) for value in (0, 0.001, 0.5, 0.9999, 1)] == ["0.00", "<0.01", "0.50", ">0.99", "1.00"]
    assert [percent(value) for value in (0, 0.001, 0.286, 0.999, 1)] == ["0%", "less than 1%", "29%", "more than 99%", "100%"]


def test_units_are_the_digits_that_are_shown():
    values = np.array([[0.125, 0.375, -0.004], [0.995, 1.0, 0.285]], np.float32)
    for places in (0, 2, 5):
        assert units(values, places) == [round(float(fixed(value, places)) * 10**places) for value in values.ravel().tolist()]


def test_greatest_of_nothing_is_nothing():
    assert greatest(np.zeros((0, 3))) == greatest() == 0
    assert greatest(np.array([-3.0, 1.0]), np.array([2.0])) == 3
