"""What `regard classify` prints."""

from argparse import Namespace
from types import SimpleNamespace

from regard.cli.classify import _render


def test_a_line_stays_a_line_whatever_the_labels_hold():
    found = SimpleNamespace(labels=("two\nlines", "a\ttab"), probability=0.75)
    assert _render(found, Namespace(json=False)) == "two lines, a tab\t0.7500"
