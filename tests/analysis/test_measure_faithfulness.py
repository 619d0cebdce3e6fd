"""The measures on whole classifiers: words of a tokenizer, labels by name, samples, seeds."""

import math

import pytest

from regard import measure_faithfulness
from regard.errors import RequestError

TEXTS = ["good dull fine", "", "bad fine dull", "good", "dull bad"]
LABELS = ["for", "for", "against", "for", "against"]


def test_a_classifier(known):
    found = measure_faithfulness(known(), TEXTS, LABELS, permutations=5)
    assert found.texts == 4  # the text without words does not count
    assert found.accuracy == 1
    assert found.leave_one_out.texts == 3  # one word has no order
    assert found.comprehensiveness.attention > found.comprehensiveness.random
    assert found.seeds is None
    assert measure_faithfulness(known(), TEXTS, LABELS, max_texts=2, permutations=5).texts <= 2


def test_long_texts_are_read_as_far_as_the_model_reads(known):
    classifier = known()
    object.__setattr__(classifier.config.data, "max_tokens", 2)
    found = measure_faithfulness(classifier, ["good dull bad bad bad bad"], ["for"], permutations=5)
    assert found.accuracy == 1


def test_seeds(known):
    same = measure_faithfulness(known(), TEXTS, LABELS, others=[known()], permutations=5).seeds
    assert (same.models, same.attention.mean, same.predictions.mean) == (2, pytest.approx(0), 0)
    other = known(importance=(1, 4, 1, 4))
    seeds = measure_faithfulness(known(), ["good fine"], ["for"], others=[other, known()], permutations=5).seeds
    # attention 0.8 : 0.2, 0.2 : 0.8 and 0.8 : 0.2 again, so of three pairs two differ
    apart = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
    assert seeds.attention.mean == pytest.approx(apart * 2 / 3)
    assert seeds.models == 3


def test_what_cannot_be_measured(known):
    with pytest.raises(RequestError, match="faithfulness: no text contains a word, expected at least one"):
        measure_faithfulness(known(), ["", " "], ["for", "for"])
    with pytest.raises(RequestError, match="faithfulness: permutations is 0, expected 1 or more"):
        measure_faithfulness(known(), ["a"], ["for"], permutations=0)
    with pytest.raises(RequestError, match="got 2 texts and 1 labels, expected the same number"):
        measure_faithfulness(known(), ["a", "b"], ["for"])
    with pytest.raises(RequestError, match="model 2 has other labels than model 1"):
        measure_faithfulness(known(), TEXTS, LABELS, others=[known(names=("for", "not"))], permutations=2)
    shorter = known()
    object.__setattr__(shorter.config.data, "max_tokens", 2)
    with pytest.raises(RequestError, match="model 2 splits a text into another number of words than model 1"):
        measure_faithfulness(known(), TEXTS, LABELS, others=[shorter], permutations=2)
