"""The encoder of a recurrent translator, and the bridge that computes the decoder's first state."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.config import DecoderConfig, EncoderConfig
from regard.errors import ConfigError
from regard.layers.recurrent import RecurrentLayer, State
from regard.reweight import Sites


class RecurrentEncoder(nn.Module):
    """A stack of recurrent layers over embedded words."""

    def __init__(self, config: EncoderConfig, *, embedding_size: int) -> None:
        super().__init__()
        self.size = config.states_size
        """Width of the states, including the last state of each layer."""
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.layer_dropout = nn.Dropout(config.layer_dropout)
        self.output_dropout = nn.Dropout(config.output_dropout)
        self.layers = nn.ModuleList(
            RecurrentLayer(
                self.size if depth else embedding_size,
                hidden_size=config.hidden_size,
                cell=config.cell,
                bidirectional=config.bidirectional,
            )
            for depth in range(config.num_layers)
        )

    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites | None = None
    ) -> tuple[Float[Tensor, "B S D"], list[State]]:
        """Return the states of the top layer, and the last state of each layer; there is no attention, so no `sites`."""
        states, finals = self.embedding_dropout(embedded), []
        for depth, layer in enumerate(self.layers):
            states, final = layer(self.layer_dropout(states) if depth else states, mask)
            finals.append(final)
        return self.output_dropout(states), finals


class Bridge(nn.Module, ABC):
    """Base of bridges, which compute the first state (L,B,H) of a decoder's layers, and the first cell state of an LSTM.

    `size` is the width D of the encoder's states.
    """

    def __init__(self, size: int, decoder: DecoderConfig) -> None:
        super().__init__()
        self.hidden_size, self.num_layers, self.lstm = decoder.hidden_size, decoder.num_layers, decoder.cell == "lstm"

    @abstractmethod
    def forward(self, states: Tensor, mask: Tensor, finals: list[State]) -> State:
        """Compute the first state from the encoder's states (B,S,D), the mask (B,S) and the last state (B,D) of each layer."""


class ZerosBridge(Bridge):
    """A bridge that starts the decoder with zeros."""

    def forward(self, states: Tensor, mask: Tensor, finals: list[State]) -> State:
        zeros = finals[0][0].new_zeros(self.num_layers, len(states), self.hidden_size)
        return zeros, zeros if self.lstm else None


class CopyBridge(Bridge):
    """A bridge that starts each layer of the decoder with the last state of the same layer of the encoder.

    If the numbers of layers differ, all layers start with the last state of the encoder's top layer. If the decoder is an LSTM
    and the encoder a GRU, the cell state is a copy of the state.
    """

    def __init__(self, size: int, decoder: DecoderConfig) -> None:
        super().__init__(size, decoder)
        if size != self.hidden_size:
            raise ConfigError(
                f"bridge: copy starts the decoder ({self.hidden_size} wide) from the encoder's last state ({size} wide): "
                "make model.decoder.hidden_size equal to model.encoder.hidden_size (twice that width if the "
                "encoder is bidirectional), or set model.bridge to linear"
            )

    def forward(self, states: Tensor, mask: Tensor, finals: list[State]) -> State:
        chosen = finals if len(finals) == self.num_layers else [finals[-1]] * self.num_layers
        hidden = torch.stack([final[0] for final in chosen])
        if not self.lstm:
            return hidden, None
        return hidden, torch.stack([final[0] if final[1] is None else final[1] for final in chosen])


class LinearBridge(Bridge):
    """A bridge that computes tanh(W s + b) from the last state s of the encoder's top layer.

    W has separate rows for the state and the cell state of each layer of the decoder.
    """

    def __init__(self, size: int, decoder: DecoderConfig) -> None:
        super().__init__(size, decoder)
        self.map = nn.Linear(size, self.hidden_size * self.num_layers * (1 + self.lstm))

    def summary(self, states: Tensor, mask: Tensor, finals: list[State]) -> Tensor:
        """Return the vectors (B,D) from which the bridge computes the decoder's first state."""
        return finals[-1][0]

    def forward(self, states: Tensor, mask: Tensor, finals: list[State]) -> State:
        mapped = torch.tanh(self.map(self.summary(states, mask, finals)).to(states.dtype))
        parts = mapped.unflatten(1, (1 + self.lstm, self.num_layers, -1)).permute(1, 2, 0, 3)
        return parts[0], parts[1] if self.lstm else None


class MeanBridge(LinearBridge):
    """A bridge that computes tanh(W s̄ + b) from the mean s̄ of the encoder's states, without padding."""

    def summary(self, states: Tensor, mask: Tensor, finals: list[State]) -> Tensor:
        kept = states.masked_fill(~mask[..., None], 0)
        return kept.sum(dim=1) / mask.sum(dim=1, keepdim=True)


# The bridges, by the name in the settings.
BRIDGES: dict[str, type[Any]] = {"zeros": ZerosBridge, "copy": CopyBridge, "linear": LinearBridge, "mean": MeanBridge}
