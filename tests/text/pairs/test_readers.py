import csv
import gzip
import io
import json
import re
import unicodedata
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import Pairs, read_all_pairs, skipped, write

from regard.config import DataConfig
from regard.errors import DataError
from regard.text import opening as lines_module
from regard.text.opening import LONGEST_SIDE
from regard.text.pairs.readers import name_languages, read_pairs
from regard.text.reasons import EMPTY_LINE, EMPTY_SOURCE, EMPTY_TARGET, HEADER, NOT_UNICODE, NUL, OVER_LONG, TOO_FEW_COLUMNS
from regard.text.report import ReadingReport

read = partial(read_all_pairs, allow_skipped=1.0)


# Texts that survive stripping and NFC; inside they may hold anything that is no separator of the format.
def sides(separators: str) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_characters=separators + "\0", exclude_categories=("Cs",))
    odd = st.sampled_from(
        ['"', "'", "\r", "\u2028", "\x85", "\x1c", ",", ";", "None", "null", "nan", "e\u0301", "\ufeff", "ß", " "]
    )
    text = st.lists(st.one_of(characters, odd), min_size=1, max_size=12).map("".join)
    cleaned = text.map(lambda side: unicodedata.normalize("NFC", "".join(c for c in side if c not in separators)).strip())
    return cleaned.filter(lambda side: side and not re.search("(^|[\r\n])\ufeff", side))  # there it is a byte order mark


def pairs_of(separators: str) -> st.SearchStrategy[Pairs]:
    return st.lists(st.tuples(sides(separators), sides(separators)), min_size=1, max_size=20)


many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(
    pairs=pairs_of("\t\n"), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), mark=st.booleans(), zipped=st.booleans()
)
def test_tab_separated_pairs_come_back(tmp_path, pairs, end, last, mark, zipped):
    text = end.join(f"{source}\t{target}\tCC-BY" for source, target in pairs) + (end if last else "")
    data = (b"\xef\xbb\xbf" if mark else b"") + text.encode()
    path = write(tmp_path, gzip.compress(data) if zipped else data, "pairs.txt.gz" if zipped else "pairs.txt")
    assert read(path, header="no", format="tsv", columns=("0", "1"))[0] == pairs


@many
@given(pairs=pairs_of("\0"), end=st.sampled_from(["\n", "\r\n"]))
def test_csv_pairs_come_back(tmp_path, pairs, end):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator=end).writerows([("source", "target"), *pairs])
    assert read(write(tmp_path, buffer.getvalue(), "pairs.csv"))[0] == pairs


@many
@given(pairs=pairs_of("\0"), ascii_only=st.booleans())
def test_json_pairs_come_back(tmp_path, pairs, ascii_only):
    rows = [json.dumps({"id": 3, "en": source, "de": target}, ensure_ascii=ascii_only) for source, target in pairs]
    path = write(tmp_path, "\n".join(rows), "pairs.jsonl")
    assert read(path, source="en", target="de")[0] == pairs
    assert read(path, columns=("de", "en"))[0] == [(target, source) for source, target in pairs]


@many
@given(pairs=pairs_of("\0"))
def test_parquet_pairs_come_back(tmp_path, pairs):
    table = pa.table({"id": range(len(pairs)), "de": [pair[1] for pair in pairs], "en": [pair[0] for pair in pairs]})
    pq.write_table(table, tmp_path / "pairs.parquet")
    assert read(tmp_path / "pairs.parquet", source="en", target="de")[0] == pairs


@many
@given(pairs=pairs_of("\n"), block=st.sampled_from([3, 17, 1 << 19]))
def test_parallel_pairs_come_back_whatever_the_blocks(tmp_path, pairs, block):
    source = write(tmp_path, "\n".join(pair[0] for pair in pairs) + "\n", "a.en")
    target = write(tmp_path, "\r\n".join(pair[1] for pair in pairs), "a.de")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        assert read(source, target)[0] == pairs


def test_punctuation_alone_is_no_header(tmp_path):
    source, target = write(tmp_path, ":\n0\n", "a.en"), write(tmp_path, ":\n0\n", "a.de")
    assert read(source, target)[0] == [(":", ":"), ("0", "0")]


def test_lines_keep_their_numbers_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 7)
    path = write(tmp_path, "".join(f"a{i}\tb{i}\n" if i % 3 else "\n" for i in range(1, 50)))
    pairs, report, numbers = read(path)
    assert numbers == [i for i in range(1, 50) if i % 3]
    assert pairs[0] == ("a1", "b1")
    assert skipped(report) == {EMPTY_LINE: [3, 6, 9, 12, 15]}
    assert report.skipped[EMPTY_LINE].count == 16


def test_quotes_and_words_for_nothing_are_text(tmp_path):
    content = '"\tEin "Wort\n"He\'s\tnan\nNone\tnull\nNA\t"quoted"\n'
    assert read(write(tmp_path, content))[0] == [('"', 'Ein "Wort'), ("\"He's", "nan"), ("None", "null"), ("NA", '"quoted"')]


def test_separators_inside_a_sentence_do_not_split_lines(tmp_path):
    pairs, report, _ = read(write(tmp_path, "a\rb\tc\u2028d\r\ne\x85f\tg\x0ch\r\n"))
    assert pairs == [("a\rb", "c\u2028d"), ("e\x85f", "g\x0ch")]
    assert report.read == 2


@pytest.mark.parametrize(
    ("first", "settings", "reason"),
    [
        ("1\t2", {}, HEADER),
        ("0\t1\t2", {}, HEADER),
        ("en\tde", {"source": "en", "target": "de"}, HEADER),
        ("English\tGerman", {}, HEADER),
        ("SRC\ttgt", {}, HEADER),
        ("anything\tat all", {"header": "yes"}, HEADER),
        ("1\t2", {"header": "no"}, None),
        ("Hi\tNo", {}, None),
        ("English is easy\tGerman", {}, None),
    ],
)
def test_the_first_line_of_a_tab_separated_file(tmp_path, first, settings, reason):
    pairs, report, _ = read(write(tmp_path, f"{first}\nGo.\tGeh.\n"), **settings)
    assert skipped(report) == ({reason: [1]} if reason else {})
    assert pairs == ([] if reason else [tuple(first.split("\t")[:2])]) + [("Go.", "Geh.")]


@pytest.mark.parametrize(
    ("header", "settings"),
    [
        ("id\tde\ten", {"source": "en", "target": "de"}),
        ("id\tgerman\tEnglish", {"source": "en", "target": "de"}),
        ("id\tsentence_de\tsentence_en", {"source": "en", "target": "de"}),
        ("id\ttarget\tsource", {}),
        ("id\tdeutsch\tenglisch", {"columns": ("englisch", "deutsch")}),
        ("id\tdeutsch\tenglisch", {"columns": ("2", "deutsch"), "header": "yes"}),
        ("7\tWie?\tWhat?", {"columns": ("2", "1")}),
    ],
)
def test_columns_are_found_by_name_or_number(tmp_path, header, settings):
    pairs, _, _ = read(write(tmp_path, f"{header}\n1\tGeh.\tGo.\n2\tHallo!\tHi.\n"), **settings)
    assert pairs[-2:] == [("Go.", "Geh."), ("Hi.", "Hallo!")]


def test_every_fault_has_its_reason_and_line(tmp_path):
    rows = [
        b"Go.\tGeh.",
        b"\tx",
        b"x\t ",
        b"one",
        b"",
        b" \t",
        b"a\xff\tb",
        b"a\0\tb",
        b"x" * (LONGEST_SIDE + 1) + b"\ty",
        b"End\tEnde",
    ]
    pairs, report, numbers = read(write(tmp_path, b"\n".join(rows)))
    assert pairs == [("Go.", "Geh."), ("End", "Ende")]
    assert numbers == [1, 10]
    assert skipped(report) == {
        EMPTY_SOURCE: [2],
        EMPTY_TARGET: [3],
        TOO_FEW_COLUMNS: [4],
        EMPTY_LINE: [5, 6],
        NOT_UNICODE: [7],
        NUL: [8],
        OVER_LONG: [9],
    }


@pytest.mark.parametrize("ends", [True, False])
def test_a_line_without_end_does_not_fill_memory_nor_shift_the_numbers(tmp_path, monkeypatch, ends):
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 300)
    long = "x" * 5000
    content = f"a\tb\n{long}\nc\td\n{long}" + ("\ne\tf\n" if ends else "")
    pairs, report, numbers = read(write(tmp_path, content))
    assert pairs == [("a", "b"), ("c", "d"), ("e", "f")][: 3 if ends else 2]
    assert numbers == [1, 3, 5][: 3 if ends else 2]
    assert skipped(report) == {OVER_LONG: [2, 4]}
    source, target = write(tmp_path, content, "x.en"), write(tmp_path, "1\n2\n3\n4\n" + ("5\n" if ends else ""), "x.de")
    assert read(source, target)[2] == numbers
    rows = "".join(json.dumps({"s": side, "t": "y"}) + "\n" for side in ("a", long, "b"))
    assert read(write(tmp_path, rows, "x.jsonl"))[2] == [1, 3]


@pytest.mark.parametrize("name", ["x.tsv", "x.txt", "x.jsonl"])
def test_a_first_line_without_end_is_skipped(tmp_path, monkeypatch, name):
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 300)
    rest = '{"s": "a", "t": "b"}\n' if name.endswith("l") else "a\tb\n"
    pairs, report, numbers = read(write(tmp_path, "x" * 5000 + "\n" + rest, name))
    assert (pairs, numbers) == ([("a", "b")], [2])
    assert skipped(report) == {OVER_LONG: [1]}


@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.txt", "x.jsonl"])
def test_a_file_of_one_endless_line_is_refused_without_an_internal_word(tmp_path, monkeypatch, name):
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 300)
    path = write(tmp_path, "x" * 5000, name)
    with pytest.raises(DataError) as error:
        read(path)
    assert "u0000" not in str(error.value)
    assert "over-long line" in str(error.value) or "is too long to be a row of CSV" in str(error.value)
    other = write(tmp_path, "Source\nb\n", "y.en")
    with pytest.raises(DataError) as error:
        read(path, other, source="source")
    assert "u0000" not in str(error.value)


@pytest.mark.parametrize(("form", "expected"), [("nfc", "\u00e9 ﬁ"), ("nfkc", "\u00e9 fi"), ("none", "e\u0301 ﬁ")])
def test_unicode_forms(tmp_path, form, expected):
    assert read(write(tmp_path, "e\u0301 ﬁ\tx\n"), normalization=form)[0] == [(expected, "x")]


def test_bad_bytes_in_csv_json_and_parquet(tmp_path):
    good = ("Go.", "Geh.")
    path = write(tmp_path, b'source,target\nGo.,Geh.\n"a\xff\nb",c\n', "x.csv")
    assert read(path)[0] == [good]
    path = write(tmp_path, b'{"s":"Go.","t":"Geh."}\n{"s":"\\ud800","t":"x"}\n{"s":"\xff","t":"x"}\n', "x.jsonl")
    pairs, report, _ = read(path)
    assert pairs == [good]
    assert skipped(report) == {NOT_UNICODE: [2, 3]}
    raw = pa.array([b"Go.", b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"a": raw, "b": ["Geh.", "x"]}), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet")[0] == [good]


def test_csv_rows_that_span_lines_are_numbered_by_their_first(tmp_path):
    path = write(tmp_path, 'en;de\n"a\nb";c\n\nd;"e ""f"""\n', "x.csv")
    pairs, report, numbers = read(path, source="en", target="de")
    assert pairs == [("a\nb", "c"), ("d", 'e "f"')]
    assert numbers == [2, 5]
    assert skipped(report) == {HEADER: [1], EMPTY_LINE: [4]}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_of_csv_is_the_one_that_fits(tmp_path, separator):
    rows = [("Well, yes; no", "Ja"), ("Go", "Geh, bitte"), ("x", "y; z")]
    text = "".join(
        f'"{source}"{separator}{target if separator == ";" and ";" not in target else f"{chr(34)}{target}{chr(34)}"}\n'
        for source, target in rows
    )
    assert read(write(tmp_path, text, "x.csv"))[0] == rows


def test_json_with_nested_translation_nulls_and_blank_lines(tmp_path):
    rows = '{"id":1,"translation":{"de":"Geh.","en":"Go."}}\n\n{"translation":{"en":null,"de":"x"}}\n'
    pairs, report, _ = read(write(tmp_path, rows, "x.json"), source="en", target="de")
    assert pairs == [("Go.", "Geh.")]
    assert skipped(report) == {EMPTY_LINE: [2], EMPTY_SOURCE: [3]}
    assert report.columns == ["translation.en", "translation.de"]


def test_parquet_with_structs_and_dictionaries(tmp_path):
    inner = pa.array([{"en": "Go.", "de": "Geh."}, {"en": None, "de": "x"}])
    pq.write_table(pa.table({"translation": inner}), tmp_path / "x.parquet")
    pairs, report, _ = read(tmp_path / "x.parquet", source="en", target="de", format="parquet")
    assert pairs == [("Go.", "Geh.")]
    assert skipped(report) == {EMPTY_SOURCE: [2]}
    coded = pa.table({"a": pa.array(["x", "x"]).dictionary_encode(), "n": [1, 2], "b": pa.array(["y", "z"], pa.large_string())})
    pq.write_table(coded, tmp_path / "y.pq")
    assert read(tmp_path / "y.pq")[0] == [("x", "y"), ("x", "z")]


def test_the_format_of_a_file_without_a_known_ending(tmp_path):
    with pytest.raises(DataError, match=r"has one column .*set data.format to that of the file"):
        read(write(tmp_path, '{"a":"x","b":"y"}\n', "data"))
    assert read(tmp_path / "data", format="jsonl")[0] == [("x", "y")]
    assert read(write(tmp_path, "{a\tb\n", "braces"))[0] == [("{a", "b")]
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "unnamed")
    assert read(tmp_path / "unnamed")[1].form == "Parquet"
    assert read(write(tmp_path, "x,y\n", "commas"), format="csv")[0] == [("x", "y")]


@pytest.mark.parametrize(
    ("header", "settings", "languages"),
    [
        ("English\tDeutsch", {}, ("English", "Deutsch")),
        ("Deutsch\tEnglish", {}, ("Deutsch", "English")),
        ("id\tde\tnote\ten", {}, ("de", "en")),
        ("English\tDeutsch", {"columns": ("Deutsch", "English")}, ("Deutsch", "English")),
        ("English\tDeutsch", {"columns": ("1", "0")}, ("Deutsch", "English")),
        ("English\tDeutsch", {"source": "en"}, ("en", "target")),
        ("source\ttarget", {}, ("source", "target")),
        ("English\ttranslation", {}, ("source", "target")),
        ("a cat\teine Katze", {}, ("source", "target")),
    ],
)
def test_columns_named_after_languages_name_those_of_the_run(tmp_path, header, settings, languages):
    file = tmp_path / "pairs.tsv"
    width = header.count("\t") + 1
    file.write_text("\n".join([header, *("\t".join(f"the text {row} {place}" for place in range(width)) for row in range(9))]))
    data = DataConfig(train=(str(file),), **settings)
    found = name_languages(data)
    assert (found.source, found.target) == languages
    assert replace(found, source=data.source, target=data.target) == data
    assert name_languages(found) == found
    names = [], []
    for each, read_names in zip((data, found), names, strict=True):
        report = ReadingReport()
        read_names += [[chunk.columns for chunk in read_pairs(each.train, each, report)], report.columns]
    assert str(names[0]) == str(names[1])  # the same columns and rows


def test_a_file_that_cannot_be_read_names_no_languages(tmp_path):
    data = DataConfig(train=(str(tmp_path / "gone.tsv"),))
    assert name_languages(data) is data
