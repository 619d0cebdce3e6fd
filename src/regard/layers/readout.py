"""Readouts: features that predict the next word, from the cell's output o, the context c, and the last word's embedding y."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Readout(nn.Module, ABC):
    """Base of readouts, which compute features from the cell's output, the context and the embedding.

    Readouts with maps of their own have the width of the embedding, so that the output layer can share its weight.

    Args:
        hidden_size: H, width of the cell's output.
        context_size: Dv, width of the context.
        embedding_size: E, width of the embedding.
    """

    size: int
    """R, width of the features."""

    def __init__(self, hidden_size: int, *, context_size: int, embedding_size: int) -> None:
        super().__init__()
        self.size = embedding_size

    @abstractmethod
    def forward(
        self, output: Float[Tensor, "B T H"], context: Float[Tensor, "B T Dv"], embedded: Float[Tensor, "B T E"]
    ) -> Float[Tensor, "B T R"]:
        """Return the features of one step or of all steps."""


class OutputReadout(Readout):
    """The cell's output o alone, for decoders whose cell reads the context, so that o already depends on the attention."""

    def __init__(self, hidden_size: int, *, context_size: int, embedding_size: int) -> None:
        super().__init__(hidden_size, context_size=context_size, embedding_size=hidden_size)

    def forward(self, output: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        return output


class ConcatReadout(Readout):
    """The cell's output o and the context c, concatenated: [o; c]."""

    def __init__(self, hidden_size: int, *, context_size: int, embedding_size: int) -> None:
        super().__init__(hidden_size, context_size=context_size, embedding_size=hidden_size + context_size)

    def forward(self, output: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        return torch.cat((output, context.to(output.dtype)), dim=-1)


class AttentionalReadout(Readout):
    """tanh(C c + W_h o + b), with the context c and the cell's output o: the attentional state (Luong et al. 2015, eq. 5)."""

    def __init__(self, hidden_size: int, *, context_size: int, embedding_size: int) -> None:
        super().__init__(hidden_size, context_size=context_size, embedding_size=embedding_size)
        self.context_map = nn.Linear(context_size, embedding_size, bias=False)
        self.output_map = nn.Linear(hidden_size, embedding_size)

    def forward(self, output: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        return torch.tanh(self.context_map(context) + self.output_map(output))


class DeepReadout(Readout):
    """tanh(C c + W_h o + E y + b), with the context c, the cell's output o, and the embedding y: a deep output.

    Reference: Bahdanau et al. 2015, appendix A.2.2.
    Differs from the paper: tanh instead of maxout.
    """

    def __init__(self, hidden_size: int, *, context_size: int, embedding_size: int) -> None:
        super().__init__(hidden_size, context_size=context_size, embedding_size=embedding_size)
        self.context_map = nn.Linear(context_size, embedding_size, bias=False)
        self.embedding_map = nn.Linear(embedding_size, embedding_size, bias=False)
        self.output_map = nn.Linear(hidden_size, embedding_size)

    def forward(self, output: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        return torch.tanh(self.context_map(context) + self.output_map(output) + self.embedding_map(embedded))


# The readouts, by the name in the settings.
READOUTS: dict[str, type[Any]] = {
    "output": OutputReadout,
    "concat": ConcatReadout,
    "attentional": AttentionalReadout,
    "deep": DeepReadout,
}
