import io
import threading
import time

import pytest

import regard.console
from regard.text import bars


@pytest.fixture
def terminal(monkeypatch):
    """What a user with a terminal sees."""
    stream = io.StringIO()
    console = regard.console.SafeConsole
    monkeypatch.setattr(regard.console, "SafeConsole", lambda **_: console(file=stream, force_terminal=True, width=80))
    return stream


def test_quick_work_shows_no_bar(terminal):
    before = threading.active_count()
    with bars.late_bars(shown=True) as shown:
        shown.advance(shown.add_task("reading", total=3))
    assert terminal.getvalue() == ""
    assert threading.active_count() == before


def test_long_work_shows_a_bar_and_takes_it_away(terminal, monkeypatch):
    monkeypatch.setattr(bars, "SHOWN_AFTER", 0.01)
    with bars.late_bars(shown=True) as shown:
        task = shown.add_task("reading", total=3)
        deadline = time.monotonic() + 10
        while not shown.live.is_started and time.monotonic() < deadline:
            time.sleep(0.01)
        shown.advance(task)
        shown.refresh()
    assert "reading" in terminal.getvalue()
    assert "1/3" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is cleared


def test_work_that_cannot_be_counted_has_a_bar(terminal, monkeypatch):
    monkeypatch.setattr(bars, "SHOWN_AFTER", 0.01)
    with bars.working("exporting"):
        deadline = time.monotonic() + 10
        while "exporting" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "exporting" in terminal.getvalue()


def test_no_bar_where_none_is_wanted_or_there_is_no_terminal(terminal, monkeypatch, capsys):
    monkeypatch.setattr(bars, "SHOWN_AFTER", 0.0)
    with bars.late_bars(shown=False) as shown:
        shown.add_task("reading", total=3)
        time.sleep(0.05)
    assert terminal.getvalue() == ""
    monkeypatch.undo()
    monkeypatch.setattr(bars, "SHOWN_AFTER", 0.0)
    with bars.late_bars(shown=True) as shown:
        shown.add_task("reading", total=3)
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")
