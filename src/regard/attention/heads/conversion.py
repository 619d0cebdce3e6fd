"""Conversion of an `nn.MultiheadAttention` to a `MultiHead`, which has the same parameters under different names."""

from collections.abc import MutableMapping
from typing import Any

from torch import Tensor, nn

from regard.attention.arguments import check_instance
from regard.attention.heads.modifiers import AddedKeys
from regard.errors import ConfigError

_PARTS = ("query", "key", "value")
_RENAMED = {f"{part}_projection.weight": f"{part[0]}_proj_weight" for part in _PARTS}
_RENAMED |= {f"output_projection.{kind}": f"out_proj.{kind}" for kind in ("weight", "bias")}
"""Names of the parameters of `MultiHead`, and those of `nn.MultiheadAttention`, which may also join query, key and value."""


def rename_from_torch(module: Any, state: MutableMapping[str, Tensor], prefix: str, *rest: Any) -> None:
    """Give the parameters of an `nn.MultiheadAttention` the names of `MultiHead`, before a state dict is loaded."""
    for kind in ("weight", "bias"):  # which hold the parts of query, key and value together
        packed = state.pop(f"{prefix}in_proj_{kind}", None)
        if packed is not None:
            for part, tensor in zip(_PARTS, packed.chunk(3), strict=True):
                state[f"{prefix}{part}_projection.{kind}"] = tensor.clone()
    for ours, theirs in _RENAMED.items():
        if f"{prefix}{theirs}" in state:
            state[f"{prefix}{ours}"] = state.pop(f"{prefix}{theirs}")
    if f"{prefix}bias_k" in state:
        places = [i for i, each in enumerate(module.modifiers) if isinstance(each, AddedKeys) and each.learned]
        if not places:
            raise ConfigError(
                "MultiHead cannot load the state dict of an nn.MultiheadAttention built with add_bias_kv; build it with "
                "modifiers=[AddedKeys()]"
            )
        for part in ("key", "value"):
            added = state.pop(f"{prefix}bias_{part[0]}").reshape(module.num_kv_heads, 1, -1)
            state[f"{prefix}modifiers.{places[0]}.added_{part}"] = added


def build_from_torch(cls: Any, module: nn.MultiheadAttention) -> Any:
    """Build a `MultiHead` (class `cls`) from an `nn.MultiheadAttention`; see `MultiHead.from_torch`."""
    check_instance("MultiHead.from_torch", "module", module, nn.MultiheadAttention, "nn.MultiheadAttention(512, 8)")
    weight, modifiers = module.out_proj.weight, []
    if module.bias_k is not None or module.add_zero_attn:
        modifiers = [AddedKeys(learned=module.bias_k is not None, zero=module.add_zero_attn)]
    made = cls(
        module.embed_dim,
        module.num_heads,
        key_size=module.kdim,
        value_size=module.vdim,
        bias=module.in_proj_bias is not None,
        dropout=module.dropout,
        modifiers=modifiers,
        device=weight.device,
        dtype=weight.dtype,
    )
    made.load_state_dict(module.state_dict())
    return made.train(module.training)
