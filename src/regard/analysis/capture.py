"""Capture the attention weights inside any PyTorch module while it runs.

with regard.capture(model) as caught:
    model(tokens)
caught["encoder.layers.0.self_attn"]                 # (B,H,Q,K)
caught.to_record(["she", "kissed", "him"]).save("grid.png", site="encoder")
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.analysis.scaled_dot_product import catch_scaled_dot_products
from regard.attention.base import Attention
from regard.attention.capabilities import Observation
from regard.errors import RequestError, nearest
from regard.records import AttentionRecord
from regard.records.data import NOTE
from regard.records.subwords import Scheme, record_of_tokens

_ACROSS = ("cross", "encoder_attn", "encdec")
"""Substrings of the names of modules that attend to another sequence."""
_SIGNATURE = inspect.signature(nn.MultiheadAttention.forward)


@dataclass(frozen=True)
class Call:
    """One call of an attention module."""

    name: str
    """Name of the called module in `named_modules`; empty for the module given to `capture`."""
    weights: Tensor
    """Weights (B,H,Q,K), or (B,Q,K) for a mechanism without heads; detached."""
    within: bool
    """Whether queries and keys were the same tensor."""


class Captured(Mapping[str, Tensor]):
    """Captured weights by the name of the attention module; if it was called several times, those of the last call.

    The names are those of `module.named_modules()`. The list `calls` has all calls in order.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def take(self, name: str, observation: Observation) -> None:
        """Add a call of one of regard's mechanisms."""
        self.calls.append(Call(name, observation.weights, observation.within))

    def take_weights(self, name: str, weights: Tensor) -> None:
        """Add a call of `scaled_dot_product_attention`. The module's name shows whether it attends to another sequence."""
        across = (
            any(part in name.lower() for part in ("cross", "encoder_attn", "encdec")) or weights.shape[-1] != weights.shape[-2]
        )
        self.calls.append(Call(name, weights, within=not across))

    def __getitem__(self, name: str) -> Tensor:
        for call in reversed(self.calls):
            if call.name == name:
                return call.weights
        names = list(self)
        raise KeyError(f"no attention {name!r} was called, only {', '.join(names) or 'none at all'}{nearest(name, names)}")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(call.name for call in self.calls))

    def __len__(self) -> int:
        return len({call.name for call in self.calls})

    def __contains__(self, name: object) -> bool:
        return any(call.name == name for call in self.calls)

    def to_record(
        self,
        tokens: Sequence[str],
        target_tokens: Sequence[str] | None = None,
        *,
        batch: int = 0,
        families: Mapping[str, str] | None = None,
        subwords: Scheme = "auto",
        special: Collection[str] | None = None,
        source_text: str = "",
        target_text: str = "",
        note: str = NOTE,
    ) -> AttentionRecord:
        """Make a record of one run of the module.

        Each call becomes a site, numbered within its family from 0: `cross.i` where queries and keys differ, `decoder.i` within
        the target, `encoder.i` within the source. Attention within one sequence counts as the decoder's if the module's
        name has `decoder` in it and targets are given.

        Args:
            tokens: The S source tokens, including special tokens and padding.
            target_tokens: The T target tokens that the module reads, including the start symbol, if it reads a target.
            batch: Index of the sentence in the batch, from 0.
            families: Mapping of module names to `encoder`, `decoder` or `cross`, for modules that the rules above misplace.
            subwords: How tokens mark the beginning of a word; see `regard.join_subwords`.
            special: Tokens that belong to no word; see `regard.join_subwords`.
            source_text: The original source text; by default its words joined by spaces.
            target_text: The original target text; by default its words joined by spaces.
            note: Sentence for the captions on what the pictures prove and what they don't.

        Raises:
            RequestError: If nothing was captured, the batch has no sentence with this index, or `families` names a module that
                was not called or has no attention.
            ShapeError: If the numbers of weights and tokens differ, for example because the module ran more than once.
        """
        if not self.calls:
            raise RequestError(
                "to_record: nothing was captured: run the module inside `with capture(module)`, which captures calls of "
                "nn.MultiheadAttention, of scaled_dot_product_attention and of regard's own attention"
            )
        _check_families(families or {}, list(self))
        weights: dict[str, Any] = {}
        count: dict[str, int] = {}
        for call in self.calls:
            family = (families or {}).get(call.name) or _family(call, has_target=target_tokens is not None)
            number = count.setdefault(family, 0)
            count[family] += 1
            if not 0 <= batch < len(call.weights):
                raise RequestError(f"to_record: batch is {batch}, and there are {len(call.weights)} sentences")
            weights[f"{family}.{number}"] = call.weights[batch]
        return record_of_tokens(
            tokens,
            target_tokens,
            weights,
            subwords=subwords,
            special=special,
            source_text=source_text,
            target_text=target_text,
            target_is_read=target_tokens is not None,
            note=note,
        )


@contextmanager
def capture(module: nn.Module) -> Iterator[Captured]:
    """Capture all attention weights inside a module.

    `nn.MultiheadAttention`, `scaled_dot_product_attention`, regard's own mechanisms.

    The weights of `scaled_dot_product_attention` are computed again from its arguments, before dropout, and are stored under
    the name of the innermost module that called it. The model's results stay bit-identical.

    Each module computes the weights of all its heads and still returns its usual results. While the context is open, PyTorch's
    fused path through `nn.TransformerEncoder`, which computes no weights, is switched off for the whole process; without that
    path, the outputs of padding are not set to zero. In training mode, `nn.MultiheadAttention` gives weights after dropout.
    When the context ends, also by an exception, the module is restored. Modules that are already compiled or scripted are not
    captured.

    Args:
        module: Any PyTorch module.

    Yields:
        The weights captured so far.

    Raises:
        RequestError: If the module contains no such attention and did not call `scaled_dot_product_attention`.
    """
    found = {name: part for name, part in module.named_modules() if isinstance(part, nn.MultiheadAttention | Attention)}
    caught = Captured()
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        for name, part in found.items():
            if isinstance(part, Attention):
                stack.enter_context(part.observe(partial(caught.take, name)))
            else:
                _hook(part, name, caught.calls.append, stack)
        stack.enter_context(catch_scaled_dot_products(module, caught.take_weights))
        yield caught
    if not found and not caught.calls:
        raise RequestError(
            f"capture: there is no nn.MultiheadAttention in this {type(module).__name__}, nor an attention of regard's, and it "
            "did not call scaled_dot_product_attention; a model with attention of its own kind has to return it, see "
            "regard.from_huggingface"
        )


def _hook(module: nn.MultiheadAttention, name: str, catch: Callable[[Call], None], stack: ExitStack) -> None:
    """Make an `nn.MultiheadAttention` compute the weights of all heads, and still return what its caller asked for."""
    asked: list[tuple[bool, bool, bool]] = []  # a stack, because a call may happen inside another

    def before(_: nn.Module, positional: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        bound = _SIGNATURE.bind(module, *positional, **named)
        bound.apply_defaults()
        given = bound.arguments
        asked.append((given["need_weights"], given["average_attn_weights"], given["query"] is given["key"]))
        given.update(need_weights=True, average_attn_weights=False)
        return bound.args[1:], bound.kwargs

    def after(_: nn.Module, __: tuple, output: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
        need_weights, average, within = asked.pop()
        context, weights = output
        heads = weights if weights.ndim == 4 else weights[None]  # a call without a batch
        catch(Call(name, heads.detach(), within))
        if not need_weights:
            return context, None
        return context, weights.mean(-3) if average else weights

    # The first hook before the call and the last one after it, so that other hooks see the usual arguments and results.
    stack.callback(module.register_forward_hook(after, prepend=True).remove)
    stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)


def _family(call: Call, *, has_target: bool) -> str:
    if not call.within:
        return "cross"
    return "decoder" if has_target and "decoder" in call.name.lower() else "encoder"


def _check_families(families: Mapping[str, str], names: Sequence[str]) -> None:
    for name, family in families.items():
        if name not in names:
            raise RequestError(f"to_record: families names {name!r}, which was not called{nearest(name, names)}")
        if family not in ("encoder", "decoder", "cross"):
            raise RequestError(f"to_record: {name!r} has the family {family!r}, expected encoder, decoder or cross")
