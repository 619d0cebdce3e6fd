"""Draws against the distribution they come from."""

import math

import numpy as np
import pytest
import torch

from regard.decoding import Guidance, Sampling, force, greedy, sample
from regard.errors import RequestError
from regard.text.symbols import END, PAD, START

LOGITS = [0.3, -0.4, 0.9, 0.1, 1.2, -0.7, 0.8, -1.5, 0.0, 1.0]


def first_words(table, draws=250, rows=8, **settings):
    """How often each word is drawn first; the second is the end."""
    model = table(lambda prefix: LOGITS if not prefix else [0.0 if word == END else -math.inf for word in range(10)])
    source = torch.full((rows, 1), 4)
    found = sample(model, source, torch.ones_like(source, dtype=torch.bool), Sampling(count=draws, **settings))
    return np.bincount([h.tokens[0] if h.tokens else END for row in found for h in row], minlength=10)


def expected(left, temperature=1.0):
    scores = torch.tensor(LOGITS, dtype=torch.float64) / temperature
    return torch.where(torch.isin(torch.arange(10), torch.tensor(left)), scores, -torch.inf).softmax(0).numpy()


ALL = [word for word in range(10) if word not in (PAD, START)]


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({}, ALL),
        ({"temperature": 0.5}, ALL),
        ({"temperature": 2.0}, ALL),
        ({"top_k": 3}, [4, 9, 6]),
        ({"top_k": 100}, ALL),
        ({"top_p": 0.5}, [4, 9]),  # 0.288 and 0.236
        ({"top_p": 0.55}, [4, 9, 6]),
        ({"top_p": 0.01}, [4]),
        ({"top_k": 3, "top_p": 0.7}, [4, 9]),  # of the three: 0.398, 0.326, 0.267
        ({"temperature": 0.5, "top_p": 0.6}, [4, 9]),  # 0.417 and 0.280
    ],
    ids=str,
)
def test_frequencies_are_those_of_the_softmax(table, settings, left):
    counts = first_words(table, seed=3, **settings)
    truth = expected(left, settings.get("temperature", 1.0)) * counts.sum()
    assert set(np.flatnonzero(counts)) == set(left)
    chi_square = float(((counts - truth)[left] ** 2 / truth[left]).sum())
    assert chi_square < 24.3  # 0.999 of the distribution with 7 degrees of freedom, at most


@pytest.mark.parametrize("settings", [{}, {"top_k": 300}, {"top_p": 0.99}, {"top_p": 0.6}], ids=str)
def test_large_vocabularies(settings):
    """More words than are sorted first; the flat part needs them all."""
    from regard.decoding.sampling import _draw

    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(1, 1, 3000, generator=draw)
    logits[0, 0, :20] += 4
    logits[..., [PAD, START]] = -torch.inf
    chance = torch.rand(1, 20_000, generator=draw, dtype=torch.float64)
    drawn = _draw(logits.log_softmax(-1).expand(1, 20_000, -1)[:, :500], Sampling(**settings), chance[:, :500])
    order = logits[0, 0].double().softmax(0).sort(descending=True)
    reached = order.values.cumsum(0)
    count = settings.get("top_k") or int((reached - order.values < settings.get("top_p", 1.0)).sum())
    assert set(drawn.flatten().tolist()) <= set(order.indices[:count].tolist())
    assert len(set(drawn.flatten().tolist())) > min(count, 400) / 4


def test_scores_are_the_models_own(tiny, sources):
    model, (source, mask) = tiny(seed=1), sources
    found = sample(
        model,
        source,
        mask,
        Sampling(count=3, temperature=1.7, top_k=5, seed=4),
        length_penalty=0.7,
        max_length=12,
        record=["cross", "cross.heads"],
    )
    for row, hypotheses in enumerate(found):
        assert len(hypotheses) == 3
        for h in hypotheses:
            assert len(h.token_log_probabilities) == len(h.tokens) + h.finished
            if not h.finished:
                assert len(h.tokens) == 12
                continue
            target_in, target_out = torch.tensor([[START, *h.tokens]]), torch.tensor([[*h.tokens, END]])
            rows = slice(row, row + 1)
            [gold] = force(model, source[rows], mask[rows], target_in, target_out, length_penalty=0.7, record=["cross"])
            assert h.log_probability == pytest.approx(gold.log_probability, rel=1e-4)
            assert h.score == pytest.approx(gold.score, rel=1e-4)
            np.testing.assert_allclose(h.token_log_probabilities, gold.token_log_probabilities, atol=1e-4)
            np.testing.assert_allclose(h.attention["cross"], gold.attention["cross"], atol=1e-4)
            assert h.attention["cross.heads"].shape == (2, len(h.tokens) + 1, int(mask[row].sum()))


def test_same_seed_same_draws_whatever_the_batch_and_the_count(tiny, sources):
    model, (source, mask) = tiny(seed=2), sources
    together = sample(model, source, mask, Sampling(count=4, seed=5))
    again = sample(model, source, mask, Sampling(count=4, seed=5))
    fewer = sample(model, source, mask, Sampling(count=2, seed=5))
    other = sample(model, source, mask, Sampling(count=4, seed=6))
    words = [[h.tokens for h in row] for row in together]
    assert words == [[h.tokens for h in row] for row in again]
    assert [row[:2] for row in words] == [[h.tokens for h in row] for row in fewer]
    assert words != [[h.tokens for h in row] for row in other]
    assert len({tuple(tokens) for row in words for tokens in row}) > 10
    for row in range(len(source)):
        size = int(mask[row].sum())
        rows = slice(row, row + 1)
        [alone] = sample(model, source[rows, :size], mask[rows, :size], Sampling(count=4, seed=5), numbers=[row])
        assert [h.tokens for h in alone] == words[row]
        [later] = sample(model, source[rows, :size], mask[rows, :size], Sampling(count=4, seed=5, first=row))
        assert [h.tokens for h in later] == words[row]


def test_a_cold_draw_is_greedy(tiny, sources):
    model, (source, mask) = tiny(seed=3), sources
    best = [h.tokens for h in greedy(model, source, mask)]
    for settings in ({"temperature": 1e-4}, {"temperature": 1e-42}, {"temperature": 5e-324}, {"top_k": 1}, {"top_p": 1e-6}):
        assert [h.tokens for [h] in sample(model, source, mask, Sampling(**settings))] == best


def test_draws_begin_with_their_prefixes(tiny, sources):
    model, (source, mask) = tiny(seed=1), sources
    prefixes = [[], [4], [5, 5, 5], [1], [8, 4, 7, 6], [], [4, 4]]
    found = sample(model, source, mask, Sampling(count=5), guidance=Guidance(prefixes, [[]] * 7))
    free = sample(model, source, mask, Sampling(count=5))
    for prefix, row, unbound in zip(prefixes, found, free, strict=True):
        assert all(h.tokens[: len(prefix)] == prefix for h in row)
        if not prefix:
            assert [h.tokens for h in row] == [h.tokens for h in unbound]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 0}, "count is 0, expected from 1 to 1000"),
        ({"temperature": 0.0}, "temperature is 0, expected more than 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1, expected 0 or more"),
        ({"top_p": 0.0}, "top_p is 0, expected more than 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"seed": -1}, "seed is -1, expected from 0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(RequestError, match=message):
        Sampling(**settings)
