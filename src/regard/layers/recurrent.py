"""Recurrent layers over batches with padding at the end of each row, in one or two directions.

Both directions run in one loop. The backward direction reads each sequence reversed within its length. So sequences need not be
packed, the state at a word does not depend on padding, and the lengths need not be copied from the GPU to the CPU.

PyTorch's own loops are used instead where they are faster: oneDNN's for an LSTM on a CPU (it takes a sixth less time in
training, and half the time for a single sentence), and cuDNN's on a GPU. PyTorch's loops cannot skip padding, and return only
the cell state after the last step. So an LSTM gets an additional input, which is 1 at padding: it closes the input gate and
opens the forget gate. Then the cell state after the last step is exactly the cell state after the last word. As in PyTorch's
own layers, cuDNN uses TF32 for float32 on GPUs that have it, unless `torch.backends.cudnn.allow_tf32` is False.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.attention.arguments import check_size
from regard.attention.masks import check_boolean
from regard.attention.precision import compute_dtype
from regard.errors import ConfigError, ShapeError
from regard.layers.cells import NUM_GATES, Cell, LSTMTape, StateMap, build_tape, gru_cell, lstm_cell
from regard.private_torch import can_pack
from regard.shapes import check_shape

State = tuple[Tensor, Tensor | None]
"""The state of a recurrent layer, and its cell state (None for a GRU)."""

_HAS_ONEDNN = torch.backends.mkldnn.is_available()
# Number whose sigmoid is exactly 1 in every number format; the sigmoid of `-_SATURATED` is exactly 0.
_SATURATED = 1e4

# Suffixes of the names of PyTorch's parameters, for the forward and the backward direction.
_SUFFIXES = ("", "_reverse")


def reverse_index(mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Return indices (B,S) that reverse the valid positions of each row, and leave its padding where it is."""
    position = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    return torch.where(mask, mask.sum(dim=1, keepdim=True) - 1 - position, position)


class RecurrentLayer(nn.Module):
    """One GRU or LSTM layer in one or two directions.

    The parameters are those of `torch.nn.GRU` and `torch.nn.LSTM`, with the directions stacked along a new first axis;
    `cells.py` has the formulas.

    Args:
        input_size: D, width of the inputs, ≥ 1.
        hidden_size: H, width of the state of each direction, ≥ 1.
        cell: "gru" or "lstm".
        bidirectional: Whether a second direction reads the sequences backwards.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or the cell is unknown.

    Example:
        >>> states, (last, cell) = RecurrentLayer(8, hidden_size=16, cell="lstm")(torch.randn(2, 5, 8))
        >>> states.shape, last.shape
        (torch.Size([2, 5, 16]), torch.Size([2, 16]))
    """

    def __init__(self, input_size: int, *, hidden_size: int, cell: Cell, bidirectional: bool = False) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            check_size("RecurrentLayer", name, size)
        if cell not in NUM_GATES:
            raise ConfigError(f"RecurrentLayer(cell={cell!r}): expected 'gru' or 'lstm'")
        directions, gates = 1 + bidirectional, NUM_GATES[cell]
        self.input_size, self.hidden_size, self.num_gates, self.num_directions = input_size, hidden_size, gates, directions
        self.weight_ih = nn.Parameter(torch.empty(directions, gates * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(directions, gates * hidden_size, hidden_size))
        self.bias_ih = nn.Parameter(torch.empty(directions, gates * hidden_size))
        self.bias_hh = nn.Parameter(torch.empty(directions, gates * hidden_size))
        for parameter in self.parameters():  # as PyTorch's recurrent layers are initialised
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    @classmethod
    def from_torch(cls, module: nn.LSTM | nn.GRU, *, layer: int = 0) -> "RecurrentLayer":
        """Build a layer from one layer of an `nn.LSTM` or `nn.GRU`, with a copy of its weights; the result is batch first.

        Args:
            module: The module to copy. If it has no biases, the biases of the copy are zero.
            layer: Index of the layer to copy, from 0.

        Raises:
            ConfigError: If the module is not an `nn.LSTM` or `nn.GRU`, does not have this layer, or projects its states.

        Example:
            >>> theirs = nn.LSTM(8, 16, batch_first=True)
            >>> inputs = torch.randn(2, 5, 8)
            >>> torch.allclose(RecurrentLayer.from_torch(theirs)(inputs)[0], theirs(inputs)[0], atol=1e-6)
            True
        """
        if not isinstance(module, nn.LSTM | nn.GRU) or module.proj_size or not 0 <= layer < module.num_layers:
            raise ConfigError(
                f"RecurrentLayer.from_torch({module}, layer={layer}): expected an nn.LSTM or nn.GRU that has this layer and "
                "does not project its states (proj_size=0), such as nn.LSTM(256, 256) and layer 0"
            )
        first: Tensor = getattr(module, f"weight_ih_l{layer}")
        cell: Cell = "lstm" if isinstance(module, nn.LSTM) else "gru"
        made = cls(first.shape[1], hidden_size=module.hidden_size, cell=cell, bidirectional=module.bidirectional).to(first)
        with torch.no_grad():
            for name, ours in made.named_parameters():
                for direction, suffix in zip(ours, _SUFFIXES, strict=False):
                    theirs = getattr(module, f"{name}_l{layer}{suffix}", None)
                    direction.zero_() if theirs is None else direction.copy_(theirs)
        return made.train(module.training)

    def extra_repr(self) -> str:
        cell = "lstm" if self.num_gates == NUM_GATES["lstm"] else "gru"
        return f"{self.input_size}, hidden_size={self.hidden_size}, cell={cell!r}, bidirectional={self.num_directions == 2}"

    def forward(
        self, inputs: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None = None, initial: State | None = None
    ) -> tuple[Float[Tensor, "B S E"], State]:
        """Run the layer over the valid positions of each row.

        Args:
            inputs: The sequences, padded at the end.
            mask: True at valid positions, of which each row has at least one; None if all are valid.
            initial: The initial state (B,E), and the initial cell state (B,E) of an LSTM, else None. If `initial` is None, both
                are zero.

        Returns:
            The states (B,S,E), in which the directions are concatenated (E = directions · H); they are undefined at padding.
            And the last state of each row: h (B,E), and for an LSTM c (B,E), else None.

        Raises:
            ShapeError: If a size does not match, the mask is not boolean, or a GRU gets a cell state.
        """
        return self._read(inputs, mask, initial, hold=mask is not None)

    def states(self, inputs: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None = None) -> Float[Tensor, "B S E"]:
        """Return only the states, from a zero initial state; they equal the first result of `forward` up to rounding.

        A row may have no valid position, and S may be 0.
        """
        if not inputs.shape[1]:
            return inputs.new_zeros(*inputs.shape[:2], self.num_directions * self.hidden_size)
        return self._read(inputs, mask, None, hold=False)[0]

    def _read(self, inputs: Tensor, mask: Tensor | None, initial: State | None, *, hold: bool) -> tuple[Tensor, State]:
        """Implement `forward`. If `hold` is False, padding may change the last cell state."""
        sizes = check_shape("inputs", inputs, f"B S {self.input_size}")
        batch, directions, native = len(inputs), self.num_directions, self._native_dtype(inputs)
        if mask is None:
            mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        else:
            check_shape("mask", mask, "B S", sizes)
            check_boolean("mask", mask, "of shape (B, S)", meaning="not padding")
        state, cell = (None, None) if initial is None else initial
        if cell is not None and self.num_gates != NUM_GATES["lstm"]:
            raise ShapeError("the initial state has a cell state, but a GRU has none; give initial=(state, None)")
        for name, tensor in (("the initial state", state), ("the initial cell state", cell)):
            if tensor is not None:  # PyTorch's own loop does not check it, and would read beyond its end
                check_shape(name, tensor, f"B {directions * self.hidden_size}", sizes)
        if state is None:
            state = inputs.new_zeros(batch, directions * self.hidden_size, dtype=self.weight_hh.dtype)
        if cell is None and self.num_gates == 4:
            cell = torch.zeros_like(state)
        steps_first = inputs.transpose(0, 1)
        reversal = reverse_index(mask).T if directions == 2 else None
        both = (steps_first,) if reversal is None else (steps_first, _Reverse.apply(steps_first, reversal))
        last, rows = mask.sum(dim=1) - 1, torch.arange(batch, device=mask.device)
        if native is not None:
            padding = ~mask.T if hold else None
            states, final_cell = self._run_native(both, self._split(state), self._split(cell), padding, native)
        else:
            weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
            states, cells = _Recurrence.apply(compute_dtype(inputs), self._split(state), self._split(cell), *weights, *both)
            final_cell = None if cell is None else cells[last, :, rows].flatten(1)
        outputs = states[:, 0]
        if reversal is not None:
            outputs = torch.cat((outputs, _Reverse.apply(states[:, 1], reversal)), dim=-1)
        return outputs.transpose(0, 1), (states[last, :, rows].flatten(1), final_cell)

    def _native_dtype(self, inputs: Tensor) -> torch.dtype | None:
        """Return the dtype for PyTorch's own loop (cuDNN's, or oneDNN's for an LSTM); None if this module's loop is used."""
        if torch.compiler.is_compiling() and torch.is_grad_enabled():  # Inductor cannot differentiate oneDNN's loop
            return None
        dtype = compute_dtype(inputs)
        if inputs.is_cuda:  # cuDNN before 9.13 has no bfloat16, so float32 is used
            return torch.float32 if dtype == torch.bfloat16 else dtype
        if self.num_gates != 4 or inputs.device.type != "cpu" or self.weight_hh.dtype != torch.float32 or not _HAS_ONEDNN:
            return None
        return dtype if dtype == torch.float32 or (dtype == torch.bfloat16 and can_pack(dtype)) else None

    def _run_native(
        self,
        inputs: tuple[Tensor, ...],
        state: Tensor | None,
        cell: Tensor | None,
        padding: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the states (T,directions,B,H), and an LSTM's last cell state (B,E).

        Args:
            inputs: The inputs (T,B,D) of each direction.
            state: The initial state (directions,B,H).
            cell: An LSTM's initial cell state.
            padding: True at steps (T,B) that must not change an LSTM's cell state; None if all steps may.
            dtype: The dtype of the products.
        """
        weight_ih: Tensor = self.weight_ih
        if padding is not None and cell is not None:
            marks = padding[..., None]
            inputs = tuple(torch.cat((x.masked_fill(marks, 0), marks.to(x.dtype)), dim=-1) for x in inputs)
            column = weight_ih.new_zeros(self.num_gates, self.hidden_size, 1)
            column[0], column[1] = -_SATURATED, _SATURATED  # the input gate and the forget gate
            weight_ih = torch.cat((weight_ih, column.flatten(0, 1).expand(len(weight_ih), -1, -1)), dim=-1)
        states, cells = [], []
        with torch.autocast(weight_ih.device.type, enabled=False):
            for direction, x in enumerate(inputs):
                parameters = (weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
                weights = _one_buffer([parameter[direction].to(dtype) for parameter in parameters])
                start = [s[direction, None].to(dtype).contiguous() for s in (state, cell) if s is not None]
                # has_biases, num_layers, dropout, train, bidirectional, batch_first
                options = (True, 1, 0.0, torch.is_grad_enabled(), False, False)
                x = x.to(dtype).contiguous()
                if cell is None:
                    states.append(torch.gru(x, start[0], weights, *options)[0])
                else:
                    outputs, _, last = torch.lstm(x, start, weights, *options)
                    states.append(outputs)
                    cells.append(last[0])
        exact = self.weight_hh.dtype
        return torch.stack(states, dim=1).to(exact), torch.cat(cells, dim=-1).to(exact) if cells else None

    def step(self, inputs: Float[Tensor, "*batch D"], state: State) -> State:
        """Compute one step of the forward direction with `gru_cell` or `lstm_cell`, for any number of rows."""
        hidden, cell = state
        x_gates = functional.linear(inputs, self.weight_ih[0], self.bias_ih[0])
        h_gates = functional.linear(hidden, self.weight_hh[0], self.bias_hh[0])
        if cell is None:
            return gru_cell(x_gates, h_gates, hidden), None
        return lstm_cell(x_gates, h_gates, cell)

    def _split(self, state: Tensor | None) -> Tensor | None:
        """Reshape (B, directions · H) to (directions, B, H)."""
        return None if state is None else state.unflatten(1, (self.num_directions, self.hidden_size)).transpose(0, 1)


def _one_buffer(weights: list[Tensor]) -> list[Tensor]:
    """Return the weights as parts of one buffer on a GPU, as cuDNN expects; elsewhere, return them unchanged."""
    if not weights[0].is_cuda:
        return weights
    buffer = torch.cat([weight.flatten() for weight in weights]).split([weight.numel() for weight in weights])
    return [part.view_as(weight) for part, weight in zip(buffer, weights, strict=True)]


class _Reverse(torch.autograd.Function):
    """A reordering of the steps (T, B, D) of each row, by indices (T, B) from `reverse_index`, which are their own inverse."""

    # The gradient is the same reordering, which is faster than the sums that PyTorch computes as the gradient of indexing.

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, reversal: Tensor) -> Tensor:
        rows = (reversal * inputs.shape[1] + torch.arange(inputs.shape[1], device=inputs.device)).flatten()
        ctx.save_for_backward(rows)
        return inputs.flatten(0, 1).index_select(0, rows).view_as(inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return grads[0].flatten(0, 1).index_select(0, rows).view_as(grads[0]), None


class _Recurrence(torch.autograd.Function):
    """The loop of a complete layer over all steps, with a hand-written gradient.

    It maps inputs (T, B, D) for each direction to states (T, directions, B, H) and an LSTM's cell states of the same shape.
    """

    @staticmethod
    def forward(
        ctx: Any,
        dtype: torch.dtype,
        initial: Tensor,
        initial_cell: Tensor | None,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        *inputs: Tensor,
    ) -> tuple[Tensor, Tensor]:
        (directions, batch, width), steps = initial.shape, len(inputs[0])
        exact = torch.float64 if weight_hh.dtype == torch.float64 else torch.float32
        start = initial.flatten(0, 1).to(exact)
        tape = build_tape(steps, start, None if initial_cell is None else initial_cell.flatten(0, 1).to(exact))
        with torch.autocast(start.device.type, enabled=False):
            maps = [StateMap(weight_hh[k], bias_hh[k], dtype) for k in range(directions)]
            inputs = tuple(x.detach().to(dtype).contiguous() for x in inputs)
            x_gates = [
                functional.linear(inputs[k], weight_ih[k].to(dtype), bias_ih[k].to(dtype) + maps[k].input_bias())
                for k in range(directions)
            ]
            slots = start.new_empty(directions, batch, 4 * width, dtype=dtype)
            states = start.new_empty(steps + 1, directions, batch, width, dtype=dtype)
            states[0] = initial
            for step in range(steps):
                for k, state_map in enumerate(maps):
                    state_map.forward(x_gates[k][step], states[step, k], slots[k])
                tape.forward(step, slots.flatten(0, 1))
                states[step + 1] = tape.state[step + 1].view(directions, batch, width)
        ctx.tape, ctx.maps = tape, maps
        ctx.save_for_backward(states, weight_ih, *inputs)
        shape = (steps, directions, batch, width)
        cells = tape.cell[1:].reshape(shape).clone() if isinstance(tape, LSTMTape) else start.new_empty(0)
        return tape.state[1:].reshape(shape).clone(), cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tape, maps = ctx.tape, ctx.maps
        states, weight_ih, *inputs = ctx.saved_tensors
        d_states, d_cells = grads
        steps, directions, batch, width = d_states.shape
        exact, dtype = tape.state.dtype, states.dtype
        if isinstance(tape, LSTMTape):
            tape.d_cell = torch.zeros_like(tape.cell[0])  # reset, because backward may run twice
        d_slots = states.new_empty(steps, directions, batch, 4 * width)
        flow = tape.state.new_zeros(directions, batch, width)
        with torch.autocast(flow.device.type, enabled=False):
            for step in reversed(range(steps)):
                flow += d_states[step]
                if isinstance(tape, LSTMTape):
                    tape.d_cell += d_cells[step].flatten(0, 1)
                d_step, direct = tape.backward(step, flow.flatten(0, 1))
                d_slots[step] = d_step.view(directions, batch, 4 * width)
                for k, state_map in enumerate(maps):
                    flow[k] = state_map.backward(d_slots[step, k])
                if direct is not None:
                    flow += direct.view_as(flow)
            d_inputs, d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh = [], [], [], [], []
            for k, state_map in enumerate(maps):
                d_x = d_slots[:, k, :, : weight_ih.shape[1]].flatten(0, 1)
                d_inputs.append((d_x @ weight_ih[k].detach().to(dtype)).view_as(inputs[k]).to(exact))
                d_weight_ih.append(d_x.T @ inputs[k].flatten(0, 1))
                d_bias_ih.append(d_x.sum(dim=0, dtype=exact))
                weight, bias = state_map.weight_gradient(d_slots[:, k].flatten(0, 1), states[:-1, k].flatten(0, 1))
                d_weight_hh.append(weight)
                d_bias_hh.append(bias)
        parameters = (torch.stack(d).to(weight_ih.dtype) for d in (d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh))
        d_cell = tape.d_cell.view_as(flow).to(weight_ih.dtype) if isinstance(tape, LSTMTape) else None
        return (None, flow.to(weight_ih.dtype), d_cell, *parameters, *d_inputs)
