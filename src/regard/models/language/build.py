"""A language model from its configuration."""

from torch import nn

from regard.config import LanguageModelConfig
from regard.layers.transformer_build import Blueprint, build_causal
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.recurrent.build import build_embedding
from regard.models.transformer.build import build_positions


def build_language_model(config: LanguageModelConfig, *, vocabulary_size: int) -> TransformerLanguageModel:
    """Build the model, its weights drawn from torch's generator.

    Args:
        config: What it is made of.
        vocabulary_size: V, ≥ 1.

    Raises:
        ConfigError: If widths do not fit together.
    """
    size = config.hidden_size
    blueprint = Blueprint(
        size=size,
        num_heads=config.num_heads,
        feed_forward_size=config.feed_forward_size,
        feed_forward=config.feed_forward,
        norm=config.norm,
        order=config.norm_order,
        rotary=config.positions == "rotary",
        dropout=config.layer_dropout,
        activation_dropout=config.activation_dropout,
        attention_dropout=config.attention_dropout,
    )
    embedding = build_embedding(vocabulary_size, size, std=size**-0.5)
    output = nn.Linear(size, vocabulary_size, bias=config.output_bias)
    nn.init.xavier_uniform_(output.weight)
    if config.tie_embeddings:
        output.weight = embedding.weight
    return TransformerLanguageModel(
        embedding=embedding,
        positions=build_positions(config),
        decoder=build_causal(blueprint, num_layers=config.num_layers),
        output=output,
        embedding_dropout=config.embedding_dropout,
    )
