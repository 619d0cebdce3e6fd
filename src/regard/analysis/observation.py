"""Observe the modules that run inside a module, without an effect on their results."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from regard.analysis.selection import Selection, TopWeights
from regard.errors import RegardError
from regard.private_torch import in_backward, is_compiled

_ACROSS = ("cross", "encoder_attn", "encdec")
"""Substrings of the names of modules that attend to another sequence."""
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead")


@dataclass(frozen=True)
class Call:
    """One call of an attention module."""

    name: str
    """Name of the called module in `named_modules`; empty for the module given to `capture`."""
    kept: Tensor | TopWeights
    """The kept part of the weights (B,H,Q,K), or (B,Q,K) for a mechanism without heads; detached."""
    within: bool | None
    """Whether queries and keys came from the same sequence; None if that is not known."""
    is_causal: bool | None = None
    """Value of the module's attribute `is_causal` or `is_decoder`; None if it has neither."""
    is_checked: bool = True
    """False if the first axis has sentences and something else, such as heads, in an unknown order."""

    @property
    def weights(self) -> Tensor:
        """Return the weights as one tensor, with zeros in place of those that `top_k` left out."""
        return self.kept.dense() if isinstance(self.kept, TopWeights) else self.kept


class Observer:
    """The modules that are running, and the attention that was captured in them.

    Args:
        module: The module to observe. Compiled and scripted parts of it are not observed.
        selection: The weights to keep.
    """

    def __init__(self, module: nn.Module, selection: Selection) -> None:
        self.selection = selection
        self.calls: list[Call] = []
        self.running: list[tuple[str, nn.Module]] = []
        self.missed: dict[str, None] = {}
        self.errors: list[Exception] = []
        self.named: dict[str, None] = {}
        self.names: dict[nn.Module, list[str]] = {}
        self._batch: int | None = None
        self._thread = get_ident()
        compiled: list[str] = []
        for name, part in module.named_modules(remove_duplicate=False):
            if is_compiled(part):
                compiled.append(name)
                self.miss(name)
            elif not any(name.startswith(f"{outer}.") for outer in compiled):
                self.names.setdefault(part, []).append(name)

    def sees(self, part: nn.Module) -> bool:
        """Return whether a module that runs is observed: other threads may run the same module, and their calls are not."""
        return part in self.names and get_ident() == self._thread

    def name_of(self, part: nn.Module) -> str:
        """Return the name of a module; if it is used in several places, the name of the place that runs now."""
        names = self.names[part]
        for outer, _ in reversed(self.running):
            for name in names:
                if name == outer or name.startswith(f"{outer}." if outer else ""):
                    return name
        return names[0]

    @contextmanager
    def hooks(self, without: set[nn.Module]) -> Iterator[None]:
        """Keep `running` up to date while the context is open, except for the modules `without`."""

        def enter(part: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            if not self.sees(part):
                return
            name = self.name_of(part)
            if not self.running:
                inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor) and each.ndim > 1]
                self._batch = len(inputs[0]) if inputs else None
            self.running.append((name, part))
            if "attention" in type(part).__name__.lower():
                self.named[name] = None

        def leave(part: nn.Module, *_: Any) -> None:
            if self.sees(part) and self.running and self.running[-1][1] is part:  # its call may have started before the capture
                self.running.pop()

        with ExitStack() as stack:
            for part in self.names.keys() - without:
                stack.callback(part.register_forward_pre_hook(enter, prepend=True, with_kwargs=True).remove)
                stack.callback(part.register_forward_hook(leave, always_call=True).remove)
            yield

    def observe(self, name: str, look: Callable[[], object]) -> None:
        """Call `look` for a module; an error in it does not affect the module, and is kept for the end of the capture."""
        # A backward pass may compute a module a second time.
        if get_ident() != self._thread or in_backward() or not self.selection.includes(name):
            return
        try:
            with torch.no_grad():
                look()
        except RegardError as error:
            self.errors.append(error)
        except Exception as error:
            self.errors.append(error)
            self.miss(name)

    def miss(self, name: str) -> None:
        """Note that a module seems to compute attention that was not captured."""
        if self.selection.includes(name):
            self.missed[name] = None

    def take(self, name: str, weights: Tensor, within: bool | None) -> None:
        """Add a call of a module, if it is selected; `within` says whether queries and keys came from the same sequence."""
        self.observe(name, lambda: self._add(name, self.selection.keep(weights, name), within))

    def take_kept(self, name: str, kept: Tensor | TopWeights, *, is_checked: bool = True) -> int:
        """Add a call of attention that a module computes in its own code, and return its index.

        The module attends to another sequence if its name contains `cross`, `encoder_attn` or `encdec`, or if the numbers of
        queries and keys differ. Otherwise it is not known where the keys come from.
        """
        queries, keys = (kept.values.shape[-2], kept.num_keys) if isinstance(kept, TopWeights) else kept.shape[-2:]
        across = any(part in name.lower() for part in _ACROSS) or queries != keys
        return self._add(name, kept, False if across else None, is_checked=is_checked)

    def confirm(self, number: int, is_checked: bool) -> None:
        """Record whether sentences and heads in a call were found to be in the assumed order."""
        self.calls[number] = replace(self.calls[number], is_checked=is_checked)

    def _add(self, name: str, kept: Tensor | TopWeights, within: bool | None, *, is_checked: bool = True) -> int:
        values = kept.values if isinstance(kept, TopWeights) else kept
        if type(values) is not Tensor or values.is_meta or values.is_nested:
            raise TypeError(f"the weights are a {type(values).__name__} on {values.device}, expected a tensor with values")
        part = next((part for each, part in reversed(self.running) if each == name), None)
        facts = (getattr(part, fact, None) for fact in ("is_causal", "is_decoder"))
        causal = next((fact for fact in facts if isinstance(fact, bool)), None)
        self.calls.append(Call(name, kept, within, causal, is_checked))
        return len(self.calls) - 1

    def fold(self, tensor: Tensor) -> tuple[int, int] | None:
        """Return the numbers of sentences and heads (B,H) if the first of three axes has B·H entries, otherwise None.

        B is the number of sentences in the input, and H is an attribute of a running module. The result is (0, 0) if the first
        axis fits neither.
        """
        if tensor.ndim != 3:
            return None
        size, batch = len(tensor), self._batch
        if size == batch:
            return None
        if batch and size % batch == 0 and self._heads() in (None, size // batch):
            return batch, size // batch
        heads = self._heads()
        return (size // heads, heads) if heads and size % heads == 0 else None if batch is None else (0, 0)

    def unfolded(self, tensor: Tensor, fold: tuple[int, int] | None) -> Tensor:
        """Return the weights with separate axes for sentences and heads, (B,H,Q,K)."""
        if tensor.ndim == 2:
            return tensor[None]
        return tensor.unflatten(0, fold) if fold and fold[0] else tensor

    def _heads(self) -> int | None:
        for _, part in reversed(self.running):
            for owner in (part, getattr(part, "config", None)):
                for name in _HEADS:
                    if type(heads := getattr(owner, name, None)) is int:
                        return heads
        return None

    def unseen(self) -> list[str]:
        """Return the names of the modules that seem to compute attention, but whose attention was not captured."""
        captured = {call.name for call in self.calls}
        names: list[str] = []
        for name in (*self.missed, *filter(self.selection.includes, self.named)):
            if name not in names and (name in self.missed or not any(_related(name, other) for other in (*captured, *names))):
                names.append(name)
        return names


def _related(one: str, other: str) -> bool:
    """Return whether one of two modules is inside the other, or both are the same."""
    return (
        one == other or f"{one}.".startswith(f"{other}." if other else "") or f"{other}.".startswith(f"{one}." if one else "")
    )
