"""Faithfulness of translators: one that writes what it attends to, and the same with its attention frozen."""

import numpy as np
import pytest
import torch
from tasks.conftest import make

from regard import measure_translation_faithfulness
from regard.config import DecodingConfig, LuongDecoderConfig, RecurrentConfig, TransformerConfig
from regard.errors import RequestError
from regard.evaluation.comparison import bootstrap_mean
from regard.models.build import build_translator
from regard.reweight import flatten, for_site, for_steps
from regard.tasks.translation.probe import TranslationProbe

TEXTS = [
    "one two three .",
    "Anna saw Ben .",
    "four five six seven !",
    "Ben saw the cat .",
    "ten nine eight ?",
    "the cat saw Anna .",
]


def frozen():
    """The translator whose weights are the same on all tokens, whatever else is asked for."""
    translator = make()
    step = translator.model.step

    def even(tokens, state, *, record=(), reweight=None):
        change = for_steps(for_site(reweight, "cross"), 0)

        def both(weights, mask):
            return flatten(weights, mask) if change is None else change(flatten(weights, mask), mask)

        return step(tokens, state, record=record, reweight={"cross": both})

    translator.model.step = even
    return translator


def test_attention_that_decides():
    found = measure_translation_faithfulness(make(), TEXTS)
    # A step's word is the one attended to: erasing it from attention costs it all its probability, erasing others nothing.
    assert found.erased.attention > 0.9 * found.erased.best > 0.5
    assert found.erased.p < 0.05
    assert found.uniform.mean > 0.5
    assert found.permuted.mean > 0.5
    assert found.texts == len(TEXTS)
    assert found.gradient.texts == 0  # it has no embedding


def test_frozen_attention_is_significantly_worse():
    own, even = (measure_translation_faithfulness(translator, TEXTS) for translator in (make(), frozen()))
    assert even.uniform.mean == pytest.approx(0, abs=1e-12)
    assert even.uniform_changed == 0
    assert even.permuted.mean == pytest.approx(0, abs=1e-6)
    compared = bootstrap_mean(*(np.array(one.erased.margins) for one in (own, even)))
    assert compared.p < 0.05
    assert sum(own.erased.margins) > sum(even.erased.margins)


def test_the_table_and_the_sentence():
    found = measure_translation_faithfulness(make(), TEXTS)
    text = found.render()
    assert "6 sentences" in text
    assert "attention to the token erased" in text
    assert found.sentence in text
    assert found.to_dict()["gradient"]["mean"] is None


def test_sources_that_are_too_short_are_refused():
    with pytest.raises(RequestError, match=r"^faithfulness: there is no source of two tokens or more, expected at least one$"):
        measure_translation_faithfulness(make(), ["one", ""])


MODELS = {
    "luong": RecurrentConfig(embedding_size=8, decoder=LuongDecoderConfig(hidden_size=12)),
    "transformer": TransformerConfig(hidden_size=8, num_heads=2, feed_forward_size=11, encoder_layers=1, decoder_layers=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_measure_of_a_model(name):
    translator = make()
    torch.manual_seed(0)
    size = translator.bundle.parts.source.size
    translator.model = build_translator(MODELS[name], source_size=size, target_size=size).eval()
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.mul_(3)
    found = measure_translation_faithfulness(translator, TEXTS, max_texts=3)
    assert found == measure_translation_faithfulness(translator, TEXTS, max_texts=3)
    assert found.texts == 3
    assert -1 <= found.gradient.mean <= 1
    assert -1 <= found.leave_one_out.mean <= 1
    for removal in (found.deleted, found.erased):
        assert removal.random <= removal.best
        assert removal.attention <= removal.best
    assert 0 < found.uniform.mean <= 1


def test_gradients_are_those_of_finite_differences():
    translator = make()
    torch.manual_seed(0)
    size = translator.bundle.parts.source.size
    model = translator.model = build_translator(MODELS["luong"], source_size=size, target_size=size).double().eval()
    probe = TranslationProbe(translator.model, torch.tensor([[5, 6, 7, 3]]), DecodingConfig())
    found = abs(probe.gradients())
    step, token = 1, int(probe.decision[1])
    with torch.no_grad():
        scores = []
        for sign in (1, -1):  # along the embedding itself: gradient · input
            own = model.source_embedding.weight[6].clone()
            model.source_embedding.weight[6] = own * (1 + sign * 1e-5)
            scores.append(float(probe.probabilities(probe.source)[0, step, token].log()))
            model.source_embedding.weight[6] = own
    assert found[step, 1] == pytest.approx(abs(scores[0] - scores[1]) / 2e-5, rel=1e-4)
