"""The grammar of the pairs: patterns that do not overlap, no English sentence twice, and the tables of the package."""

import lzma

import numpy as np
import pytest
from tools.corpora.__main__ import PACKAGE, pair_rows, review_rows
from tools.corpora.pairs import GeneratedPairs


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("pairs", pair_rows), ("reviews", review_rows)])
def test_the_grammar_writes_the_tables_of_the_package(name, rows):
    assert lzma.decompress((PACKAGE / f"{name}.tsv.xz").read_bytes()).decode() == "".join(rows())


@pytest.mark.slow
def test_no_english_sentence_twice_in_the_whole_corpus() -> None:
    corpus = GeneratedPairs()
    hashes = np.fromiter((hash(source) for source, _ in corpus.texts(0, len(corpus))), np.int64, len(corpus))
    assert len(np.unique(hashes)) == len(corpus)
