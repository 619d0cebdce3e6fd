"""The bag of n-grams, beyond what every classifier must pass."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import BagClassifierConfig, MeanPoolingConfig, MultiHeadPoolingConfig
from regard.models.build import build_classifier
from regard.models.classifiers.bag import BagClassifier, count_texts, hash_ngrams, log_ratios
from regard.text.symbols import UNKNOWN

WORDS, LABELS, LENGTH = 31, 3, 7
SMALL = BagClassifierConfig(embedding_size=5, max_ngram=3, num_buckets=4099, embedding_dropout=0.0)
CONFIGS = {
    "trigrams": SMALL,
    "pairs": replace(SMALL, max_ngram=2),
    "words": replace(SMALL, max_ngram=1),
    "mean": replace(SMALL, pooling=MeanPoolingConfig()),
    "heads": replace(SMALL, pooling=MultiHeadPoolingConfig(num_heads=2)),
}


def build(config: BagClassifierConfig = SMALL, **options) -> BagClassifier:
    torch.manual_seed(0)
    model = build_classifier(config, vocabulary_size=WORDS, num_labels=LABELS, **options).double().eval()
    assert isinstance(model, BagClassifier)
    if config.max_ngram > 1:
        torch.nn.init.normal_(model.ngram_embedding.weight)
    return model


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def model(request):
    return build(request.param)


def texts() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(4, WORDS, (5, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 3, 0, 1, 5])[:, None]
    return tokens.masked_fill(~mask, 0), mask


def test_the_formula_word_by_word():
    model = build()
    tokens, mask = texts()
    logits = model(tokens, mask).logits
    for row, length in ((0, 7), (1, 3), (3, 1), (4, 5)):
        words = tokens[row, :length].tolist()
        states = []
        for place, word in enumerate(words):
            state = model.embedding.weight[word].clone()
            for size in range(2, min(3, place + 1) + 1):
                ngram = torch.tensor([[words[place - size + 1 : place + 1]]])
                state += model.ngram_embedding.weight[hash_ngrams(ngram).remainder(4099)[0, 0]]
            states.append(state)
        scores = torch.stack([state @ model.pooling.projection.weight[0] for state in states])
        context = sum(weight * state for weight, state in zip(scores.softmax(dim=0), states, strict=True))
        torch.testing.assert_close(logits[row], model.output.weight @ context + model.output.bias)
    torch.testing.assert_close(logits[2], model.output.bias)  # no words: what the labels' frequencies say


def test_order_counts_within_ngrams_only():
    one, other = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[8, 7, 6, 5]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    words = build(CONFIGS["words"])
    torch.testing.assert_close(words(one, mask).logits, words(other, mask).logits)
    pairs = build(CONFIGS["pairs"])
    assert not torch.allclose(pairs(one, mask).logits, pairs(other, mask).logits)
    near, far = torch.tensor([[5, 6, 9, 5, 6]]), torch.tensor([[5, 6, 9, 6, 5]])
    states = pairs.embed(torch.cat((near, far)))
    torch.testing.assert_close(states[0, 1], states[1, 1])
    assert not torch.allclose(states[0, 4], states[1, 3])


def test_what_has_no_weight_has_no_say():
    model = build(CONFIGS["pairs"])
    tokens, mask = texts()
    kept = torch.zeros(LENGTH, dtype=torch.bool)
    kept[2] = True
    only = lambda weights, allowed: kept.expand_as(weights).to(weights.dtype)  # noqa: E731
    before = model(tokens[:1], mask[:1], reweight=only).logits
    changed = tokens[:1].clone()
    changed[0, [0, 3, 4, 5, 6]] = torch.tensor([4, 6, 5, 6, 7])  # neither the third word nor the one before it
    torch.testing.assert_close(model(changed, mask[:1], reweight=only).logits, before)
    changed[0, 1] = 8
    assert not torch.allclose(model(changed, mask[:1], reweight=only).logits, before)


def test_all_weight_on_one_word_gives_that_words_logits_and_their_mean_is_the_texts():
    """In float64, by a formula of its own: a word whose weight is largest need not have the label of the text."""
    model = build(CONFIGS["pairs"])
    tokens, mask = texts()
    words = tokens[0].tolist()
    out = model(tokens[:1], mask[:1], record=("pool",))
    alone = []
    for place, word in enumerate(words):
        state = model.embedding.weight[word].clone()
        if place:
            pair = torch.tensor([[[words[place - 1], word]]])
            state += model.ngram_embedding.weight[hash_ngrams(pair).remainder(4099)[0, 0]]
        expected = torch.stack([weight @ state for weight in model.output.weight]) + model.output.bias
        one = torch.eye(LENGTH, dtype=torch.float64)[place]
        replaced = model(tokens[:1], mask[:1], reweight=lambda weights, allowed, one=one: one.expand_as(weights))
        torch.testing.assert_close(replaced.logits[0], expected)
        alone.append(expected)
    weights = out.attention["pool"][0]
    torch.testing.assert_close(out.logits[0], weights @ torch.stack(alone))
    assert len({int(logits.argmax()) for logits in alone}) > 1  # words of one text disagree, so the label can change


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 2**31), min_size=2, max_size=5), st.integers(1, 10**6))
def test_rows_depend_on_words_and_order(words, rows):
    ngram = torch.tensor([[words]])
    row = hash_ngrams(ngram).remainder(2**40)
    assert (0 <= hash_ngrams(ngram).remainder(rows) < rows).all()
    assert row != hash_ngrams(torch.tensor([[[*words, 1]]])).remainder(2**40)
    if words != words[::-1]:
        assert row != hash_ngrams(ngram.flip(-1)).remainder(2**40)


def test_rows_are_spread_evenly():
    grid = torch.cartesian_prod(torch.arange(4, 304), torch.arange(4, 304))[None]
    counts = torch.bincount(hash_ngrams(grid).remainder(1000).flatten(), minlength=1000).double()
    # As drawn: 90 a row, with a variance of 90.
    assert counts.var() == pytest.approx(90, rel=0.25)


def test_rows_of_a_bundle_stay_where_they_were():
    """Another hash would make every trained bag forget its n-grams."""
    ngrams = torch.tensor([[[5, 6, 7], [7, 6, 5]]])
    assert hash_ngrams(ngrams).remainder(65536).tolist() == [[54921, 12822]]


def test_hidden_words_are_hidden_from_ngrams_too():
    model = build(replace(SMALL, word_dropout=0.999999)).train()
    tokens, mask = texts()
    torch.testing.assert_close(model(tokens, mask).logits, model(tokens.masked_fill(mask, UNKNOWN), mask).logits)


def test_log_ratios_by_hand():
    counts = torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    # With one added: label 0 has rows 4 and 2, label 1 has 1 and 2, and no text the third.
    wanted = torch.tensor([[(4 / 6) / (1 / 3), (1 / 3) / (4 / 6)], [(2 / 6) / (2 / 3), (2 / 3) / (2 / 6)], [1, 1]]).log()
    torch.testing.assert_close(log_ratios(counts, 1.0), wanted)
    torch.testing.assert_close(log_ratios(torch.zeros(2, 3), 0.5), torch.zeros(2, 3))


def test_texts_are_counted_once_for_each_word():
    counts = torch.zeros(9, 2)
    rows = torch.tensor([[4, 4, 5], [5, 6, 0]])
    count_texts(counts, rows, rows != 0, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert {row: counts[row].tolist() for row in counts.sum(dim=1).nonzero().flatten().tolist()} == {
        4: [1.0, 0.0],
        5: [1.0, 1.0],
        6: [0.0, 1.0],
    }


def primed(config: BagClassifierConfig, label: Tensor) -> BagClassifier:
    torch.manual_seed(0)
    model = build_classifier(config, vocabulary_size=WORDS, num_labels=2)
    tokens = torch.tensor([[5, 6, 9, 10], [7, 6, 9, 0], [5, 8, 9, 11], [7, 8, 9, 0]])
    model.prime([(tokens[:3], tokens[:3] != 0, label[:3]), (tokens[3:], tokens[3:] != 0, label[3:])])
    return model.eval()


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several"])
def test_primed_by_words_that_tell(several):
    label = torch.tensor([0, 1, 0, 1])
    model = primed(replace(SMALL, max_ngram=1), torch.nn.functional.one_hot(label).float() if several else label)
    words = torch.tensor([[5], [7], [6], [9], [20]])
    margin = model(words, words != 0).logits.diff(dim=1)[:, 0]
    assert margin[0] < -1
    assert margin[1] > 1
    assert margin[2:].abs().max() < margin[:2].abs().min() / 3  # with both labels alike, or never


def test_primed_by_pairs_where_words_tell_nothing():
    model = primed(replace(SMALL, max_ngram=2), torch.tensor([0, 1, 1, 0]))  # 5 6 and 7 8 against 7 6 and 5 8
    pairs = torch.tensor([[5, 6], [7, 8], [7, 6], [5, 8]])
    assert model(pairs, pairs != 0).logits.argmax(dim=1).tolist() == [0, 0, 1, 1]


def test_without_smoothing_the_start_is_random():
    config = replace(SMALL, count_smoothing=0.0)
    torch.manual_seed(0)
    fresh = build_classifier(config, vocabulary_size=WORDS, num_labels=2).state_dict()
    for name, value in primed(config, torch.tensor([0, 1, 0, 1])).state_dict().items():
        assert torch.equal(value, fresh[name]), name
