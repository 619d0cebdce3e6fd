import gzip
import os
import re
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import read_all_pairs, refused, write

from regard.config import DataConfig
from regard.text.pairs.readers import read_pairs
from regard.text.report import ReadingReport

fail = partial(refused, read_all_pairs)


def test_a_missing_file_offers_its_neighbour(tmp_path):
    write(tmp_path, "a\tb\n", "deu.txt")
    assert fail(tmp_path / "due.txt").endswith("due.txt: there is no such file; did you mean 'deu.txt'?")
    assert fail(tmp_path / "none" / "x.tsv").endswith("there is no such file; check the path")


def test_a_folder_and_an_empty_file(tmp_path):
    assert fail(tmp_path).endswith("is a folder, expected a file of sentence pairs; name the file in it")
    assert fail(write(tmp_path, "")).endswith("is empty, expected sentence pairs")
    assert "no usable pair" in fail(write(tmp_path, gzip.compress(b""), "x.tsv.gz"))
    assert "no usable pair" in fail(write(tmp_path, gzip.compress(b""), "x.jsonl.gz"))
    assert "one column" in fail(write(tmp_path, gzip.compress(b""), "x.csv.gz"))


@pytest.mark.parametrize("name", ["x.tsv", "x.txt", "x.csv"])
def test_one_column(tmp_path, name):
    message = fail(write(tmp_path, "Only English here\nand here\n", name))
    assert "has one column (it starts with 'Only English here'), expected a source and a target in two or more" in message
    assert "FILE,FILE" in message
    assert "data.format" in message


def test_unknown_columns(tmp_path):
    path = write(tmp_path, "english\tgerman\nGo.\tGeh.\n")
    message = fail(path, columns=("englsh", "german"))
    assert message.endswith("there is no column 'englsh'; it has 'english', 'german'; did you mean 'english'? (data.columns)")
    assert fail(path, columns=("0", "2")).endswith("there is no column 2; it has 2 columns, numbered 0 to 1 (data.columns)")
    assert fail(path, columns=("0", "0")).endswith(
        "data.columns name the column 'english' twice, expected two different columns"
    )
    assert fail(path, columns=("0",)).endswith("data.columns is 0, expected two: the source's and the target's")
    assert fail(path, columns=("english", "german"), header="no").endswith(
        "there is no column 'english'; it has '0', '1' (data.columns)"
    )


def test_parallel_files_of_different_length(tmp_path):
    source, target = write(tmp_path, "a\nb\nc\n", "x.en"), write(tmp_path, "a\nb", "x.de")
    for first, second, counts in ((source, target, (3, 2)), (target, source, (2, 3))):
        message = fail(first, second)
        assert f"{first} has {counts[0]} lines and {second} has {counts[1]}, expected the same number" in message
        assert "check that no lines were removed from only one of the files" in message


def test_wrong_numbers_of_files(tmp_path):
    path = write(tmp_path, "a\tb\n")
    message = fail(path, format="text")
    assert "data.format is 'text', which needs two parallel files (FILE,FILE), but only one was given" in message
    assert "two files were given with data.format 'csv', expected one" in fail(path, path, format="csv")
    assert "3 files were given, expected one file of pairs or two parallel text files" in fail(path, path, path)


def test_no_usable_pair_says_what_became_of_the_lines(tmp_path):
    message = fail(write(tmp_path, "1\t2\na\t\n\tb\n"))
    assert message.startswith("no usable pair in ")
    assert "3 lines read, 0 pairs kept" in message
    assert "skipped 1: empty target (line 2)" in message


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(b"Go.\tGeh.\n" * 1000)
    message = fail(write(tmp_path, whole[:-20], "cut.tsv.gz"))
    assert message.endswith("the gzip file ends too early; copy or download it again")
    broken = whole[:20] + b"\0\0\0\0\0\0" + whole[26:]
    assert "the gzip file is damaged" in fail(write(tmp_path, broken, "broken.tsv.gz"))


def test_what_is_not_parquet(tmp_path):
    message = fail(write(tmp_path, "Go.\tGeh.\n", "x.parquet"))
    assert "cannot be read as Parquet" in message
    assert "data.format" in message
    pq.write_table(pa.table({"a": ["x"] * 5000, "b": ["y"] * 5000}), tmp_path / "y.parquet")
    data = (tmp_path / "y.parquet").read_bytes()
    assert "cannot be read as Parquet" in fail(write(tmp_path, data[: len(data) // 2], "z.parquet"))


def test_parquet_without_two_text_columns(tmp_path):
    pq.write_table(pa.table({"text": ["x"], "label": [1]}), tmp_path / "x.parquet")
    message = fail(tmp_path / "x.parquet")
    assert message.endswith("has 1 text values (keys: text, label), expected a source and a target")
    pq.write_table(pa.table({"en": ["x"], "de": ["y"]}), tmp_path / "y.parquet")
    assert "there is no column 'fr'; it has 'en', 'de'" in fail(tmp_path / "y.parquet", columns=("en", "fr"))


def test_json_lines_that_are_none(tmp_path):
    good = '{"en": "Go.", "de": "Geh."}\n'
    assert re.search(
        r"x.jsonl, line 2: is not JSON \(.+\), expected one object per line: 'oops'",
        fail(write(tmp_path, good + "oops\n", "x.jsonl")),
    )
    for line, found in (('[1, {"en": "a"}]', "an array"), ("null", "null"), ('"a"', "a string"), ("false", "true or false")):
        wanted = f"line 2: is {found}, expected an object with a source and a target on each line"
        assert wanted in fail(write(tmp_path, f"{good}{line}\n", "x.jsonl"))
    message = fail(write(tmp_path, good + '{"en": "Hi.", "de ": "Hallo"}\n', "x.jsonl"))
    assert "cannot tell which columns hold a source and a target" in message
    assert "line 2: 'de' is 7, expected text" in fail(write(tmp_path, good + '{"en": "Hi.", "de": 7}\n', "x.jsonl"))
    assert "line 1: has 1 text values (keys: en, n)" in fail(write(tmp_path, '{"en": "a", "n": 1}\n', "x.jsonl"))
    assert "line 1: JSON nested too deeply" in fail(write(tmp_path, "[" * 100_000, "x.jsonl"))


@pytest.mark.slow
def test_csv_quotes(tmp_path):
    message = fail(write(tmp_path, 'source,target\na,b\n"open,c\nd,e\n', "x.csv"))
    assert "x.csv, line 3: a quote is opened and not closed" in message
    assert "data.format tsv" in message
    lone = fail(write(tmp_path, "source,target\na,b\nc\rd,e\n", "x.csv"))
    assert "line 3: a field without quotes has a carriage return (\\r); put the field in quotes, or" in lone
    assert "line 2: bad quoting" in fail(write(tmp_path, 'source,target\n"a"b,c\n', "x.csv"))
    long = fail(write(tmp_path, '"open,c\n' + "d,e\n" * 1_100_000, "x.csv"))
    assert "line 1: a quote is opened and not closed, or a field has more than 4,194,304 characters" in long


@pytest.mark.parametrize(
    ("start", "what"), [(b"PK\x03\x04", "packed with zip"), (b"\xfd7zXZ\0", "packed with xz"), (b"BZh9", "packed with bzip2")]
)
def test_archives_that_are_not_gzip(tmp_path, start, what):
    assert fail(write(tmp_path, start + b"rest", "x.txt")).endswith(
        f"x.txt: is {what}, expected plain or gzip; unpack it first"
    )


@pytest.mark.parametrize(
    "start",
    [
        b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml",
        b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    ],
    ids=["xlsx", "ods", "xls"],
)
def test_a_workbook(tmp_path, start):
    assert fail(write(tmp_path, start + b"rest", "x.xlsx")).endswith(
        "x.xlsx: is an Excel workbook or another office document, expected text; save the sheet as 'CSV UTF-8' in your "
        "spreadsheet program, and give that file"
    )


def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert fail(tmp_path / "pipe").endswith("is a pipe or device, and data is read more than once; write it to a file first")


def test_latin_1_gets_a_hint(tmp_path):
    report = ReadingReport()
    list(read_pairs([write(tmp_path, "Go.\tGeh.\nOver.\tÜber.\n".encode("latin-1"))], DataConfig(), report))
    assert "x.tsv is not in UTF-8: set data.encoding to the encoding that reads this line right: cp1252" in report.render()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("a.tsv", "b.tsv"), "a.tsv is named like a table"),
        (("a.csv.gz", "b"), "a.csv.gz is named like a table"),
        (("a", "b.jsonl"), "b.jsonl is named like a table"),
        (("xaa", "xab"), "nearly all lines of both contain a tab, as in tables"),
    ],
)
def test_two_tables_are_not_parallel_text(tmp_path, names, found):
    """The files are as `split -l` writes them, with equal numbers of lines."""
    paths = [write(tmp_path, "".join(f"cat {i}\tKatze {i}\n" for i in range(10)) + "one side\n", name) for name in names]
    message = fail(*paths)
    assert f"two files are read as parallel text, but {found}; expected one table or two text files." in message
    assert "Join tables into one file, or set data.format to text" in message
    assert len(list(read_pairs(paths, DataConfig(format="text"), ReadingReport()))) == 1


def test_tabs_in_one_of_two_parallel_files_are_text(tmp_path):
    source = write(tmp_path, "".join(f"1{i}\ta cat\n" for i in range(10)), "a.en")
    target = write(tmp_path, "".join(f"eine Katze {i}\n" for i in range(10)), "a.de")
    [chunk] = read_pairs([source, target], DataConfig(), ReadingReport())
    assert (chunk.source[0], chunk.target[0]) == ("10\ta cat", "eine Katze 0")


ENGLISH = [f"the cat is in the house and the dog is on the street {i} ." for i in range(9)]
GERMAN = [f"die Katze ist in dem Haus und der Hund ist auf der Straße {i} ." for i in range(9)]
EN_DE = {"source": "en", "target": "de"}


def test_parallel_files_in_the_wrong_order(tmp_path):
    english, german = write(tmp_path, "\n".join(ENGLISH), "a.en"), write(tmp_path, "\n".join(GERMAN), "a.de")
    message = fail(german, english, **EN_DE)
    assert f"{german} and {english}: are named like the languages 'de' and 'en', but data.source is 'en'" in message
    assert message.endswith("give the files in the other order, or exchange the languages")
    assert list(read_pairs([english, german], DataConfig(**EN_DE), ReadingReport()))
    for settings in ({}, {"source": "en"}, {"source": "de", "target": "en"}, {"source": "Deutsch", "target": "English"}):
        assert list(read_pairs([german, english], DataConfig(**settings), ReadingReport()))
