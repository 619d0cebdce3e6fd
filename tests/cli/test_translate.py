"""What `regard translate` reads: files and standard input, line by line."""

import gzip
import io
import time
from argparse import Namespace
from itertools import count

import pytest

from regard.cli import translate
from regard.errors import DataError, RequestError

BYTES = b"\xef\xbb\xbfa\rb\r\nc \xff\xe2\x80\xa8d\n\ne"
LINES = ["a\rb", "c �\u2028d", "", "e"]


def test_lines_that_are_not_utf8_are_counted(tmp_path, capsys):
    (tmp_path / "latin").write_bytes(b"fine\nf\xfcr\n\xfcber\n")
    assert len(list(translate._read_file(str(tmp_path / "latin")))) == 3
    assert "2 lines of" in (message := capsys.readouterr().err)
    assert "are not all UTF-8 (the first: line 2)" in message


def test_a_line_ends_at_a_newline_only(tmp_path):
    (tmp_path / "plain").write_bytes(BYTES)
    (tmp_path / "packed").write_bytes(gzip.compress(BYTES))
    for name in ("plain", "packed"):
        assert list(translate._read_file(str(tmp_path / name))) == LINES
    piped = io.TextIOWrapper(io.BytesIO(BYTES), encoding="ascii")
    assert [line for group in translate._available(piped) for line in group] == LINES


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:30] + b"xxxx" + data[34:]])
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    path = tmp_path / "packed.gz"
    path.write_bytes(damage(gzip.compress(bytes(range(256)) * 9)))
    with pytest.raises(DataError, match=r"cannot read .*packed\.gz: the gzip file is cut short or damaged .*; copy it again"):
        list(translate._read_file(str(path)))


def test_a_pipe_is_not_read_far_ahead():
    drawn = []
    endless = (drawn.append(number) or f"{number}\n" for number in count())
    first = next(translate._available(endless))
    time.sleep(0.1)
    assert first[0] == "0"
    assert len(drawn) <= len(first) + 2 * translate._AT_ONCE + 2


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    options = Namespace(beam=None, n_best=1, precision=None, json=True, heatmap=None, live=True)
    with pytest.raises(RequestError, match="standard input is closed; give sentences, or --input FILE"):
        list(translate._translations(None, (), options))


@pytest.mark.parametrize("arguments", [["m", "a b", "--beam", "3"], ["m", "--beam", "3", "a b"], ["--beam", "3", "m", "a b"]])
def test_sentences_may_stand_before_or_after_options(arguments):
    options = translate._parser().read(arguments)
    assert (options.dir, options.sentences, options.beam) == ("m", ["a b"], 3)
