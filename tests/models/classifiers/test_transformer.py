"""The Transformer classifier, beyond what every classifier must pass."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.config import MultiHeadPoolingConfig, TransformerClassifierConfig
from regard.errors import ConfigError
from regard.layers.positions import LearnedPositions, NoPositions
from regard.models.build import build_classifier
from regard.models.classifiers.transformer import TransformerClassifier
from regard.text.symbols import UNKNOWN

WORDS, LABELS, LENGTH = 31, 3, 7
SMALL = TransformerClassifierConfig(
    embedding_size=20, num_heads=2, feed_forward_size=29, embedding_dropout=0.0, layer_dropout=0.0, output_dropout=0.0
)
CONFIGS = {
    "pre": SMALL,
    "post": replace(SMALL, norm_first=False, feed_forward="relu", positions="learned"),
    "rotary": replace(SMALL, norm="rms", feed_forward="swiglu", positions="rotary"),
    "pooled by heads": replace(SMALL, pooling=MultiHeadPoolingConfig(num_heads=5)),
}


def build(config: TransformerClassifierConfig, **options) -> TransformerClassifier:
    torch.manual_seed(0)
    return TransformerClassifier(config, vocabulary_size=WORDS, num_labels=LABELS, **options).double().eval()


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def model(request):
    return build(request.param)


def texts() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(4, WORDS, (5, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 3, 0, 1, 5])[:, None]
    return tokens.masked_fill(~mask, 0), mask


def test_order_counts(model):
    tokens, mask = texts()
    assert not torch.allclose(model(tokens[:1].flip(1), mask[:1]).logits, model(tokens[:1], mask[:1]).logits)


def test_word_vectors_are_mapped_to_the_models_width():
    model = build(SMALL, embedding_size=13)
    assert model.embedding.weight.shape == (WORDS, 13)
    tokens, mask = texts()
    assert model.embed(tokens).shape == (5, LENGTH, 13)
    assert model(tokens, mask).logits.shape == (5, LABELS)
    assert isinstance(build(SMALL).mapping, torch.nn.Identity)


@pytest.mark.parametrize("vectors", [0, 300])
def test_words_enter_as_large_as_positions(vectors):
    seen = []
    model = build(replace(SMALL, embedding_size=200, positions="rotary"), embedding_size=vectors)
    if vectors:
        torch.nn.init.normal_(model.embedding.weight, std=0.4)
    model.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    tokens, mask = texts()
    model(tokens, mask)
    assert 0.5 < seen[0][mask].std().item() < 1.5


def test_word_dropout_hides_words():
    model = build(replace(SMALL, word_dropout=0.5)).train()
    seen = []
    model.embedding.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    tokens, mask = texts()
    model(tokens, mask)
    hidden = seen[0] == UNKNOWN
    assert hidden[mask].any()
    assert not hidden[mask].all()
    assert not hidden[~mask].any()


def test_the_configuration_is_followed():
    config = replace(SMALL, embedding_dropout=0.1, layer_dropout=0.2, attention_dropout=0.3, output_dropout=0.4, num_layers=3)
    model = build(config)
    layer = model.encoder.layers[2]
    assert (model.embedding_dropout.p, model.output_dropout.p, layer.attention.dropout) == (0.1, 0.4, 0.3)
    assert layer.attention_residual.dropout.p == layer.feed_forward.dropout.p == 0.2
    assert isinstance(build(CONFIGS["post"]).positions, LearnedPositions)
    assert isinstance(build(CONFIGS["rotary"]).positions, NoPositions)
    assert build(CONFIGS["pre"]).encoder.norm is not None
    assert build(CONFIGS["post"]).encoder.norm is None
    assert isinstance(build_classifier(SMALL, vocabulary_size=WORDS, num_labels=LABELS), TransformerClassifier)


def test_refusals():
    with pytest.raises(ConfigError, match=r"MultiHead\(size=20, num_heads=3\): size must be a multiple of num_heads"):
        build(replace(SMALL, num_heads=3))
