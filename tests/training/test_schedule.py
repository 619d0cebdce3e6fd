import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import (
    ConstantConfig,
    CosineConfig,
    InverseSquareRootConfig,
    LinearDecayConfig,
    PlateauConfig,
    TeacherForcingConfig,
)
from regard.training.schedule import Plateau, gold_probability, learning_rate_factor

SCHEDULES = [ConstantConfig, InverseSquareRootConfig, CosineConfig, LinearDecayConfig, PlateauConfig]


@pytest.mark.parametrize("kind", SCHEDULES)
def test_warm_up_is_a_line_from_zero_that_ends_at_the_peak(kind):
    config = kind(warmup_steps=8)
    assert [learning_rate_factor(config, step, 100) for step in range(1, 9)] == [step / 8 for step in range(1, 9)]


@pytest.mark.parametrize("kind", SCHEDULES)
def test_without_warm_up_the_first_update_is_near_the_peak(kind):
    assert learning_rate_factor(kind(warmup_steps=0), 1, 1000) == pytest.approx(1, abs=0.002)


def test_inverse_square_root_by_hand():
    assert learning_rate_factor(InverseSquareRootConfig(warmup_steps=100), 400, 1000) == 0.5


def test_cosine_by_hand():
    config = CosineConfig(warmup_steps=10, final=0.2)
    assert learning_rate_factor(config, 60, 110) == pytest.approx(0.6)
    assert learning_rate_factor(config, 35, 110) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)
    assert learning_rate_factor(config, 110, 110) == pytest.approx(0.2)
    assert learning_rate_factor(config, 500, 110) == pytest.approx(0.2)


def test_linear_decay_by_hand():
    config = LinearDecayConfig(warmup_steps=10, final=0.5)
    assert [learning_rate_factor(config, step, 110) for step in (10, 60, 110)] == pytest.approx([1, 0.75, 0.5])


@pytest.mark.parametrize("kind", SCHEDULES)
@given(warmup=st.integers(0, 50), step=st.integers(1, 300), total=st.integers(1, 200))
def test_factor_is_a_part_of_the_peak(kind, warmup, step, total):
    assert 0 <= learning_rate_factor(kind(warmup_steps=warmup), step, total) <= 1


def test_plateau_lowers_after_patience_and_not_below_the_minimum():
    config, plateau, scales = PlateauConfig(factor=0.5, patience=1, minimum=2e-4), Plateau(), []
    for better in (True, False, False, False, False, True, False, False, False, False):
        plateau.update(config, better, peak=1e-3)
        scales.append(plateau.scale)
    assert scales == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2]


def test_plateau_never_raises_a_rate_that_is_below_the_minimum():
    plateau = Plateau()
    plateau.update(PlateauConfig(patience=0, minimum=1.0), False, peak=1e-3)
    assert plateau.scale == 1


@pytest.mark.parametrize("decay", ["linear", "exponential", "sigmoid"])
def test_gold_probability_goes_from_start_to_end(decay):
    config = TeacherForcingConfig(start=0.9, end=0.1, decay=decay)
    values = [gold_probability(config, step, 101) for step in range(1, 102)]
    assert (values[0], values[-1]) == pytest.approx((0.9, 0.1))
    assert all(now >= then for now, then in pairwise(values))
    assert gold_probability(config, 5000, 101) == pytest.approx(0.1)


def test_gold_probability_half_way():
    middle = {
        decay: gold_probability(TeacherForcingConfig(start=1.0, end=0.0, decay=decay), 51, 101)
        for decay in ("linear", "exponential", "sigmoid")
    }
    assert middle == pytest.approx({"linear": 0.5, "exponential": (0.1 - 0.01) / 0.99, "sigmoid": 0.5})


def test_constant_gold_probability():
    assert gold_probability(TeacherForcingConfig(start=0.5, end=0.5), 7, 9) == 0.5
