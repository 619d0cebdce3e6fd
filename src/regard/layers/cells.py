"""GRU and LSTM cells: their formulas, and single steps with a hand-written backward pass.

GRU (Cho et al. 2014, in the form of cuDNN and PyTorch). The letters x with an index are linear maps of the input, the letters h
with an index are linear maps of the state h, and h' is the next state:

    r = σ(x_r + h_r)    z = σ(x_z + h_z)    n = tanh(x_n + r ⊙ h_n)    h' = (1 − z) ⊙ n + z ⊙ h

LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000), with the cell state c and the next one c':

    i = σ(·_i)    f = σ(·_f)    g = tanh(·_g)    o = σ(·_o)    with ·_k = x_k + h_k
    c' = f ⊙ c + i ⊙ g          h' = o ⊙ tanh c'

The backward pass is written by hand, because autograd would spend most of the time on bookkeeping and on a weight gradient for
each small step. Here the steps write into buffers that are allocated once, and a single product after the loop computes the
weight gradient.

Each step has four vectors of width H, called slots: those from which an LSTM computes i, f, g and o, or from which a GRU
computes r, z and n (x_n and h_n are two slots). A tape stores the slots after the activations, with n instead of x_n. The
gradient of a slot is the gradient before its activation.
"""

from typing import Literal

import torch
from torch import Tensor

Cell = Literal["gru", "lstm"]
NUM_GATES = {"gru": 3, "lstm": 4}


def tanh_(x: Tensor) -> Tensor:
    """Compute tanh in place as 2·σ(2x) − 1: several times faster than `torch.tanh` on a CPU, with the same absolute error."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def gru_cell(x_gates: Tensor, h_gates: Tensor, state: Tensor) -> Tensor:
    """Return a GRU's next state from `x_gates` and `h_gates` (…, 3·H), the mapped input and state, and the state (…, H)."""
    x_r, x_z, x_n = x_gates.chunk(3, dim=-1)
    h_r, h_z, h_n = h_gates.chunk(3, dim=-1)
    reset, update = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    candidate = torch.tanh(x_n + reset * h_n)
    return (1 - update) * candidate + update * state


def lstm_cell(x_gates: Tensor, h_gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return an LSTM's next state and cell state.

    `x_gates` and `h_gates` (…, 4·H) are the mapped input and state, and `cell` (…, H) is the cell state.
    """
    ingate, forget, new, outgate = (x_gates + h_gates).chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(ingate) * torch.tanh(new)
    return torch.sigmoid(outgate) * torch.tanh(cell), cell


class StateMap:
    """The linear map from the state to the gates, whose products are computed in a given dtype."""

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        """Store `weight` (G·H, H) and `bias` (G·H,) in PyTorch's layout, for the G = 3 gates of a GRU or the 4 of an LSTM."""
        self.width = weight.shape[1]
        self.is_gru = weight.shape[0] == 3 * self.width
        self.weight = weight.detach().to(dtype)
        self.bias = bias.detach().to(dtype)

    def input_bias(self) -> Tensor:
        """Return the bias that can be added to `x_gates` before the steps."""
        if not self.is_gru:
            return self.bias
        # Zeros replace the bias of h_n, because the reset gate r multiplies h_n.
        return torch.cat((self.bias[: 2 * self.width], self.bias.new_zeros(self.width)))

    def forward(self, x_gates: Tensor, state: Tensor, slots: Tensor) -> None:
        """Fill the slots (M, 4·H) of M rows from `x_gates` (M, G·H), which include `input_bias`, and the state (M, H)."""
        if not self.is_gru:
            torch.addmm(x_gates, state, self.weight.T, out=slots)
            return
        both = 2 * self.width
        torch.addmm(x_gates[:, :both], state, self.weight[:both].T, out=slots[:, :both])
        slots[:, both : both + self.width] = x_gates[:, both:]
        torch.addmm(self.bias[both:], state, self.weight[both:].T, out=slots[:, both + self.width :])

    def backward(self, d_slots: Tensor) -> Tensor:
        """Return the gradient of the state (M, H) from the gradient of the slots (M, 4·H)."""
        if not self.is_gru:
            return d_slots @ self.weight
        both = 2 * self.width
        return torch.addmm(d_slots[:, :both] @ self.weight[:both], d_slots[:, both + self.width :], self.weight[both:])

    def weight_gradient(self, d_slots: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of weight and bias for all steps at once.

        `d_slots` (T·M, 4·H) contains the gradients of the slots of M rows in T steps, and `states` (T·M, H) the states before
        each step.
        """
        exact = torch.float64 if d_slots.dtype == torch.float64 else torch.float32
        if not self.is_gru:
            return (d_slots.T @ states).to(exact), d_slots.sum(dim=0, dtype=exact)
        both = 2 * self.width
        new = d_slots[:, both + self.width :]
        weight = torch.cat((d_slots[:, :both].T @ states, new.T @ states)).to(exact)
        return weight, torch.cat((d_slots[:, :both].sum(dim=0, dtype=exact), new.sum(dim=0, dtype=exact)))


class GRUTape:
    """A record of a GRU's T steps over M rows, with the values that the backward pass needs.

    `state` (T+1, M, H) contains the initial state and the state after each step.
    """

    def __init__(self, num_steps: int, state: Tensor) -> None:
        rows, self.width = state.shape
        self.state = state.new_empty(num_steps + 1, rows, self.width)
        self.state[0] = state
        self.slots = state.new_empty(num_steps, rows, 4 * self.width)

    def forward(self, step: int, slots: Tensor) -> None:
        """Compute `state[step + 1]` from `state[step]` and the slots before the activations."""
        width, kept = self.width, self.slots[step]
        kept.copy_(slots)
        kept[:, : 2 * width].sigmoid_()
        reset, update, candidate, recurrent = kept.split(width, dim=1)
        tanh_(candidate.addcmul_(reset, recurrent))
        torch.lerp(candidate, self.state[step], update, out=self.state[step + 1])

    def backward(self, step: int, d_state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the slots and, through z ⊙ h alone, of `state[step]`, from that of `state[step + 1]`."""
        width, kept = self.width, self.slots[step]
        reset, update, candidate, recurrent = kept.split(width, dim=1)
        d_slots = torch.empty_like(kept)
        d_reset, d_update, d_candidate, d_recurrent = d_slots.split(width, dim=1)
        direct = d_state * update
        torch.sub(d_state, direct, out=d_candidate)
        d_candidate.addcmul_(d_candidate * candidate, candidate, value=-1)
        torch.mul(d_candidate, recurrent, out=d_reset)
        torch.mul(d_candidate, reset, out=d_recurrent)
        torch.sub(self.state[step], candidate, out=d_update).mul_(d_state)
        gates = kept[:, : 2 * width]
        d_slots[:, : 2 * width].mul_(torch.addcmul(gates, gates, gates, value=-1))
        return d_slots, direct


class LSTMTape:
    """A record of an LSTM's T steps over M rows, with the values that the backward pass needs.

    `state` and `cell`, both (T+1, M, H), contain the initial state and cell state, and those after each step.
    """

    def __init__(self, num_steps: int, state: Tensor, cell: Tensor) -> None:
        rows, self.width = state.shape
        self.state = state.new_empty(num_steps + 1, rows, self.width)
        self.cell = torch.empty_like(self.state)
        self.state[0], self.cell[0] = state, cell
        self.slots = state.new_empty(num_steps, rows, 4 * self.width)
        self.squashed = state.new_empty(num_steps, rows, self.width)
        self.d_cell = torch.zeros_like(state)
        """Gradient of the cell state in the backward pass: `backward(step)` reads that of `cell[step + 1]`, and then stores
        that of `cell[step]`.
        """

    def forward(self, step: int, slots: Tensor) -> None:
        """Compute `state[step + 1]` and `cell[step + 1]` from `cell[step]` and the slots before the activations."""
        width, kept, squashed, cell = self.width, self.slots[step], self.squashed[step], self.cell[step + 1]
        kept.copy_(slots)
        ingate, forget, new, outgate = kept.split(width, dim=1)
        kept[:, : 2 * width].sigmoid_()
        tanh_(new)
        outgate.sigmoid_()
        torch.mul(forget, self.cell[step], out=cell).addcmul_(ingate, new)
        tanh_(squashed.copy_(cell))
        torch.mul(outgate, squashed, out=self.state[step + 1])

    def backward(self, step: int, d_state: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the slots, and None, because `state[step]` affects an LSTM's step only through the slots."""
        width, kept, squashed = self.width, self.slots[step], self.squashed[step]
        ingate, forget, new, outgate = kept.split(width, dim=1)
        d_cell = d_state * outgate
        d_cell.addcmul_(d_cell * squashed, squashed, value=-1).add_(self.d_cell)
        d_slots = torch.empty_like(kept)
        d_ingate, d_forget, d_new, d_outgate = d_slots.split(width, dim=1)
        torch.mul(d_cell, ingate, out=d_new)
        d_new.addcmul_(d_new * new, new, value=-1)
        torch.mul(d_cell, new, out=d_ingate)
        torch.mul(d_cell, self.cell[step], out=d_forget)
        torch.mul(d_state, squashed, out=d_outgate)
        for gates, d_gates in ((kept[:, : 2 * width], d_slots[:, : 2 * width]), (outgate, d_outgate)):
            d_gates.mul_(torch.addcmul(gates, gates, gates, value=-1))
        self.d_cell = d_cell.mul_(forget)
        return d_slots, None


def build_tape(num_steps: int, state: Tensor, cell: Tensor | None) -> GRUTape | LSTMTape:
    """Return an LSTM's tape if there is a cell state, else a GRU's tape."""
    return GRUTape(num_steps, state) if cell is None else LSTMTape(num_steps, state, cell)
