"""Pack a model for search.

The packed form of a model is a copy of its tree of modules, in which each plain linear map (`nn.Linear`) is replaced by one
whose weight was converted once to the layout that products need, and the decoder of a Transformer by one with fewer operations
(`regard.inference.transformer`). All other modules are shared with the model. What a user adds stays: a map that has an
adapter or hooks is called as it is, and modules of other packages are not changed.
"""

from copy import copy
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.capabilities import is_exactly
from regard.inference.linear import QuantizedLinear, pack_linear
from regard.inference.transformer import pack_decoder
from regard.layers.cells import gru_cell, lstm_cell
from regard.layers.recurrent import RecurrentLayer
from regard.models.seq2seq import Seq2Seq

Model = TypeVar("Model", bound=Seq2Seq)


def pack(model: Model, sentences: int, *, int8: bool = False) -> Model:
    """Return the packed form of a model, which gives the same results up to rounding.

    Products run in autocast's dtype, or in the dtype of the weights without autocast. The packed form is for one search: it
    does not follow later changes of the weights. A model in training mode, with gradients enabled, or in `torch.compile` is
    returned unchanged, and so is a packed one. The module `encoder` of a model is not packed, because it runs once for each
    sentence.

    Args:
        model: The model, in evaluation mode.
        sentences: Number of sentences in the search.
        int8: If True and the model is on a CPU, round weights and inputs of the products to 8-bit integers, which processors
            with VNNI instructions multiply fastest.
    """
    if model.training or torch.is_grad_enabled() or torch.compiler.is_compiling() or vars(model).get("_is_packed", False):
        return model
    packed = _pack(model, sentences, int8)
    if packed is not model:
        packed._is_packed = True  # type: ignore[assignment]
    return packed  # type: ignore[return-value]


def _pack(module: nn.Module, sentences: int, int8: bool) -> nn.Module:
    """Return the packed form of a module, or the module itself if nothing in it can be packed."""
    if isinstance(module, nn.Linear):
        made = pack_linear([module], sentences, int8)
        if made is None:
            return module
        made.weight, made.bias = module.weight, module.bias  # for code that reads them
        return made
    if int8 and isinstance(module, RecurrentLayer) and is_exactly(module, RecurrentLayer) and not module.weight_ih.is_cuda:
        return QuantizedLayer(module)
    if (decoder := pack_decoder(module, sentences, int8)) is not None:
        return decoder
    known = type(module) is nn.ModuleList or type(module).__module__.startswith("regard.")
    # A stranger's module (an adapter) may do more with a map than call it, and some mechanisms compute with its weight.
    if not known or isinstance(module, Attention):
        return module
    parts = {
        name: part if part is None or name == "encoder" else _pack(part, sentences, int8)
        for name, part in module._modules.items()
    }
    if all(part is module._modules[name] for name, part in parts.items()):
        return module
    copied = copy(module)
    copied._modules = parts
    return copied


class QuantizedLayer(nn.Module):
    """A recurrent layer that has only a `step`, with products in 8-bit integers; see `RecurrentLayer.step`.

    In other number formats, packed weights of recurrent layers gain nothing.

    Args:
        layer: A layer with one direction.
    """

    def __init__(self, layer: RecurrentLayer) -> None:
        super().__init__()
        self.num_gates = layer.num_gates
        self.input_map = QuantizedLinear(layer.weight_ih[0], layer.bias_ih[0])
        self.state_map = QuantizedLinear(layer.weight_hh[0], layer.bias_hh[0])

    def step(
        self, inputs: Float[Tensor, "*batch D"], state: tuple[Tensor, Tensor | None]
    ) -> tuple[Float[Tensor, "*batch H"], Tensor | None]:
        """Run one step forward in time, for any number of rows."""
        hidden, cell = state
        x_gates, h_gates = self.input_map(inputs), self.state_map(hidden)
        if cell is None:
            return gru_cell(x_gates, h_gates, hidden), None
        return lstm_cell(x_gates, h_gates, cell)
