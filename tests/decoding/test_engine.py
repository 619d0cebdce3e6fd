"""CTranslate2 as the engine of a search: the same words as the plain search, and refusals by name."""

import numpy as np
import pytest
import torch
from benchmarks.conversion import spellings
from export.models import LIMIT, WORDS, draw_model, draw_sources, pad

from regard.config import DecodingConfig
from regard.decoding import beam_search
from regard.errors import RequestError
from regard.text.symbols import END, PAD


@pytest.fixture(scope="module")
def made():
    pytest.importorskip("ctranslate2", reason="pip install '.[ctranslate2]'")
    from regard.decoding.engine import CTranslate2Engine

    ids = pad([[*source, END] for source in draw_sources()])
    model = draw_model(ids, norm="layer", norm_order="pre", feed_forward="relu", positions="sinusoidal").eval()
    names = list(spellings(WORDS))
    return model, CTranslate2Engine(model, names, names, "float32"), ids, ids != PAD


@pytest.mark.parametrize(("beam_size", "least"), [(1, 1.0), (5, 0.9)])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_words_and_scores_are_those_of_the_search(made, beam_size, least, alpha):
    model, engine, ids, mask = made
    decoding = DecodingConfig(beam_size=beam_size, length_penalty=0.0, max_length=LIMIT)
    expected = beam_search(model, ids, mask, decoding)
    found = engine.search(
        ids, mask, DecodingConfig(beam_size=beam_size, length_penalty=alpha, max_length=LIMIT), record=("cross",)
    )
    plain = engine.search(ids, mask, DecodingConfig(beam_size=beam_size, length_penalty=alpha, max_length=LIMIT))
    pairs = [(one, other) for [one], [other] in zip(found, expected, strict=True) if other.finished and len(one.tokens) < LIMIT]
    if beam_size == 1 or alpha == 0:
        assert sum(one.tokens == other.tokens for one, other in pairs) >= least * len(pairs) > 10
    for [one], [fast], size in zip(found, plain, mask.sum(1).tolist(), strict=True):
        assert (one.tokens, one.finished) == (fast.tokens, fast.finished)
        assert len(one.token_log_probabilities) == len(one.tokens) + one.finished
        assert np.isnan(fast.token_log_probabilities).all()
        assert one.score == fast.score
        if fast.finished:
            length = len(one.tokens) + 1
            assert fast.log_probability == pytest.approx(one.log_probability, abs=1e-3)
            assert one.score == pytest.approx(one.log_probability / length**alpha, abs=1e-3)
            assert one.attention["cross"].shape == (length, size)


def test_several_hypotheses(made):
    _, engine, ids, mask = made
    found = engine.search(ids, mask, DecodingConfig(beam_size=4, max_length=LIMIT), n_best=3)
    assert all(len(each) == 3 for each in found)
    with pytest.raises(RequestError, match="n_best is 5, expected 1 to beam_size, which is 4"):
        engine.search(ids, mask, DecodingConfig(beam_size=4), n_best=5)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"length_reward": 0.5}, "engine ctranslate2 does not support length_reward, which is 0.5; set it to 0.0"),
        ({"no_repeat_ngrams": 3}, "does not support no_repeat_ngrams, which is 3"),
        ({"groups": 5}, "does not support groups, which is 5"),
        ({"suppress_unknown": True}, "does not support suppress_unknown"),
        ({"replace_unknown": True}, "does not support replace_unknown"),
    ],
)
def test_other_settings_are_refused_by_name(made, setting, message):
    _, engine, ids, mask = made
    with pytest.raises(RequestError, match=message):
        engine.search(ids, mask, DecodingConfig(**setting))


def test_bfloat16_is_refused(made):
    from regard.decoding.engine import CTranslate2Engine

    with pytest.raises(RequestError, match="computes in float32 or int8, not in bfloat16"):
        CTranslate2Engine(made[0], [], [], "bfloat16")
    torch.testing.assert_close(*[next(made[0].parameters())] * 2)
