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

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.layers.cells import LSTMTape, StateMap, build_tape, tanh_
from regard.layers.scoring import build_score_tape


@dataclass(frozen=True)
class FeedbackInputs:
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

    def tensors(self) -> tuple[Any, ...]:
        """Return the tensors in the order of the fields, for autograd."""
        return tuple(self.__dict__.values())


def attend_first(inputs: FeedbackInputs, key_mask: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Run Bahdanau's order (attend first), and return the states (T,B,H) and the attention weights (T,B,S).

    The width P of the projected values must be G·H. Products with weights run in `dtype`.
    """
    return _AttendFirst.apply(dtype, key_mask, *inputs.tensors())


def cell_first(
    inputs: FeedbackInputs, key_mask: Tensor | None, feed: Tensor, combine: Tensor, bias: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Run Luong's order (cell first) with input feeding, and return the readouts a_t (T,B,P) and the attention weights (T,B,S).

    `feed` is F (G·H,P), `combine` is W_h (P,H), and `bias` is b (P,). Products with weights run in `dtype`.
    """
    return _CellFirst.apply(dtype, key_mask, feed, combine, bias, *inputs.tensors())


def _exact(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


class _AttendFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, key_mask: Tensor | None, *tensors: Any) -> tuple[Tensor, Tensor]:
        given = FeedbackInputs(*tensors)
        exact, steps = _exact(given.state), len(given.x_gates)
        with torch.autocast(given.state.device.type, enabled=False):
            tape = build_tape(steps, given.state.to(exact), None if given.cell is None else given.cell.to(exact))
            v = None if given.score_weight is None else given.score_weight.to(exact)
            scores = build_score_tape(steps, given.keys.to(exact), given.values.to(exact), key_mask, v)
            state_map = StateMap(given.weight_hh, given.bias_hh, dtype)
            query_weight = given.query_weight.to(dtype)
            x_gates = given.x_gates.to(dtype) + state_map.input_bias()
            slots = x_gates.new_empty(len(given.state), 4 * tape.width)
            states = x_gates.new_empty(steps + 1, *given.state.shape)
            states[0] = given.state
            for step in range(steps):
                context = scores.forward(step, torch.mm(states[step], query_weight.T).to(exact))
                state_map.forward(x_gates[step] + context.to(dtype), states[step], slots)
                tape.forward(step, slots)
                states[step + 1] = tape.state[step + 1]
        ctx.tape, ctx.scores, ctx.map, ctx.query_weight, ctx.states, ctx.dtypes = (
            tape, scores, state_map, query_weight, states, [None if t is None else t.dtype for t in tensors],
        )  # fmt: skip
        return tape.state[1:].clone(), scores.weights.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tape, scores, state_map, states = ctx.tape, ctx.scores, ctx.map, ctx.states
        d_states, d_weights = grads
        steps, batch, width = d_states.shape
        exact = tape.state.dtype
        d_slots = states.new_empty(steps, batch, 4 * width)
        d_contexts = tape.state.new_empty(steps, batch, scores.values.shape[2])
        d_queries = states.new_empty(steps, batch, scores.keys.shape[2])
        flow = torch.zeros_like(tape.state[0])
        with torch.autocast(flow.device.type, enabled=False):
            for step in reversed(range(steps)):
                flow += d_states[step]
                d_step, direct = tape.backward(step, flow)
                d_slots[step] = d_step
                d_contexts[step] = d_step[:, : d_contexts.shape[2]]
                d_queries[step] = scores.backward(step, d_contexts[step], d_weights[step])
                flow = torch.addmm(state_map.backward(d_slots[step]), d_queries[step], ctx.query_weight).to(exact)
                if direct is not None:
                    flow += direct
            d_keys, d_score_weight = scores.finish()
            before = states[:-1].flatten(0, 1)
            d_weight_hh, d_bias_hh = state_map.weight_gradient(d_slots.flatten(0, 1), before)
            d_query_weight = d_queries.flatten(0, 1).T @ before
            d_values = scores.values_gradient(d_contexts)
        d_x = d_slots[:, :, : d_contexts.shape[2]]
        d_cell = tape.d_cell if isinstance(tape, LSTMTape) else None
        results = (d_x, flow, d_cell, d_weight_hh, d_bias_hh, d_keys, d_values, d_query_weight, d_score_weight)
        return (None, None, *(None if r is None else r.to(d) for r, d in zip(results, ctx.dtypes, strict=True)))


class _CellFirst(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        dtype: torch.dtype,
        key_mask: Tensor | None,
        feed: Tensor,
        combine: Tensor,
        bias: Tensor,
        *tensors: Any,
    ) -> tuple[Tensor, Tensor]:
        given = FeedbackInputs(*tensors)
        exact, steps, batch = _exact(given.state), len(given.x_gates), len(given.state)
        with torch.autocast(given.state.device.type, enabled=False):
            tape = build_tape(steps, given.state.to(exact), None if given.cell is None else given.cell.to(exact))
            v = None if given.score_weight is None else given.score_weight.to(exact)
            scores = build_score_tape(steps, given.keys.to(exact), given.values.to(exact), key_mask, v)
            state_map = StateMap(given.weight_hh, given.bias_hh, dtype)
            # One product with the new state gives the query and the state's part of the readout.
            reads = torch.cat((given.query_weight, combine)).to(dtype)
            size = len(given.query_weight)
            fed, b = feed.to(dtype), bias.to(exact)
            x_gates = given.x_gates.to(dtype) + state_map.input_bias()
            slots = x_gates.new_empty(batch, 4 * tape.width)
            x_part = slots[:, : x_gates.shape[2]]
            states = x_gates.new_empty(steps + 1, *given.state.shape)
            readouts = tape.state.new_zeros(steps + 1, batch, len(combine))
            readouts_low = x_gates.new_zeros(steps + 1, batch, len(combine))
            states[0] = given.state
            for step in range(steps):
                state_map.forward(x_gates[step], states[step], slots)
                if step:
                    torch.addmm(x_part, readouts_low[step], fed.T, out=x_part)
                tape.forward(step, slots)
                states[step + 1] = tape.state[step + 1]
                read = torch.mm(states[step + 1], reads.T).to(exact)
                context = scores.forward(step, read[:, :size])
                torch.add(context, read[:, size:], out=readouts[step + 1]).add_(b)
                tanh_(readouts[step + 1])
                readouts_low[step + 1] = readouts[step + 1]
        ctx.tape, ctx.scores, ctx.map, ctx.reads, ctx.fed = tape, scores, state_map, reads, fed
        ctx.states, ctx.readouts, ctx.readouts_low = states, readouts, readouts_low
        ctx.dtypes = [None if t is None else t.dtype for t in (feed, combine, bias, *tensors)]
        return readouts[1:].clone(), scores.weights.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tape, scores, state_map, reads = ctx.tape, ctx.scores, ctx.map, ctx.reads
        states, readouts = ctx.states, ctx.readouts
        d_readouts, d_weights = grads
        steps, batch, size = d_readouts.shape
        attention_size, (gates, _) = scores.keys.shape[2], ctx.fed.shape
        exact = tape.state.dtype
        d_slots = states.new_empty(steps, batch, 4 * tape.width)
        d_contexts = tape.state.new_empty(steps, batch, size)
        d_reads = states.new_empty(steps, batch, len(reads))
        flow = torch.zeros_like(tape.state[0])
        d_fed: Tensor | None = None
        with torch.autocast(flow.device.type, enabled=False):
            for step in reversed(range(steps)):
                d_readout = d_readouts[step] if d_fed is None else d_readouts[step] + d_fed
                readout, d_context = readouts[step + 1], d_contexts[step]
                torch.addcmul(d_readout, d_readout * readout, readout, value=-1, out=d_context)
                d_reads[step, :, :attention_size] = scores.backward(step, d_context, d_weights[step])
                d_reads[step, :, attention_size:] = d_context
                flow += torch.mm(d_reads[step], reads)
                d_step, direct = tape.backward(step, flow)
                d_slots[step] = d_step
                flow = state_map.backward(d_slots[step]).to(exact)
                if direct is not None:
                    flow += direct
                if step:
                    d_fed = torch.mm(d_slots[step, :, :gates], ctx.fed).to(exact)
            d_keys, d_score_weight = scores.finish()
            d_weight_hh, d_bias_hh = state_map.weight_gradient(d_slots.flatten(0, 1), states[:-1].flatten(0, 1))
            d_both = d_reads.flatten(0, 1).T @ states[1:].flatten(0, 1)
            d_feed = d_slots[:, :, :gates].flatten(0, 1).T @ ctx.readouts_low[:-1].flatten(0, 1)
            d_bias = d_contexts.sum(dim=(0, 1))
            d_values = scores.values_gradient(d_contexts)
        d_x = d_slots[:, :, :gates]
        d_cell = tape.d_cell if isinstance(tape, LSTMTape) else None
        d_query, d_combine = d_both[:attention_size], d_both[attention_size:]
        shared = (d_x, flow, d_cell, d_weight_hh, d_bias_hh, d_keys, d_values, d_query, d_score_weight)
        results = (d_feed, d_combine, d_bias, *shared)
        return (None, None, *(None if r is None else r.to(d) for r, d in zip(results, ctx.dtypes, strict=True)))
