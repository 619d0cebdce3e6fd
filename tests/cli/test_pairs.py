"""Sentence pairs that a command is given."""

import gzip
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regard.cli.pairs import read_given_pairs, read_given_texts
from regard.config import ClassificationConfig, DataConfig, LabelledDataConfig, TranslationConfig
from regard.text.labelled.labels import Labels


@pytest.mark.parametrize(("trained", "given"), [("a.tsv.gz", "b.tsv"), ("a.tsv", "b.TSV.gz"), ("a.tsv", "b.tsv")])
def test_columns_of_training_hold_for_files_of_its_kind_packed_or_not(tmp_path, trained, given):
    path, text = tmp_path / given, b"eins\tone\n"
    path.write_bytes(gzip.compress(text) if given.endswith(".gz") else text)
    config = replace(TranslationConfig(), data=DataConfig(train=(trained,), columns=("1", "0")))
    [chunk] = read_given_pairs(str(path), config)[0]
    assert (chunk.source, chunk.target) == (["one"], ["eins"])


@pytest.mark.parametrize("trained", [("a.csv.gz",), ("a.tsv", "b.tsv")])
def test_columns_of_other_files_do_not(tmp_path, trained):
    path = tmp_path / "b.tsv.gz"
    path.write_bytes(gzip.compress(b"eins\tone\n"))
    config = replace(TranslationConfig(), data=DataConfig(train=trained, columns=("1", "0")))
    [chunk] = read_given_pairs(str(path), config)[0]
    assert (chunk.source, chunk.target) == (["eins"], ["one"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.csv", "stars,id,review\n1,7,a film\n"),
        ("b.csv", "label,text\n1,a film\n"),
        ("b.tsv", "text\tlabel\na film\t1\n"),
    ],
    ids=["as in training", "other columns", "another kind of file"],
)
def test_labelled_files_may_be_laid_out_in_another_way_than_that_of_training(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    config = ClassificationConfig(data=LabelledDataConfig(train=("a.csv",), text="review", label="stars"))
    classifier = SimpleNamespace(config=config, labels=Labels(("0", "1"), False, (1, 1)))
    texts, labels, report = read_given_texts(str(path), classifier)
    assert (texts, labels) == (["a film"], [("1",)])
    assert report.kept == 1
