"""BPE-dropout against the algorithm of the paper, and the rows that a batch gets."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from regard.config import BPEConfig, DataConfig, TokenizersConfig, WordsConfig
from regard.config.loading import load_config
from regard.errors import ConfigError
from regard.text.pairs.prepare import PairSchema
from regard.text.preparation import prepare_data
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.dropout import SubwordDropout
from regard.text.tokenizers.tokenizer import build_tokenizer

TEXTS = ["the unrelated lowest, newest 1234 words", "the lower new words' widest relation", "un-related: 12 low lows"] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer([TEXTS], BPEConfig(size=90))


def rows_of(tokenizer, texts):
    flat, offsets = tokenizer.encode_batch(texts)
    return flat, offsets[:-1], np.diff(offsets).astype(np.int32)


def paper(unit, merges, p, draw):
    """Provilkov et al. 2020, algorithm 1."""
    current = list(unit)
    while True:
        possible = [(merges.index(pair), i) for i, pair in enumerate(pairwise(current)) if pair in merges]
        kept = [merge for merge in possible if draw() >= p]
        if not kept:
            return current
        _, i = min(kept)
        current[i : i + 2] = ["".join(current[i : i + 2])]


def test_without_dropout_the_ids_stay(tokenizer):
    flat, starts, lengths = rows_of(tokenizer, TEXTS)
    found, new_starts, sizes = SubwordDropout(tokenizer, 0.0, 1)(flat, starts, lengths)
    for start, length, new, size in zip(starts, lengths, new_starts, sizes, strict=True):
        assert found[new : new + size].tolist() == flat[start : start + length].tolist()
    assert len(found) == len(flat) + len(TEXTS)  # a free place behind each row


def test_the_text_stays_and_segmentations_are_frequent_as_in_the_paper(tokenizer):
    dropout, p = SubwordDropout(tokenizer, 0.3, 1), 0.3
    random.seed(0)
    one = rows_of(tokenizer, ["lowest"])
    drawn = Counter()
    for _ in range(3000):
        flat, [start], [size] = dropout(*one)
        drawn[tuple(tokenizer.vocabulary()[number] for number in flat[start : start + size])] += 1
    merges, draw = list(tokenizer.symbols.merges), random.Random(5).random
    expected = Counter(tuple(paper("▁lowest", merges, p, draw)) for _ in range(20_000))
    assert len(drawn) > 5
    assert all("".join(each) == "▁lowest" for each in drawn)
    distance = sum(abs(drawn[each] / 3000 - expected[each] / 20_000) for each in drawn | expected) / 2
    assert distance < 0.25  # 64 segmentations stand for all


def test_every_segmentation_decodes_to_its_text(tokenizer):
    dropout = SubwordDropout(tokenizer, 0.5, 3)
    flat, starts, sizes = dropout(*rows_of(tokenizer, TEXTS))
    assert sizes.sum() > rows_of(tokenizer, TEXTS)[2].sum()
    assert [tokenizer.decode(flat[a : a + n].tolist()) for a, n in zip(starts, sizes, strict=True)] == TEXTS


def test_unknown_words_and_empty_rows_stay(tokenizer):
    flat, starts, lengths = rows_of(tokenizer, ["lo€w", "", "low"])
    assert UNKNOWN in flat
    found, new, sizes = SubwordDropout(tokenizer, 0.99, 1)(flat, starts, lengths)
    tokens = [
        [tokenizer.vocabulary()[number] for number in row] for row in (found[new[0] : new[0] + sizes[0]], flat[: lengths[0]])
    ]
    assert "".join(tokens[0]) == "".join(tokens[1]) == "▁lo<unk>w"
    assert sizes[1] == 0
    assert sizes[2] == 4  # ▁ l o w


def test_draws_repeat_for_a_seed(tokenizer):
    results = []
    for seed in (1, 1, 2):
        random.seed(7)
        results.append(SubwordDropout(tokenizer, 0.4, seed)(*rows_of(tokenizer, TEXTS))[0].tolist())
    assert results[0] == results[1] != results[2]


def test_batches_of_pairs_keep_their_ends_and_the_other_side(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{text}\t{text[::-1]}\n" for text in dict.fromkeys(TEXTS)))
    data = DataConfig(train=(str(path),), dev_size=0, cache=str(tmp_path / "cache"))
    prepared = prepare_data(PairSchema(data, TokenizersConfig(source=BPEConfig(size=90), target=WordsConfig())), seed=1)
    source, _ = prepared.tokenizers
    random.seed(0)
    batch = prepared.train.batch([0, 1, 2], redraw=(SubwordDropout(source, 0.5, 1), None))
    plain = prepared.train.batch([0, 1, 2])
    assert (batch.target_out == plain.target_out).all()
    assert batch.source_mask.sum() > plain.source_mask.sum()
    for new, old in zip(batch.source, plain.source, strict=True):
        assert source.decode(new.tolist()) == source.decode(old.tolist())
    assert (batch.source.gather(1, batch.source_mask.sum(1, keepdim=True) - 1) == 3).all()


def test_a_run_needs_a_tokenizer_of_subwords():
    with pytest.raises(ConfigError, match=r"training\.bpe_dropout is 0\.1, which needs a tokenizer of kind bpe"):
        load_config({"task": "language", "data.train": ["x"], "training.bpe_dropout": 0.1, "tokenizer.kind": "words"})
