"""Word embeddings, and their weights shared with the output layer."""

import torch
from torch import nn

from regard.errors import ConfigError
from regard.text.symbols import PAD


def build_embedding(size: int, width: int, *, std: float) -> nn.Embedding:
    """Return word embeddings drawn from a normal distribution, with zeros for padding."""
    embedding = nn.Embedding(size, width, padding_idx=PAD)
    with torch.no_grad():
        embedding.weight.normal_(0, std)[PAD] = 0
    return embedding


def tie_embeddings(kind: str, *, source: nn.Module, target: nn.Embedding, output: nn.Linear) -> None:
    """Let layers share one weight matrix, as the setting `tie_embeddings` says: `none`, `target` or `all`."""
    width, readout = target.embedding_dim, output.in_features
    if kind != "none" and readout != width:
        raise ConfigError(
            f"tie_embeddings: {kind} uses the target embedding as output layer; its width is {width}, but "
            f"the readout is {readout} wide: set model.embedding_size to {readout}, or tie_embeddings to none"
        )
    if kind == "all" and not isinstance(source, nn.Embedding):
        raise ConfigError("tie_embeddings is 'all', but a pretrained encoder has its own embeddings; set it to target")
    if kind == "all" and source.num_embeddings != target.num_embeddings:
        raise ConfigError(
            f"tie_embeddings: all needs one vocabulary for both sides, but the source has {source.num_embeddings} symbols and "
            f"the target {target.num_embeddings}: make the sizes equal (in a run: tokenizers.joint true), or set "
            "tie_embeddings to target"
        )
    if kind != "none":
        output.weight = target.weight
    if kind == "all":
        source.weight = target.weight
