"""Closed streams, pipes that nobody reads, and names of any kind on the command line."""

import json
import os
import subprocess
import sys

import pytest

from regard.cli.main import main
from regard.cli.options import Parser
from regard.config.data import FileSettings
from regard.console import SafeConsole
from regard.errors import DataError
from regard.text.cache import cache_folder

shell = pytest.mark.skipif(os.name != "posix", reason="needs sh")


@shell
@pytest.mark.parametrize(
    ("streams", "code", "message"),
    [
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        ("luong more 2>&-", 2, ""),
        ("luong more >&-", 2, "regard: presets: unexpected argument 'more' (`regard presets --help` explains)\n"),
    ],
)
def test_closed_streams(streams, code, message, tmp_path):
    command = f'"$0" -m regard presets {streams}'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)


@shell
def test_a_file_does_not_get_the_number_of_a_closed_stream(tmp_path):
    code = (
        "import os, sys\nfrom regard.terminal import open_closed_streams, write_now\nopen_closed_streams()\n"
        "file = open('precious', 'w')\nfile.write('content')\nfile.flush()\nos.write(1, b'x')\nos.write(2, b'x')\n"
        "assert file.fileno() > 2\nassert sys.stdin is None"
    )
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code], cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "precious").read_text() == "content"


@shell
@pytest.mark.parametrize(("arguments", "code"), [(["presets", "--help"], 0), (["presets", "luong"], 141), (["presents"], 2)])
def test_nobody_reads_either_stream(arguments, code):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "regard", *arguments], stdout=write, stderr=write)
    os.close(write)
    assert done.returncode == code


def test_a_console_whose_output_nobody_reads():
    class Closed:
        encoding = "utf-8"

        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        SafeConsole(file=Closed()).print("a picture")


@pytest.mark.parametrize("option", ["--", "a --"])
def test_options_end_at_two_dashes(option):
    parser = Parser("translate", "Translate.")
    parser.add_argument("dir")
    parser.add_argument("sentences", nargs="*")
    parser.add_argument("--beam", type=int)
    before = option.split()
    found = parser.read(["--beam", "3", *before, "--help", "-x", "--beam", "4"])
    expected = [*before[:-1], "--help", "-x", "--beam", "4"]
    assert [found.beam, found.dir, *found.sentences] == [3, *expected]
    assert {type(each) for each in [found.dir, *found.sentences]} == {str}


@shell
def test_names_with_line_feeds_and_of_other_encodings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["translate", "x", "--input", "nope\nregard: all is well"]) == 2
    assert capsys.readouterr().err == "regard: nope\\nregard: all is well: cannot be read (No such file or directory)\n"
    name = os.fsdecode(b"d\xff.tsv")
    assert main(["corpus", "--pairs", "2", "--to", name]) == 0
    assert os.listdir(tmp_path) == [name]
    capsys.readouterr()
    assert main(["train", "translation", "--data.train", name, "--out", "x"]) == 2
    assert capsys.readouterr().err == (
        "regard: data.train is 'd\\udcff.tsv', expected text; rename a file or folder whose name is not UTF-8\n"
    )


def test_text_that_cannot_be_written_is_one_message(monkeypatch, capsys):
    monkeypatch.setattr("regard.cli.presets.main", lambda arguments: json.dumps("a\udcff", ensure_ascii=False).encode())
    assert main(["presets"]) == 2
    assert capsys.readouterr().err == "regard: '\"a\\udcff\"' is not UTF-8; rename the file or folder\n"


def test_a_user_without_a_home_folder_gets_the_setting_that_helps(monkeypatch):
    def unknown(path):
        raise RuntimeError("Could not determine home directory.")

    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pathlib.Path.expanduser", unknown)
    with pytest.raises(DataError, match=r"has no home folder; name a folder with data\.cache or REGARD_CACHE"):
        cache_folder(FileSettings())
