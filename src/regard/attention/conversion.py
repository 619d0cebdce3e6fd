"""Conversion between `nn.MultiheadAttention` and `MultiHead`, which have the same parameters under different names."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.arguments import check_instance
from regard.attention.capabilities import is_exactly
from regard.attention.modifiers import AddedKeys
from regard.attention.normalizers.softmax import Softmax
from regard.errors import ConfigError

_PARTS = ("query", "key", "value")
_ADDED = {"added_key": "bias_k", "added_value": "bias_v"}
_SEPARATE = ("q_proj_weight", "k_proj_weight", "v_proj_weight")


def rename_from_torch(module: Any, state: MutableMapping[str, Tensor], prefix: str, *rest: Any) -> None:
    """Give the parameters of an `nn.MultiheadAttention` the names of `MultiHead`, before a `MultiHead` loads a state dict.

    The state dict is changed in place. A matrix or bias that holds the parts of query, key and value is split into three.

    Args:
        module: The `MultiHead` that loads the state dict.
        state: The state dict of a whole model.
        prefix: Prefix of the module's parameters in the state dict.
        rest: Further arguments that PyTorch passes to a hook; not used.

    Raises:
        ConfigError: If the parameters include those of `add_bias_kv`, but the `MultiHead` has no modifier `AddedKeys` with a
            learned key.
    """
    if f"{prefix}bias_k" in state:
        at = [i for i, each in enumerate(module.modifiers) if isinstance(each, AddedKeys) and each.learned]
        if not at:
            raise ConfigError(
                "MultiHead cannot load the state dict of an nn.MultiheadAttention built with add_bias_kv; build it with "
                f"modifiers=[AddedKeys({module.num_kv_heads}, {module.head_size})]"
            )
        for name, theirs in _ADDED.items():
            added = state.pop(f"{prefix}{theirs}").reshape(module.num_kv_heads, 1, -1)
            state[f"{prefix}modifiers.{at[0]}.{name}"] = added
    for kind in ("weight", "bias"):
        packed = state.pop(f"{prefix}in_proj_{kind}", None)
        if packed is not None:
            for part, tensor in zip(_PARTS, packed.chunk(3), strict=True):
                state[f"{prefix}{part}_projection.{kind}"] = tensor.clone()
    renamed = {f"{name}_projection.weight": theirs for name, theirs in zip(_PARTS, _SEPARATE, strict=True)}
    renamed |= {f"output_projection.{kind}": f"out_proj.{kind}" for kind in ("weight", "bias")}
    for ours, theirs in renamed.items():
        if f"{prefix}{theirs}" in state:
            state[f"{prefix}{ours}"] = state.pop(f"{prefix}{theirs}")


def rename_to_torch(state: Mapping[str, Tensor], *, packed: bool) -> dict[str, Tensor]:
    """Return the parameters of a `MultiHead` under the names of `nn.MultiheadAttention`.

    Args:
        state: State dict of the `MultiHead`.
        packed: Whether the `nn.MultiheadAttention` keeps one matrix for query, key and value, because their
            widths are equal.
    """
    weights = [state[f"{part}_projection.weight"] for part in _PARTS]
    found = {"in_proj_weight": torch.cat(weights)} if packed else dict(zip(_SEPARATE, weights, strict=True))
    found["out_proj.weight"] = state["output_projection.weight"]
    if "output_projection.bias" in state:
        found["in_proj_bias"] = torch.cat([state[f"{part}_projection.bias"] for part in _PARTS])
        found["out_proj.bias"] = state["output_projection.bias"]
    if "modifiers.0.added_key" in state:
        found |= {theirs: state[f"modifiers.0.{name}"].view(1, 1, -1) for name, theirs in _ADDED.items()}
    return found


def build_from_torch(cls: Any, module: nn.MultiheadAttention) -> Any:
    """Build a `MultiHead` (class `cls`) from an `nn.MultiheadAttention`; see `MultiHead.from_torch`."""
    check_instance("MultiHead.from_torch", "module", module, nn.MultiheadAttention, "nn.MultiheadAttention(512, 8)")
    weight, modifiers = module.out_proj.weight, []
    if module.bias_k is not None or module.add_zero_attn:
        learned, head_size = module.bias_k is not None, module.embed_dim // module.num_heads
        modifiers = [AddedKeys(module.num_heads, head_size, learned=learned, zero=module.add_zero_attn)]
    made = cls(
        module.embed_dim,
        module.num_heads,
        key_size=module.kdim,
        value_size=module.vdim,
        bias=module.in_proj_bias is not None,
        dropout=module.dropout,
        modifiers=[each.to(weight.device, weight.dtype) for each in modifiers],
        device=weight.device,
        dtype=weight.dtype,
    )
    made.load_state_dict(module.state_dict())
    return made.train(module.training)


def build_torch(attention: Any, *, batch_first: bool) -> nn.MultiheadAttention:
    """Build an `nn.MultiheadAttention` from a `MultiHead`; see `MultiHead.to_torch`."""
    added = next((each for each in attention.modifiers if isinstance(each, AddedKeys)), None)
    others = [each for each in attention.modifiers if each is not added]
    extra = {
        "num_kv_heads": attention.num_kv_heads < attention.num_heads,
        "causal": attention.causal,
        "window": attention.window is not None,
        "positions": attention.positions is not None,
        "scale": attention.scale is not None,
        "normalizer": not is_exactly(attention.normalizer, Softmax),
        "head_size": attention.head_size * attention.num_heads != attention.size,
        "output_size": attention.output_size != attention.size,
        "modifiers": bool(others),
    }
    if any(extra.values()):
        names = ", ".join(name for name, is_set in extra.items() if is_set)
        raise ConfigError(
            f"MultiHead.to_torch: nn.MultiheadAttention has no counterpart of {names}; convert a MultiHead built without "
            "these options (causal and window can be given as the attn_mask of each call)"
        )
    weight = attention.output_projection.weight
    made = nn.MultiheadAttention(
        attention.query_size,
        attention.num_heads,
        dropout=attention.dropout,
        bias=attention.query_projection.bias is not None,
        kdim=attention.key_size,
        vdim=attention.value_size,
        batch_first=batch_first,
        add_bias_kv=added is not None and added.learned,
        add_zero_attn=added is not None and added.zero,
        device=weight.device,
        dtype=weight.dtype,
    )
    made.load_state_dict(rename_to_torch(attention.state_dict(), packed=made.in_proj_weight is not None))
    return made.train(attention.training)
