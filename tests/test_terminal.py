"""Messages that cannot wait."""

import os
import pty
import subprocess
import sys

import pytest

from regard import terminal


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
        "import sys\nfrom regard import terminal\nterminal.discard_output()\nprint('x' * 100_000)\nsys.stdout.flush()\n"
        "print('done', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "done\n")
