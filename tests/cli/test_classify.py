"""What `regard classify` prints."""

from argparse import Namespace
from types import SimpleNamespace

from regard.cli.classify import _render

PLAIN = Namespace(json=False)


def found(*labels, **probabilities):
    label, probability = next(iter(probabilities.items()))
    return SimpleNamespace(label=label, probability=probability, labels=labels, probabilities=probabilities)


def test_one_label_stands_before_its_probability():
    assert _render(found("good", good=0.75, bad=0.25), PLAIN, several=False) == "good\t0.7500"


def test_several_labels_each_have_their_own_probability():
    two = found("film", "long", film=0.98, long=0.91, book=0.1)
    assert _render(two, PLAIN, several=True) == "film 0.9800, long 0.9100"
    assert _render(found("film", film=0.98, book=0.1), PLAIN, several=True) == "film 0.9800"


def test_without_a_label_the_most_probable_one_is_named():
    assert _render(found(film=0.2249, book=0.1), PLAIN, several=True) == "(none)\tfilm 0.2249"


def test_a_line_stays_a_line_whatever_the_labels_hold():
    odd = {"two\nlines": 0.75, "a\ttab": 0.625}
    assert _render(found(*odd, **odd), PLAIN, several=True) == "two lines 0.7500, a tab 0.6250"
    assert _render(found("a\ttab", **{"a\ttab": 0.75}), PLAIN, several=False) == "a tab\t0.7500"
    assert _render(found(**{"a\ttab": 0.25}), PLAIN, several=True) == "(none)\ta tab 0.2500"
