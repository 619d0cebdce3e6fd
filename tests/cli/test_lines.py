"""Lines of files and of standard input."""

import gzip
import io
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, count
from types import SimpleNamespace

import pytest

from regard.cli import lines
from regard.cli.lines import output_file, read_lines
from regard.errors import DataError, RequestError
from regard.text.opening import LONGEST_SIDE

BYTES = b"\xef\xbb\xbfa\rb\r\nc \xff\xe2\x80\xa8d\n\ne"
LINES = ["a\rb", "c �\u2028d", "", "e"]


def stream_of(given: Iterator[str]) -> SimpleNamespace:
    """Return a file of these lines."""
    return SimpleNamespace(readline=lambda size: next(given, ""))


def test_lines_that_are_not_utf8_are_counted(tmp_path, capsys):
    (tmp_path / "latin").write_bytes(b"fine\nf\xfcr\n\xfcber\n")
    assert len(list(read_lines(str(tmp_path / "latin"), "translate"))) == 3
    expected = "latin: lines that are not valid UTF-8: 2 (the first: line 2); invalid bytes are read as \ufffd\n"
    assert capsys.readouterr().err.endswith(expected)
    piped = io.TextIOWrapper(io.BytesIO(b"fine\nf\xfcr\n"), encoding="ascii")
    assert [line for group in lines._available(piped) for line in group] == ["fine", "f\ufffdr"]
    assert "regard: standard input: lines that are not valid UTF-8: 1 (the first: line 2)" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_says_how_lines_are_encoded(tmp_path, encoding, packed):
    text = ("ein Haus\nĊ ਊ\n" * 3).encode(encoding)  # letters with a byte that ends a line in UTF-8
    (tmp_path / "a.txt").write_bytes(gzip.compress(text) if packed else text)
    assert list(read_lines(str(tmp_path / "a.txt"), "translate")) == ["ein Haus", "Ċ ਊ"] * 3


def test_a_table_is_said_to_be_read_as_lines(tmp_path, capsys):
    for name in ("a.csv", "b.TSV.gz", "c.jsonl", "d.ndjson"):
        (tmp_path / name).write_text("text,label\ngood,1\n")
        assert list(read_lines(str(tmp_path / name), "classify")) == ["text,label", "good,1"]
        said = f"regard: {tmp_path / name} is named like a table, but is read as a text file, and every line is one text; to "
        assert capsys.readouterr().err.startswith(said)
    (tmp_path / "a.txt").write_text("good\n")
    assert list(read_lines(str(tmp_path / "a.txt"), "classify")) == ["good"]
    assert capsys.readouterr().err == ""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        DataError, match=r"a.parquet is named like a Parquet file, expected a text file, or a table that ends in"
    ):
        read_lines(str(tmp_path / "a.parquet"), "classify")


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
    with pytest.raises(DataError, match=r"packed\.gz: the gzip file (ends too early|is damaged .*); copy or download it again"):
        list(read_lines(str(path), "translate"))


def test_a_pipe_is_not_read_far_ahead():
    drawn = []
    endless = (drawn.append(number) or f"{number}\n" for number in count())
    first = next(lines._available(stream_of(endless)))
    time.sleep(0.1)
    assert first[0] == "0"
    assert len(drawn) <= len(first) + 2 * lines._AT_ONCE + 2


def test_a_standard_input_that_fails_is_said_so_and_not_waited_for():
    def failing():
        yield "one\n"
        yield "two\n"
        raise OSError(5, "Input/output error")

    found = chain.from_iterable(lines._available(stream_of(failing())))
    assert [next(found), next(found)] == ["one", "two"]
    with pytest.raises(DataError, match="cannot read standard input: Input/output error"):
        next(found)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_line_has_the_bound_of_training_data(tmp_path, capsys, packed, end):
    longest = "a" * LONGEST_SIDE
    content = f"{longest}{end or chr(10)}b\n{longest}x{'y' * 3_000_000}\n\n{longest}é{end}".encode()
    path = tmp_path / "long.txt"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert list(read_lines(str(path), "translate")) == [longest, "b", longest, "", longest]
    expected = "lines of more than 65,536 characters: 2 (the first: line 3); only the first 65,536 of each were read"
    assert capsys.readouterr().err == f"regard: {path}: {expected}\n"
    piped = io.TextIOWrapper(io.BytesIO(content))
    assert [line for group in lines._available(piped) for line in group] == [longest, "b", longest, "", longest]


def test_a_line_without_end_comes_at_once_and_takes_no_memory():
    seen = threading.Event()

    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            """Zeros without end until the line has arrived; then no more, so that the reading thread ends."""
            if seen.is_set():
                return 0
            buffer[:] = bytes(len(buffer))
            return len(buffer)

    found = lines._available(io.TextIOWrapper(io.BufferedReader(Endless())))
    assert next(found) == ["\0" * LONGEST_SIDE]
    seen.set()
    assert list(found) == []


def test_a_device_is_not_read():
    with pytest.raises(DataError, match=r"^/dev/zero: is a device, expected a file or a pipe$"):
        read_lines("/dev/zero", "translate")


def test_a_bomb_is_unpacked_in_bounded_memory(tmp_path):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(bytes(1 << 20))
        file.write(b"\na b\n")
    tracemalloc.start()
    try:
        assert [len(line) for line in read_lines(str(path), "translate")] == [LONGEST_SIDE, 3]
        assert tracemalloc.get_traced_memory()[1] < 2e7
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "what"), [("", "is a folder"), ("none/out", "is in '.*none', which is not a folder")])
def test_an_output_needs_an_existing_folder(tmp_path, name, what):
    with (
        pytest.raises(RequestError, match=rf"--output is '.*', which {what}; name a file in an existing folder"),
        output_file(str(tmp_path / name), "translate"),
    ):
        pass


def test_an_error_leaves_the_old_output(tmp_path):
    (tmp_path / "out").write_text("old")
    stack = ExitStack()
    stack.enter_context(output_file(str(tmp_path / "out"), "translate")).write("new")
    with pytest.raises(KeyError), stack:
        raise KeyError
    assert (tmp_path / "out").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("there", [True, False])
def test_an_output_may_be_a_link(tmp_path, there):
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "out"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link.symlink_to(target)
    with output_file(str(link), "translate") as file:
        file.write("new\n")
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert os.listdir(target.parent) == ["target"]


def test_a_compressed_output_is_refused(tmp_path):
    with (
        pytest.raises(RequestError, match=r"out\.csv\.gz', but results are not compressed; name a file without \.gz"),
        output_file(str(tmp_path / "out.csv.gz"), "classify"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "out")
    with (
        pytest.raises(RequestError, match="which is a link to itself; name a file"),
        output_file(str(tmp_path / "out"), "translate"),
    ):
        pass


def test_an_output_may_be_a_pipe(tmp_path):
    pipe, read = tmp_path / "out", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    with output_file(str(pipe), "translate") as file:
        file.write("a\n")
    assert pipe.is_fifo()
    reader.join(10)
    assert read == ["a\n"]


def test_several_processes_are_refused(monkeypatch):
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))
    message = "translate: was started in 2 processes, expected one; several processes are for training: split the file"
    with pytest.raises(RequestError, match=message), output_file(None, "translate"):
        pass
