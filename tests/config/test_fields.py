"""Facts that stand on the fields of settings."""

import math
import re
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt

from regard.config import Settings
from regard.config.fields import BelowOne, Count, Range, Role, facts_of, settings_with, walk
from regard.config.settings import Family
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.language.config import LanguageConfig
from regard.tasks.translation.config import TranslationConfig


class Options(Settings):
    """Options of a test."""

    size: Annotated[Count, Role.WIDTH] = 3
    """Number of
    things."""
    rates: tuple[BelowOne, ...] = (0.5,)
    mode: Literal["fast", "exact"] = "fast"
    share: Annotated[float, Interval(gt=0, le=1)] = 1.0
    free: float = -2.0


def test_facts():
    facts = facts_of(Options)
    assert (facts["size"].type, facts["size"].default, facts["size"].roles) == (int, 3, {Role.WIDTH})
    assert facts["size"].help == "Number of things."
    assert facts["mode"].choices == ("fast", "exact")
    assert facts["rates"].parse("0.1, 0.2") == (0.1, 0.2)
    assert facts["free"].parse("-3") == -3
    assert settings_with(Role.WIDTH, Options()) == {"size": 3}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("size", "x", "'x', expected a whole number"),
        ("size", "0", "0, expected 1 or more"),
        ("size", 2 << 40, "2.19902e+12, expected 1 or more, and at most 1,000,000,000"),
        ("rates", [0.1, 1], "1, expected 0 or more and less than 1"),
        ("share", 0, "0, expected more than 0 and at most 1"),
        ("mode", "exakt", "'exakt', expected one of: fast, exact; did you mean 'exact'?"),
        ("free", "nan", "'nan', expected a finite number"),
    ],
)
def test_values_that_do_not_fit(name, value, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        facts_of(Options)[name].parse(value)


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ([], "a finite number"),
        ([Ge(0)], "0 or more"),
        ([Gt(0)], "more than 0"),
        ([Le(2)], "at most 2"),
        ([Ge(0), Le(2**32 - 1)], "from 0 to 4294967295"),
        ([Gt(0), Lt(0.5)], "more than 0 and less than 0.5"),
    ],
)
def test_words_of_a_range(constraints, words):
    assert str(Range.of(constraints)) == words


def test_ends_of_a_range():
    assert [number in Range(0, 1, open_high=True) for number in (-0.1, 0, 1, math.nan)] == [False, True, False, False]


@pytest.mark.parametrize("config", [TranslationConfig(), ClassificationConfig(), LanguageConfig()])
def test_every_number_has_a_range(config):
    numbers = [(name, facts) for name, facts, value in walk(config) if type(value) in (int, float)]
    assert [name for name, facts in numbers if facts.range == Range() and not issubclass(facts.owner, Family)] == []
