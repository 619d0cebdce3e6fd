"""Labels that differ only in upper and lower case are one label if `data.fold_case` is set."""

import pytest

from regard.config import LabelledDataConfig
from regard.text.labelled.readers import read_labelled
from regard.text.report import ReadingReport


def labels(path, **settings):
    chunks = read_labelled([path], LabelledDataConfig(**settings), ReadingReport())
    return [label for chunk in chunks for label in chunk.labels]


@pytest.mark.parametrize(("fold_case", "names"), [(False, ["Good", "good", "BAD"]), (True, ["good", "good", "bad"])])
def test_labels_of_a_table_and_of_files(tmp_path, fold_case, names):
    (tmp_path / "a.tsv").write_text("text\tlabel\na b\tGood\nc d\tgood\ne f\tBAD\n")
    assert labels(tmp_path / "a.tsv", fold_case=fold_case) == [(name,) for name in names]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "Good.txt").write_text("a b\n")
    (folder / "bad.txt").write_text("c d\n")
    assert {name for [name] in labels(folder, fold_case=fold_case)} == ({"good", "bad"} if fold_case else {"Good", "bad"})
