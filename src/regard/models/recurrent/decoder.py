"""The two orders of a recurrent decoder: attend and then run the cell, or run the cell and then attend."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.base import Attention, Memory
from regard.layers.cells import Cell
from regard.layers.feedback import FeedbackInputs, attend_first, cell_first
from regard.layers.readout import AttentionalReadout, Readout
from regard.layers.recurrent import RecurrentLayer, compute_dtype
from regard.models.recurrent.scores import ScoreWeights, score_weights


@dataclass(frozen=True)
class RecurrentState:
    """Where the decoding of B sentences stands, N hypotheses of each."""

    memory: Memory
    """The source, prepared once; the same for all the hypotheses of a sentence."""
    hidden: Float[Tensor, "L B N H"]
    cell: Float[Tensor, "L B N H"] | None = None
    feed: Float[Tensor, "B N R"] | None = None
    """The readout of the step before, where it is fed back."""
    attention: Any = None
    """What a stateful attention carries, with B·N rows."""

    def select(self, beam: Int[Tensor, "B N"]) -> "RecurrentState":
        """For each new hypothesis, the index of the one it goes on from."""
        before = self.hidden.shape[2]
        rows = (torch.arange(len(beam), device=beam.device)[:, None] * before + beam).flatten()

        def move(tensor: Tensor, axis: int) -> Tensor:
            return tensor.flatten(axis, axis + 1).index_select(axis, rows).unflatten(axis, tuple(beam.shape))

        return replace(
            self,
            hidden=move(self.hidden, 1),
            cell=None if self.cell is None else move(self.cell, 1),
            feed=None if self.feed is None else move(self.feed, 0),
            attention=None if self.attention is None else self.attention.select(rows),
        )

    def keep(self, rows: Int[Tensor, " M"]) -> "RecurrentState":
        """Go on with these sentences only."""
        count = self.hidden.shape[2]
        each = (rows[:, None] * count + torch.arange(count, device=rows.device)).flatten()
        return replace(
            self,
            memory=self.memory.select(rows),
            hidden=self.hidden.index_select(1, rows),
            cell=None if self.cell is None else self.cell.index_select(1, rows),
            feed=None if self.feed is None else self.feed.index_select(0, rows),
            attention=None if self.attention is None else self.attention.select(each),
        )


class RecurrentDecoder(nn.Module, ABC):
    """A stack of recurrent layers with attention."""

    feeds_back: bool
    """Whether a step needs what the step before attended to or read out."""

    def __init__(
        self,
        input_size: int,
        *,
        hidden_size: int,
        num_layers: int,
        cell: Cell,
        attention: Attention,
        readout: Readout,
        layer_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.readout = attention, readout
        self.layer_dropout = nn.Dropout(layer_dropout)
        self.layers = nn.ModuleList(
            RecurrentLayer(hidden_size if depth else input_size, hidden_size=hidden_size, cell=cell)
            for depth in range(num_layers)
        )

    @abstractmethod
    def step(
        self, embedded: Float[Tensor, "B N E"], state: RecurrentState, *, need_weights: bool
    ) -> tuple[Float[Tensor, "B N R"], Float[Tensor, "B N S"] | None, RecurrentState]:
        """Feed one word to each hypothesis: features, weights, state."""

    def decode(
        self, embedded: Float[Tensor, "B T E"], state: RecurrentState, *, need_weights: bool
    ) -> tuple[Float[Tensor, "B T R"], Tensor | None]:
        """Read a whole target, a step at a time: what every quicker way is held to."""
        features, weights = [], []
        for position in range(embedded.shape[1]):
            feature, weight, state = self.step(embedded[:, position, None], state, need_weights=need_weights)
            features.append(feature)
            if weight is not None:
                weights.append(weight)
        return torch.cat(features, dim=1), torch.cat(weights, dim=-2) if weights else None

    def _run(self, inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One step of all the layers."""
        hidden, cells = [], []
        for depth in range(len(self.layers)):
            before = state.hidden[depth], None if state.cell is None else state.cell[depth]
            inputs, cell = self._layer(depth).step(self.layer_dropout(inputs) if depth else inputs, before)
            hidden.append(inputs)
            if cell is not None:
                cells.append(cell)
        return inputs, replace(state, hidden=torch.stack(hidden), cell=torch.stack(cells) if cells else None)

    def _layer(self, depth: int) -> RecurrentLayer:
        return cast(RecurrentLayer, self.layers[depth])

    def _attend(
        self, query: Tensor, state: RecurrentState, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """Attend for each hypothesis. They are queries of one call, unless each carries a state of its own."""
        batch, count, _ = query.shape
        if not self.attention.stateful:
            out, _ = self.attention.attend(query, state.memory, need_weights=need_weights)
            return out.context, out.weights, state
        each = torch.arange(batch, device=query.device).repeat_interleave(count)
        out, carried = self.attention.attend(
            query.flatten(0, 1)[:, None], state.memory.select(each), state.attention, need_weights=need_weights
        )
        weights = None if out.weights is None else out.weights.unflatten(0, (batch, count)).movedim(1, -3).squeeze(-2)
        return out.context.view(batch, count, -1), weights, replace(state, attention=carried)

    def _loop_scores(self, state: RecurrentState) -> ScoreWeights | None:
        """The score's weights where the hand-written loop serves: one layer, one hypothesis, a score that it knows."""
        return score_weights(self.attention) if len(self.layers) == 1 and state.hidden.shape[2] == 1 else None

    def _loop_inputs(self, embedded: Tensor, state: RecurrentState, values: Tensor, scores: ScoreWeights) -> FeedbackInputs:
        """What the hand-written loop reads."""
        layer = self._layer(0)
        embedding_weight = layer.weight_ih[0, :, : embedded.shape[2]]
        return FeedbackInputs(
            x_gates=functional.linear(embedded.transpose(0, 1).contiguous(), embedding_weight, layer.bias_ih[0]),
            state=state.hidden[0, :, 0],
            cell=None if state.cell is None else state.cell[0, :, 0],
            weight_hh=layer.weight_hh[0],
            bias_hh=layer.bias_hh[0],
            keys=state.memory.key,
            values=values,
            query_weight=scores[0],
            score_weight=scores[1],
        )


class BahdanauDecoder(RecurrentDecoder):
    """Attend with the state before, then run the cell over [embedding; context] (Bahdanau et al. 2015, appendix A.2.2).

    c_t = attend(h_{t−1})    h_t = cell([y_{t−1}; c_t], h_{t−1})    features_t = readout(h_t, c_t, y_{t−1})
    """

    feeds_back = True

    def step(
        self, embedded: Tensor, state: RecurrentState, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None, RecurrentState]:
        context, weights, state = self._attend(state.hidden[-1], state, need_weights=need_weights)
        output, state = self._run(torch.cat((embedded, context.to(embedded.dtype)), dim=-1), state)
        return self.readout(output, context, embedded), weights, state

    def decode(self, embedded: Tensor, state: RecurrentState, *, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        scores = self._loop_scores(state)
        if scores is None:
            return super().decode(embedded, state, need_weights=need_weights)
        memory = state.memory
        feed_weight = self._layer(0).weight_ih[0, :, embedded.shape[2] :]
        inputs = self._loop_inputs(embedded, state, functional.linear(memory.value, feed_weight), scores)
        states, weights = attend_first(inputs, memory.key_mask, compute_dtype(embedded))
        states, weights = states.transpose(0, 1), weights.transpose(0, 1)
        context = torch.bmm(weights.to(memory.value.dtype), memory.value)
        return self.readout(states, context, embedded), weights if need_weights else None


class LuongDecoder(RecurrentDecoder):
    """Run the cell over the embedding, then attend with its output (Luong et al. 2015, section 3).

    h_t = cell(y_{t−1}, h_{t−1})    c_t = attend(h_t)    features_t = readout(h_t, c_t, y_{t−1})
    """

    feeds_back = False

    def step(
        self, embedded: Tensor, state: RecurrentState, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None, RecurrentState]:
        output, state = self._run(embedded, state)
        context, weights, state = self._attend(output, state, need_weights=need_weights)
        return self.readout(output, context, embedded), weights, state

    def decode(self, embedded: Tensor, state: RecurrentState, *, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        if state.hidden.shape[2] != 1:
            return super().decode(embedded, state, need_weights=need_weights)
        output = embedded
        for depth, layer in enumerate(self.layers):
            before = state.hidden[depth, :, 0], None if state.cell is None else state.cell[depth, :, 0]
            output, _ = layer(self.layer_dropout(output) if depth else output, initial=before)
        # Queries of one call are taken in order, which is all that a stateful attention asks for.
        out, _ = self.attention.attend(output, state.memory, state.attention, need_weights=need_weights)
        return self.readout(output, out.context, embedded), out.weights


class InputFeedingDecoder(RecurrentDecoder):
    """Luong's decoder whose cell reads the readout of the step before too (Luong et al. 2015, section 3.3).

    h_t = cell([y_{t−1}; a_{t−1}], h_{t−1})    c_t = attend(h_t)    features_t = a_t = readout(h_t, c_t, y_{t−1})
    """

    feeds_back = True

    def step(
        self, embedded: Tensor, state: RecurrentState, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None, RecurrentState]:
        feed = state.feed
        if feed is None:
            feed = embedded.new_zeros(*embedded.shape[:2], self.readout.size)
        output, state = self._run(torch.cat((embedded, feed.to(embedded.dtype)), dim=-1), state)
        context, weights, state = self._attend(output, state, need_weights=need_weights)
        features = self.readout(output, context, embedded)
        return features, weights, replace(state, feed=features)

    def decode(self, embedded: Tensor, state: RecurrentState, *, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        readout = self.readout
        scores = self._loop_scores(state)
        if scores is None or not isinstance(readout, AttentionalReadout) or state.feed is not None:
            return super().decode(embedded, state, need_weights=need_weights)
        memory = state.memory
        features, weights = cell_first(
            self._loop_inputs(embedded, state, readout.context_map(memory.value), scores),
            memory.key_mask,
            self._layer(0).weight_ih[0, :, embedded.shape[2] :],
            readout.output_map.weight,
            readout.output_map.bias,
            compute_dtype(embedded),
        )
        return features.transpose(0, 1), weights.transpose(0, 1) if need_weights else None
