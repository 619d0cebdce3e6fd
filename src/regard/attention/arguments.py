"""Checks of the arguments of constructors and calls; their errors suggest the correct argument for a wrong one.

Functions `check_…` raise a `ConfigError` for an argument of a constructor; `called` is the class, for the message.

Users know the argument names of `nn.MultiheadAttention`, `scaled_dot_product_attention`, Keras and x-transformers. Some of
these names mean the opposite of regard's argument (`key_padding_mask` is the opposite of `key_mask`) or have two meanings
(`attention_mask`), so errors show the correct call.
"""

import inspect
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self, Unpack, get_args, get_origin

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, ConfigError, nearest

_CAUSAL = "build MultiHead(512, 8, causal=True), or give attn_mask=causal_mask(Q, K) to each call"
_DROPOUT = "give dropout, as in MultiHead(512, 8, dropout=0.1)"
_GROUPS = "give num_kv_heads, as in MultiHead(512, 8, num_kv_heads=2), in which consecutive query heads share keys"
_BATCH_FIRST = "leave it out: tensors are always batch first, (B, Q, D); transpose other tensors with x.transpose(0, 1)"

_AT_CONSTRUCTION = {
    ("embed_dim", "d_model", "dim", "hidden_size", "hidden_dim", "embed_size", "input_dim"): (
        "give the width first, by position, as in MultiHead(512, 8) or Additive(256)"
    ),
    ("heads", "nhead", "n_head", "n_heads", "num_attention_heads"): "give num_heads, the second argument of MultiHead(512, 8)",
    ("key_dim", "dim_head", "head_dim"): "give head_size, the width of a head, as in MultiHead(512, 8, head_size=128)",
    ("qk_norm", "q_norm", "k_norm"): "give modifiers=[QKNorm()]",
    ("talking_heads",): "give modifiers=[TalkingHeads()]",
    ("gate", "output_gate", "gated", "attn_gate_values"): "give modifiers=[OutputGate()]",
    ("kv_heads", "num_key_value_heads", "enable_gqa"): _GROUPS,
    ("attn_dropout", "dropout_p", "dropout_rate", "attention_dropout"): _DROPOUT,
    ("is_causal", "use_causal_mask"): "give causal, as in MultiHead(512, 8, causal=True)",
    ("use_bias", "add_bias", "qkv_bias"): "give bias",
    ("kdim", "encoder_dim"): "give key_size",
    ("vdim", "value_dim"): "give value_size",
    ("units", "attention_dim", "attn_dim"): "give attention_size, the width of the tanh layer",
    ("decoder_dim", "query_dim"): "give query_size, the first argument, as in Additive(256, key_size=512)",
    ("add_bias_kv", "add_zero_attn"): "give modifiers=[AddedKeys(learned=True, zero=True)]",
    ("batch_first",): _BATCH_FIRST,
    ("rotary_pos_emb",): "give positions=Rotary(), which rotates all features of each head",
    ("alibi_pos_bias",): "give positions=ALiBi(num_heads)",
    ("flash",): "leave it out: need_weights=False takes the fastest path",
}
_AT_CALL = {
    ("key_padding_mask",): "give key_mask=~key_padding_mask: in key_mask, True means that a key exists, not that it is ignored",
    ("attention_mask",): (
        "give key_mask=attention_mask.bool() for a (B, K) mask of the keys that exist (Hugging Face), or "
        "attn_mask=attention_mask.bool() for a mask whose axes end in (Q, K) (Keras); True means 'may attend'"
    ),
    ("mask", "src_mask", "tgt_mask", "memory_mask"): (
        "give key_mask=mask for a (B, K) mask of the keys that exist, or attn_mask=mask for a mask whose axes end in (Q, K); "
        "both are boolean, and True means 'may attend'"
    ),
    ("src_key_padding_mask", "padding_mask"): "give key_mask (B, K), in which True means that a key exists",
    ("is_causal", "use_causal_mask", "causal"): _CAUSAL,
    ("return_attention_scores", "output_attentions", "return_weights"): (
        "give need_weights: out.weights holds the weights, and need_weights=False takes the fastest path"
    ),
    ("average_attn_weights",): ("leave it out: out.weights has every head (B, H, Q, K); average them with out.weights.mean(1)"),
    ("dropout_p", "dropout"): f"it is set at construction; {_DROPOUT}",
    ("enable_gqa",): f"it is set at construction; {_GROUPS}",
    ("training",): "call attention.train() or attention.eval() first",
    ("batch_first",): _BATCH_FIRST,
    ("scale", "softmax_scale"): "it is set at construction; give scale, as in Dot(256, scale=0.1)",
    ("attn_bias", "bias", "attention_bias", "position_bias"): "give score_bias, numbers that are added to the scores",
    ("context", "memory", "encoder_outputs", "encoder_hidden_states", "keys"): "give key, the second argument",
    ("values",): "give value, the third argument",
    ("queries", "hidden_states"): "give query, the first argument",
}


def constructor_parameters(made: type) -> list[inspect.Parameter]:
    """Return the parameters of a class's constructor.

    If the constructor passes further arguments on to that of its parent, as `**options: Unpack[SomeTypedDict]`, the parent's
    parameters with the names of that dictionary replace `options`.
    """
    parameters: list[inspect.Parameter] = []
    names: Collection[str] | None = None  # None for all names
    for cls in made.__mro__:
        if "__init__" not in vars(cls):
            continue
        own = list(inspect.signature(vars(cls)["__init__"]).parameters.values())[1:]
        options = own.pop() if own and get_origin(own[-1].annotation) is Unpack else None
        parameters += [each for each in own if names is None or each.name in names]
        if options is None:
            break
        names = get_args(options.annotation)[0].__annotations__
    return parameters


class ConstructorSignature:
    """Attribute `__signature__` of a class, for `inspect.signature` and `help`: the parameters of `constructor_parameters`."""

    def __get__(self, module: nn.Module | None, made: type) -> inspect.Signature:
        if module is not None:
            raise AttributeError("__signature__ describes the constructor of a class, not the call of a module")
        return inspect.Signature(constructor_parameters(made))


class CheckedModule(nn.Module):
    """Base class of modules that check the names and the number of their constructor's arguments, and show the arguments."""

    __signature__: ClassVar[Any] = ConstructorSignature()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the arguments before the constructor runs."""
        parameters = constructor_parameters(cls)
        kinds = {p.kind for p in parameters}
        places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(args) > len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
            names = ", ".join(f"{p.name}=…" for p in parameters if p.kind is p.KEYWORD_ONLY)
            raise ArgumentError(
                f"{cls.__name__} takes {_listed(places)} by position, but got {len(args)} positional argument"
                f"{'s' * (len(args) > 1)}; give the others by name: {names}"
            )
        known = [p.name for p in parameters]
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            _refuse_names(f"{cls.__name__}(…)", [name for name in kwargs if name not in known], known, _AT_CONSTRUCTION)
        return super().__new__(cls)

    def extra_repr(self) -> str:
        """Return the arguments, for `print`: those without a default, and those that differ from their default.

        Device and dtype are left out, and so are arguments that the module stores as None, under another name or as a submodule
        (`repr` lists submodules itself).
        """
        shown = []
        for parameter in constructor_parameters(type(self)):
            name, value = parameter.name, getattr(self, parameter.name, None)
            if name in ("device", "dtype") or value is None or isinstance(value, nn.Module | Tensor) or callable(value):
                continue
            if isinstance(value, str | int | float | tuple | torch.dtype) and value != parameter.default:
                shown.append(f"{name}={value}")
        return ", ".join(shown)


def refuse_call(called: str, given: Sequence[object], named: Iterable[str], known: Sequence[str], advice: str) -> None:
    """Raise an error for arguments that a mechanism or a pooling does not accept when it is called."""
    if given:
        raise ArgumentError(f"{called} got {len(given)} positional argument{'s' * (len(given) > 1)} too many; {advice}")
    _refuse_names(f"the call of {called}", named, known, _AT_CALL)


def _refuse_names(called: str, unknown: Iterable[str], known: Sequence[str], advice: Mapping[tuple[str, ...], str]) -> None:
    for name in unknown:
        found = [text for names, text in advice.items() if name in names]
        meant = f": {found[0]}" if found else nearest(name, known) or f"; it has {_listed(known)}"
        raise ArgumentError(f"{called} has no argument {name!r}{meant}")


def _listed(names: Sequence[str]) -> str:
    *most, last = names or ("no argument",)
    return f"{', '.join(most)} and {last}" if most else last


def check_tensor(called: str, name: str, given: object) -> None:
    """Raise an error if an argument is not a tensor."""
    if not isinstance(given, Tensor):
        remedy = (
            "give each tensor as an argument, as in attention(query, key, value)"
            if isinstance(given, list | tuple)
            else ("convert it with torch.as_tensor")
        )
        raise ArgumentError(f"{called}: {name} is a {type(given).__name__}, expected a tensor; {remedy}")


def check_size(called: str, name: str, size: int, *, least: int = 1) -> int:
    """Return a width or a count; raise an error if it is not an int, or is too small."""
    if isinstance(size, bool) or not isinstance(size, Integral):
        whole = f", such as {name}={int(size)}" if isinstance(size, float) and size >= 1 and math.isfinite(size) else ""
        raise ConfigError(f"{called}({name}={_shown(size)}): {name} must be an int{whole}")
    if size < least:
        raise ConfigError(f"{called}({name}={size}): {name} must be {least} or more")
    return size


def check_number(
    called: str,
    name: str,
    number: float,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> float:
    """Return an argument; raise an error if it is not a finite number in the range."""
    if isinstance(number, bool) or not isinstance(number, Real):
        raise ConfigError(f"{called}({name}={_shown(number)}): {name} must be a number")
    finite = -sys.float_info.max <= number <= sys.float_info.max  # False for NaN, and for an int too large for a float
    if not (finite and above < number < below and least <= number <= most):
        bounds = {f"above {above}": above, f"of {least} or more": least, f"below {below}": below, f"of at most {most}": most}
        limits = " and ".join(text for text, bound in bounds.items() if math.isfinite(bound))
        raise ConfigError(f"{called}({name}={_shown(number)}): {name} must be a finite number{limits and f' {limits}'}")
    return number


def check_flag(called: str, name: str, flag: bool) -> bool:
    """Return an argument; raise an error if it is neither True nor False."""
    if not isinstance(flag, bool):
        raise ConfigError(f"{called}({name}={_shown(flag)}): {name} must be True or False")
    return flag


def check_scale(called: str, scale: float | None, *, default: float) -> float:
    """Return the factor of the scores as a float, or `default` if it is None; it must be above 0; see `check_number`."""
    return default if scale is None else float(check_number(called, "scale", scale, above=0))


def check_window(called: str, window: tuple[int, int] | None) -> None:
    """Raise an error if a window is neither None nor two whole numbers of 0 or more."""
    if window is None:
        return
    pair = isinstance(window, tuple | list) and len(window) == 2
    if not pair or any(isinstance(x, bool) or not isinstance(x, Integral) for x in window):
        n = window if isinstance(window, int) and window > 0 else 3
        raise ConfigError(
            f"{called}(window={_shown(window)}): expected two ints, the numbers of positions before and after a query's own: "
            f"window=({n}, 0) for the {n} before it, window=({n}, {n}) for both sides"
        )
    if min(window) < 0:
        raise ConfigError(f"{called}(window={window}): both sides of a window must be 0 or more")


def check_heads(called: str, size: int, num_heads: int, groups: int, head_size: int | None, **sizes: int) -> None:
    """Raise an error if the sizes of multi-head attention are invalid."""
    sizes |= {"size": size, "num_heads": num_heads, "num_kv_heads": groups}
    sizes |= {} if head_size is None else {"head_size": head_size}
    for name, number in sizes.items():
        check_size(called, name, number)
    if head_size is None and size % num_heads:
        raise ConfigError(
            f"{called}(size={size}, num_heads={num_heads}): size must be a multiple of num_heads, or give head_size"
        )
    if num_heads % groups:
        raise ConfigError(
            f"{called}(num_heads={num_heads}, num_kv_heads={groups}): heads share keys in groups of equal size, so "
            "num_kv_heads must divide num_heads"
        )


def check_instance(called: str, name: str, given: object, kind: type, example: str) -> None:
    """Raise an error if an argument is not an instance of a class."""
    if isinstance(given, type):
        own = f"{name}={given.__name__}(…)" if issubclass(given, kind) else f"{name}={example}"
        raise ConfigError(f"{called}({name}={given.__name__}): expected an instance, got the class; give {own}")
    if not isinstance(given, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ConfigError(f"{called}({name}={_shown(given)}): expected {article} {kind.__name__}, such as {name}={example}")


def _shown(value: object) -> str:
    text = " ".join((value.__name__ if isinstance(value, type) else repr(value)).split())
    return text if len(text) <= 60 else f"{text[:60]}…"
