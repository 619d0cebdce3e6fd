"""Texts alone: what is read, how long ones are cut, and what becomes of the file."""

import gzip
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import AutoConfig, BPEConfig, CharactersConfig, TextDataConfig, UnigramConfig, WordsConfig
from regard.errors import DataError
from regard.text import opening as lines_module
from regard.text.corpora import TextCorpus, cut_blocks
from regard.text.data_report import DataReport
from regard.text.mapped import MappedWriter
from regard.text.plain import TextSchema, read_texts
from regard.text.preparation import prepare_data
from regard.text.report import ReadingReport
from regard.text.symbols import END, START, restore_space, show_space
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer


def read(path, **settings) -> tuple[list[tuple[str, int]], ReadingReport]:
    report = ReadingReport()
    chunks = list(read_texts([path], TextDataConfig(**settings), report))
    return [pair for chunk in chunks for pair in zip(chunk.text, chunk.line, strict=True)], report


def write(path, text: str):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_text_a_line(tmp_path):
    found, report = read(write(tmp_path / "a.txt", " one two \r\n\nthree\tfour\n\0\nfive"))
    assert found == [("one two", 1), ("three\tfour", 3), ("five", 5)]
    assert (report.read, report.kept, report.num_skipped, report.unit) == (5, 3, 2, "lines")
    assert "skipped 1: empty line (line 2)" in report.render()


def test_paragraphs_are_joined(tmp_path):
    found, report = read(write(tmp_path / "a.txt", "\n\none\n two\n\n \nthree\n"), unit="paragraph")
    assert found == [("one two", 3), ("three", 7)]
    assert (report.read, report.kept, report.unit) == (2, 2, "paragraphs")


def test_an_over_long_line_takes_no_others_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 100)
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    found, report = read(write(tmp_path / "a.txt", f"one\n{'x' * 3000}\ntwo\nthree\n"), unit="paragraph")
    assert found == [("one", 1), ("two three", 3)]
    assert "(line 2)" in report.render()
    assert "NUL" not in report.render()


def test_packed_and_several_files(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n"))
    report = ReadingReport()
    paths = [tmp_path / "a.txt.gz", write(tmp_path / "b.txt", "two\n")]
    assert [chunk.text for chunk in read_texts(paths, TextDataConfig(), report)] == [["one"], ["two"]]
    assert report.kept == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file"),
        ("", "is empty, expected text"),
        ("\n\n", "no usable text in .*a.txt; the report on its lines"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "a.txt"
    if text is not None:
        write(path, text)
    with pytest.raises(DataError, match=message):
        read(path)


@given(st.lists(st.integers(0, 9), max_size=7), st.integers(1, 5))
def test_blocks_predict_every_token_once_and_begin_with_the_one_before(sizes, longest):
    offsets = np.r_[0, np.cumsum(sizes)].astype(np.int64)
    ids = np.arange(10, 10 + offsets[-1], dtype=np.int32)
    (flat, starts), owner = cut_blocks(ids, offsets, longest)
    rows = [flat[start:stop].tolist() for start, stop in pairwise(starts.tolist())]
    assert all(2 <= len(row) <= longest + 1 for row in rows)
    for number, size in enumerate(sizes):
        text = [START, *range(10 + offsets[number], 10 + offsets[number] + size), END]
        own = [row for row, place in zip(rows, owner, strict=True) if place == number]
        assert [token for row in own for token in row[1:]] == text[1:]
        assert [row[0] for row in own] == text[: len(text) - 1 : longest]


def test_a_corpus_gives_targets_one_step_apart(tmp_path):
    with MappedWriter(tmp_path / "a.arrow", TextCorpus.schema) as writer:
        writer.append((cut_blocks(np.array([5, 6, 7, 8], np.int32), np.array([0, 1, 4]), 3)[0],), ())
    corpus = TextCorpus(tmp_path / "a.arrow")
    assert corpus.lengths.tolist() == [2, 3, 1]
    batch = pickle.loads(pickle.dumps(corpus)).batch([1, 2, 0])
    assert batch.target_in.tolist() == [[START, 6, 7], [8, 0, 0], [START, 5, 0]]
    assert batch.target_out.tolist() == [[6, 7, 8], [END, 0, 0], [5, END, 0]]
    assert batch.target_mask.sum(1).tolist() == [3, 1, 2]
    assert batch.source.tolist() == [[END]] * 3
    assert batch.index.tolist() == [1, 2, 0]


def prepared(tmp_path, text: str, tokenizer=None, **settings):
    path = write(tmp_path / "a.txt", text)
    data = TextDataConfig(train=(str(path),), cache=str(tmp_path / "cache"), **settings)
    return prepare_data(TextSchema(data, tokenizer or WordsConfig()), seed=3, progress=False)


LINES = "".join(f"number {number} .\n" for number in range(40))


def test_preparing_splits_drops_repeats_and_keeps(tmp_path):
    data = prepared(tmp_path, LINES + "number 7 .\n", dev_size=4)
    assert (len(data.train), len(data.dev)) == (36, 4)
    assert data.report.train.skipped["exact repeat of an earlier text"].lines == [41]
    assert (data.report.train_tokens, data.report.dev_tokens) == ({"text": 36 * 4}, {"text": 4 * 4})
    assert data.tokenizers[0].size == 4 + 2 + 36
    assert DataReport.from_dict(data.report.to_dict()) == data.report
    assert "36 texts to train on, 4 to validate on" in data.report.render()
    entries = list((tmp_path / "cache").iterdir())
    again = prepared(tmp_path, LINES + "number 7 .\n", dev_size=4)
    assert list((tmp_path / "cache").iterdir()) == entries
    assert again.train.batch([0]).target_out.tolist() == data.train.batch([0]).target_out.tolist()


def test_dev_files_and_their_overlap(tmp_path):
    dev = write(tmp_path / "dev.txt", "number 3 .\nsomething else .\n")
    data = prepared(tmp_path, LINES, dev=(str(dev),))
    assert (len(data.train), len(data.dev), data.report.overlap) == (40, 2, {"texts": 1})
    assert "also in the training data: 1 of the dev texts\n" in data.report.render()


def test_max_texts_long_texts_and_kinds(tmp_path):
    data = prepared(tmp_path, LINES, AutoConfig(), max_texts=20, max_tokens=2, dev_size=2)
    assert data.configs[0].kind == "whitespace"
    assert (data.report.num_train, data.report.num_dev) == (20, 2)
    assert data.train.lengths.tolist() == [2, 2] * 20
    assert "cut into blocks of 2 tokens (data.max_tokens): 22" in data.report.render()
    assert data.report.train.skipped["beyond max_texts"].count == 18


def test_spaces_come_back(tmp_path):
    data = prepared(tmp_path, LINES, CharactersConfig(), dev_size=0)
    [row] = data.train.batch([0]).target_out.tolist()
    assert data.tokenizers[0].decode(row) == "number 0 ."


CODE = "def {name}(x):\n    y = x + 1  # two\n    if y:\n\ty  +=  2\n\n    return y\n\n\n"


def blocks(count: int) -> list[str]:
    return [CODE.format(name=f"f{number}").rstrip("\n") for number in range(count)]


def code(tmp_path, count: int = 12, end: str = "\n"):
    path = tmp_path / "a.py"
    path.write_text("\n\n".join(blocks(count)).replace("\n", end) + end, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_source_code_keeps_its_white_space(tmp_path, end):
    found, report = read(code(tmp_path, end=end))
    assert [restore_space(text) for text, _ in found] == blocks(12)
    assert found[1][1] == 8
    assert (report.read, report.kept, report.unit) == (12, 12, "blocks")
    assert "many lines are indented, so white space is kept (data.unit)" in report.render()


@pytest.mark.parametrize("unit", ["line", "paragraph"])
def test_the_report_warns_of_lost_indentation(tmp_path, unit):
    report = read(code(tmp_path), unit=unit)[1]
    assert (
        f"warning: read as {unit}s without indentation; to keep line breaks and spaces, set data.unit to block"
        in report.render()
    )


@pytest.mark.parametrize(
    "text",
    [
        "a plain line\n" * 40,
        "    an indented paragraph\n" * 40,
        ("    the first line of a paragraph\n" + "and another line of it\n" * 5) * 10,
        "Title\n" + "\u3000\u3000一个段落。\n" * 40,
        "a plain line\n a line with a space that is left over\n" * 20,
    ],
    ids=["plain", "indented", "first lines", "Chinese", "one space"],
)
def test_prose_is_read_line_by_line(tmp_path, text):
    found, report = read(write(tmp_path / "a.txt", text))
    assert (len(found), report.unit, report.advice) == (len(text.splitlines()), "lines", "")


def test_blocks_of_verse_keep_their_lines_if_the_setting_says_so(tmp_path):
    found, _ = read(write(tmp_path / "a.txt", "First Citizen:\nSpeak, speak.\n\n\nAll:\nResolved.  Resolved.\n"), unit="block")
    assert found == [("First Citizen:␊Speak, speak.", 1), ("All:␊Resolved.␠␠Resolved.", 5)]


@pytest.mark.parametrize("config", [CharactersConfig(), BPEConfig(size=200), UnigramConfig(size=200)], ids=lambda one: one.kind)
def test_tokenizers_of_blocks_return_them_exactly(tmp_path, config):
    path = code(tmp_path, count=30)
    data = TextDataConfig(train=(str(path),), dev_size=2, cache=str(tmp_path / "cache"))
    prepared = prepare_data(TextSchema(data, config), seed=1, progress=False)
    assert (prepared.report.num_train, prepared.report.num_dev) == (28, 2)
    tokenizer = prepared.tokenizers[0]
    for text in [*blocks(3), "if x:\n\t\n  return", "\n\n\tx  =  1", "    x"]:
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
        assert tokenizer.encode_batch([text] * 2)[0].tolist() == tokenizer.encode(text).ids * 2
        assert tokenizer.decode(tokenizer.encode(show_space(text)).ids) == text
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").decode(tokenizer.encode("if x:\n  y").ids) == "if x:\n  y"


def test_tokenizers_of_prose_drop_white_space_as_before():
    tokenizer = build_tokenizer([["a plain text"]], CharactersConfig())
    assert tokenizer.decode(tokenizer.encode("  a\n plain\t text ").ids) == "a plain text"
