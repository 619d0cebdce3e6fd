"""Greedy and beam search against brute force, against each other and against the given target."""

import itertools
import math

import numpy as np
import pytest
import torch

from regard.config import DecodingConfig
from regard.decoding import beam_search, force, greedy, length_penalty_of, sample, score_of
from regard.errors import ArgumentError, RequestError
from regard.text.symbols import END, PAD, START, UNKNOWN


def pad(rows: list[list[int]]) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def forced(model, source, mask, targets, **options):
    return force(
        model,
        source,
        mask,
        pad([[START, *target] for target in targets]),
        pad([[*target, END] for target in targets]),
        **options,
    )


def every_target(model, source, mask, *, limit, alpha, reward):
    """Score every target that ends within `limit` steps, the plain way."""
    words = [word for word in range(len(model.output)) if word not in (PAD, START, END)]
    targets = [list(t) for length in range(limit) for t in itertools.product(words, repeat=length)]
    rows = torch.zeros(len(targets), dtype=torch.int64)
    found = forced(model, source[rows], mask[rows], targets, length_penalty=alpha, length_reward=reward)
    return sorted(found, key=lambda h: -h.score)


def plain_greedy(model, source, mask, limit, reward=0.0):
    """One sentence, one word at a time, without the batch."""
    state, word, found = model.encode(source, mask), START, []
    while len(found) < limit:
        logits, _, state = model.step(torch.tensor([[word]]), state)
        scores = logits[0, 0].clone()
        scores[[PAD, START]] = -math.inf
        scores[END] -= reward * (len(found) < limit - 1)
        word = int(scores.argmax())
        if word == END:
            break
        found.append(word)
    return found


def plain_beam(model, source, mask, *, beam_size, reward, limit):
    """One sentence, every continuation of every hypothesis written down; (log p + r·|Y|, words), best first."""
    live, ended = [(0.0, [], model.encode(source, mask))], []
    for length in range(1, limit + 1):
        candidates = []
        for total, words, state in live:
            logits, _, after = model.step(torch.tensor([[words[-1] if words else START]]), state)
            for word, value in enumerate(logits[0, 0].log_softmax(-1).tolist()):
                if word not in (PAD, START):
                    cost = reward * (word == END and length < limit)
                    candidates.append((total + value - cost, total + value, [*words, word], after))
        best = sorted(candidates, key=lambda one: -one[0])[:beam_size]
        ended += [(total + reward * length, words[:-1]) for _, total, words, _ in best if words[-1] == END]
        live = [(total, words, after) for _, total, words, after in best if words[-1] != END]
        if len(ended) >= beam_size or not live:
            break
    return sorted(ended, key=lambda one: -one[0])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("vocabulary_size", [9, 900])
@pytest.mark.parametrize("reward", [0.0, 0.4, 2.5])
def test_a_reward_counts_where_hypotheses_compete_for_a_place(tiny, sources, seed, vocabulary_size, reward):
    model, (source, mask) = tiny(seed=seed, vocabulary_size=vocabulary_size), sources
    found = beam_search(model, source, mask, beam_size=4, n_best=4, length_penalty=0.0, length_reward=reward, max_length=12)
    for row, hypotheses in enumerate(found):
        plain = plain_beam(model, source[row : row + 1], mask[row : row + 1], beam_size=4, reward=reward, limit=12)
        finished = [h for h in hypotheses if h.finished]
        assert [h.tokens for h in finished] == [words for _, words in plain[:4]]
        np.testing.assert_allclose([h.score for h in finished], [score for score, _ in plain[:4]], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("alpha", "reward"), [(0.0, 0.0), (0.7, 0.0), (1.5, 0.0), (0.0, 0.8), (1.0, 1.5), (0.6, 3.0)])
def test_wide_beam_finds_what_brute_force_finds(tiny, sources, seed, alpha, reward):
    model, (source, mask) = tiny(vocabulary_size=6, seed=seed), sources
    for row in (0, 2):
        s, m = source[row : row + 1], mask[row : row + 1]
        truth = every_target(model, s, m, limit=4, alpha=alpha, reward=reward)[:10]
        [found] = beam_search(model, s, m, beam_size=128, n_best=10, length_penalty=alpha, length_reward=reward, max_length=4)
        assert [h.tokens for h in found] == [h.tokens for h in truth]
        np.testing.assert_allclose([h.score for h in found], [h.score for h in truth], rtol=1e-5, atol=1e-5)
        assert all(h.finished for h in found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reward", [0.0, 0.7])
def test_beam_of_one_is_greedy_is_the_plain_loop(tiny, sources, seed, reward):
    model, (source, mask) = tiny(seed=seed), sources
    by_greedy = greedy(model, source, mask, length_reward=reward, max_length=12)
    by_beam = [h for [h] in beam_search(model, source, mask, beam_size=1, length_reward=reward, max_length=12)]
    plain = [plain_greedy(model, source[i : i + 1], mask[i : i + 1], 12, reward) for i in range(len(source))]
    assert [h.tokens for h in by_greedy] == [h.tokens for h in by_beam] == plain
    np.testing.assert_allclose([h.score for h in by_greedy], [h.score for h in by_beam], rtol=1e-6)
    assert [h.finished for h in by_greedy] == [h.finished for h in by_beam] == [len(tokens) < 12 for tokens in plain]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_results_do_not_depend_on_the_batch(tiny, sources, seed, beam_size):
    model, (source, mask) = tiny(seed=seed), sources
    decoding = DecodingConfig(beam_size=beam_size, max_length=0)
    together = beam_search(model, source, mask, decoding, n_best=min(beam_size, 3), record=["cross"])
    for row, found in enumerate(together):
        size = int(mask[row].sum())
        [alone] = beam_search(
            model,
            source[row : row + 1, :size],
            mask[row : row + 1, :size],
            decoding,
            n_best=min(beam_size, 3),
            record=["cross"],
        )
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        assert [h.finished for h in found] == [h.finished for h in alone]
        for a, b in zip(found, alone, strict=True):
            assert a.log_probability == pytest.approx(b.log_probability, rel=1e-5)
            np.testing.assert_allclose(a.attention["cross"], b.attention["cross"], atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam_size", [1, 4])
def test_scores_and_attention_are_those_of_the_forced_target(tiny, sources, seed, beam_size):
    model, (source, mask) = tiny(seed=seed), sources
    sites = ["cross", "cross.heads"]
    decoding = DecodingConfig(beam_size=beam_size, length_penalty=0.8, max_length=15)
    found = beam_search(model, source, mask, decoding, n_best=beam_size, record=sites)
    for row, hypotheses in enumerate(found):
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)
        ends = [h for h in hypotheses if h.finished]
        rows = torch.full((len(ends),), row)
        again = (
            forced(model, source[rows], mask[rows], [h.tokens for h in ends], length_penalty=0.8, record=sites) if ends else []
        )
        for h, gold in zip(ends, again, strict=True):
            assert h.score == pytest.approx(gold.score, rel=1e-5)
            assert h.log_probability == pytest.approx(gold.log_probability, rel=1e-5)
            np.testing.assert_allclose(h.token_log_probabilities, gold.token_log_probabilities, atol=1e-5)
            assert h.attention["cross"].shape == (len(h.tokens) + 1, int(mask[row].sum()))
            assert h.attention["cross.heads"].shape == (2, len(h.tokens) + 1, int(mask[row].sum()))
            for site in sites:
                np.testing.assert_allclose(h.attention[site], gold.attention[site], atol=1e-5)


def test_a_hypothesis_has_its_own_attention_after_beams_cross(tiny, sources):
    """The test above would pass if beams never crossed: here they must."""
    model, (source, mask) = tiny(seed=1), sources
    crossed = []
    encode = model.encode

    def spy(*args, **options):
        state = encode(*args, **options)
        select = type(state).select
        type(state).select = lambda self, beam: (crossed.append(beam), select(self, beam))[1]
        model.undo = lambda: setattr(type(state), "select", select)
        return state

    model.encode = spy
    beam_search(model, source, mask, beam_size=4, max_length=15)
    model.undo()
    assert any((beam.diff(dim=1) < 0).any() for beam in crossed)


def test_score_is_log_probability_over_the_length_penalty(tiny, sources):
    model, (source, mask) = tiny(seed=2), sources
    for [h] in beam_search(model, source, mask, beam_size=3, length_penalty=1.3, max_length=30):
        length = len(h.tokens) + h.finished
        assert h.score == pytest.approx(h.log_probability / ((5 + length) / 6) ** 1.3, rel=1e-5)
        assert len(h.token_log_probabilities) == length
        assert h.token_log_probabilities.sum() == pytest.approx(h.log_probability, rel=1e-5)
    for [h] in beam_search(model, source, mask, beam_size=3, length_penalty=1.3, length_reward=0.9, max_length=30):
        length = len(h.tokens) + h.finished
        assert h.score == pytest.approx((h.log_probability + 0.9 * length) / ((5 + length) / 6) ** 1.3, rel=1e-5, abs=1e-5)
        assert h.token_log_probabilities.sum() == pytest.approx(h.log_probability, rel=1e-5)
    assert (length_penalty_of(1.0, 2.0), length_penalty_of(7.0, 1.0)) == (1, 2)
    assert score_of(-7.0, 7.0, 1.0, 2.0) == 3.5


def logs(**probabilities: float):
    """Scores of the words <unk>, end, a, b (ids 1, 3, 4, 5), the rest impossible."""
    names = {"unknown": UNKNOWN, "end": END, "a": 4, "b": 5}
    row = [-math.inf] * 6
    for name, probability in probabilities.items():
        row[names[name]] = math.log(probability)
    return row


ONE = (torch.tensor([[4, 3]]), torch.ones(1, 2, dtype=torch.bool))


def test_worked_by_hand(table):
    """p(end)=.3; p(a)=.4, then end .5, a .5 (then ends); p(b)=.3, then ends."""

    def rule(prefix):
        match prefix:
            case ():
                return logs(end=0.3, a=0.4, b=0.3)
            case (4,):
                return logs(end=0.5, a=0.5)
            case _:
                return logs(end=1.0)

    [found] = beam_search(table(rule), *ONE, beam_size=5, n_best=4, length_penalty=0.0, max_length=9)
    assert [h.tokens for h in found] == [[], [5], [4], [4, 4]]  # equal scores: the one that ended earlier comes first
    np.testing.assert_allclose([h.log_probability for h in found], np.log([0.3, 0.3, 0.2, 0.2]), rtol=1e-5)
    [by_length] = beam_search(table(rule), *ONE, beam_size=5, n_best=4, length_penalty=2.0, max_length=9)
    penalties = {(): 1.0, (5,): (7 / 6) ** 2, (4,): (7 / 6) ** 2, (4, 4): (8 / 6) ** 2}
    assert [h.tokens for h in by_length] == [[5], [4, 4], [4], []]
    for h in by_length:
        assert h.score == pytest.approx(h.log_probability / penalties[tuple(h.tokens)], rel=1e-5)
    [[first]] = [greedy(table(rule), *ONE)]
    assert first.tokens in ([4], [4, 4])


def test_unknown_may_be_produced_and_padding_and_start_never(table):
    def rule(prefix):
        return [9.0, 3.0, 9.0, 1.0, 0.0, 0.0] if len(prefix) < 2 else [9.0, 0.0, 9.0, 3.0, 0.0, 0.0]

    [h] = greedy(table(rule), *ONE)
    assert h.tokens == [UNKNOWN, UNKNOWN]
    exact = torch.tensor([rule(()), rule((1,)), rule((1, 1))]).log_softmax(-1)
    assert h.log_probability == pytest.approx(float(exact[0, 1] + exact[1, 1] + exact[2, 3]), rel=1e-5)
    [found] = beam_search(table(rule), *ONE, beam_size=4, n_best=4, max_length=4)
    assert not {PAD, START, END} & {word for h in found for word in h.tokens}


def test_unfinished_at_the_limit_is_said_and_ranks_last(table):
    def endless(prefix):
        return logs(a=0.9, b=0.08, end=0.02) if prefix[:1] != (5,) else logs(end=1.0)

    [h] = greedy(table(endless), *ONE, max_length=3)
    assert (h.tokens, h.finished) == ([4, 4, 4], False)
    assert h.score == pytest.approx(3 * math.log(0.9) / (8 / 6), rel=1e-5)
    [found] = beam_search(table(endless), *ONE, beam_size=2, n_best=2, max_length=3)
    assert [(h.tokens, h.finished) for h in found] == [([5], True), ([4, 4, 4], False)]
    assert found[1].score > found[0].score
    assert len(found[1].token_log_probabilities) == 3


def test_default_limit_is_each_sentence_its_own(table):
    source = torch.full((2, 300), 4)
    mask = torch.arange(300) < torch.tensor([[3], [300]])
    short, long = greedy(table(lambda prefix: logs(a=1.0)), source, mask)
    assert (len(short.tokens), len(long.tokens)) == (26, 500)


def test_at_most_a_fifth_of_a_batch_are_finished_sentences(tiny, sources):
    model, (source, mask) = tiny(seed=3), sources
    sizes, step = [], model.step
    model.step = lambda tokens, state, **options: (sizes.append(tokens.shape), step(tokens, state, **options))[1]
    found = greedy(model, source, mask, max_length=12)
    lengths = [len(h.tokens) + h.finished for h in found]
    live = [sum(length > t for length in lengths) for t in range(max(lengths))]
    assert len(sizes) == len(live)
    assert all(0.8 * size[0] < count <= size[0] for size, count in zip(sizes, live, strict=True))
    assert sizes[-1][0] < sizes[0][0]
    assert len(set(lengths)) > 1


def test_search_stops_as_soon_as_nothing_can_change(table):
    """After `end` with 0.9, no other can reach its score: one step is enough."""
    model = table(lambda prefix: logs(end=0.9, a=0.1) if not prefix else logs(a=1.0))
    [[h]] = beam_search(model, *ONE, beam_size=2, length_penalty=0.0, max_length=50)
    assert (h.tokens, len(model.batches)) == ([], 1)


def test_search_goes_on_while_a_longer_one_may_still_win(table):
    """`end` has 0.5, but the long tail is certain, and the length penalty lifts it above."""
    model = table(lambda prefix: logs(end=0.5, a=0.5) if not prefix else logs(a=1.0) if len(prefix) < 6 else logs(end=1.0))
    [[h]] = beam_search(model, *ONE, beam_size=2, length_penalty=1.0, max_length=50)
    assert h.tokens == [4] * 6


@pytest.mark.parametrize("beam_size", [1, 2])
def test_at_the_limit_a_reward_keeps_nothing_from_its_end(table, beam_size):
    model = table(lambda prefix: logs(end=0.6, a=0.4) if prefix else logs(a=1.0))
    for limit in (2, 3):
        [[h]] = beam_search(
            model, *ONE, DecodingConfig(beam_size=beam_size, length_reward=1.0, length_penalty=0.0, max_length=limit)
        )
        assert (h.tokens, h.finished) == ([4] * (limit - 1), True)


def test_vocabularies_smaller_than_the_beam(table):
    [found] = beam_search(table(lambda prefix: logs(end=0.5, a=0.5)), *ONE, beam_size=9, n_best=9, max_length=3)
    assert sorted((h.tokens, h.finished) for h in found) == [([], True), ([4], True), ([4, 4], True), ([4, 4, 4], False)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_scores_that_are_not_finite_are_an_error(table, value, beam_size):
    model = table(lambda prefix: [0.0, 0.0, 0.0, 0.0, 0.0, value if len(prefix) == 2 else 1.0])
    with pytest.raises(RequestError, match=r"scores for the next word are not finite .*earlier checkpoint"):
        beam_search(model, *ONE, DecodingConfig(beam_size=beam_size))


def test_nothing_that_can_be_produced_is_an_error(table):
    with pytest.raises(RequestError, match="not finite"):
        greedy(table(lambda prefix: [1.0, -math.inf, 1.0, -math.inf, -math.inf, -math.inf]), *ONE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size is 0, expected from 1 to 1000"),
        ({"beam_size": 100_000}, "beam_size is 100000, expected from 1 to 1000"),
        ({"beam_size": 2, "n_best": 3}, r"n_best is 3, expected 1 to beam_size, which is 2; raise beam_size"),
        ({"n_best": 0}, "n_best is 0, expected 1 to beam_size, which is 5$"),
        ({"length_penalty": -0.5}, "length_penalty is -0.5, expected from 0 to 10"),
        ({"length_penalty": 1e308}, "length_penalty is 1e\\+308"),
        ({"length_penalty": math.nan}, "length_penalty is nan"),
        ({"length_reward": -0.5}, "length_reward is -0.5, expected from 0 to 100"),
        ({"length_reward": 1e30}, "length_reward is 1e\\+30"),
        ({"length_reward": math.nan}, "length_reward is nan"),
        ({"max_length": -1}, "max_length is -1, expected 0"),
        ({"max_length": 10**9}, "max_length is 1000000000, expected 0 to 100,000; 0 means twice the source length plus 20"),
        (
            {"record": ["cros"]},
            r"record names the attention 'cros'; this model has: cross, cross.heads; did you mean 'cross'\?",
        ),
    ],
)
def test_wrong_requests(tiny, sources, options, message):
    with pytest.raises(RequestError, match=message):
        beam_search(tiny(), *sources, **options)


def test_a_misspelt_setting_is_named(tiny, sources):
    for search in (beam_search, greedy, sample):
        with pytest.raises(ArgumentError, match="got an unexpected argument 'max_lenght'; did you mean 'max_length'"):
            search(tiny(), *sources, max_lenght=3)


def test_force_takes_the_settings_of_a_search(tiny, sources):
    model, (source, mask) = tiny(seed=2), sources
    targets = [[4, 5]] * len(source)
    for setting in ({"length_penalty": 0.5}, {"length_reward": 1.5}):
        one = forced(model, source, mask, targets, decoding=DecodingConfig(**setting))
        other = forced(model, source, mask, targets, **setting)
        assert [h.score for h in one] == [h.score for h in other] != [h.score for h in forced(model, source, mask, targets)]


def test_force_refuses_a_target_without_symbols(tiny, sources):
    source, mask = sources
    with pytest.raises(RequestError, match="force: target 2 has no symbols"):
        force(tiny(), source[:2], mask[:2], torch.tensor([[2, 4], [2, 0]]), torch.tensor([[4, 3], [0, 0]]))


def test_force_says_when_the_model_gives_nan(tiny, sources):
    model = tiny()
    with torch.no_grad():
        model.bias[4] = math.nan
    with pytest.raises(RequestError, match="NaN for a given target"):
        forced(model, *(x[:1] for x in sources), [[5]])


def test_no_sentences_no_hypotheses(tiny):
    none = torch.zeros(0, 3, dtype=torch.int64)
    assert greedy(tiny(), none, none.bool()) == [] == beam_search(tiny(), none, none.bool())
