import json
import re

import pytest
from tasks.conftest import make as make_translator

from regard import compare_classifiers, compare_translators
from regard.errors import DataError, RequestError
from regard.evaluation.comparison import ComparedScore, Comparison

TEXTS = ["good", "bad", "fine", "dull"] * 5
RIGHT = ["for", "against", "for", "against"] * 5


def test_two_classifiers_worked_by_hand(known):
    # the second takes fine for dull and the reverse: half of its labels are wrong
    found = compare_classifiers(known(), known((2, -1, 1, -2)), TEXTS, RIGHT, names=("a", "b"))
    accuracy, macro_f1 = found.scores
    assert (found.examples, accuracy.first, accuracy.second) == (20, 100, 50)
    assert (macro_f1.first, macro_f1.second) == (100, 50)
    assert found.notes[0].startswith("only the first is correct: 10, only the second is: 0; McNemar")
    assert accuracy.p == pytest.approx(2 / 2**10)
    assert found.conclusion == "a is better on these texts (-50.00 accuracy, p = 0.0020, -50.00 macro F1, p < 0.0001)."
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["conclusion"] == found.conclusion
    assert plain["scores"][0]["name"] == "accuracy"
    assert re.search(r"accuracy +100.00 +50.00 +-50.00 +-70.00 to -30.00 +0.0020", found.render())
    assert found.render().endswith(found.conclusion)


def test_a_classifier_is_no_better_than_itself(known):
    found = compare_classifiers(known(), known(), TEXTS, RIGHT)
    assert [score.p for score in found.scores] == [1, 1]
    assert found.conclusion.startswith("There is no significant difference on 20 texts (+0.00 accuracy, p = 1.0000, ")


def test_several_labels(known):
    first, second = (known(values, multiple=True) for values in ((2, 1, -1, -2), (-2, 1, -1, -2)))
    # a text has `for` where its value is above 0; σ(0) = ½ is not more than one half
    labels = [("for",), (), ("for",), ()] * 5
    found = compare_classifiers(first, second, TEXTS, labels)
    assert (found.scores[0].first, found.scores[0].second) == (100, 75)
    assert found.notes[0].startswith("only the first is correct: 5, only the second is: 0")


def test_other_labels_are_refused(known):
    with pytest.raises(RequestError, match=r"a and b know different labels \('neither' is known to one of them only\)"):
        compare_classifiers(known(), known(names=("for", "against", "neither")), TEXTS, RIGHT, names=("a", "b"))
    with pytest.raises(RequestError, match="only one of them gives texts several labels"):
        compare_classifiers(known(), known(multiple=True), TEXTS, RIGHT)
    with pytest.raises(RequestError, match="got 20 texts and 1 labels, expected the same number, at least one"):
        compare_classifiers(known(), known(), TEXTS, ["for"])
    with pytest.raises(DataError, match="'fro'"):
        compare_classifiers(known(), known(), TEXTS, ["fro"] * 20)


def test_two_translators():
    sources = ["Anna saw Ben and the cat .", "one two three four five ."] * 4
    same = compare_translators(make_translator(), make_translator(), sources, sources, resamples=100)
    assert [score.name for score in same.scores] == ["BLEU", "chrF"]
    assert all(score.first == score.second == pytest.approx(100) for score in same.scores)
    assert same.conclusion.startswith("There is no significant difference on 8 pairs (+0.00 BLEU, p = ")
    assert "bs:100" in same.notes[1]
    shuffled = make_translator()
    shuffled.model.sharpness.data.neg_()  # says every word but the right one
    worse = compare_translators(make_translator(), shuffled, sources, sources, names=("a", "b"), resamples=100)
    assert worse.scores[0].second < 50
    assert worse.conclusion.startswith("a is better on these pairs (-")
    assert re.search(r"BLEU +100.00 ± 0.00 +0.00 ± 0.00 +-100.00 +0.0099", worse.render())
    assert json.loads(json.dumps(worse.to_dict()))["scores"][0]["name"] == "BLEU"
    assert "search of the first: beam 5, length penalty 1, of the second: beam 5, length penalty 1\n" in worse.render()
    greedy = compare_translators(make_translator(), shuffled, sources, sources, beam_size=1, resamples=100)
    assert "search of the first: greedy, of the second: greedy\n" in greedy.render()
    with pytest.raises(RequestError, match="got 8 sources and 1 targets, expected the same number"):
        compare_translators(shuffled, shuffled, sources, ["one"])


@pytest.mark.parametrize(
    ("bleu", "chrf", "sentence"),
    [
        (
            (30.0, 31.0, 0.01),
            (50.0, 51.0, 0.2),
            "b is better, by BLEU alone, on these pairs (+1.00 BLEU, p = 0.0100, +1.00 chrF",
        ),
        ((30.0, 31.0, 0.01), (50.0, 49.0, 0.01), "Each model is significantly better by one score and worse by another ("),
        ((30.0, 31.0, 0.2), (50.0, 51.0, 0.2), "There is no significant difference on 9 pairs (+1.00 BLEU, p = 0.2000"),
    ],
)
def test_conclusions(bleu, chrf, sentence):
    scores = [ComparedScore(name, a, b, p) for name, (a, b, p) in (("BLEU", bleu), ("chrF", chrf))]
    assert Comparison(("a", "b"), 9, "pair", tuple(scores)).conclusion.startswith(sentence)
