"""Sentence pairs that a command is given."""

import gzip
from dataclasses import replace

import pytest

from regard.cli.pairs import read_given_pairs
from regard.config import DataConfig, TranslationConfig


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
