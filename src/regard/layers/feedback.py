"""Decoders that feed attention back into the cell: a fast loop over a known target with an exact hand-written gradient.

There are two orders. In both, the gates of the cell also read x_t, a map of the embedding, computed for all steps at once:

    attend first (Bahdanau et al. 2015)             cell first, with input feeding (Luong et al. 2015)
      w_t = softmax(score(W_q h_{t−1}, k))            h_t = cell(x_t + F a_{t−1}, h_{t−1})
      h_t = cell(x_t + Σ_s w_ts F v_s, h_{t−1})       w_t = softmax(score(W_q h_t, k))
                                                      a_t = tanh(Σ_s w_ts C v_s + W_h h_t + b)

Letters: t step, s source position, w weights, k keys, v values, h state, a readout. W_q maps the state to the query. F is the
part of the cell's input weight for the context or for the readout. C, W_h and b belong to `AttentionalReadout`.

The loop contains only the operations that depend on the previous step. F v_s or C v_s is computed once for all steps, and the
caller passes it as `values`. After the loop, one product over all steps computes the gradient of each weight.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.layers.cells import LSTMTape, StateMap, build_tape, tanh_
from regard.layers.loop_scores import build_score_tape


class FeedbackInputs(NamedTuple):
    """Inputs of both loops.

    Letters: B sentences, S source, T steps, H width of the state, G number of gates, A width of the keys, P width of the
    projected values.
    """

    x_gates: Tensor
    """Contribution of the embedding to the gates, (T,B,G·H), including the input bias."""
    state: Tensor
    """Initial state of the cell, (B,H)."""
    cell: Tensor | None
    """Initial cell state, (B,H), of an LSTM; None for a GRU."""
    weight_hh: Tensor
    """Weight from the state to the gates, (G·H,H)."""
    bias_hh: Tensor
    """Bias of the map from the state to the gates, (G·H,)."""
    keys: Tensor
    """Keys of the source: `key` of the memory that `Attention.prepare` returns, (B,S,A)."""
    values: Tensor
    """Values of the source, multiplied by F (attend first) or C (cell first; see the module), (B,S,P)."""
    query_weight: Tensor
    """W_q, the map from the state to the query, (A,H)."""
    score_weight: Tensor | None
    """v of an additive score v·tanh(q + k), (A,); None for a bilinear score."""


def attend_first(inputs: FeedbackInputs, key_mask: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Run Bahdanau's order (attend first), and return the states (T,B,H) and the attention weights (T,B,S).

    The width P of the projected values must be G·H. Products with weights run in `dtype`.
    """
    return _AttendFirst.apply(dtype, key_mask, *inputs)


def cell_first(
    inputs: FeedbackInputs, key_mask: Tensor | None, feed: Tensor, combine: Tensor, bias: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Run Luong's order (cell first) with input feeding, and return the readouts a_t (T,B,P) and the attention weights (T,B,S).

    `feed` is F (G·H,P), `combine` is W_h (P,H), and `bias` is b (P,). Products with weights run in `dtype`.
    """
    return _CellFirst.apply(dtype, key_mask, feed, combine, bias, *inputs)


class _Loop:
    """The cell and the attention of a loop: their records of all steps, and the gradients after the loop."""

    def __init__(self, inputs: FeedbackInputs, key_mask: Tensor | None, dtype: torch.dtype) -> None:
        steps, (batch, width) = len(inputs.x_gates), inputs.state.shape
        self.exact = torch.float64 if inputs.state.dtype == torch.float64 else torch.float32
        exact = [None if x is None else x.to(self.exact) for x in (inputs.cell, inputs.score_weight)]
        self.tape = build_tape(steps, inputs.state.to(self.exact), exact[0])
        self.scores = build_score_tape(steps, inputs.keys.to(self.exact), inputs.values.to(self.exact), key_mask, exact[1])
        self.map = StateMap(inputs.weight_hh, inputs.bias_hh, dtype)
        self.x_gates = inputs.x_gates.to(dtype) + self.map.input_bias()
        self.slots = self.x_gates.new_empty(batch, 4 * width)
        self.states = self.x_gates.new_empty(steps + 1, batch, width)
        self.states[0] = inputs.state
        self.types = [None if x is None else x.dtype for x in inputs]
        self.num_steps, self.d_slots = steps, self.x_gates.new_empty(0)

    def advance(self, step: int) -> None:
        """Compute the next state from the slots."""
        self.tape.forward(step, self.slots)
        self.states[step + 1] = self.tape.state[step + 1]

    def begin_backward(self) -> Tensor:
        """Return the gradient of the last state, which is zero at first."""
        self.d_slots = self.states.new_empty(self.num_steps, *self.slots.shape)
        if isinstance(self.tape, LSTMTape):
            self.tape.d_cell = torch.zeros_like(self.tape.d_cell)
        return torch.zeros_like(self.tape.state[0])

    def retreat(self, step: int, flow: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the two parts of the gradient of the state before a step: through the gates, and around them."""
        d_step, direct = self.tape.backward(step, flow)
        self.d_slots[step] = d_step
        return self.map.backward(self.d_slots[step]), direct

    def gradients(self, flow: Tensor, d_contexts: Tensor, d_query_weight: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `FeedbackInputs`, from those of the first state, the contexts and the query weight."""
        d_keys, d_score_weight = self.scores.finish()
        d_map = self.map.weight_gradient(self.d_slots.flatten(0, 1), self.states[:-1].flatten(0, 1))
        d_values = self.scores.values_gradient(d_contexts)
        d_cell = self.tape.d_cell if isinstance(self.tape, LSTMTape) else None
        d_x = self.d_slots[:, :, : self.x_gates.shape[2]]
        return _in_types((d_x, flow, d_cell, *d_map, d_keys, d_values, d_query_weight, d_score_weight), self.types)


def _in_types(gradients: Sequence[Tensor | None], types: Sequence[torch.dtype | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if one is None else one.to(dtype) for one, dtype in zip(gradients, types, strict=True))


class _AttendFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, key_mask: Tensor | None, *tensors: Any) -> tuple[Tensor, Tensor]:
        inputs = FeedbackInputs(*tensors)
        with torch.autocast(inputs.state.device.type, enabled=False):
            loop, query_weight = _Loop(inputs, key_mask, dtype), inputs.query_weight.to(dtype)
            for step in range(loop.num_steps):
                context = loop.scores.forward(step, torch.mm(loop.states[step], query_weight.T).to(loop.exact))
                loop.map.forward(loop.x_gates[step] + context.to(dtype), loop.states[step], loop.slots)
                loop.advance(step)
        ctx.loop, ctx.query_weight = loop, query_weight
        ctx.save_for_backward(*tensors)
        return loop.tape.state[1:].clone(), loop.scores.weights.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # raises an error if the loop's inputs were changed in place since the forward pass
        loop, (d_states, d_weights) = ctx.loop, grads
        scores, flow = loop.scores, loop.begin_backward()
        d_contexts = flow.new_empty(*d_states.shape[:2], scores.values.shape[2])
        d_queries = loop.states.new_empty(*d_states.shape[:2], scores.keys.shape[2])
        with torch.autocast(flow.device.type, enabled=False):
            for step in reversed(range(loop.num_steps)):
                gated, direct = loop.retreat(step, flow.add_(d_states[step]))
                d_contexts[step] = loop.d_slots[step, :, : d_contexts.shape[2]]
                d_queries[step] = scores.backward(step, d_contexts[step], d_weights[step])
                flow = torch.addmm(gated, d_queries[step], ctx.query_weight).to(loop.exact)
                if direct is not None:
                    flow += direct
            d_query_weight = d_queries.flatten(0, 1).T @ loop.states[:-1].flatten(0, 1)
            return (None, None, *loop.gradients(flow, d_contexts, d_query_weight))


class _CellFirst(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, key_mask: Tensor | None, feed: Tensor, combine: Tensor, bias: Tensor, *tensors: Any
    ) -> tuple[Tensor, Tensor]:
        inputs = FeedbackInputs(*tensors)
        with torch.autocast(inputs.state.device.type, enabled=False):
            loop = _Loop(inputs, key_mask, dtype)
            # One product with the new state gives the query and the state's part of the readout.
            reads, size = torch.cat((inputs.query_weight, combine)).to(dtype), len(inputs.query_weight)
            fed, b = feed.to(dtype), bias.to(loop.exact)
            x_part = loop.slots[:, : loop.x_gates.shape[2]]
            readouts = loop.tape.state.new_zeros(loop.num_steps + 1, len(inputs.state), len(combine))
            low = loop.states.new_zeros(readouts.shape)  # the readouts in the type of the products
            for step in range(loop.num_steps):
                loop.map.forward(loop.x_gates[step], loop.states[step], loop.slots)
                if step:
                    torch.addmm(x_part, low[step], fed.T, out=x_part)
                loop.advance(step)
                read = torch.mm(loop.states[step + 1], reads.T).to(loop.exact)
                context = loop.scores.forward(step, read[:, :size])
                torch.add(context, read[:, size:], out=readouts[step + 1]).add_(b)
                low[step + 1] = tanh_(readouts[step + 1])
        ctx.loop, ctx.reads, ctx.fed, ctx.readouts, ctx.low = loop, reads, fed, readouts, low
        ctx.types = [x.dtype for x in (feed, combine, bias)]
        ctx.save_for_backward(feed, combine, *tensors)
        return readouts[1:].clone(), loop.scores.weights.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # as in `_AttendFirst`
        loop, (d_readouts, d_weights) = ctx.loop, grads
        flow, (gates, _), size = loop.begin_backward(), ctx.fed.shape, loop.scores.keys.shape[2]
        d_contexts = flow.new_empty(d_readouts.shape)
        d_reads = loop.states.new_empty(*d_readouts.shape[:2], len(ctx.reads))
        d_fed: Tensor | None = None
        with torch.autocast(flow.device.type, enabled=False):
            for step in reversed(range(loop.num_steps)):
                d_readout = d_readouts[step] if d_fed is None else d_readouts[step] + d_fed
                readout, d_context = ctx.readouts[step + 1], d_contexts[step]
                torch.addcmul(d_readout, d_readout * readout, readout, value=-1, out=d_context)
                d_reads[step, :, :size] = loop.scores.backward(step, d_context, d_weights[step])
                d_reads[step, :, size:] = d_context
                flow += torch.mm(d_reads[step], ctx.reads)
                gated, direct = loop.retreat(step, flow)
                flow = gated.to(loop.exact)
                if direct is not None:
                    flow += direct
                if step:
                    d_fed = torch.mm(loop.d_slots[step, :, :gates], ctx.fed).to(loop.exact)
            d_both = d_reads.flatten(0, 1).T @ loop.states[1:].flatten(0, 1)
            d_feed = loop.d_slots[:, :, :gates].flatten(0, 1).T @ ctx.low[:-1].flatten(0, 1)
            own = _in_types((d_feed, d_both[size:], d_contexts.sum(dim=(0, 1))), ctx.types)
            return (None, None, *own, *loop.gradients(flow, d_contexts, d_both[:size]))
