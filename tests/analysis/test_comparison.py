import json
import re
from dataclasses import replace

import pytest
from tasks.conftest import make as make_translator

from regard import compare_classifiers, compare_translators
from regard.errors import DataError, RequestError
from regard.evaluation.comparison import Bootstrap, McNemar
from regard.tasks.classification.comparison import ClassifierComparison
from regard.tasks.translation.comparison import TranslationScore, TranslatorComparison

TEXTS = ["good", "bad", "fine", "dull"] * 5
RIGHT = ["for", "against", "for", "against"] * 5


def test_two_classifiers_worked_by_hand(known):
    # the second takes fine for dull and the reverse: half of its labels are wrong
    found = compare_classifiers(known(), known((2, -1, 1, -2)), TEXTS, RIGHT, names=("a", "b"))
    assert (found.texts, found.accuracy.first, found.accuracy.second) == (20, 1, 0.5)
    assert (found.macro_f1.first, found.macro_f1.second) == (1, 0.5)
    assert (found.mcnemar.only_first, found.mcnemar.only_second) == (10, 0)
    assert found.mcnemar.p == pytest.approx(2 / 2**10)
    assert found.conclusion == "a is better on these texts (-50.00 points of accuracy, p = 0.0020)."
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["conclusion"] == found.conclusion
    assert plain["accuracy"]["difference"] == -0.5
    assert re.search(r"accuracy +100.00 +50.00 +-50.00 +-70.00 to -30.00 +0.0001", found.render())
    assert found.render().endswith(found.conclusion)


def test_a_classifier_is_no_better_than_itself(known):
    found = compare_classifiers(known(), known(), TEXTS, RIGHT)
    assert (found.accuracy.p, found.macro_f1.p, found.mcnemar.p) == (1, 1, 1)
    assert found.conclusion == "These 20 texts show no significant difference (+0.00 points of accuracy, p = 1.0000)."


def test_several_labels(known):
    first, second = (known(values, multiple=True) for values in ((2, 1, -1, -2), (-2, 1, -1, -2)))
    # a text has `for` where its value is above 0; σ(0) = ½ is not more than one half
    labels = [("for",), (), ("for",), ()] * 5
    found = compare_classifiers(first, second, TEXTS, labels)
    assert (found.accuracy.first, found.accuracy.second) == (1, 0.75)
    assert (found.mcnemar.only_first, found.mcnemar.only_second) == (5, 0)


def bootstrap(difference: float, p: float) -> Bootstrap:
    return Bootstrap(0.5, 0.5 + difference, difference, difference - 0.1, difference + 0.1, p, 1000)


@pytest.mark.parametrize(
    ("accuracy", "p", "f1", "f1_p", "sentence"),
    [
        (0.1, 0.01, 0.1, 0.01, "b is better on these texts (+10.00 points of accuracy, p = 0.0100)."),
        (0.1, 1e-9, 0.1, 0.01, "b is better on these texts (+10.00 points of accuracy, p < 0.0001)."),
        (
            0.01,
            0.5,
            -0.1,
            0.01,
            "a has the better macro F1 (-10.00, p = 0.0100), but these 100 texts show no significant difference in accuracy "
            "(+1.00 points of accuracy, p = 0.5000).",
        ),
    ],
)
def test_conclusions_on_classifiers(accuracy, p, f1, f1_p, sentence):
    found = ClassifierComparison(("a", "b"), 100, bootstrap(accuracy, 0.5), bootstrap(f1, f1_p), McNemar(1, 2, p))
    assert found.conclusion == sentence


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
    assert same.conclusion.startswith("These 8 pairs show no significant difference (+0.00 BLEU, p = ")
    assert "bs:100" in same.scores[0].signature
    shuffled = make_translator()
    shuffled.model.sharpness.data.neg_()  # says every word but the right one
    worse = compare_translators(make_translator(), shuffled, sources, sources, names=("a", "b"), resamples=100)
    assert worse.scores[0].second < 50
    assert worse.conclusion.startswith("a is better on these pairs (-")
    assert re.search(r"BLEU +100.00 ± 0.00 +0.00 ± 0.00 +-100.00 +0.0099", worse.render())
    assert json.loads(json.dumps(worse.to_dict()))["scores"][0]["name"] == "BLEU"
    assert "Search for BLEU and chrF: beam 5, length penalty 1\n" in worse.render()
    greedy = compare_translators(make_translator(), shuffled, sources, sources, beam_size=1, resamples=100)
    assert "Search for BLEU and chrF: greedy\n" in greedy.render()
    either = replace(greedy, names=("a", "b"), decoding=("greedy", "beam 5"))
    assert "Search for BLEU and chrF: a: greedy; b: beam 5\n" in either.render()
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
        ((30.0, 31.0, 0.01), (50.0, 49.0, 0.01), "Each translator is significantly better by one score and worse by another ("),
        ((30.0, 31.0, 0.2), (50.0, 51.0, 0.2), "These 9 pairs show no significant difference (+1.00 BLEU, p = 0.2000"),
    ],
)
def test_conclusions_on_translators(bleu, chrf, sentence):
    scores = [TranslationScore(name, a, 1.0, b, 1.0, p, "") for name, (a, b, p) in (("BLEU", bleu), ("chrF", chrf))]
    assert TranslatorComparison(("a", "b"), 9, tuple(scores)).conclusion.startswith(sentence)
