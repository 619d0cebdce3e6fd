import gzip
import json
import unicodedata
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import Labelled as Found
from tables import read_all_labelled, skipped, write

from regard.errors import DataError
from regard.text import opening as lines_module
from regard.text.labelled.readers import _LIST, is_missing
from regard.text.opening import LONGEST_SIDE
from regard.text.reasons import (
    EMPTY_LABEL,
    EMPTY_LINE,
    EMPTY_TEXT,
    HEADER,
    LONG_LABEL,
    NOT_UNICODE,
    NUL,
    OVER_LONG,
    TOO_FEW_COLUMNS,
    TOO_MANY_COLUMNS,
)
from regard.text.strings import trim

read = partial(read_all_labelled, allow_skipped=1.0)


def cells(separators: str) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_characters=separators + "\0", exclude_categories=("Cs",))
    odd = st.sampled_from(['"', "'", "\r", "\u2028", "\x85", ",", ";", "None", "null", "nan", "e\u0301", "\ufeff", "ß", " "])
    text = st.lists(st.one_of(characters, odd), min_size=1, max_size=12).map("".join)
    cleaned = text.map(lambda cell: unicodedata.normalize("NFC", "".join(c for c in cell if c not in separators)).strip())
    return cleaned.filter(lambda cell: cell and cell[0] != "\ufeff" and "\n\ufeff" not in cell)


def rows_of(separators: str) -> st.SearchStrategy[list[tuple[str, str]]]:
    labels = cells(separators).filter(
        lambda label: not is_missing(label, typed=False) and trim(label) == label and not _LIST.fullmatch(label)
    )
    return st.lists(st.tuples(cells(separators), labels), min_size=1, max_size=20)


def single(rows: list[tuple[str, str]]) -> Found:
    return [(text, (label,)) for text, label in rows]


many = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(rows=rows_of("\0"))
def test_json_and_parquet_texts_come_back(tmp_path, rows):
    lines = [json.dumps({"id": 3, "gold": label, "words": text}) for text, label in rows]
    path = write(tmp_path, "\n".join(lines), "x.jsonl")
    assert read(path, text="words", label="gold")[0] == single(rows)
    table = pa.table({"label": [label for _, label in rows], "id": range(len(rows)), "text": [text for text, _ in rows]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet")[0] == single(rows)


@many
@given(
    good=st.lists(cells("\n"), min_size=1, max_size=9),
    bad=st.lists(cells("\n"), min_size=1, max_size=9),
    block=st.sampled_from([3, 1 << 19]),
)
def test_a_text_file_for_each_label(tmp_path, good, bad, block):  # fmt: skip
    first, second = write(tmp_path, "\n".join(good), "good.txt"), write(tmp_path, "\r\n".join(bad) + "\r\n", "bad.txt")
    wanted = [(text, ("bad",)) for text in bad] + [(text, ("good",)) for text in good]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK_BYTES", block)
        assert read(first, second)[0] == read(second, first)[0] == wanted


def test_a_folder_of_label_files_and_names_that_differ_in_their_endings(tmp_path):
    folder = tmp_path / "mr"
    folder.mkdir()
    write(folder, gzip.compress(b"fine\n"), "polarity.pos.gz")
    write(folder, "poor\n\nsad\n", "polarity.neg")
    write(folder, "x", ".hidden")
    found, report, numbers = read(folder)
    assert found == [("poor", ("neg",)), ("sad", ("neg",)), ("fine", ("pos",))]
    assert numbers == [1, 3, 1]
    assert skipped(report) == {f"{EMPTY_LINE} (polarity.neg)": [2]}
    assert report.render().splitlines()[0].endswith("(a text file for each label): 4 lines read, 3 texts kept")


def test_sentences_with_quotes_are_not_taken_for_csv(tmp_path):
    assert read(write(tmp_path, '"a\t1\nb" c\t0\nd\t1\n'))[0] == [('"a', ("1",)), ('b" c', ("0",)), ("d", ("1",))]


@pytest.mark.parametrize(
    ("first", "given", "reason"),
    [
        ("text\tlabel", {}, HEADER),
        ("Sentence\tLABEL", {}, HEADER),
        ("0\t1", {}, HEADER),
        ("phrase_in_full\tpolarity_bin", {}, HEADER),
        ("words\tlabel", {}, HEADER),
        ("review\twhat", {}, HEADER),
        ("anything\t7", {"header": "yes"}, HEADER),
        ("a fine film\t1", {}, None),
        ("10\t0", {}, None),
    ],
)
def test_the_first_line(tmp_path, first, given, reason):
    found, report, _ = read(write(tmp_path, f"{first}\nnice\t1\nbad\t0\n"), **given)
    assert skipped(report) == ({reason: [1]} if reason else {})
    text, label = first.split("\t")
    assert found == ([] if reason else [(text, (label,))]) + [("nice", ("1",)), ("bad", ("0",))]


def test_a_first_line_of_words_that_are_labels_too_is_data(tmp_path):
    found, _, _ = read(write(tmp_path, "the target\ttopic\nthe class\tclass\nwhat\ttopic\n"))
    assert [labels for _, labels in found] == [("topic",), ("class",), ("topic",)]


@pytest.mark.parametrize(
    ("header", "given"),
    [
        ("sentiment\tid\treview", {}),
        ("a\tb\tc", {"text": "c", "label": "a"}),
        ("a\tb\tc", {"text": "C", "label": "0"}),
        ("target\tb\tx", {"text": "x"}),
        ("x\tb\ttext", {"label": "x"}),
        ("label_text\tlabel_id\ttext", {"label": "label_text"}),
        ("7\tb\tWhat?", {"text": "2", "label": "0"}),
    ],
)
def test_columns_are_found_by_name_or_number(tmp_path, header, given):
    found, report, _ = read(write(tmp_path, f"{header}\npos\t1\tGood.\nneg\t2\tBad.\n"), **given)
    assert found[-2:] == [("Good.", ("pos",)), ("Bad.", ("neg",))]
    assert len(report.columns) == 2


def test_columns_with_unknown_names_are_chosen_by_what_they_hold(tmp_path):
    rows = '{"c": 1, "b": 17.25, "a": "A good film."}\n{"c": 0, "b": 18.5, "a": "Bad from the first scene."}\n'
    rows += '{"c": 0, "b": 3.125, "a": "So bad."}\n' * 3 + '{"c": 1, "b": 99.25, "a": "I liked it."}\n' * 3
    assert read(write(tmp_path, rows, "x.jsonl"))[0][:2] == [("A good film.", ("1",)), ("Bad from the first scene.", ("0",))]


def test_every_fault_has_its_reason_and_line(tmp_path):
    rows = [
        b"text\tlabel",
        b"Go.\t1",
        b"\t1",
        b"x\t ",
        b"one",
        b"",
        b"a\xff\t1",
        b"a\0\t0",
        b"fine\tb\xffd",
        b"a\tb\t1",
        b"trailing\t1\t",
        b"w\t" + b"x" * 300,
        b"x" * (LONGEST_SIDE + 5) + b"\t1",
    ]
    found, report, numbers = read(write(tmp_path, b"\n".join(rows)))
    assert found == [("Go.", ("1",)), ("trailing", ("1",)), ("x" * LONGEST_SIDE, ("1",))]
    assert numbers == [2, 11, 13]
    assert skipped(report) == {
        HEADER: [1],
        EMPTY_TEXT: [3],
        EMPTY_LABEL: [4],
        TOO_FEW_COLUMNS: [5],
        EMPTY_LINE: [6],
        NOT_UNICODE: [7, 9],
        NUL: [8],
        TOO_MANY_COLUMNS: [10],
        LONG_LABEL: [12],
    }


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (1, "1"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (True, "true"),
        (False, "false"),
        ("1.0", "1"),
        ("v1.0", "v1.0"),
        (10**20, "1" + "0" * 20),
    ],
)
def test_labels_that_are_no_text(tmp_path, value, spelled):
    path = write(tmp_path, json.dumps({"text": "a", "label": value}) + "\n", "x.jsonl")
    assert read(path)[0] == [("a", (spelled,))]
    if not isinstance(value, int) or abs(value) < 2**63:
        pq.write_table(pa.table({"label": [value], "text": ["a"]}), tmp_path / "x.parquet")
        assert read(tmp_path / "x.parquet")[0] == [("a", (spelled,))]


def test_missing_labels_in_json_and_parquet(tmp_path):
    path = write(tmp_path, '{"text": "a", "label": null}\n{"text": "b", "label": 0}\n', "x.jsonl")
    found, report, _ = read(path)
    assert found == [("b", ("0",))]
    assert skipped(report) == {EMPTY_LABEL: [1]}
    table = pa.table({"text": ["a", "b", "c"], "label": pa.array([None, 2.0, float("nan")], pa.float64())})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet")[0] == [("b", ("2",))]


def test_several_labels(tmp_path):
    path = write(tmp_path, "text\tlabels\na\tx; y\nb\t\nc\ty;;y\n")
    assert read(path, label_separator=";")[0] == [("a", ("x", "y")), ("b", ()), ("c", ("y",))]
    wanted = [("a", ("1", "true")), ("b", ()), ("c", ("z",))]
    path = write(
        tmp_path, '{"text": "a", "l": [1, true]}\n{"text": "b", "l": null}\n{"text": "c", "l": ["z", null]}', "x.jsonl"
    )
    assert read(path)[0] == wanted
    table = pa.table({"text": ["a", "b", "c"], "l": [["1", "true"], None, ["z"]]})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet")[0] == wanted
    zipped = write(tmp_path, gzip.compress((tmp_path / "x.parquet").read_bytes()), "x.parquet.gz")
    with pytest.raises(DataError, match="is Parquet within gzip, expected Parquet"):
        read(zipped, format="parquet")


@pytest.mark.parametrize(
    "cell",
    ["['film', 'good']", '["film"]', "['film' 'good']", "{film,good}", '{"film"}', "('film',)", "[0, 1, 0]", " ['film']"],
)
@pytest.mark.parametrize("name", ["x.tsv", "x.jsonl", "x.parquet"])
@pytest.mark.parametrize("separator", ["", ","])
def test_a_list_in_a_cell_of_text_is_refused(tmp_path, cell, name, separator):
    rows = [("a", "film"), ("b", cell)]
    if name == "x.tsv":
        write(tmp_path, "text\tlabels\n" + "".join("\t".join(row) + "\n" for row in rows), name)
    elif name == "x.jsonl":
        write(tmp_path, "\n".join(json.dumps({"text": text, "labels": label}) for text, label in rows), name)
    else:
        pq.write_table(pa.table({"text": ["a", "b"], "labels": ["film", cell]}), tmp_path / name)
    with pytest.raises(DataError, match=r"line \d: the label .* is a list in a cell of text; write arrays to JSON lines"):
        read(tmp_path / name, label_separator=separator)


def test_lists_of_texts_are_refused(tmp_path):
    path = write(tmp_path, json.dumps({"text": ["a", "b"], "label": ["x", "y"]}), "x.json")
    with pytest.raises(DataError, match="'text' holds lists, expected texts; join each list to one text"):
        read(path)


def test_labels_in_brackets_are_plain_if_none_has_two_parts(tmp_path):
    path = write(tmp_path, "text\tlabels\na\t[unknown]\nb\t(other)\nc\t(don't know)\nd\t[can't say]\n")
    assert [labels for _, labels in read(path)[0]] == [("[unknown]",), ("(other)",), ("(don't know)",), ("[can't say]",)]


def test_intervals_are_plain_labels(tmp_path):
    path = write(tmp_path, "text\tlabels\na\t(0, 10]\nb\t(10, 20]\n")
    assert read(path)[0] == [("a", ("(0, 10]",)), ("b", ("(10, 20]",))]


def test_vectors_of_zeros_and_ones_are_not_labels(tmp_path):
    path = write(tmp_path, '{"text": "a", "labels": [0, 1, 0]}\n{"text": "b", "labels": [1, 0, 0]}\n', "x.jsonl")
    with pytest.raises(DataError, match="labels are lists of 0 and 1, expected the names of labels"):
        read(path)


def test_lines_of_fasttext_have_labels_after_a_prefix(tmp_path, monkeypatch):
    one = "__label__good a fine film\n\n__label__bad\ta dull , long one\nno label here\n"
    found, report, numbers = read(write(tmp_path, one, "x.train"), format="fasttext")
    assert found == [("a fine film", ("good",)), ("a dull , long one", ("bad",))]
    assert (numbers, report.form) == ([1, 3], "fastText's format")
    assert skipped(report) == {EMPTY_LINE: [2], EMPTY_LABEL: [4]}
    several = "__label__a __label__b-c how much ?\n__label__a x__label__y\n"
    assert read(write(tmp_path, several, "x.txt"), format="fasttext")[0] == [
        ("how much ?", ("a", "b-c")),
        ("x__label__y", ("a",)),
    ]
    for separator in " \t":
        with pytest.raises(DataError, match=r"is in fastText's format; set data.format to fasttext"):
            read(write(tmp_path, f"__label__a{separator}a text\n", "x.txt"))
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 40)
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 10)
    long = read(write(tmp_path, "__label__a short\n" + "x" * 100 + "\n", "x.txt"), format="fasttext")
    assert (long[0], list(skipped(long[1]))) == ([("short", ("a",))], [OVER_LONG])
    zipped = write(tmp_path, gzip.compress(b"\xef\xbb\xbf__label__1 text\n"), "x.txt.gz")
    assert read(zipped, format="fasttext")[0] == [("text", ("1",))]
    assert read(write(tmp_path, "text,label\n__label__,x\nb,y\n", "x.csv"))[0] == [("__label__", ("x",)), ("b", ("y",))]


def class_labels(names: list[str]) -> dict[str, object]:
    return {"names": names, "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("values", "feature", "expected"),
    [
        ([1, 0, -1], class_labels(["neg", "pos"]), [("pos",), ("neg",)]),
        ([[0, 1], [1], []], {"feature": class_labels(["a", "b"]), "_type": "List"}, [("a", "b"), ("b",), ()]),
        ([[0], [1], [1]], [class_labels(["a", "b"])], [("a",), ("b",), ("b",)]),
        ([1, 0, 2], class_labels(["neg", "pos"]), [("pos",), ("neg",), ("2",)]),
        ([1, 0, 1], {"dtype": "int64", "_type": "Value"}, [("1",), ("0",), ("1",)]),
        ([1, 0, 1], None, [("1",), ("0",), ("1",)]),
    ],
)
def test_names_of_labels_in_the_metadata_of_datasets(tmp_path, values, feature, expected):
    table = pa.table({"text": ["a b", "c d", "e f"], "label": values})
    info = json.dumps({"info": {"features": {"text": {"dtype": "string", "_type": "Value"}, "label": feature}}})
    pq.write_table(table.replace_schema_metadata({"huggingface": info}), tmp_path / "x.parquet")
    assert [labels for _, labels in read(tmp_path / "x.parquet")[0]] == expected
    pq.write_table(table.replace_schema_metadata({"huggingface": "{" * 9}), tmp_path / "y.parquet")
    assert read(tmp_path / "y.parquet")[0][0][0] == "a b"
