"""What belongs to language models alone; the battery in tests/contracts holds them to the contract of every model."""

import pytest
import torch

from regard.config import LanguageModelConfig
from regard.errors import ConfigError
from regard.layers.positions import NoPositions
from regard.models.build import build_language_model
from regard.models.language import TransformerLanguageModel
from regard.models.transformer.build import build_causal

CONFIG = {"hidden_size": 20, "num_heads": 2, "feed_forward_size": 23, "num_layers": 2}


@pytest.mark.parametrize("tied", [True, False])
def test_tying(tied):
    model = build_language_model(LanguageModelConfig(**CONFIG, tie_embeddings=tied), vocabulary_size=29)
    assert (model.output.weight is model.embedding.weight) is tied
    assert model.output.bias is None
    assert model.sites == ("decoder.0", "decoder.1")


def test_widths_must_agree():
    decoder = build_causal(LanguageModelConfig(**CONFIG))
    with pytest.raises(ConfigError, match="must have the same width, got embedding 16, decoder 20, output 20"):
        TransformerLanguageModel(
            embedding=torch.nn.Embedding(29, 16), positions=NoPositions(), decoder=decoder, output=torch.nn.Linear(20, 29)
        )
