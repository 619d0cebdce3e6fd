"""Lines of files and of standard input."""

import gzip
import io
import os
import shutil
import time
from argparse import Namespace
from itertools import chain, count
from pathlib import Path

import pytest

from regard.cli import lines
from regard.cli.lines import read_lines
from regard.errors import DataError

BYTES = b"\xef\xbb\xbfa\rb\r\nc \xff\xe2\x80\xa8d\n\ne"
LINES = ["a\rb", "c �\u2028d", "", "e"]


def test_lines_that_are_not_utf8_are_counted(tmp_path, capsys):
    (tmp_path / "latin").write_bytes(b"fine\nf\xfcr\n\xfcber\n")
    assert len(list(read_lines(str(tmp_path / "latin"), "translate"))) == 3
    assert "2 lines of" in (message := capsys.readouterr().err)
    assert "are not valid UTF-8 (the first is line 2)" in message
    piped = io.TextIOWrapper(io.BytesIO(b"fine\nf\xfcr\n"), encoding="ascii")
    assert [line for group in lines._available(piped) for line in group] == ["fine", "f\ufffdr"]
    assert "1 lines of standard input are not valid UTF-8 (the first is line 2)" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_says_how_lines_are_encoded(tmp_path, encoding, packed):
    text = ("ein Haus\nĊ ਊ\n" * 3).encode(encoding)  # letters with a byte that ends a line in UTF-8
    (tmp_path / "a.txt").write_bytes(gzip.compress(text) if packed else text)
    assert list(read_lines(str(tmp_path / "a.txt"), "translate")) == ["ein Haus", "Ċ ਊ"] * 3
    assert lines._measure(str(tmp_path / "a.txt"))[0] == 6


def test_a_table_is_said_to_be_read_as_lines(tmp_path, capsys):
    for name in ("a.csv", "b.TSV.gz", "c.jsonl"):
        (tmp_path / name).write_text("text,label\ngood,1\n")
        assert list(read_lines(str(tmp_path / name), "classify")) == ["text,label", "good,1"]
        said = f"regard: {tmp_path / name} is named like a table, but is read as a text file, and every line is one text; to "
        assert capsys.readouterr().err.startswith(said)
    (tmp_path / "a.txt").write_text("good\n")
    assert list(read_lines(str(tmp_path / "a.txt"), "classify")) == ["good"]
    assert capsys.readouterr().err == ""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        DataError, match=r"a.parquet is named like a Parquet file, expected a text file: write the column to a text file"
    ):
        read_lines(str(tmp_path / "a.parquet"), "classify")


def test_a_model_that_is_a_link_or_a_pipe_is_not_read_to_name_a_part(tmp_path):
    (tmp_path / "own").write_text("{}")
    keys = set()
    for number, make in enumerate([Path.mkdir, Path.touch, lambda path: path.symlink_to(tmp_path / "own"), os.mkfifo]):
        (tmp_path / "model").mkdir(exist_ok=True)
        make(tmp_path / "model" / "signature.json")
        keys.add(lines._key(Namespace(dir=str(tmp_path / "model")), "digest", 2))
        shutil.rmtree(tmp_path / "model")
        assert len(keys) == 1 + (number > 0)  # an empty file is another than none; the others are none


def test_a_line_ends_at_a_newline_only(tmp_path):
    (tmp_path / "plain").write_bytes(BYTES)
    (tmp_path / "packed").write_bytes(gzip.compress(BYTES))
    for name in ("plain", "packed"):
        assert list(read_lines(str(tmp_path / name), "translate")) == LINES
    piped = io.TextIOWrapper(io.BytesIO(BYTES), encoding="ascii")
    assert [line for group in lines._available(piped) for line in group] == LINES


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:30] + b"xxxx" + data[34:]])
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    path = tmp_path / "packed.gz"
    path.write_bytes(damage(gzip.compress(bytes(range(256)) * 9)))
    with pytest.raises(DataError, match=r"cannot read .*packed\.gz: the gzip file is cut short or damaged .*; copy it again"):
        list(read_lines(str(path), "translate"))


def test_a_pipe_is_not_read_far_ahead():
    drawn = []
    endless = (drawn.append(number) or f"{number}\n" for number in count())
    first = next(lines._available(endless))
    time.sleep(0.1)
    assert first[0] == "0"
    assert len(drawn) <= len(first) + 2 * lines._AT_ONCE + 2


def test_a_standard_input_that_fails_is_said_so_and_not_waited_for():
    def failing():
        yield "one\n"
        yield "two\n"
        raise OSError(5, "Input/output error")

    found = chain.from_iterable(lines._available(failing()))
    assert [next(found), next(found)] == ["one", "two"]
    with pytest.raises(DataError, match="cannot read standard input: Input/output error"):
        next(found)
