"""Words that arrive on standard input: from a pipe, and typed in a terminal."""

from __future__ import annotations

import os
import select
import sys
from argparse import Namespace

import pytest

from regard.cli import live_words
from regard.cli.main import main
from regard.errors import RequestError


class Shout:
    """An operation that writes each word in capitals when it arrives; after "stop" it needs no further words."""

    name, text = "shout", "text"

    def process_words(self, model, words, write):
        for number, word in enumerate(words):
            write(" " * (number > 0) + word.upper())
            if word == "stop":
                return


@pytest.mark.parametrize(
    ("typed", "events"),
    [
        ("one  two\nthree\n", ["one", "two", "", "three", ""]),
        ("\n\none", ["", "", "one", ""]),
        ("one \t", ["one", ""]),
        ("onx\x7fe\x7f\x7f\x7f\x7ftwo\n", ["two", ""]),
        ("", []),
        (" \n", [""]),
        ("x" * 3000 + " y", ["x" * 2048, "y", ""]),
    ],
)
def test_words_and_ends(typed, events):
    assert list(live_words.words_and_ends(iter(typed))) == events


def test_a_pipe_gets_each_part_when_it_is_known(monkeypatch, capfd):
    source, sink = os.pipe()
    os.write(sink, b"one stop three\n\nf\xff \xc3\xa9t\xc3\xa9")
    os.close(sink)
    with os.fdopen(source) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        live_words.main(Shout(), None, Namespace())
    assert capfd.readouterr().out == "ONE STOP\n\nF\ufffd ÉTÉ\n"


def test_a_word_is_processed_before_the_next_arrives(monkeypatch):
    """The second word is typed only when the result of the first one has been printed."""
    source, sink = os.pipe()
    printed = []

    def show(part, **options):
        printed.append(part)
        if part == "ONE":
            os.write(sink, b"two\n")
        elif part == "\n":
            os.close(sink)

    os.write(sink, b"one ")
    monkeypatch.setattr(live_words, "show", show)
    with os.fdopen(source) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        live_words.main(Shout(), None, Namespace())
    assert printed == ["ONE", " TWO", "\n"]


def test_a_terminal(monkeypatch):
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    ours, theirs = pty.openpty()
    monkeypatch.setattr(live_words, "show", lambda *text, **options: os.write(ours, b"onx\x7fe two\nthr\x04never"))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "r+b", buffering=0) as raw, open(raw.fileno(), closefd=False) as stdin:
        before = termios.tcgetattr(raw)
        with open(raw.fileno(), "w", closefd=False) as stdout:
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr(sys, "stdout", stdout)
            live_words.main(Shout(), None, Namespace())
            stdout.flush()
        assert termios.tcgetattr(raw) == before  # as the user had it
        shown = ""
        while select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "one two" in shown
    assert "ONE TWO" in shown
    assert "THR" in shown
    assert "never" not in shown.lower().replace("thrnever", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"texts": ["a"]}, "leave the text out"), ({"json": True}, "leave --json out"), ({"output": "x"}, "leave --output out")],
)
def test_refusals(options, message):
    with pytest.raises(RequestError, match=f"shout: --live-words reads standard input and prints at once; {message}"):
        live_words.main(Shout(), None, Namespace(**options))


def test_options_that_need_the_whole_source(capsys):
    assert main(["translate", "runs/none", "--live-words", "--n-best", "2"]) == 2
    assert "n_best needs the whole source; leave out n_best, or --live-words" in capsys.readouterr().err
    assert main(["translate", "runs/none", "--live-words", "--beam", "2"]) == 2
    assert "beam search revises words that --live-words has written" in capsys.readouterr().err
