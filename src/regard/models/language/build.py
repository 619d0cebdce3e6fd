"""Build a language model from its configuration."""

from torch import nn

from regard.config import LanguageModelConfig
from regard.layers.positions import build_positions
from regard.layers.transformer_build import build_causal
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.recurrent.build import build_embedding
from regard.models.transformer.build import build_blueprint, initial_std


def build_language_model(config: LanguageModelConfig, *, vocabulary_size: int) -> TransformerLanguageModel:
    """Build the model, with initial weights from PyTorch's random generator.

    Args:
        config: Settings of the model.
        vocabulary_size: V, number of words, ≥ 1.

    Raises:
        ConfigError: If widths do not match.
    """
    size = config.hidden_size
    blueprint = build_blueprint(config)
    embedding = build_embedding(vocabulary_size, size, std=initial_std(size, tied=config.tie_embeddings))
    output = nn.Linear(size, vocabulary_size, bias=config.output_bias)
    nn.init.xavier_uniform_(output.weight)
    if config.tie_embeddings:
        output.weight = embedding.weight
    return TransformerLanguageModel(
        embedding=embedding,
        positions=build_positions(config.positions, config.hidden_size),
        decoder=build_causal(blueprint, num_layers=config.num_layers),
        output=output,
        embedding_dropout=config.embedding_dropout,
    )
