"""An ensemble is a model by the contract, and of one model with itself that model."""

import numpy as np
import pytest
import torch

from regard.config import BahdanauDecoderConfig, EncoderConfig, RecurrentConfig, TransformerConfig
from regard.decoding import beam_search, force, greedy
from regard.errors import ConfigError, RequestError
from regard.models.build import build_translator
from regard.models.ensemble import Ensemble
from regard.text.symbols import END, START

WORDS = 13


def make(config, seed):
    torch.manual_seed(seed)
    model = build_translator(config, source_size=11, target_size=WORDS).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def transformer(seed=0, heads=2):
    config = TransformerConfig(
        hidden_size=12, num_heads=heads, feed_forward_size=16, encoder_layers=2, decoder_layers=2, layer_dropout=0.0
    )
    return make(config, seed)


def recurrent(seed=0):
    config = RecurrentConfig(
        embedding_size=5, encoder=EncoderConfig(hidden_size=6), decoder=BahdanauDecoderConfig(hidden_size=7)
    )
    return make(config, seed)


@pytest.fixture
def batch():
    draw = torch.Generator().manual_seed(3)
    mask = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    return torch.randint(4, 11, (3, 6), generator=draw) * mask, mask


def words(seed=1):
    inner = torch.randint(4, WORDS, (3, 5), generator=torch.Generator().manual_seed(seed))
    start, end = torch.full((3, 1), START), torch.full((3, 1), END)
    return torch.cat([start, inner], 1), torch.cat([inner, end], 1)


@pytest.mark.parametrize("make_model", [transformer, recurrent])
@pytest.mark.parametrize("members", [1, 2, 3])
def test_of_one_model_with_itself_is_the_model(make_model, members, batch):
    model = make_model()
    ensemble = Ensemble([model] * members).eval()
    assert (ensemble.sites, ensemble.feeds_back) == (model.sites, model.feeds_back)
    for one, other in zip(
        beam_search(ensemble, *batch, beam_size=4, n_best=4, max_length=8, record=model.sites),
        beam_search(model, *batch, beam_size=4, n_best=4, max_length=8, record=model.sites),
        strict=True,
    ):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in other], atol=1e-6, rtol=1e-6)
        for a, b in zip(one, other, strict=True):
            assert a.attention.keys() == b.attention.keys() == set(model.sites)
            for site in model.sites:
                np.testing.assert_allclose(a.attention[site], b.attention[site], atol=1e-6)
    for one, other in zip(force(ensemble, *batch, *words()), force(model, *batch, *words()), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


def test_probabilities_are_the_mean(batch):
    models = [transformer(0), transformer(1, heads=3), recurrent(2)]
    ensemble = Ensemble(models).eval()
    target_in, _ = words()
    states = [model.encode(*batch) for model in models]
    mean = torch.stack([m.logits(m.decode(target_in, s)[0]).softmax(-1) for m, s in zip(models, states, strict=True)]).mean(0)
    features, _ = ensemble.decode(target_in, ensemble.encode(*batch))
    torch.testing.assert_close(ensemble.logits(features), mean.log(), rtol=1e-5, atol=1e-5)
    state = ensemble.encode(*batch)
    for position in range(target_in.shape[1]):
        logits, _, state = ensemble.step(target_in[:, position : position + 1], state)
        torch.testing.assert_close(logits[:, 0], mean[:, position].log(), rtol=1e-4, atol=1e-4)


def test_attention_is_the_mean_of_what_all_have(batch):
    models = [transformer(0), transformer(1, heads=3)]
    ensemble = Ensemble(models).eval()
    target_in, _ = words()
    each = [m.decode(target_in, m.encode(*batch, record=m.sites), record=m.sites)[1] for m in models]
    _, found = ensemble.decode(target_in, ensemble.encode(*batch, record=ensemble.sites), record=ensemble.sites)
    torch.testing.assert_close(found["cross"], (each[0]["cross"] + each[1]["cross"]) / 2)
    torch.testing.assert_close(found["cross.1"], (each[0]["cross.1"].mean(1) + each[1]["cross.1"].mean(1)) / 2)
    assert Ensemble([transformer(), recurrent()]).sites == ("cross",)


def test_a_beam_of_one_is_greedy_and_two_differ_from_each(batch):
    models = [transformer(0), transformer(3)]
    ensemble = Ensemble(models).eval()
    found = greedy(ensemble, *batch, max_length=8)
    assert [h.tokens for h in found] == [h.tokens for [h] in beam_search(ensemble, *batch, beam_size=1, max_length=8)]
    assert all([h.tokens for h in found] != [h.tokens for h in greedy(model, *batch, max_length=8)] for model in models)


def test_its_own_words_are_those_of_all_together(batch):
    ensemble = Ensemble([transformer(0), transformer(1)]).eval()
    found = greedy(ensemble, *batch, max_length=5)
    target_in = torch.full((3, 5), START)
    gold = torch.zeros(3, 5, dtype=torch.bool)
    gold[:, 0] = True
    features, _ = ensemble.decode(target_in, ensemble.encode(*batch), use_gold=gold)
    best = ensemble.logits(features).argmax(-1)
    for row, h in enumerate(found):
        assert best[row, : len(h.tokens)].tolist() == h.tokens


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="Ensemble got no members; expected one model or more"):
        Ensemble([])
    with pytest.raises(RequestError, match="an ensemble has no output layer and cannot be trained"):
        Ensemble([transformer()]).output_weight()
