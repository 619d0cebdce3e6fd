"""Pack a model for search.

The packed form of a model is a copy of its tree of modules, in which each plain linear map (`nn.Linear`) is replaced by one
whose weight was converted once to the layout that products need. All other modules are shared with the model. What a user adds
stays: a map that has an adapter or hooks is called as it is, and modules of other packages are not changed.
"""

from copy import deepcopy
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.capabilities import is_exactly
from regard.attention.heads.multihead import MultiHead
from regard.attention.precision import compute_dtype
from regard.inference.linear import PackedLinear, QuantizedLinear, pack_linear
from regard.layers.cells import gru_cell, lstm_cell
from regard.layers.feed_forward import FeedForward, GatedFeedForward
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
    if model.training or torch.is_grad_enabled() or torch.compiler.is_compiling() or model.packed:
        return model
    return _pack(model, sentences, int8)  # type: ignore[return-value]


def _pack(module: nn.Module, sentences: int, int8: bool) -> nn.Module:
    """Return the packed form of a module, or the module itself if nothing in it can be packed."""
    if isinstance(module, nn.Linear):
        made = pack_linear([module], sentences, int8)
        if made is None:
            return module
        made.__dict__.update(weight=module.weight, bias=module.bias)  # for code that reads them
        return made
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        low = module.weight is not None and module.weight.dtype.itemsize == 2 and not module.weight.is_cuda
        norm = deepcopy(module).float() if low else module  # between products in bfloat16, sums are in float32
        return PackedNorm(norm) if isinstance(norm, nn.LayerNorm) and is_exactly(norm, nn.LayerNorm) else norm
    if int8 and isinstance(module, RecurrentLayer) and is_exactly(module, RecurrentLayer) and not module.weight_ih.is_cuda:
        return QuantizedLayer(module)
    known = type(module) is nn.ModuleList or type(module).__module__.startswith("regard.")
    # A stranger's module (an adapter) may do more with a map than call it, and so do some mechanisms.
    if not module._modules or not known or (isinstance(module, Attention) and not is_exactly(module, MultiHead)):
        return module
    joint, kept = None, {"encoder"}
    if isinstance(module, MultiHead) and module.causal:  # self-attention, whose three maps read the same input
        maps = (module.query_projection, module.key_projection, module.value_projection)
        joint = pack_linear(maps, sentences, int8)
        kept = set() if joint is None else {"query_projection", "key_projection", "value_projection"}
    elif isinstance(module, MultiHead) and (int8 or all(compute_dtype(one).itemsize > 2 for one in module.parameters())):
        kept = {"key_projection", "value_projection"}  # they run once for each sentence, as the encoder does
    parts = {
        name: part if part is None or name in kept else _pack(part, sentences, int8) for name, part in module._modules.items()
    }
    if isinstance(module, FeedForward | GatedFeedForward) and isinstance(parts["outer"], PackedLinear):
        for name in {"gate", "inner"} & parts.keys():
            if isinstance(parts[name], PackedLinear):  # the next product reads its result in the same number format
                parts[name].__dict__["widens"] = False
    if joint is None and all(part is module._modules[name] for name, part in parts.items()):
        return module
    copied: Any = object.__new__(type(module))  # `copy.copy` takes as long as a product
    # With its parts in the dictionary, Python finds them without the method `__getattr__` of modules, some 90 times a step.
    copied.__dict__.update(module.__dict__, _modules=parts, **parts)
    if joint is not None:
        copied.__dict__["joint_projection"] = joint
    if isinstance(module, Seq2Seq):  # a model, or a part of one: the member of an ensemble
        attention = (one for name, one in module.named_modules() if isinstance(one, Attention) and name[:7] != "encoder")
        copied.__dict__.update(packed=True, packed_whole=all(is_exactly(one, MultiHead) for one in attention))
    return copied


class PackedNorm(nn.Module):
    """A layer norm that is called without the hooks of modules."""

    # A step of a search has many norms, and the call of a module costs as much as a small norm.

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.options = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps

    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        return torch.layer_norm(x, *self.options)


class QuantizedLayer(nn.Module):
    """A recurrent layer of one direction that has only a `step`, with products in 8-bit integers; see `RecurrentLayer.step`."""

    # In other number formats, packed weights of recurrent layers gain nothing.

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
