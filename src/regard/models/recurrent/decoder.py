"""The two orders of a recurrent decoder: first attention and then the cell, or first the cell and then attention."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight, is_exactly, is_plain
from regard.attention.ordered.states import HistoryState
from regard.attention.precision import compute_dtype
from regard.config import DecoderConfig
from regard.layers.feedback import FeedbackInputs, attend_first, cell_first
from regard.layers.loop_scores import find_loop_score
from regard.layers.readout import AttentionalReadout, Readout
from regard.layers.recurrent import RecurrentLayer
from regard.models.policies import WaitK
from regard.reweight import for_steps, per_hypothesis


@dataclass(frozen=True)
class RecurrentState:
    """Decoding state of B sentences with N hypotheses each; L is the number of layers."""

    memory: Memory
    """Keys and values of the source, shared by all hypotheses of a sentence."""
    hidden: Float[Tensor, "L B N H"]
    cell: Float[Tensor, "L B N H"] | None = None
    feed: Float[Tensor, "B N R"] | None = None
    """The readout of the previous step, if the decoder feeds it back."""
    attention: Any = None
    """State of a stateful attention, with B·N rows."""

    length: int = 0
    """The number of words read so far."""
    encoder: dict[str, Tensor] = field(default_factory=dict)
    """The attention weights recorded in a pretrained encoder, (B,H,S,S), by site."""

    def select(self, beam: Int[Tensor, "B N"]) -> "RecurrentState":
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        first = torch.arange(len(beam), device=beam.device)[:, None] * self.hidden.shape[2]
        return self._moved((first + beam).flatten(), tuple(beam.shape))

    def keep(self, rows: Int[Tensor, " M"]) -> "RecurrentState":
        """Return the state of the sentences with the indices `rows` only, in this order."""
        count = self.hidden.shape[2]
        each = (rows[:, None] * count + torch.arange(count, device=rows.device)).flatten()
        encoder = {site: weights[rows] for site, weights in self.encoder.items()}
        return replace(self._moved(each, (len(rows), count)), memory=self.memory.select(rows), encoder=encoder)

    def reading(self, source: "RecurrentState") -> "RecurrentState":
        """Return this state with a longer source, whose result of `encode` is `source`."""
        size = source.memory.value.shape[-2]
        states = self.attention.widened(size) if isinstance(self.attention, HistoryState) else self.attention
        return replace(self, memory=source.memory, attention=states)

    def _moved(self, rows: Int[Tensor, " R"], shape: tuple[int, ...]) -> "RecurrentState":
        """Return the state of the hypotheses with these indices among all B·N, in a new shape (B,N)."""

        def move(tensor: Tensor, axis: int) -> Tensor:
            return tensor.flatten(axis, axis + 1).index_select(axis, rows).unflatten(axis, shape)

        return replace(
            self,
            hidden=move(self.hidden, 1),
            cell=None if self.cell is None else move(self.cell, 1),
            feed=None if self.feed is None else move(self.feed, 0),
            attention=None if self.attention is None else self.attention.select(rows),
        )


class Decoded(NamedTuple):
    """Result of decoding a whole target."""

    features: Float[Tensor, "B T R"]
    weights: Tensor | None
    """Weights (B,T,S), or (B,H,T,S) with heads; None if they were not requested."""
    loss: Tensor | None
    """The attention's own loss, averaged over the words of the targets; None for an attention without a loss."""


class RecurrentDecoder(nn.Module, ABC):
    """Base of recurrent decoders: a stack of recurrent layers with attention to the source."""

    feeds_back: bool
    """Whether a step needs the attention or the readout of the previous step."""
    feeds_readout = False
    """Whether a step needs the readout of the previous step."""
    policy: WaitK | None = None
    """Which source words a step may attend to; None for all."""

    def __init__(self, config: DecoderConfig, *, input_size: int, attention: Attention, readout: Readout) -> None:
        super().__init__()
        self.attention, self.readout = attention, readout
        self.layer_dropout = nn.Dropout(config.layer_dropout)
        self.layers = nn.ModuleList(
            RecurrentLayer(config.hidden_size if depth else input_size, hidden_size=config.hidden_size, cell=config.cell)
            for depth in range(config.num_layers)
        )

    @abstractmethod
    def step(
        self,
        embedded: Float[Tensor, "B N E"],
        state: RecurrentState,
        *,
        real: Bool[Tensor, "B N"] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool,
    ) -> tuple[Float[Tensor, "B N R"], AttentionOutput, RecurrentState]:
        """Feed one embedded word to each hypothesis, and return features, the attention's output and the next state.

        `real` is False at padding of the target, which the attention's own loss ignores. A subclass passes the keyword
        arguments on to `_attend`.
        """

    def decode(
        self,
        embedded: Float[Tensor, "B T E"],
        state: RecurrentState,
        *,
        real: Bool[Tensor, "B T"] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool,
    ) -> Decoded:
        """Read a whole target, with the arguments of `step`: all steps at once if `decode_at_once` can, else one by one."""
        # The fast forms know one hypothesis per sentence, as in training.
        if state.hidden.shape[2] == 1:
            found = self.decode_at_once(embedded, state, real, reweight, need_weights)
            if found is not None:
                return found
        features, outputs = [], []
        for position in range(embedded.shape[1]):
            feature, output, state = self.step(
                embedded[:, position, None],
                state,
                real=None if real is None else real[:, position, None],
                reweight=for_steps(reweight, position),
                need_weights=need_weights,
            )
            state = replace(state, length=state.length + 1)
            features.append(feature)
            outputs.append(output)
        weights = [output.weights for output in outputs if output.weights is not None]
        return Decoded(torch.cat(features, dim=1), torch.cat(weights, dim=-2) if weights else None, _mean_loss(outputs, real))

    def decode_at_once(
        self, embedded: Tensor, state: RecurrentState, real: Tensor | None, reweight: Reweight | None, need_weights: bool
    ) -> Decoded | None:
        """Return the result of `decode` with one hypothesis per sentence, computed faster; None if that is not possible."""
        return None

    def _run(self, inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
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
        self,
        query: Float[Tensor, "B N H"],
        state: RecurrentState,
        *,
        real: Tensor | None = None,
        reweight: Reweight | None = None,
        need_weights: bool,
    ) -> tuple[AttentionOutput, RecurrentState]:
        """Compute the attention of each hypothesis, in one call."""
        batch, count, _ = query.shape
        memory, mask = state.memory, self._mask(real, state, 1)
        if not self.attention.stateful:  # the hypotheses of a sentence are queries in the same row of the batch
            out, _ = self.attention.attend(query, memory, attn_mask=mask, reweight=reweight, need_weights=need_weights)
            return out, state
        if count > 1:  # each hypothesis has a state, and so a row, of its own
            memory = memory.select(torch.arange(batch, device=query.device).repeat_interleave(count))
        out, carried = self.attention.attend(
            query.flatten(0, 1)[:, None],
            memory,
            state.attention,
            attn_mask=None if mask is None else mask.expand(batch, count, -1).flatten(0, 1)[:, None],
            reweight=per_hypothesis(reweight, batch),
            need_weights=need_weights,
        )
        weights = None if out.weights is None else out.weights.unflatten(0, (batch, count)).movedim(1, -3).squeeze(-2)
        return AttentionOutput(out.context.view(batch, count, -1), weights, out.loss), replace(state, attention=carried)

    def _mask(self, real: Tensor | None, state: RecurrentState, num_steps: int) -> Tensor | None:
        """Return a mask, at most (B,Q,S), of the source words that the policy lets the next steps attend to.

        It is False in the rows of the target's padding, which the attention's loss then ignores.
        """
        value = state.memory.value
        mask = None
        if self.policy is not None:
            mask = self.policy.mask(state.length, num_steps, value.shape[-2], value.device)
        if real is None or not self.attention.has_loss:
            return mask
        words = real[..., None].expand(-1, -1, value.shape[-2])
        return words if mask is None else words & mask

    def _loop(self, state: RecurrentState, reweight: Reweight | None) -> Callable[[Tensor, Tensor], FeedbackInputs] | None:
        """Return a function of embeddings and values that builds the inputs of a loop of `regard.layers.feedback`, or None."""
        # The loops have one layer and one mask for all steps, replace no weights, and know only some scores.
        if len(self.layers) > 1 or reweight is not None or self.policy is not None:
            return None
        scores = find_loop_score(self.attention, state.hidden.device)
        if scores is None:
            return None
        layer = self._layer(0)
        return lambda embedded, values: FeedbackInputs(
            x_gates=functional.linear(
                embedded.transpose(0, 1).contiguous(), layer.weight_ih[0, :, : embedded.shape[2]], layer.bias_ih[0]
            ),
            state=state.hidden[0, :, 0],
            cell=None if state.cell is None else state.cell[0, :, 0],
            weight_hh=layer.weight_hh[0],
            bias_hh=layer.bias_hh[0],
            keys=state.memory.key,
            values=values,
            query_weight=scores.query_weight,
            score_weight=scores.score_weight,
        )


class BahdanauDecoder(RecurrentDecoder):
    """A decoder that attends with the previous state, and then runs the cell over the embedding and the context.

    c_t = attend(h_{t−1})    h_t = cell([y_{t−1}; c_t], h_{t−1})    features_t = readout(h_t, c_t, y_{t−1})

    y_{t−1} is the embedding of the word that step t reads.

    Reference: Bahdanau et al. 2015, appendix A.2.2.
    """

    feeds_back = True

    def step(self, embedded: Tensor, state: RecurrentState, **options: Any) -> tuple[Tensor, AttentionOutput, RecurrentState]:
        out, state = self._attend(state.hidden[-1], state, **options)
        output, state = self._run(torch.cat((embedded, out.context.to(embedded.dtype)), dim=-1), state)
        return self.readout(output, out.context, embedded), out, state

    def decode_at_once(
        self, embedded: Tensor, state: RecurrentState, real: Tensor | None, reweight: Reweight | None, need_weights: bool
    ) -> Decoded | None:
        if (loop := self._loop(state, reweight)) is None:
            return None
        memory, feed_weight = state.memory, self._layer(0).weight_ih[0, :, embedded.shape[2] :]
        inputs = loop(embedded, functional.linear(memory.value, feed_weight))
        states, weights = (x.transpose(0, 1) for x in attend_first(inputs, memory.key_mask, compute_dtype(embedded)))
        context = torch.bmm(weights.to(memory.value.dtype), memory.value)
        return Decoded(self.readout(states, context, embedded), weights if need_weights else None, None)


class LuongDecoder(RecurrentDecoder):
    """A decoder that runs the cell over the embedding, and then attends with the cell's output.

    h_t = cell(y_{t−1}, h_{t−1})    c_t = attend(h_t)    features_t = readout(h_t, c_t, y_{t−1})

    y_{t−1} is the embedding of the word that step t reads.

    Reference: Luong et al. 2015, section 3.
    """

    feeds_back = False

    def step(self, embedded: Tensor, state: RecurrentState, **options: Any) -> tuple[Tensor, AttentionOutput, RecurrentState]:
        output, state = self._run(embedded, state)
        out, state = self._attend(output, state, **options)
        return self.readout(output, out.context, embedded), out, state

    def decode_at_once(
        self, embedded: Tensor, state: RecurrentState, real: Tensor | None, reweight: Reweight | None, need_weights: bool
    ) -> Decoded | None:
        if reweight is not None and self.attention.stateful:
            return None
        output = embedded
        for depth, layer in enumerate(self.layers):
            before = state.hidden[depth, :, 0], None if state.cell is None else state.cell[depth, :, 0]
            output, _ = layer(self.layer_dropout(output) if depth else output, initial=before)
        # The queries of one call are in the order of the steps, as a stateful attention needs.
        out, _ = self.attention.attend(
            output,
            state.memory,
            state.attention,
            attn_mask=self._mask(real, state, embedded.shape[1]),
            reweight=for_steps(reweight, 0, embedded.shape[1]),
            need_weights=need_weights,
        )
        return Decoded(self.readout(output, out.context, embedded), out.weights, out.loss)


class InputFeedingDecoder(RecurrentDecoder):
    """Luong's decoder whose cell also reads the readout of the previous step (Luong et al. 2015, section 3.3).

    h_t = cell([y_{t−1}; a_{t−1}], h_{t−1})    c_t = attend(h_t)    features_t = a_t = readout(h_t, c_t, y_{t−1})

    y_{t−1} is the embedding of the word that step t reads.
    """

    feeds_back = True
    feeds_readout = True

    def step(self, embedded: Tensor, state: RecurrentState, **options: Any) -> tuple[Tensor, AttentionOutput, RecurrentState]:
        feed = state.feed
        if feed is None:
            feed = embedded.new_zeros(*embedded.shape[:2], self.readout.size)
        output, state = self._run(torch.cat((embedded, feed.to(embedded.dtype)), dim=-1), state)
        out, state = self._attend(output, state, **options)
        features = self.readout(output, out.context, embedded)
        return features, out, replace(state, feed=features)

    def decode_at_once(
        self, embedded: Tensor, state: RecurrentState, real: Tensor | None, reweight: Reweight | None, need_weights: bool
    ) -> Decoded | None:
        readout, loop = self.readout, self._loop(state, reweight)
        if loop is None or state.feed is not None or not isinstance(readout, AttentionalReadout):
            return None
        if not is_exactly(readout, AttentionalReadout) or not (is_plain(readout.context_map) and is_plain(readout.output_map)):
            return None  # the loop would read the weights of maps that do more than multiply
        features, weights = cell_first(
            loop(embedded, readout.context_map(state.memory.value)),
            state.memory.key_mask,
            self._layer(0).weight_ih[0, :, embedded.shape[2] :],
            readout.output_map.weight,
            readout.output_map.bias,
            compute_dtype(embedded),
        )
        return Decoded(features.transpose(0, 1), weights.transpose(0, 1) if need_weights else None, None)


def _mean_loss(outputs: Sequence[AttentionOutput], real: Tensor | None) -> Tensor | None:
    """Return the mean loss over all words, computed from the mean losses of the steps; None if there is no loss."""
    losses = [output.loss for output in outputs if output.loss is not None]
    if not losses:
        return None
    if real is None:
        return torch.stack(losses).mean()
    # A step's loss is the mean over its real words, so steps count by their number of words.
    counts = real.sum(0)
    return (torch.stack(losses) * counts).sum() / counts.sum().clamp(min=1)
