from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from tables import read_all_labelled, refused, write

fail = partial(refused, read_all_labelled)


def test_a_label_column_that_is_missing(tmp_path):
    path = write(tmp_path, "text\tlabel\na\t1\n")
    assert fail(path, label="lable").endswith(
        "x.tsv: there is no column 'lable'; it has 'text', 'label'; did you mean 'label'? (data.label)"
    )
    assert fail(path, text="2").endswith("there is no column 2; it has 2 columns, numbered 0 to 1 (data.text)")
    assert "data.text and data.label name the column 'text' twice, expected two different columns" in fail(
        path, text="text", label="text"
    )
    assert fail(path, label="label", header="no").endswith("there is no column 'label'; it has '0', '1' (data.label)")
    path = write(tmp_path, '{"text": "a", "gold": 1}\n{"text": "b", "glod": 1}\n', "x.jsonl")
    assert "there is no column 'gol'; it has 'text', 'gold', 'glod'; did you mean 'gold'?" in fail(path, label="gol")
    assert "expected a text and a label" in fail(write(tmp_path, '{"text": "a"}\n', "y.jsonl"))
    pq.write_table(pa.table({"text": ["a"], "when": pa.array([0], pa.date32())}), tmp_path / "x.parquet")
    assert "has 1 values (keys: text, when), expected a text and a label" in fail(tmp_path / "x.parquet")


def test_columns_that_are_empty(tmp_path):
    message = fail(write(tmp_path, "text\tlabel\na\t\nb\t \n"))
    assert "no usable text" in message
    assert "columns text and label): 3 lines read, 0 texts kept" in message
    assert "skipped 2: empty label (lines 2, 3)" in message
    assert "skipped 2: empty text (lines 2, 3)" in fail(write(tmp_path, "text\tlabel\n\t1\n \t0\n"))
    assert "no usable text in" in fail(write(tmp_path, "\n \n", "a.txt"), write(tmp_path, "\n", "b.txt"))


def test_files_that_do_not_fit_together(tmp_path):
    first, second = write(tmp_path, "a\n", "pos.txt"), write(tmp_path, "b\n", "neg.txt")
    assert "2 files were given with data.format 'csv', expected one" in fail(first, second, format="csv")
    assert "data.format is 'text', which needs one file for each label, but only one was given" in fail(first, format="text")
    table = write(tmp_path, "a\tb\n", "neg.tsv")
    assert "neg.tsv is named like a table; expected one table, or one text file for each label" in fail(first, table)
    other = tmp_path / "other"
    other.mkdir()
    assert "both have the label 'pos', expected one file or folder for each label; join them" in fail(
        first, second, write(other, "c\n", "pos.txt")
    )
    assert "no file was given" in fail()
