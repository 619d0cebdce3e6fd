"""Inputs of the classifiers: word embeddings, and word dropout in training."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from regard.text.symbols import PAD, UNKNOWN


def build_embedding(vocabulary_size: int, embedding_size: int) -> nn.Embedding:
    """Return word embeddings drawn from a normal distribution of variance 1/E; the embedding of padding stays zero.

    With variance 1, PyTorch's default, a recurrent classifier learns several times slower and reaches a lower accuracy
    (`benchmarks/log.md`).
    """
    embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=PAD)
    with torch.no_grad():
        embedding.weight.mul_(embedding_size**-0.5)
    return embedding


class WordDropout(nn.Module):
    """Dropout that replaces words by the unknown symbol in training.

    Reference: Iyyer et al. 2015, section 3.1, where words are removed.
    Differs from the paper: words are replaced, so that no text becomes empty.
    """

    def __init__(self, probability: float) -> None:
        """Store the probability of replacing each word, from 0 to less than 1."""
        super().__init__()
        self.probability = probability

    def forward(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
        """Return the tokens, some of them replaced."""
        if not self.training or not self.probability:
            return tokens
        hidden = torch.rand(tokens.shape, device=tokens.device) < self.probability
        return tokens.masked_fill(hidden & mask, UNKNOWN)

    def extra_repr(self) -> str:
        """Return the probability, for `print`."""
        return f"probability={self.probability}"
