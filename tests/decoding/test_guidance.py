"""Prefixes and constraints: always in the output, and no further from the free search than they have to be."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.config import DecodingConfig
from regard.decoding import Guidance, beam_search, greedy
from regard.errors import RequestError
from regard.text.symbols import END, PAD, START

WORDS = st.integers(4, 8) | st.just(1)


def holds(tokens, phrases):
    """Whether the phrases stand in the tokens, each at a place of its own."""
    if not phrases:
        return True
    first, *rest = phrases
    places = range(len(tokens) - len(first) + 1)
    return any(
        tokens[at : at + len(first)] == first and holds([*tokens[:at], None, *tokens[at + len(first) :]], rest) for at in places
    )


guides = st.lists(
    st.tuples(st.lists(WORDS, max_size=3), st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=4)),
    min_size=3,
    max_size=3,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    guides=guides,
    beam_size=st.integers(1, 6),
    seed=st.integers(0, 20),
    tight=st.booleans(),
    alpha=st.sampled_from([0.0, 1.0]),
    reward=st.sampled_from([0.0, 0.8]),
)
def test_prefixes_and_constraints_are_always_in_the_output(tiny, sources, guides, beam_size, seed, tight, alpha, reward):
    model, (source, mask) = tiny(seed=seed), (sources[0][:3], sources[1][:3])
    prefixes, phrases = zip(*guides, strict=True)
    room = max(len(prefix) + sum(map(len, own)) for prefix, own in guides)
    decoding = DecodingConfig(
        beam_size=beam_size, max_length=room + (1 if tight else 6), length_penalty=alpha, length_reward=reward
    )
    found = beam_search(model, source, mask, decoding, n_best=beam_size, guidance=Guidance(prefixes, phrases))
    for hypotheses, prefix, own in zip(found, prefixes, phrases, strict=True):
        assert hypotheses
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:
            assert h.tokens[: len(prefix)] == prefix
            assert holds(h.tokens, own)
            assert not {PAD, START, END} & set(h.tokens)
            assert len(h.tokens) + h.finished <= decoding.max_length


@pytest.mark.parametrize("reward", [0.0, 0.8])
def test_without_constraints_it_is_the_free_search(tiny, sources, reward):
    """One sentence is constrained, so that the others go through the banks too."""
    model, (source, mask) = tiny(seed=2), sources
    guidance = Guidance([[]] * 7, [[], [], [[5, 6]], [], [], [], []])
    free = beam_search(model, source, mask, beam_size=4, n_best=3, length_reward=reward, max_length=14)
    bound = beam_search(model, source, mask, beam_size=4, n_best=3, length_reward=reward, max_length=14, guidance=guidance)
    for row in (0, 1, 3, 4, 5, 6):
        assert [h.tokens for h in free[row]] == [h.tokens for h in bound[row]]
        np.testing.assert_allclose([h.score for h in free[row]], [h.score for h in bound[row]], rtol=1e-5, atol=1e-5)


def test_results_do_not_depend_on_the_batch(tiny, sources):
    model, (source, mask) = tiny(seed=4), sources
    prefixes = [[], [4], [], [5, 5], [], [], [1]]
    phrases = [[[4], [5, 6]], [], [[7]], [[8, 8, 8]], [], [[4], [4]], [[6], [7, 4]]]
    together = beam_search(model, source, mask, beam_size=4, n_best=2, max_length=14, guidance=Guidance(prefixes, phrases))
    for row in range(7):
        size, rows = int(mask[row].sum()), slice(row, row + 1)
        guidance = Guidance(prefixes[rows], phrases[rows])
        [alone] = beam_search(
            model, source[rows, :size], mask[rows, :size], beam_size=4, n_best=2, max_length=14, guidance=guidance
        )
        assert [h.tokens for h in alone] == [h.tokens for h in together[row]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reward", [0.0, 1.2])
def test_a_wide_beam_finds_the_best_that_holds_them(tiny, sources, seed, reward):
    """Brute force: every target of up to four words that holds the phrases."""
    model, (source, mask) = tiny(vocabulary_size=6, seed=seed), (sources[0][:1], sources[1][:1])
    phrases = [[4, 5], [4]]
    ranking = {"length_penalty": 0.5, "length_reward": reward}
    [every] = beam_search(model, source, mask, beam_size=700, n_best=700, max_length=5, **ranking)
    truth = [h for h in every if h.finished and holds(h.tokens, phrases)]
    [found] = beam_search(
        model, source, mask, beam_size=700, n_best=5, max_length=5, guidance=Guidance([[]], [phrases]), **ranking
    )
    assert len(truth) >= 5
    assert [h.tokens for h in found] == [h.tokens for h in truth[:5]]
    np.testing.assert_allclose([h.score for h in found], [h.score for h in truth[:5]], rtol=1e-5, atol=1e-5)


def test_no_word_goes_on_from_a_phrase_where_it_would_change_its_last_word(tiny, sources):
    model, (source, mask) = tiny(seed=1), sources
    continues = torch.zeros(9, dtype=torch.bool)
    continues[[5, 6, 7]] = True
    phrases = [[[4]], [[8, 4]], [[4], [8]], [[4], [4]], [[8, 8]], [[1]], []]
    found = beam_search(model, source, mask, beam_size=4, guidance=Guidance([[]] * 7, phrases, continues))
    plain = beam_search(model, source, mask, beam_size=4, guidance=Guidance([[]] * 7, phrases))
    assert [h.tokens for [h] in found] != [h.tokens for [h] in plain]
    for [h], own in zip(found, phrases, strict=True):
        whole = [w for w, after in itertools.pairwise([*h.tokens, END]) if after not in (5, 6, 7)]
        assert holds(h.tokens, own)
        assert all(phrase[-1] in whole for phrase in own)


@pytest.mark.parametrize(
    ("make_guidance", "message"),
    [
        (lambda: Guidance([[]], []), "1 prefixes and 0 lists of phrases, expected one of each"),
        (lambda: Guidance([[]], [[[]]]), "sentence 1 has a constraint without a word"),
        (
            lambda: Guidance([[], [4, END]], [[], []]),
            "the prefix or a constraint of sentence 2 contains a padding, start or end",
        ),
    ],
)
def test_wrong_guidance(make_guidance, message):
    with pytest.raises(RequestError, match=message):
        make_guidance()


def test_no_room(tiny, sources):
    guidance = Guidance([[4]] * 7, [[]] * 3 + [[[5, 6]]] + [[]] * 3)
    with pytest.raises(RequestError, match=r"max_length is 3, but .* a sentence need 3 symbols .* at least 4"):
        beam_search(tiny(), *sources, max_length=3, guidance=guidance)
    with pytest.raises(RequestError, match="got 7 sentences, but guidance for 2; expected guidance for each"):
        beam_search(tiny(), *sources, guidance=Guidance([[4], []], [[], []]))


def test_greedy_search_finds_required_phrases(tiny, sources):
    phrases = [[[5, 6]], *[[]] * 6]
    found = greedy(tiny(), *sources, guidance=Guidance([[]] * 7, phrases))
    assert all(holds(one.tokens, each) for one, each in zip(found, phrases, strict=True))
