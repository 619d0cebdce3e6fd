"""The measures on models whose weights are known: what they give is worked out by hand beside them."""

import json
import math
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from analysis.known_classifier import KnownClassifier, sigmoid, worded
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.reweight import flatten
from regard.tasks.classification.faithfulness import Faithfulness, Seeds, divergence, examine
from regard.tasks.classification.probe import TextProbe, erase, rank
from regard.tasks.faithfulness import Removal, Spread, kendall_tau, permutation

# Tokens 4 to 7 have attention 4 : 3 : 2 : 1 and values 2, 1, 0, −1; the unknown word, token 1, has the value 3.
MODEL = KnownClassifier([1, 1, 1, 1, 4, 3, 2, 1], [0, 3, 0, 0, 2, 1, 0, -1])
TEXT = worded(4, 5, 6, 7)  # context 0.8 + 0.3 + 0 − 0.1 = 1
OWN = sigmoid(1)
VALUES = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


def predict(probe):
    """The probabilities of the whole text."""
    return probe.keep(np.ones((1, probe.attention.shape[1]), bool))[0, 0].tolist()


def measure(model, text, **options):
    probe = TextProbe(model, text, **options.pop("probe", {}))
    return probe.measure(options.pop("permutations", 5), np.random.default_rng(1))


def test_the_model_is_as_its_comment_says():
    assert predict(TextProbe(MODEL, TEXT)) == pytest.approx([OWN, 1 - OWN])
    assert TextProbe(MODEL, TEXT).attention[0].tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_erasure_worked_by_hand():
    # 1 to 20% of four words is one word, 50% are two
    comprehensiveness, sufficiency = erase(TextProbe(MODEL, TEXT), [np.arange(4)], 0, OWN)
    without_one, without_two = sigmoid((3 * 1 + 2 * 0 - 1) / 6), sigmoid((2 * 0 - 1) / 3)
    assert comprehensiveness[0].tolist() == pytest.approx([OWN - without_one] * 4 + [OWN - without_two])
    one_alone, two_alone = sigmoid(2), sigmoid((4 * 2 + 3 * 1) / 7)
    assert sufficiency[0].tolist() == pytest.approx([OWN - one_alone] * 4 + [OWN - two_alone])


def test_the_predicted_label_counts_and_not_the_first():
    # token 7 alone: context −1, label 1 with p = σ(1); deleting all of it leaves the unknown word, context 3
    found = measure(MODEL, worded(7))
    assert found["comprehensiveness"].ravel().tolist() == pytest.approx([OWN - (1 - sigmoid(3))] * 15)
    assert found["sufficiency"].ravel().tolist() == pytest.approx([0] * 15)


def test_words_go_with_all_their_tokens_and_what_is_no_word_stays():
    text = worded(4, 5, 6, 7, word_of=[0, 1, 1, -1])
    assert text.num_words == 2
    assert text.keep(np.array([True, False])).tolist() == [4, 7]
    assert text.keep(np.array([False, False])).tolist() == [7]
    assert worded(4).keep(np.array([False])).tolist() == [1]
    assert text.sum_words(np.array([0.4, 0.3, 0.2, 0.1])).tolist() == pytest.approx([0.4, 0.5])


@pytest.mark.parametrize(("words", "counts"), [(1, [1, 1, 1, 1, 1]), (20, [1, 1, 2, 4, 10]), (21, [1, 2, 3, 5, 11])])
def test_shares_are_rounded_up(words, counts):
    class Counting(TextProbe):
        def keep(self, kept):
            return torch.from_numpy(kept.sum(1, keepdims=True) + 0.0)[:, None]

    found, _ = erase(Counting(MODEL, worded(*[4] * words)), [np.arange(words)], 0, words)
    assert found[0].tolist() == counts


def test_leave_one_out_worked_by_hand():
    probe = TextProbe(MODEL, TEXT)
    without = probe.keep(~np.eye(4, dtype=bool))[:, 0]
    expected = [sigmoid(x) for x in (1 / 3, 7 / 7, 10 / 8, 11 / 9)]
    assert without[:, 0].tolist() == pytest.approx(expected)
    moved = probe.distance(without, torch.tensor([[OWN, 1 - OWN]], dtype=torch.float64))
    assert moved.tolist() == pytest.approx([abs(OWN - p) for p in expected])


def test_gradients_leave_the_weights_alone():
    # d log p / d context = 1 − p, and d context / d x_s = weight_s
    [row] = TextProbe(MODEL, TEXT).gradients()
    assert row.tolist() == pytest.approx([(1 - OWN) * each for each in (0.8, 0.3, 0, -0.1)])

    class Reading(KnownClassifier):
        def forward(self, tokens, mask, *, embedded=None, reweight=None, record=()):
            found = self.embed(tokens) if embedded is None else embedded
            weights = found[..., 0].masked_fill(~mask, -torch.inf).softmax(-1)
            weights = weights if reweight is None else reweight(weights, mask)
            context = (weights * found[..., 0]).sum(-1)
            return (
                super()
                .forward(tokens, mask, record=record)
                ._replace(logits=torch.stack([context, torch.zeros_like(context)], -1))
            )

    model = Reading([1] * 8, [0, 3, 0, 0, 2, 1, 0, -1])
    weights = np.exp([2, 1, 0, -1]) / np.exp([2, 1, 0, -1]).sum()
    context = float(weights @ [2, 1, 0, -1])
    [row] = TextProbe(model, TEXT).gradients()
    assert row.tolist() == pytest.approx(((1 - sigmoid(context)) * weights * [2, 1, 0, -1]).tolist())


def test_all_together_worked_by_hand():
    found = examine(MODEL, [TEXT], np.array([1]), permutations=10)
    assert found.texts == 1
    without_one, without_two = sigmoid(1 / 3), sigmoid(-1 / 3)
    assert found.comprehensiveness.attention == pytest.approx(OWN - (4 * without_one + without_two) / 5)
    # attention orders the words 0 1 2 3, leaving one out (0.15, 0, 0.05, 0.04) by 0 2 3 1: 4 pairs agree and 2 do not
    assert found.leave_one_out.mean == pytest.approx((4 - 2) / 6)
    # gradient × input is 0.8, 0.3, 0, 0.1: one pair does not agree
    assert found.gradient.mean == pytest.approx((5 - 1) / 6)
    assert (found.accuracy, found.uniform_accuracy, found.uniform_changed) == (0, 0, 0)
    assert found.uniform.mean == pytest.approx(OWN - sigmoid(0.5))
    assert found.seeds is None


def test_uniform_weights_change_labels():
    # attention 9 : 1 to −1 and 3: −0.6, so label 1; uniform: 1, so label 0
    model = KnownClassifier([1, 1, 1, 1, 9, 1], [0, 0, 0, 0, -1, 3])
    found = examine(model, [worded(4, 5)], np.array([1]), permutations=3)
    assert (found.accuracy, found.uniform_accuracy, found.uniform_changed) == (1, 0, 1)


def test_several_labels():
    model = KnownClassifier([1, 1, 1, 1, 4, 3, 2, 1], [0, 3, 0, 0, 2, 1, 0, -1], num_labels=3)
    probe = TextProbe(model, TEXT, several=True)
    assert predict(probe) == pytest.approx([sigmoid(1), 0.5, sigmoid(-2)])
    assert probe.decide(torch.tensor(predict(probe))).tolist() == [True, False, False]
    assert float(probe.distance(torch.tensor([1.0, 0.5, 0]), torch.tensor([0.4, 0.5, 0.3]))) == pytest.approx(0.3)
    found = examine(model, [TEXT], np.array([[1, 0, 0]]), several=True, permutations=5)
    assert found.accuracy == 1
    assert found.exact_match
    assert "exact match of all labels" in found.render()


def test_temperature_counts():
    probe = TextProbe(MODEL, TEXT, temperature=2.0)
    assert predict(probe)[0] == pytest.approx(sigmoid(0.5))
    assert probe.gradients()[0, 0] == pytest.approx((1 - sigmoid(0.5)) / 2 * 0.8)


def test_heads_are_averaged_and_variants_keep_their_order():
    probe = TextProbe(KnownClassifier([1, 1, 1, 1, 4, 3, 2, 1], [0, 3, 0, 0, 2, 1, 0, -1], num_heads=3), TEXT)
    assert probe.attention.sum() == pytest.approx(1)
    kept = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 0]], bool)
    np.testing.assert_allclose(probe.keep(kept), torch.cat([probe.keep(row[None]) for row in kept]))


def test_permuting_worked_by_hand():
    # Values 1, 0, 0: the context is the weight that the first word gets, 1/2, 1/3 or 1/6, each as often.
    model = KnownClassifier([1, 1, 1, 1, 3, 2, 1], [0, 0, 0, 0, 1, 0, 0])
    distance = measure(model, worded(4, 5, 6), permutations=500)["permuted"]
    assert distance == pytest.approx(sigmoid(1 / 2) - sigmoid(1 / 3))
    for text in (worded(4), worded(4, 4)):
        assert measure(model, text)["permuted"] == pytest.approx(0)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 3), st.integers(1, 7))
def test_permutations_permute(seed, batch, heads, keys):
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(batch, 1, keys, generator=generator) < 0.6  # with holes
    weights = torch.rand(batch, heads, keys, generator=generator) * mask
    change = permutation(seed)
    moved = change(weights, mask)
    assert torch.equal(change(weights, mask), moved)  # all layers and steps get the same order
    assert not moved.masked_select(~mask.expand_as(moved)).any()
    assert torch.equal(moved.sort(-1).values, weights.sort(-1).values)
    pairs = weights.transpose(1, 2)  # the heads of one place stay together
    for before, after in zip(pairs.tolist(), moved.transpose(1, 2).tolist(), strict=True):
        assert sorted(before) == sorted(after)


def test_uniform_weights():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert flatten(torch.rand(2, 3), mask).tolist() == [[0.5, 0, 0.5], [0, 0, 0]]
    assert flatten(torch.rand(2, 4, 3), mask[:, None])[0].tolist() == [[0.5, 0, 0.5]] * 4


@given(VALUES, st.data())
def test_tau_by_counting_pairs(first, data):
    second = data.draw(st.lists(st.integers(-5, 5), min_size=len(first), max_size=len(first)))
    agree = differ = first_ties = second_ties = 0
    for i, j in combinations(range(len(first)), 2):
        product = (first[i] - first[j]) * (second[i] - second[j])
        agree, differ = agree + (product > 0), differ + (product < 0)
        first_ties, second_ties = first_ties + (first[i] == first[j]), second_ties + (second[i] == second[j])
    pairs = math.comb(len(first), 2)
    found = kendall_tau(np.array(first, float), np.array(second, float))
    if (pairs - first_ties) * (pairs - second_ties) == 0:
        assert math.isnan(found)
    else:
        assert found == pytest.approx((agree - differ) / math.sqrt((pairs - first_ties) * (pairs - second_ties)))


def test_divergence_worked_by_hand():
    assert divergence(np.array([1.0, 0]), np.array([0.0, 1])) == pytest.approx(math.log(2))
    assert divergence(np.array([2.0, 2]), np.array([0.5, 0.5])) == 0
    # p = (1, 0), q = (½, ½), m = (¾, ¼)
    expected = (math.log(4 / 3) + (0.5 * math.log(2 / 3) + 0.5 * math.log(2))) / 2
    assert divergence(np.array([1.0, 0]), np.array([0.5, 0.5])) == pytest.approx(expected)
    assert math.isnan(divergence(np.zeros(2), np.ones(2)))


def test_equals_are_ranked_by_chance():
    generator = np.random.default_rng(1)
    orders = {tuple(rank(np.array([1.0, 2.0, 1.0]), generator).tolist()) for _ in range(50)}
    assert orders == {(1, 0, 2), (1, 2, 0)}


def test_attention_that_ranks_nothing_is_as_good_as_chance():
    generator = np.random.default_rng(1)
    model = KnownClassifier([1.0] * 40, generator.normal(size=40).tolist())
    texts = [worded(*generator.integers(4, 40, size=12).tolist()) for _ in range(100)]
    found = examine(model, texts, np.zeros(100, int), permutations=3)
    assert found.comprehensiveness.p > 0.01
    assert found.comprehensiveness.attention == pytest.approx(found.comprehensiveness.random, abs=0.04)
    assert found.comprehensiveness.best > found.comprehensiveness.random + 0.05
    assert math.isnan(found.leave_one_out.mean)
    assert found.leave_one_out.texts == 0
    assert "do not show which words matter" in found.sentence


def test_the_same_seed_gives_the_same_measures():
    generator = np.random.default_rng(1)
    model = KnownClassifier(generator.uniform(0.1, 3, size=40).tolist(), generator.normal(size=40).tolist())
    texts = [worded(*generator.integers(4, 40, size=12).tolist()) for _ in range(30)]
    gold = np.zeros(30, int)
    assert examine(model, texts, gold, permutations=9) == examine(model, texts, gold, permutations=9)
    assert examine(model, texts, gold, permutations=9) != examine(model, texts, gold, permutations=9, seed=2)


def test_long_texts_are_measured_in_part(monkeypatch):
    model = KnownClassifier([1.0, 2.0] * 20, [1.0, 2.0] * 20)
    texts = [worded(*(4 + np.arange(100) % 30).tolist()) for _ in range(25)]
    monkeypatch.setattr("regard.tasks.classification.faithfulness._AFFORDABLE", 20 * 100 * 105)
    found = examine(model, texts, np.zeros(25, int), permutations=5)
    assert found.permuted.texts == found.leave_one_out.texts == 20
    assert found.gradient.texts == 25


def erasure(attention: float, random: float, best: float, p: float) -> Removal:
    return Removal(attention, random, best, 0.0, 0.0, p, ((attention, random, best),) * 5)


MEASURED = Faithfulness(
    texts=500,
    comprehensiveness=erasure(0.3, 0.1, 0.4, 0.001),
    sufficiency=erasure(0.1, 0.2, 0.0, 0.001),
    leave_one_out=Spread(0.6, 0.1, 490),
    gradient=Spread(0.5, 0.1, 490),
    uniform=Spread(0.1, 0.1, 500),
    uniform_changed=0.15,
    accuracy=0.8,
    uniform_accuracy=0.7,
    permuted=Spread(0.2, 0.1, 500),
)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {},
            "The words with the most attention are those that this model's predictions depend on. Deleting them (the top 1 to ",
        ),
        ({}, "(the top 1 to 50% of a text's words, mean of 5 shares) lowers the probability of the predicted label by 0.30; "),
        ({}, "by 0.30; deleting as many random words, by 0.10; words in the best order found (leaving out one "),
        ({}, "(leaving out one word at a time), by 0.40: attention goes 67% of the way. In "),
        (
            {},
            "goes 67% of the way. In 80% of word pairs, the word with more attention also matters more when left "
            "out (50% is chance). With equal weights on all words, 15% of the ",
        ),
        ({}, "15% of the predictions change (accuracy from 80.0% to 70.0%)."),
        ({"comprehensiveness": erasure(0.2, 0.1, 0.4, 0.001)}, "are partly those that this model's predictions depend on. Del"),
        ({"comprehensiveness": erasure(0.12, 0.1, 0.4, 0.001)}, "matter only a little more to this model than random ones. D"),
        ({"sufficiency": erasure(0.2, 0.2, 0.0, 0.5)}, "depend on, but they are not enough for the predictions. Deleting"),
        (
            {"comprehensiveness": erasure(0.11, 0.1, 0.4, 0.5)},
            "are enough for many predictions of this model, but it does not need them. Deleting",
        ),
        (
            {"comprehensiveness": erasure(0.11, 0.1, 0.4, 0.5), "sufficiency": erasure(0.2, 0.2, 0.0, 0.5)},
            "Do not read this model's heatmaps as reasons: the words with the most attention matter no more than random ones, "
            "as far as 500 texts can show.",
        ),
        (
            {
                "comprehensiveness": erasure(0.11, 0.1, 0.4, 0.5),
                "sufficiency": erasure(0.2, 0.2, 0.0, 0.5),
                "texts": 1,
            },
            "as far as 1 text can show.",
        ),
        ({"comprehensiveness": erasure(0.05, 0.1, 0.4, 0.001)}, "the words with the most attention matter less than random"),
        ({"comprehensiveness": erasure(-0.001, 0.0, 0.4, 0.5)}, "lowers the probability of the predicted label by 0.00; "),
        ({"leave_one_out": Spread(math.nan, math.nan, 0)}, "attention goes 67% of the way. With equal weights"),
        (
            {"uniform_changed": 0.012},
            "With equal weights on all words, 1% of the predictions change: the weights decide little.",
        ),
        ({"exact_match": True}, "(exact match of all labels from 80.0% to 70.0%)."),
        (
            {"uniform": Spread(0.0, 0.0, 500)},
            "With equal weights on all words this model predicts the same, so its heatmaps do not show which words matter to ",
        ),
    ],
)
def test_one_sentence_for_each_outcome(change, words):
    sentence = replace(MEASURED, **change).sentence
    assert words in sentence
    assert sentence.endswith(".")
    assert len(sentence) < 600  # what a caption has room for


def test_the_table_and_the_plain_data():
    seeds = Seeds(3, Spread(0.05, 0.01, 500), Spread(math.nan, math.nan, 0))
    found = replace(MEASURED, seeds=seeds)
    lines = found.render().splitlines()
    assert lines[0] == "500 texts"
    assert lines[-1] == found.sentence
    assert any(
        re.match(r"without these words \(comprehensiveness\) +0.300 +0.100 +0.400 +0.0010 +0.300", line) for line in lines
    )
    assert any(re.match(r"attention of 3 seeds \(JS divergence\) +0.050 +0.010 +500", line) for line in lines)
    assert any(re.match(r"predictions of 3 seeds \(total variation\) +none +0", line) for line in lines)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["sentence"] == found.sentence
    assert plain["comprehensiveness"]["attention"] == 0.3
    assert plain["seeds"]["predictions"]["mean"] is None
    assert plain["leave_one_out"]["texts"] == 490
