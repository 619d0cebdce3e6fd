"""Tables in and out: rows, columns and cells are kept, and the results are added."""

import csv
import json
import re

import pytest

from regard.cli import tables
from regard.cli.tables import is_table, open_table
from regard.config import DataConfig, LabelledDataConfig
from regard.errors import DataError, RequestError
from regard.text.column_rules import LabelledColumns, PairColumns


def processed(path, *, column="", rules=None, added=("label", "probability")):
    """Return the texts of a table, and its lines with the lengths of texts as results."""
    table = open_table(str(path), rules or LabelledColumns(LabelledDataConfig()), column, added)
    texts = list(table.texts())
    return texts, [table.header(), *(table.render(text, ["x", len(text)][: len(added)]) for text in texts)]


def test_rows_columns_and_line_breaks_are_kept(tmp_path):
    rows = [["id", "review", "note"], ["1", "good", "a, b"], ["2", "two\nlines", 'said "x"'], ["3", "", ""], ["4"]]
    with open(tmp_path / "a.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    texts, lines = processed(tmp_path / "a.csv")
    assert texts == ["good", "two\nlines", "", ""]
    (tmp_path / "b.csv").write_text("\n".join(lines) + "\n")
    with open(tmp_path / "b.csv", newline="") as file:
        found = list(csv.reader(file))
    results = [["label", "probability"], ["x", "4"], ["x", "9"], ["", ""], ["", ""]]
    assert found == [[*row, *[""] * (3 - len(row)), *added] for row, added in zip(rows, results, strict=True)]


def test_a_carriage_return_in_a_cell_is_kept(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'text,id\n"one\rtwo",1\n')
    assert processed(tmp_path / "a.csv")[1][1] == '"one\rtwo",1,x,7'


def test_a_key_that_results_would_replace_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "HEAD_ROWS", 1)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b", "label": "mine"}\n')
    with pytest.raises(DataError, match="a row has the key 'label', which the first 1 rows do not have"):
        processed(tmp_path / "a.jsonl")


def test_the_separator_of_the_file_is_kept(tmp_path):
    (tmp_path / "a.csv").write_text("text;label\ngood;1\n")
    assert processed(tmp_path / "a.csv")[1] == ["text;label;predicted_label;probability", "good;1;x;4"]
    (tmp_path / "b.csv").write_text("sep=|\ntext|label\ngood|1\n")
    assert processed(tmp_path / "b.csv")[1] == ["sep=|\ntext|label|predicted_label|probability", "good|1|x|4"]
    (tmp_path / "c.csv").write_text("sep=;\ngood, nice;1\n")
    assert processed(tmp_path / "c.csv", column="0")[1] == ["sep=;", "good, nice;1;x;10"]
    (tmp_path / "a.tsv").write_text('text\tid\nsaid "a\t1\n')
    assert processed(tmp_path / "a.tsv")[1] == ["text\tid\tlabel\tprobability", 'said "a\t1\tx\t7']


def test_json_objects_keep_their_types(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "good", "tags": [1]}\n\n{"text": null}\n')
    texts, [header, first, second] = processed(tmp_path / "a.jsonl")
    assert (texts, header) == (["good", ""], "")
    assert json.loads(first) == {"id": 1, "text": "good", "tags": [1], "label": "x", "probability": 4}
    assert json.loads(second) == {"text": None, "label": None, "probability": None}


def test_the_column_is_that_of_the_option_the_run_or_a_usual_name(tmp_path):
    (tmp_path / "a.csv").write_text("German,English,notes\nHaus,house,n\n")
    pairs = {"added": ["translation"]}
    for data, column, text in (
        (DataConfig(source="en", target="de"), "", "house"),
        (DataConfig(columns=("notes", "German")), "", "n"),
        (DataConfig(source="en", target="de"), "german", "Haus"),
        (DataConfig(source="en", target="de"), "2", "n"),
    ):
        assert processed(tmp_path / "a.csv", column=column, rules=PairColumns(data), **pairs)[0] == [text]
    (tmp_path / "b.csv").write_text("a,b\nx,y\n")
    with pytest.raises(
        RequestError, match=r"cannot tell which column holds the text; name it with --column.* The first line is 'a', 'b'$"
    ):
        processed(tmp_path / "b.csv")
    with pytest.raises(DataError, match="there is no column 'c'"):
        processed(tmp_path / "b.csv", column="c")


def test_damaged_tables_name_the_line(tmp_path):
    (tmp_path / "a.csv").write_text("text,id\na,1\nb,2,3\n")
    with pytest.raises(DataError, match=r"a\.csv, line 3: has 3 cells, expected 2"):
        processed(tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n[1]\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: expected a JSON object"):
        processed(tmp_path / "a.jsonl")
    for content, chosen in (('[{"text": "a"}]', "'.[]'"), ('[\n  {"text": "a"}\n]', "'.[]'"), ('{\n "text": "a"}', ".")):
        (tmp_path / "b c.json").write_text(content)
        advice = f"To write each object on one line: jq -c {chosen} 'b c.json' > lines.jsonl"
        with pytest.raises(DataError, match=rf"line 1: .*\. {re.escape(advice)}$"):
            processed(tmp_path / "b c.json")
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(DataError):
        processed(tmp_path / "e.csv")


def test_an_empty_name_such_as_that_of_the_index_of_pandas_is_not_the_column_of_texts(tmp_path):
    (tmp_path / "a.csv").write_text(",review,stars\n0,good,1\n")
    assert processed(tmp_path / "a.csv")[0] == ["good"]


def test_a_first_row_of_data_is_no_header(tmp_path):
    (tmp_path / "a.csv").write_text("bad movie,0\ngood,1\n")
    by_number = LabelledColumns(LabelledDataConfig(text="0", label="1"))
    for options in ({"column": "0"}, {"rules": by_number}):
        assert processed(tmp_path / "a.csv", **options) == (["bad movie", "good"], ["", "bad movie,0,x,9", "good,1,x,4"])
    for line in ("great review,0", "great review,positive", "great review"):
        (tmp_path / "b.csv").write_text(f"{line}\ngood\n")
        with pytest.raises(RequestError, match=r"cannot tell which column holds the text; name it with --column"):
            processed(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("Review Text,id\ngood,1\n")
    assert processed(tmp_path / "c.csv")[0] == ["good"]


def test_rows_without_a_header_have_the_width_of_the_first(tmp_path):
    (tmp_path / "a.csv").write_text("a,1\nb\n")
    assert processed(tmp_path / "a.csv", column="0")[1] == ["", "a,1,x,1", "b,,x,1"]
    (tmp_path / "a.csv").write_text("a,1\nb,2,3\n")
    with pytest.raises(DataError, match=r"line 2: has 3 cells, expected 2, as in the first line"):
        processed(tmp_path / "a.csv", column="0")


def test_results_of_an_earlier_call_are_kept(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"text": "a", "label": 1, "predicted_label": 2}\n')
    texts, [_, first, second] = processed(tmp_path / "a.jsonl")
    assert texts == ["", "a"]  # the first object has no text, and not the text 1
    assert json.loads(first) == {"id": 1, "predicted_predicted_label": None, "probability": None}
    results = {"predicted_predicted_label": "x", "probability": 1}
    assert json.loads(second) == {"text": "a", "label": 1, "predicted_label": 2} | results


def test_texts_that_cannot_be_read_are_refused(tmp_path):
    for name, content, fault in (
        ("a.csv", "text,id\ncafé,1\n".encode("latin-1"), "line 2: is not in UTF-8"),
        ("a.tsv", "text\tid\na\té\n".encode("latin-1"), "line 2: is not in UTF-8"),
        ("b.jsonl", b'{"text": "\\ud800"}\n', "line 1: is not in UTF-8"),
        ("c.jsonl", b'{"text": ["a"]}\n', r"line 1: holds \[\"a\"\], expected a text"),
        ("d.tsv", b"text\tid\n" + b"x" * (3 << 24) + b"\t1\n", "line 2: has more than 16,777,216 bytes"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=fault):
            processed(tmp_path / name)


def test_only_tables_that_are_text_are_read():
    assert [is_table(name) for name in ("a.csv", "a.TSV.gz", "a.jsonl", "a.parquet", "a.txt")] == [
        True,
        True,
        True,
        False,
        False,
    ]
