"""The linear classifier of counts, and how a combined one uses it, beyond what every classifier must pass."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.config import CombinedClassifierConfig, CountedClassifierConfig, RecurrentClassifierConfig
from regard.models.build import build_classifier
from regard.models.classifiers.bag import log_ratios
from regard.models.classifiers.combined import CombinedClassifier
from regard.models.classifiers.counted import CountedClassifier, _spread

WORDS, LENGTH, TEXTS = 31, 7, 60


def texts(labels: int = 2, several: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Word 4 + c is in the texts of label c alone, beside noise; lengths from 1."""
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(10, WORDS, (TEXTS, LENGTH), generator=draw)
    label = torch.arange(TEXTS) % labels
    tokens[:, 0] = 4 + label
    mask = torch.arange(LENGTH) < torch.randint(1, LENGTH + 1, (TEXTS, 1), generator=draw)
    return tokens.masked_fill(~mask, 0), mask, functional.one_hot(label, labels) if several else label


def build(labels: int = 2, **settings) -> CountedClassifier:
    config = CountedClassifierConfig(**{"num_buckets": 4099} | settings)
    return CountedClassifier(config, vocabulary_size=WORDS, num_labels=labels).eval()


def test_the_formula_word_by_word():
    tokens, mask, label = texts()
    model = build()
    model.prime([(tokens[:20], mask[:20], label[:20]), (tokens[20:], mask[20:], label[20:])])
    logits, attention = model(tokens, mask, record=("pool",))
    for row in range(5):
        words = tokens[row, mask[row]].tolist()
        evidence = [model.embed(torch.tensor([words]))[0, place] for place in range(len(words))]
        single = [model.evidence[word] for word in words]
        torch.testing.assert_close(evidence[0], single[0])
        expected = torch.stack(evidence).sum(0) / (4 * (2 * len(words) - 1)) ** 0.5 + model.bias
        torch.testing.assert_close(logits[row], expected)
        size = torch.stack([one.norm() for one in evidence])
        torch.testing.assert_close(attention["pool"][row, : len(words)], size / size.sum())


def test_without_learning_the_evidence_is_log_count_ratios():
    tokens, mask, label = texts()
    model = build(max_ngram=1, shrinkage=1e9)
    model.prime([(tokens, mask, label)])
    counts = torch.zeros(WORDS, 2)
    for row in range(TEXTS):
        for word in set(tokens[row, mask[row]].tolist()):
            counts[word, label[row]] += 1
    torch.testing.assert_close(model.evidence, log_ratios(counts, 1.0), rtol=1e-4, atol=1e-4)


def test_a_word_counts_once():
    tokens, mask, label = texts()
    model = build(max_ngram=1)
    model.prime([(tokens, mask, label)])
    evidence = model.embed(torch.tensor([[4, 11, 4, 4, 0]]))[0]
    torch.testing.assert_close(evidence, torch.stack((*model.evidence[[4, 11]], *torch.zeros(3, 2))))


def test_pairs_that_training_never_had_say_nothing():
    tokens, mask, label = texts()
    model = build(num_buckets=3)  # every hash falls on a bucket that is taken
    model.prime([(tokens, mask, label)])
    unseen = torch.tensor([[4, 5]])
    torch.testing.assert_close(model.embed(unseen)[0], model.evidence[unseen[0]])


def test_the_same_texts_give_the_same_weights():
    one, other = build(), build()
    one.prime([texts()])
    other.prime([texts()])
    assert torch.equal(one.evidence, other.evidence)
    assert torch.equal(one.keys, other.keys)


@pytest.mark.parametrize("several", [False, True])
def test_new_texts_add_to_what_a_fitted_model_knows(several):
    old, new = texts(several=several), texts(several=several)
    model = build()
    model.prime([old])
    before, keys = model.evidence.clone(), model.keys.clone()
    first, second = WORDS - 2, WORDS - 1  # noise in the old texts; each decides for one label in the new ones
    label = torch.arange(TEXTS) % 2
    tokens = (first + label).unsqueeze(1).expand_as(new[0]).masked_fill(~new[1], 0)
    model.refine([(tokens, new[1], new[2])])
    others = list(range(first))
    assert torch.equal(model.evidence[others], before[others])
    assert torch.equal(model.keys[keys != 0], keys[keys != 0])
    alone = torch.tensor([[first], [second]])
    assert model(alone, alone > 0).logits.argmax(1).tolist() == [0, 1]
    assert (model.evidence[first] - before[first])[0] > 0.5
    assert (model.evidence[second] - before[second])[1] > 0.5


def test_a_combined_classifier_trains_its_recurrent_members_alone():
    recurrent = RecurrentClassifierConfig(embedding_size=5, hidden_size=3)
    config = CombinedClassifierConfig(counted=CountedClassifierConfig(num_buckets=97), recurrent=recurrent, num_recurrent=2)
    model = build_classifier(config, vocabulary_size=WORDS, num_labels=2).eval()
    assert isinstance(model, CombinedClassifier)
    tokens, mask, label = texts()
    model.prime([(tokens, mask, label)])
    counted, first, second = (member(tokens, mask, record=("pool",)) for member in model.members)
    parts = model.parts(tokens, mask)
    assert len(parts) == 2
    torch.testing.assert_close(parts[0], first.logits)
    whole = model(tokens, mask, record=("pool",))
    torch.testing.assert_close(whole.logits, 0.75 * counted.logits + 0.125 * (first.logits + second.logits))
    weights = [one.attention["pool"] for one in (counted, first, second)]
    torch.testing.assert_close(whole.attention["pool"], 0.75 * weights[0] + 0.125 * (weights[1] + weights[2]))


def test_labels_that_count_more_are_given_more_often():
    tokens, mask, label = texts()
    plain, weighed = build(), build()
    plain.prime([(tokens, mask, label)])
    weighed.prime([(tokens, mask, label)], label_weight=torch.tensor([0.2, 5.0]))
    unknown = torch.tensor([[9]])  # no text has this word
    gaps = [float(torch.diff(model(unknown, unknown > 0).logits)) for model in (plain, weighed)]
    assert abs(gaps[0]) < 0.5
    assert gaps[1] > gaps[0] + 1


def test_hundreds_of_labels_fit_into_memory():
    tokens, mask, label = texts()
    model = build(labels=600, num_buckets=2**19)
    assert model.evidence.numel() <= 2**24 + WORDS * 600
    model.prime([(tokens, mask, 300 * label)])
    assert (model(tokens, mask).logits.argmax(1) == 300 * label).all()


@pytest.mark.parametrize(("sizes", "step"), [([3, 4, 5, 1], 2), ([1] * 13, 2), ([13], 2), ([40, 1, 7], 7), ([6, 1], 1)])
def test_very_many_texts_are_thinned_evenly(sizes, step):
    numbers = torch.arange(sum(sizes)).split(sizes)
    kept = _spread(((part[:, None], part[:, None] >= 0, part) for part in numbers), 7)
    assert torch.cat([label for _, _, label in kept]).tolist() == list(range(0, sum(sizes), step))
    assert all(tokens[:, 0].tolist() == label.tolist() and mask.all() for tokens, mask, label in kept)
