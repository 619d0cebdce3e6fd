"""The commands of operations on texts: `regard translate`, `regard classify`, …"""

from types import SimpleNamespace

import pytest

from regard.cli import operate
from regard.cli.main import main
from regard.task import find_task

TRANSLATE, CLASSIFY = (find_task(task).operations[0] for task in ("translation", "classification"))


def test_closed_standard_input(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    assert main(["translate", "m", "--json"]) == 2
    assert "standard input is closed; give sentences, or --input FILE" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["m", "a b", "--beam", "3"], ["m", "--beam", "3", "a b"], ["--beam", "3", "m", "a b"]])
def test_sentences_may_stand_before_or_after_options(arguments):
    options = operate._parser(TRANSLATE).read(arguments)
    assert (options.dir, options.texts, options.beam_size) == ("m", ["a b"], 3)


def render(*labels, several, **probabilities):
    label, probability = next(iter(probabilities.items()))
    facts = {"label": label, "probability": probability, "labels": labels, "probabilities": probabilities}
    return CLASSIFY.create().render(SimpleNamespace(several=several, **facts), 1)


def test_one_label_stands_before_its_probability():
    assert render("good", good=0.75, bad=0.25, several=False) == "good\t0.7500"


def test_several_labels_each_have_their_own_probability():
    assert render("film", "long", film=0.98, long=0.91, book=0.1, several=True) == "film 0.9800, long 0.9100"
    assert render("film", film=0.98, book=0.1, several=True) == "film 0.9800"


def test_without_a_label_the_most_probable_one_is_named():
    assert render(film=0.2249, book=0.1, several=True) == "(none)\tfilm 0.2249"


def test_a_line_stays_a_line_whatever_the_labels_hold():
    odd = {"two\nlines": 0.75, "a\ttab": 0.625}
    assert render(*odd, **odd, several=True) == "two lines 0.7500, a tab 0.6250"
    assert render("a\ttab", **{"a\ttab": 0.75}, several=False) == "a tab\t0.7500"
    assert render(**{"a\ttab": 0.25}, several=True) == "(none)\ta tab 0.2500"
