"""Sentence pairs that a command is given."""

import gzip
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regard.cli.options import Parser, add_layout_options, given_files
from regard.config import DataConfig, LabelledDataConfig
from regard.errors import ConfigError, DataError, RequestError
from regard.tasks.classification.commands import read_given_texts
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.language.commands import read_plain_texts
from regard.tasks.language.config import LanguageConfig
from regard.tasks.translation.commands import read_given_pairs
from regard.tasks.translation.config import TranslationConfig
from regard.text.labelled.labels import Labels


def _files(path, *arguments):
    parser = Parser("evaluate", "")
    parser.add_argument("files")
    add_layout_options(parser, ["translation", "classification"])
    return given_files(parser.read([str(path), *arguments]))


@pytest.mark.parametrize(("trained", "given"), [("a.tsv.gz", "b.tsv"), ("a.tsv", "b.TSV.gz"), ("a.tsv", "b.tsv")])
def test_columns_of_training_hold_for_files_of_its_kind_packed_or_not(tmp_path, trained, given):
    path, text = tmp_path / given, b"eins\tone\n"
    path.write_bytes(gzip.compress(text) if given.endswith(".gz") else text)
    config = replace(TranslationConfig(), data=DataConfig(train=(trained,), columns=("1", "0")))
    [chunk] = read_given_pairs(_files(path), config)[0]
    assert (chunk.source, chunk.target) == (["one"], ["eins"])


@pytest.mark.parametrize("trained", [("a.csv.gz",), ("a.tsv", "b.tsv")])
def test_columns_of_other_files_do_not(tmp_path, trained):
    path = tmp_path / "b.tsv.gz"
    path.write_bytes(gzip.compress(b"eins\tone\n"))
    config = replace(TranslationConfig(), data=DataConfig(train=trained, columns=("1", "0")))
    [chunk] = read_given_pairs(_files(path), config)[0]
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
    assert read_given_texts(_files(path), classifier) == (["a film"], [("1",)])


def _pairs(path, *arguments, **data):
    config = replace(TranslationConfig(), data=DataConfig(train=("a.tsv",), **data))
    [chunk] = read_given_pairs(_files(path, *arguments), config)[0]
    return list(zip(chunk.source, chunk.target, strict=True))


def test_the_layout_of_a_file_of_pairs_can_be_given(tmp_path):
    path = tmp_path / "b.tsv"
    path.write_bytes("eins\tzwölf\tone\n".encode("cp1252"))
    options = ("--data.columns", "2,1", "--data.encoding", "cp1252", "--data.header", "no")
    assert _pairs(path, *options) == [("one", "zwölf")]
    assert _pairs(path, *options, columns=("1", "0"), encoding="utf-16") == [("one", "zwölf")]
    path.write_text("eins\tone\nzwei\ndrei\n")
    with pytest.raises(DataError, match=r"set\s+data\.allow_skipped"):
        _pairs(path)
    assert _pairs(path, "--data.allow_skipped", "1") == [("eins", "one")]
    with pytest.raises(ConfigError, match=r"data\.allow_skipped"):
        _pairs(path, "--data.allow_skipped", "2")


def test_the_layout_of_labelled_texts_can_be_given(tmp_path):
    path = tmp_path / "b.csv"
    path.write_text("text,review,label,stars\nno,a film,0,1\n")
    config = ClassificationConfig(data=LabelledDataConfig(train=("a.csv",)))
    classifier = SimpleNamespace(config=config, labels=Labels(("0", "1"), False, (1, 1)))
    given = _files(path, "--data.text", "review", "--data.label", "stars")
    assert read_given_texts(given, classifier) == (["a film"], [("1",)])
    with pytest.raises(DataError, match="reviews"):  # and no other column in its place
        read_given_texts(_files(path, "--data.text", "reviews", "--data.label", "stars"), classifier)


def test_a_layout_option_of_another_task_is_refused(tmp_path):
    path = tmp_path / "b.txt"
    path.write_text("a text\n")
    with pytest.raises(RequestError, match=r"--data.columns cannot be used: the model's task is language"):
        read_plain_texts(_files(path, "--data.columns", "0,1"), LanguageConfig())
    assert read_plain_texts(_files(path, "--data.encoding", "latin-1"), LanguageConfig()) == ["a text"]
