"""A recurrent decoder packed for a search on a CPU: its usual `step`, with packed weights in the layers and the readout.

Products with weights run in autocast's dtype, such as bfloat16. States and gates are in float32, or in float64 for a float64
model. The attention is not changed.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.inference.linear import PackedMap, pack_linear, pack_matrix
from regard.layers.cells import gru_cell, lstm_cell
from regard.layers.readout import ReadoutMaps
from regard.layers.recurrent import CellWeights, compute_dtype
from regard.models.search_parts import RecurrentParts


class PackedLayer(nn.Module):
    """A recurrent layer with packed weights, which has only a `step`; see `RecurrentLayer.step`.

    Args:
        weights: The weights of the layer.
        sentences: Number of sentences in the search.
    """

    def __init__(self, weights: CellWeights, sentences: int) -> None:
        super().__init__()
        self.dtype = torch.promote_types(weights.state_weight.dtype, torch.float32)
        dtype = compute_dtype(weights.state_weight)
        input_weight, input_bias, state_weight, state_bias = (
            each.to(dtype) for each in (weights.input_weight, weights.input_bias, weights.state_weight, weights.state_bias)
        )
        self.both: PackedMap | None = None
        if weights.cell == "lstm":  # an LSTM needs only the sum of the two maps, which is a single product
            self.both = pack_matrix(torch.cat((input_weight, state_weight), 1), input_bias + state_bias, sentences)
        else:
            self.input_map = pack_matrix(input_weight, input_bias, sentences)
            self.state_map = pack_matrix(state_weight, state_bias, sentences)

    def step(
        self, inputs: Float[Tensor, "*batch D"], state: tuple[Tensor, Tensor | None]
    ) -> tuple[Float[Tensor, "*batch H"], Tensor | None]:
        """Run one step forward in time, for any number of rows."""
        hidden, cell = state
        if self.both is None:
            x_gates, h_gates = self.input_map(inputs).to(self.dtype), self.state_map(hidden).to(self.dtype)
            return gru_cell(x_gates, h_gates, hidden), None
        assert cell is not None, "an LSTM has a cell state"
        dtype = self.both.dtype
        gates = self.both(torch.cat((inputs.to(dtype), hidden.to(dtype)), -1)).to(self.dtype)
        return lstm_cell(gates, gates.new_zeros(()), cell)


class PackedReadout(nn.Module):
    """tanh(C c + W_h o + E y), with the context c, the cell's output o, the embedding y, and packed maps.

    Args:
        context: C.
        output: W_h.
        embedding: E; None for a readout that does not use the embedding.
        dtype: The dtype of the sum.
    """

    def __init__(self, context: PackedMap, output: PackedMap, embedding: PackedMap | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.size = context.out_features
        self.context_map, self.output_map, self.embedding_map, self.dtype = context, output, embedding, dtype

    def forward(
        self, output: Float[Tensor, "B T H"], context: Float[Tensor, "B T Dv"], embedded: Float[Tensor, "B T E"]
    ) -> Float[Tensor, "B T R"]:
        """Return the features of one step."""
        total = self.context_map(context).to(self.dtype) + self.output_map(output)
        return torch.tanh(total if self.embedding_map is None else total + self.embedding_map(embedded))


@dataclass(frozen=True)
class PackedRecurrent:
    """A recurrent decoder with packed layers and readout."""

    decoder: Any
    dtype: torch.dtype
    """The dtype of states and gates."""

    def begin(self, state: Any, mask: Bool[Tensor, "B S"]) -> Any:
        """Return the state before the first word; steps from this state run the packed decoder.

        Args:
            state: The state of the plain decoder (`RecurrentState`).
            mask: True at the source's tokens.
        """
        cell = None if state.cell is None else state.cell.to(self.dtype)
        return replace(state, hidden=state.hidden.to(self.dtype), cell=cell, stepper=self.decoder)


def pack_recurrent(parts: RecurrentParts, sentences: int) -> PackedRecurrent:
    """Pack a recurrent decoder.

    Args:
        parts: The parts of the decoder.
        sentences: Number of sentences in the search.
    """
    dtype = torch.promote_types(parts.layers[0].state_weight.dtype, torch.float32)
    readout = None if parts.readout_maps is None else _pack_readout(parts.readout_maps, sentences, dtype)
    layers = [PackedLayer(weights, sentences) for weights in parts.layers]
    return PackedRecurrent(parts.with_parts(layers, parts.readout if readout is None else readout).eval(), dtype)


def _pack_readout(maps: ReadoutMaps, sentences: int, dtype: torch.dtype) -> PackedReadout | None:
    """Return the packed readout; None if gradients are enabled, or if one of its maps computes more than x Wᵀ + b."""
    context, output = pack_linear(maps.context, sentences), pack_linear(maps.output, sentences)
    embedding = None if maps.embedding is None else pack_linear(maps.embedding, sentences)
    if context is None or output is None or (embedding is None) != (maps.embedding is None):
        return None
    return PackedReadout(context, output, embedding, dtype)
