"""Inputs of the classifiers: the table of word embeddings, and word dropout in training."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from regard.text.symbols import PAD, UNKNOWN


def build_embedding(vocabulary_size: int, embedding_size: int) -> nn.Embedding:
    """Return word embeddings, drawn from a normal distribution of variance 1/E; that of padding is zero and stays so.

    With variance 1, as PyTorch draws them, a recurrent classifier learns several times slower, and less (`benchmarks/log.md`).
    """
    embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=PAD)
    with torch.no_grad():
        embedding.weight.mul_(embedding_size**-0.5)
    return embedding


class WordDropout(nn.Module):
    """In training, replace words by the unknown symbol.

    Reference: Iyyer et al. 2015, section 3.1, leave the words out.
    Differs from the paper: a word's place stays, so that no text is left without any.
    """

    def __init__(self, probability: float) -> None:
        """`probability` of each word to be replaced, from 0 to less than 1."""
        super().__init__()
        self.probability = probability

    def forward(self, tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
        """Return the tokens, some replaced."""
        if not self.training or not self.probability:
            return tokens
        hidden = torch.rand(tokens.shape, device=tokens.device) < self.probability
        return tokens.masked_fill(hidden & mask, UNKNOWN)

    def extra_repr(self) -> str:
        """Return the probability, for `print`."""
        return f"probability={self.probability}"
