"""A search that learns late which sentences have finished finds the same results, and its code for GPUs waits in no step.

These tests use PyTorch's device `meta` in place of a GPU. It has shapes and no values, so code that would wait for a value
raises an error there. Nothing here has run on a GPU.
"""

from importlib import import_module

import numpy as np
import pytest
import torch
from training.test_synchronisation import Operations, made, meta  # noqa: F401

from regard.decoding import Sampling, beam_search, greedy, sample
from regard.decoding.guidance import Guidance
from regard.errors import RequestError
from regard.text.symbols import END

loop = import_module("regard.decoding.search")
delays = pytest.mark.parametrize("delay", [1, 2, 4, 20])


def learn_late(monkeypatch, delay: int) -> None:
    """Let searches on a CPU run the code for GPUs, which reads every `delay` steps which sentences have finished."""
    monkeypatch.setattr(loop, "is_free_to_read", lambda tensor: False)
    monkeypatch.setattr(loop, "_STEPS_AHEAD", delay)


def words_and_scores(found: list) -> list:
    each = [found] if not isinstance(found[0], list) else found
    return [[(h.tokens, h.finished, h.attention["cross"].shape) for h in row] for row in each], np.array(
        [h.score for row in each for h in row]
    )


@delays
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "options",
    [{}, {"length_reward": 0.8, "max_length": 6}, {"no_repeat_ngrams": 2, "repetition_penalty": 1.3}],
    ids=["plain", "short", "restricted"],
)
def test_late_answers_change_no_result(tiny, sources, seed, options, delay, monkeypatch) -> None:
    model, (source, mask) = tiny(seed=seed), sources
    guidance = Guidance([[5, 6], *[[]] * (len(source) - 1)], [[]] * len(source))
    searches = [
        lambda: greedy(model, source, mask, record=("cross",), guidance=guidance, **options),
        lambda: beam_search(model, source, mask, beam_size=4, n_best=3, record=("cross",), guidance=guidance, **options),
    ]
    expected = [words_and_scores(search()) for search in searches]
    learn_late(monkeypatch, delay)
    for search, (words, scores) in zip(searches, expected, strict=True):
        late_words, late_scores = words_and_scores(search())
        assert late_words == words
        np.testing.assert_allclose(late_scores, scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_scores_that_are_not_finite_are_found_at_the_end(tiny, sources, search, monkeypatch) -> None:
    learn_late(monkeypatch, 3)
    model, (source, mask) = tiny(), sources
    with torch.no_grad():
        model.bias[7] = torch.nan
    with pytest.raises(RequestError, match="not finite"):
        search(model, source, mask)


@pytest.mark.parametrize("search", [greedy, beam_search])
@pytest.mark.parametrize("only", ["the prefix", "every word"])
def test_an_impossible_word_is_found_at_the_end(tiny, sources, search, only, monkeypatch) -> None:
    model, (source, mask) = tiny(), sources
    guidance = Guidance([[7], *[[]] * (len(source) - 1)], [[]] * len(source)) if only == "the prefix" else None
    with torch.no_grad():
        model.bias[7 if only == "the prefix" else slice(1, None)] = -torch.inf
    for late in (False, True):
        if late:
            learn_late(monkeypatch, 3)
        with pytest.raises(RequestError, match="for at least one sentence, the model gives probability 0 to every target"):
            search(model, source, mask, guidance=guidance)


@pytest.mark.parametrize("options", [{}, {"top_k": 5}])
def test_samples_with_scores_that_are_not_finite(tiny, sources, options, monkeypatch) -> None:
    model, (source, mask) = tiny(), sources
    with torch.no_grad():
        model.bias[7] = torch.nan
    learn_late(monkeypatch, 3)
    with pytest.raises(RequestError, match="not finite"):
        sample(model, source, mask, Sampling(**options))


@delays
def test_a_stream_gets_no_word_after_the_end(tiny, sources, delay, monkeypatch) -> None:
    model, (source, mask) = tiny(), sources

    def words_of(rows: torch.Tensor, words: torch.Tensor) -> None:
        for row, word in zip(rows.tolist(), words[:, 0].tolist(), strict=True):
            streamed[row].append(word)

    learn_late(monkeypatch, delay)
    streamed: list[list[int]] = [[] for _ in source]
    found = greedy(model, source, mask, max_length=6, follow=words_of)
    for hypothesis, words in zip(found, streamed, strict=True):
        assert [word for word in words if word != END] == hypothesis.tokens


@pytest.mark.parametrize("preset", ["transformer-tiny", pytest.param("luong", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [{}, {"no_repeat_ngrams": 2, "suppress_unknown": True}], ids=["plain", "restricted"])
@pytest.mark.parametrize("search", [greedy, beam_search])
def test_only_every_eighth_step_waits(search, options, preset, meta, monkeypatch) -> None:  # noqa: F811
    """On `meta`, reading a value raises an error."""
    model, batch = made(preset, meta)
    model.eval()
    counts, step = [], model.step

    def counted(*inputs, **settings):
        counts.append(operations.counts.total())
        return step(*inputs, **settings)

    monkeypatch.setattr(model, "step", counted)
    with pytest.raises(NotImplementedError), Operations() as operations:
        search(model, batch.source, batch.source_mask, record=("cross",), **options)
    assert len(counts) == 8
    assert 0 < counts[5] - counts[4] <= (300 if preset == "transformer-tiny" else 150)
