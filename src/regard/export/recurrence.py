"""Recurrent layers as ONNX's own GRU and LSTM operators, which get the length of each sequence and skip its padding.

A loop over time steps cannot be exported with a dynamic number of steps. ONNX has operators for whole layers instead. Their
gates are in another order than PyTorch's: GRU z, r, h (PyTorch: r, z, n), LSTM i, o, f, c (PyTorch: i, f, g, o).
"""

import copy
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.recurrent import RecurrentLayer, State

# Index of each ONNX gate among PyTorch's gates, by the number of gates.
_GATES = {3: (1, 0, 2), 4: (0, 3, 1, 2)}

Model = TypeVar("Model", bound=nn.Module)


class NativeRecurrentLayer(nn.Module):
    """A `RecurrentLayer` that is exported as one operator. It cannot be run in PyTorch, where its output is zero."""

    input_weight: Tensor
    state_weight: Tensor
    bias: Tensor

    def __init__(self, layer: RecurrentLayer) -> None:
        super().__init__()
        self.layer = layer  # for `step`, which is exported as a formula, not as an operator
        self.hidden_size, self.num_directions = layer.hidden_size, layer.num_directions
        self.is_lstm = layer.num_gates == 4
        # ONNX has both biases in one tensor.
        biases = torch.cat((self._reordered(layer.bias_ih), self._reordered(layer.bias_hh)), 1)
        self.register_buffer("input_weight", self._reordered(layer.weight_ih))
        self.register_buffer("state_weight", self._reordered(layer.weight_hh))
        self.register_buffer("bias", biases)

    def _reordered(self, weight: Tensor) -> Tensor:
        """Return a weight or bias (directions, gates · H, …) with its gates in ONNX's order."""
        gates = weight.detach().unflatten(1, (-1, self.hidden_size))
        return gates[:, list(_GATES[gates.shape[1]])].flatten(1, 2).contiguous()

    def forward(
        self, inputs: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], initial: State | None = None
    ) -> tuple[Float[Tensor, "B S E"], State]:
        """Run over each row's valid positions, from a state of zeros; see `RecurrentLayer.forward`."""
        assert initial is None
        batch, steps = inputs.shape[:2]
        attributes: dict[str, Any] = {"hidden_size": self.hidden_size}
        attributes["direction"] = "bidirectional" if self.num_directions == 2 else "forward"
        if not self.is_lstm:
            attributes["linear_before_reset"] = 1  # PyTorch multiplies by the reset gate after the state's linear map
        last = (self.num_directions, batch, self.hidden_size)
        shapes = [(steps, *last), last, last] if self.is_lstm else [(steps, *last), last]
        outputs = torch.onnx.ops.symbolic_multi_out(
            "LSTM" if self.is_lstm else "GRU",
            (inputs.transpose(0, 1), self.input_weight, self.state_weight, self.bias, mask.sum(1).to(torch.int32)),
            attributes,
            dtypes=[inputs.dtype] * len(shapes),
            shapes=shapes,
            version=14,
        )
        states = outputs[0].permute(2, 0, 1, 3).flatten(2)
        hidden, *cell = (output.transpose(0, 1).flatten(1) for output in outputs[1:])
        return states, (hidden, cell[0] if cell else None)

    def states(self, inputs: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the states alone; see `RecurrentLayer.states`."""
        return self(inputs, mask)[0]

    def step(self, inputs: Float[Tensor, "*batch D"], state: State) -> State:
        """Take one step forward in time; see `RecurrentLayer.step`."""
        return self.layer.step(inputs, state)


def with_native_layers(model: Model) -> Model:
    """Return a copy of a model, in evaluation mode, whose recurrent layers are native operators."""
    made = copy.deepcopy(model).eval()
    for module in list(made.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, RecurrentLayer):
                setattr(module, name, NativeRecurrentLayer(child))
    return made
