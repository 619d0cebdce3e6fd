"""Messages that cannot wait."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import regard
from regard import terminal
from regard.cli.main import main
from regard.console import SafeConsole
from regard.errors import DataError, printable
from regard.viz.fonts import FontWarning

EVERY = "".join(map(chr, range(0x110000)))


def test_a_message_goes_past_buffers_and_replaced_streams(capfd):
    sys.stderr.write("buffered")  # pytest's own stream, which writes later
    terminal.write_now("now\n")
    assert "now\n" in capfd.readouterr().err


@pytest.mark.parametrize(("shown", "expected"), [(True, b"\x1b[?25hend"), (False, b"end")])
def test_a_terminal_gets_its_cursor_back(shown, expected):
    ours, theirs = pty.openpty()
    code = f"from regard import terminal; terminal.write_now('end', show_cursor={shown})"
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
    assert os.read(ours, 100) == expected
    os.close(ours)
    os.close(theirs)


def test_output_that_nobody_reads_is_discarded():
    code = (
        "import sys\nfrom regard import terminal\nterminal.discard_output(sys.stdout)\nprint('x' * 100_000)\n"
        "sys.stdout.flush()\n"
        "print('done', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "done\n")


def test_what_controls_a_terminal_is_escaped_and_nothing_else():
    escaped = printable(EVERY)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", escaped)
    title = "\x1b]0;a\x07\x7f\x9b"
    assert json.loads(f'"{printable(title)}"') == title
    for kept in ("naïve\tüß\n", "👩‍👩‍👧", "می‌خواهم", "שלום\u200f", "\u00a0", "日本語"):
        assert printable(kept) == kept


def test_a_terminal_gets_escapes_and_a_pipe_the_text_itself(capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for file, expected in ((Terminal(), "a\\u001b[2Jb|"), (io.StringIO(), "a\x1b[2Jb|")):
        terminal.show("a\x1b[2Jb", file=file, end="|")
        assert file.getvalue() == expected
    terminal.show("\x9b1m", file=sys.stderr)
    assert capsys.readouterr().err == "\\u009b1m\n"


def test_a_console_escapes_what_rich_lets_through():
    file = io.StringIO()
    console = SafeConsole(file=file, force_terminal=True, width=40, color_system="standard", highlight=False)
    console.print("a\x1b]0;b\x07\x9b5m[red]c")
    assert file.getvalue() == "a\\u001b]0;b\\u009b5m\x1b[31mc\x1b[0m\n"


def test_warnings_are_escaped_and_those_of_regard_have_no_code():
    with terminal.printable_warnings():
        assert "a\\u001b[2J" in warnings.formatwarning("a\x1b[2J", UserWarning, "file\x07.py", 1, "line")
        assert "terminal.py:1: UserWarning" in warnings.formatwarning("a", UserWarning, terminal.__file__, 1, "line")
        own = warnings.formatwarning("no font\x07 for 今", FontWarning, terminal.__file__, 1, "warnings.warn(")
    assert own == "regard: no font\\u0007 for 今\n"


def test_nothing_else_prints_or_makes_consoles():
    package = Path(regard.__file__).parent
    code = {path.relative_to(package): path.read_text() for path in package.rglob("*.py")}
    wrong = re.compile(r"^\s*print\(|(?<!Safe)\bConsole\(", re.MULTILINE)
    assert [str(path) for path, text in code.items() if wrong.search(text) and "export" not in path.parts] == ["terminal.py"]


@pytest.mark.parametrize("text", ["x" * 5000, "\x1b" * 5000, "é\n" * 3000, "x" * 1999 + "\x1b", "x" * 2000, "x" * 2001])
def test_errors_have_at_most_2000_characters(text):
    message = str(DataError(text))
    assert len(message) <= 2000
    assert "\x1b" not in message
    assert message == text or " … " in message


def test_errors_of_the_system_are_cut_too(capsys):
    assert main(["info", "x" * 3000]) == 2
    assert len(capsys.readouterr().err) <= len("regard: \n") + 2000


def test_a_working_directory_that_is_gone_is_named(tmp_path):
    code = (
        "import os, sys\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n"
        "from regard.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    for arguments in (
        ["info", "runs/mine"],
        ["corpus", "--pairs", "3", "--to", "pairs.tsv"],
        ["train", "language", "--data.train=a"],
    ):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2
        expected = f"regard: {arguments[0]}: the working directory no longer exists; change to one that does, and try again\n"
        assert done.stderr == expected
