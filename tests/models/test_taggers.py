"""Taggers: their formula, padding, attention, and the sizes that they refuse."""

import pytest
import torch

from regard.attention import Additive, Coverage
from regard.config import AdditiveConfig, MultiHeadConfig, RecurrentTaggerConfig, TransformerTaggerConfig
from regard.errors import ConfigError, RequestError
from regard.models.build import build_tagger
from regard.reweight import Sites, attend_to, flatten

TOKENS = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 5, 0, 0]])
MASK = TOKENS != 0
PLACES = torch.tensor([[0, 2, 4], [0, 1, 0]])  # the second sentence has two words
CONFIGS = [
    RecurrentTaggerConfig(embedding_size=6, hidden_size=5),
    RecurrentTaggerConfig(embedding_size=6, hidden_size=4, cell="gru", num_layers=2, bidirectional=False),
    TransformerTaggerConfig(embedding_size=8, num_heads=2, feed_forward_size=12, attention=MultiHeadConfig(num_heads=2)),
]


@pytest.fixture(params=CONFIGS, ids=["lstm", "gru", "transformer"])
def model(request):
    torch.manual_seed(0)
    return build_tagger(request.param, vocabulary_size=12, num_tags=3).double().eval()


def test_logits_equal_the_formula():
    torch.manual_seed(0)
    config = RecurrentTaggerConfig(embedding_size=6, hidden_size=5, attention=AdditiveConfig(attention_size=7))
    model = build_tagger(config, vocabulary_size=12, num_tags=3).double().eval()
    states = model.encoder.states(model.encoder.embed(TOKENS), MASK, Sites())
    found = model(TOKENS, MASK, PLACES, record=["tag"])
    parameters = dict(model.attention.named_parameters())
    v, query, key = (parameters[name] for name in ("score_weight", "query_projection.weight", "key_projection.weight"))
    for row, words in ((0, [0, 2, 4]), (1, [0, 1])):
        kept = states[row][MASK[row]]
        for number, place in enumerate(words):
            scores = torch.stack([v.flatten() @ torch.tanh(query @ states[row, place] + key @ h) for h in kept])
            weights = scores.softmax(0)
            feature = torch.cat([states[row, place], (weights[:, None] * kept).sum(0)])
            torch.testing.assert_close(found.logits[row, number], model.output.weight @ feature + model.output.bias)
            torch.testing.assert_close(found.attention["tag"][row, number, : len(kept)], weights)


def test_padding_changes_nothing_and_weights_sum_to_one(model):
    found = model(TOKENS, MASK, PLACES, record=model.sites)
    for row, length, words in ((0, 5, 3), (1, 3, 2)):
        alone = model(TOKENS[row : row + 1, :length], MASK[row : row + 1, :length], PLACES[row : row + 1, :words])
        torch.testing.assert_close(alone.logits[0], found.logits[row, :words])
    weights = found.attention["tag"]
    assert weights.shape[-2:] == (3, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert not weights[1, ..., 3:].any()


def test_one_word_of_one_token(model):
    assert model(TOKENS[:1, :1], MASK[:1, :1], PLACES[:1, :1]).logits.shape == (1, 1, 3)


def test_every_parameter_gets_a_gradient(model):
    model.train()(TOKENS, MASK, PLACES).logits.square().sum().backward()
    assert [name for name, one in model.named_parameters() if one.grad is None or not one.grad.isfinite().all()] == []


def test_weights_can_be_replaced(model):
    usual, flat = (model(TOKENS, MASK, PLACES, record=["tag"], reweight=change) for change in (None, flatten))
    torch.testing.assert_close(
        flat.attention["tag"][1, ..., 0, :3], torch.full_like(flat.attention["tag"][1, ..., 0, :3], 1 / 3)
    )
    assert not torch.allclose(usual.logits, flat.logits)
    chosen = model(TOKENS, MASK, PLACES, record=["tag"], reweight={"tag": attend_to(1)}).attention["tag"]
    torch.testing.assert_close(chosen[..., 1], torch.ones_like(chosen[..., 1]))
    with pytest.raises(RequestError, match="reweight names the attention 'cross'; this model has: tag"):
        model(TOKENS, MASK, PLACES, reweight={"cross": flatten})


def test_sites_are_those_of_the_encoder_and_of_the_tags():
    assert build_tagger(CONFIGS[0], vocabulary_size=12, num_tags=3).sites == ("tag",)
    assert build_tagger(CONFIGS[2], vocabulary_size=12, num_tags=3).sites == ("tag", "encoder.0", "encoder.1")


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (Coverage(10), "a Coverage remembers earlier queries, but tags are predicted independently"),
        (Additive(9), "the attention has query_size=9 and key_size=9, expected 10 for both"),
    ],
)
def test_an_attention_that_does_not_fit_is_refused(attention, message):
    with pytest.raises(ConfigError, match=message):
        build_tagger(CONFIGS[0], vocabulary_size=12, num_tags=3, attention=attention)
