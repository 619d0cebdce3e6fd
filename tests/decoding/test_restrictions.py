"""Restricted searches against a search that writes every continuation down."""

import math

import pytest
import torch

from regard.config import DecodingConfig
from regard.decoding import Sampling, beam_search, force, greedy, sample
from regard.decoding.guidance import Guidance
from regard.errors import RequestError
from regard.text.symbols import END, PAD, START, UNKNOWN

LIMIT = 12
CASES = [
    DecodingConfig(min_length=7),
    DecodingConfig(no_repeat_ngrams=1),
    DecodingConfig(no_repeat_ngrams=2),
    DecodingConfig(no_repeat_ngrams=3),
    DecodingConfig(repetition_penalty=1.7),
    DecodingConfig(suppress_unknown=True),
    DecodingConfig(min_length=3, no_repeat_ngrams=2, repetition_penalty=1.3, suppress_unknown=True),
]
NAMES = [case.describe() for case in CASES]


def cost(case, words, word, log_probability):
    """What a next word costs, from the definition; the end symbol may cost nothing where nothing else is left."""
    if word in (PAD, START, *[UNKNOWN] * case.suppress_unknown) or (word == END and len(words) < case.min_length):
        return math.inf
    size, after = case.no_repeat_ngrams, [*words, word]
    if size and len(after) >= size:
        grams = [tuple(after[start : start + size]) for start in range(len(after) - size + 1)]
        if grams[-1] in grams[:-1]:
            return math.inf
    return -log_probability * (case.repetition_penalty - 1) if word in words else 0.0


def plain_beam(model, source, mask, case, *, beam_size, limit=LIMIT):
    """One sentence; every continuation of every hypothesis written down: (worth, log p, words), best first."""
    size = beam_size // case.groups
    groups, ended = [[(0.0, 0.0, [], model.encode(source, mask))] for _ in range(case.groups)], []
    for _ in range(limit):
        taken: list[int] = []
        for number, live in enumerate(groups):
            candidates = []
            for paid, total, words, state in live:
                logits, _, after = model.step(torch.tensor([[words[-1] if words else START]]), state)
                values = logits[0, 0].log_softmax(-1).tolist()
                costs = [cost(case, words, word, value) for word, value in enumerate(values)]
                if min(costs) == math.inf:
                    costs[END] = 0.0
                for word, value in enumerate(values):
                    if costs[word] < math.inf:
                        worth = total + value - paid - costs[word]
                        rank = worth - case.diversity * taken.count(word)
                        candidates.append((rank, worth, paid + costs[word], total + value, [*words, word], after))
            best = sorted(candidates, key=lambda one: -one[0])[:size]
            taken += [one[4][-1] for one in best]
            ended += [(worth, total, words[:-1]) for _, worth, _, total, words, _ in best if words[-1] == END]
            groups[number] = [(paid, total, words, after) for _, _, paid, total, words, after in best if words[-1] != END]
        if len(ended) >= beam_size or not any(groups):
            break
    return sorted(ended, key=lambda one: -one[0])


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.parametrize("vocabulary_size", [9, 300])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_the_beam_is_the_plain_one(tiny, sources, case, vocabulary_size, seed):
    model, (source, mask) = tiny(seed=seed, vocabulary_size=vocabulary_size), sources
    found = beam_search(model, source, mask, case, beam_size=4, n_best=4, length_penalty=0.0, max_length=LIMIT)
    for row, hypotheses in enumerate(found):
        length = int(mask[row].sum())
        expected = plain_beam(model, source[row : row + 1, :length], mask[row : row + 1, :length], case, beam_size=4)
        got = [hypothesis for hypothesis in hypotheses if hypothesis.finished]
        assert [hypothesis.tokens for hypothesis in got] == [words for _, _, words in expected[: len(got)]]
        for hypothesis, (worth, total, _) in zip(got, expected, strict=False):
            assert hypothesis.score == pytest.approx(worth, abs=1e-4)
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("diversity", [0.0, 0.7, 50.0])
def test_diverse_groups_are_the_plain_ones(tiny, sources, groups, diversity):
    model, (source, mask) = tiny(seed=3), sources
    case = DecodingConfig(groups=groups, diversity=diversity)
    found = beam_search(model, source, mask, case, beam_size=4, n_best=4, length_penalty=0.0, max_length=LIMIT)
    for row, hypotheses in enumerate(found):
        length = int(mask[row].sum())
        expected = plain_beam(model, source[row : row + 1, :length], mask[row : row + 1, :length], case, beam_size=4)
        different = dict.fromkeys(tuple(words) for _, _, words in expected)
        got = [tuple(hypothesis.tokens) for hypothesis in hypotheses if hypothesis.finished]
        assert got == list(different)[: len(got)]
        assert len({tuple(hypothesis.tokens) for hypothesis in hypotheses}) == len(hypotheses)


def test_groups_give_as_many_different_targets_as_they_find(tiny, sources):
    model, (source, mask) = tiny(seed=7), sources
    case = DecodingConfig(groups=2, diversity=0.3, beam_size=4)
    all_found = beam_search(model, source, mask, case, n_best=4, max_length=LIMIT)
    for some, every in zip(beam_search(model, source, mask, case, n_best=2, max_length=LIMIT), all_found, strict=True):
        assert [hypothesis.tokens for hypothesis in some] == [hypothesis.tokens for hypothesis in every[:2]]


def test_a_group_may_be_larger_than_the_vocabulary(table):
    steps = [[0.0, 0.0, 0.0, 1.0, 3.0, 2.5], [0.0, 0.0, 0.0, 2.0, 1.0, 2.8]]
    model = table(lambda prefix: steps[len(prefix)] if len(prefix) < 2 else [0.0, 0.0, 0.0, 9.0, 0.0, 0.0])
    source = torch.tensor([[4]])
    [plain] = beam_search(model, source, source > 0, beam_size=8, n_best=3)
    [found] = beam_search(model, source, source > 0, beam_size=16, groups=2, diversity=0.0, n_best=3)
    assert [h.tokens for h in found] == [h.tokens for h in plain]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_greedy_is_a_beam_of_one_and_does_not_depend_on_the_batch(tiny, sources, case):
    model, (source, mask) = tiny(seed=4), sources
    together = greedy(model, source, mask, case, max_length=LIMIT)
    beam = beam_search(model, source, mask, case, beam_size=1, max_length=LIMIT)
    for row, hypothesis in enumerate(together):
        alone = greedy(model, source[row : row + 1], mask[row : row + 1], case, max_length=LIMIT)
        assert hypothesis.tokens == alone[0].tokens == beam[row][0].tokens
        assert hypothesis.score == pytest.approx(beam[row][0].score, abs=1e-5)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_samples_keep_to_restrictions_and_report_the_models_own_probabilities(tiny, sources, case):
    model, (source, mask) = tiny(seed=5), sources
    drawn = sample(model, source, mask, Sampling(count=20), case, max_length=LIMIT)
    for row, hypotheses in enumerate(drawn):
        for hypothesis in hypotheses:
            words = hypothesis.tokens
            for place, word in enumerate(words):
                assert cost(case, words[:place], word, -1.0) < math.inf
            if hypothesis.finished:
                [given] = force(
                    model,
                    source[row : row + 1],
                    mask[row : row + 1],
                    torch.tensor([[START, *words]]),
                    torch.tensor([[*words, END]]),
                )
                assert hypothesis.log_probability == pytest.approx(given.log_probability, abs=1e-4)


def test_a_prefix_goes_before_restrictions(tiny, sources):
    model, (source, mask) = tiny(seed=6), sources
    guidance = Guidance([[5, 5, UNKNOWN]] * len(source), [[]] * len(source))
    options = {"guidance": guidance, "no_repeat_ngrams": 1, "suppress_unknown": True}
    for [found] in beam_search(model, source, mask, beam_size=3, **options):
        assert found.tokens[:3] == [5, 5, UNKNOWN]
        assert {5, UNKNOWN}.isdisjoint(found.tokens[3:])


def test_a_long_minimum_raises_the_usual_limit(tiny, sources):
    model, (source, mask) = tiny(seed=7), sources
    for [found] in beam_search(model, source, mask, beam_size=2, min_length=70):
        assert len(found.tokens) >= 70


def test_settings_replace_those_of_the_configuration(tiny, sources):
    model, (source, mask) = tiny(seed=8), sources
    decoding = DecodingConfig(
        beam_size=4, min_length=5, no_repeat_ngrams=2, repetition_penalty=1.2, suppress_unknown=True, groups=2, diversity=0.9
    )
    own = {"min_length": 5, "no_repeat_ngrams": 2, "repetition_penalty": 1.2, "suppress_unknown": True, "groups": 2}
    expected = beam_search(model, source, mask, decoding)
    found = beam_search(model, source, mask, DecodingConfig(beam_size=3, diversity=0.9), beam_size=4, **own)
    assert [one.tokens for [one] in found] == [one.tokens for [one] in expected]
    assert decoding.describe() == (
        "beam 4 in 2 groups (diversity 0.9), length penalty 1, at least 5 tokens, no repeated 2-grams, repetition penalty 1.2, "
        "no unknown symbols"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_length": -1}, "min_length is -1, expected 0"),
        ({"no_repeat_ngrams": 101}, "no_repeat_ngrams is 101, expected from 0 to 100"),
        ({"repetition_penalty": 0.5}, "repetition_penalty is 0.5, expected from 1"),
        ({"repetition_penalty": math.nan}, "repetition_penalty is nan"),
        ({"groups": 0}, "groups is 0, expected 1"),
        ({"diversity": -1.0}, "diversity is -1, expected from 0"),
    ],
)
def test_values_out_of_range(tiny, sources, values, message):
    with pytest.raises(RequestError) as caught:
        beam_search(tiny(), *sources, **values)
    assert message in str(caught.value)


def test_combinations_that_make_no_sense(tiny, sources):
    model, (source, mask) = tiny(), sources
    with pytest.raises(RequestError, match="beam_size is 4, which does not split into 3 groups"):
        beam_search(model, source, mask, beam_size=4, groups=3)
    with pytest.raises(RequestError, match="min_length is 8 tokens, but max_length is 8 tokens"):
        greedy(model, source, mask, max_length=8, min_length=8)
    phrases = Guidance([[]] * len(source), [[[5]]] * len(source))
    with pytest.raises(RequestError, match="leave one of the two out"):
        beam_search(model, source, mask, guidance=phrases, min_length=2)
