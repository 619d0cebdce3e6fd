"""Observe the modules that run inside a module, and keep a part of the attention weights that they compute."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.pooling import MeanPooling, Pooling
from regard.errors import ConfigError, RegardError, RequestError, nearest
from regard.layers.readout import Readout
from regard.private_torch import in_backward, is_compiled, without_modes

# Maximum number of weights that are computed at a time (but at least one row), to limit memory beyond the kept weights.
_CHUNK = 1 << 24
# Substrings of the names of modules that attend to another sequence.
_ACROSS = ("cross", "encoder_attn", "encdec")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead")


@dataclass(frozen=True)
class Selection:
    """The weights that a capture keeps; the arguments are those of `regard.capture`."""

    names: Collection[str] | None = None
    heads: Sequence[int] | None = None
    rows: Sequence[int] | None = None
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.names, str):
            raise ConfigError(f"capture: names is the string {self.names!r}, expected a list of names: [{self.names!r}]")
        if self.heads is not None and not all(isinstance(head, int) and head >= 0 for head in self.heads):
            raise ConfigError(f"capture: heads is {self.heads!r}, expected a list of whole numbers of 0 or more")
        if self.rows is not None and not (self.rows and all(isinstance(row, int) for row in self.rows)):
            raise ConfigError(f"capture: rows is {self.rows!r}, expected a list of whole numbers, such as [0, 5] or [-1]")

    def includes(self, name: str) -> bool:
        """Return whether weights of this module are kept."""
        return self.names is None or any(fnmatchcase(name, pattern) for pattern in self.names)

    def heads_of(self, count: int, name: str) -> list[int]:
        """Return the indices of the heads to keep, for the module `name` with `count` heads."""
        chosen = list(range(count)) if self.heads is None else list(self.heads)
        if chosen and max(chosen) >= count:
            raise RequestError(
                f"capture: heads contains {max(chosen)}, but {name!r} has {count} heads: choose from 0 to {count - 1}"
            )
        return chosen

    def rows_of(self, count: int, name: str) -> list[int]:
        """Return the indices of the queries to keep, from 0, for a call of the module `name` with `count` queries."""
        chosen = [row + count if row < 0 else row for row in self.rows or ()] if self.rows is not None else list(range(count))
        if chosen and not 0 <= min(chosen) <= max(chosen) < count:
            raise RequestError(
                f"capture: rows is {list(self.rows or ())}, but {name!r} has {count} queries: choose from {-count} to "
                f"{count - 1}, or leave the module out with names"
            )
        return chosen

    def keep(self, weights: Tensor, name: str, *, has_all_rows: bool = True) -> Tensor:
        """Return the part of the weights (B,H,Q,K), or (B,Q,K) without heads, that is kept."""
        if self.heads is not None and weights.ndim == 4:
            weights = weights[:, self.heads_of(weights.shape[1], name)]
        if self.rows is not None and has_all_rows:
            weights = weights[..., self.rows_of(weights.shape[-2], name), :]
        return weights.detach().to(self.device)

    def collect(self, shape: Sequence[int], queries: Tensor, rows_of: Callable[[Tensor], Tensor]) -> Tensor:
        """Return weights of this shape (…,Q,K), computed for some of the Q `queries` at a time with `rows_of`."""
        *rest, _, keys = shape
        parts = queries.split(max(1, _CHUNK // max(1, torch.Size(rest).numel() * keys)))
        first = rows_of(parts[0])
        if len(parts) == 1:
            return first.to(self.device)
        # One tensor is filled, because joining parts would need twice the memory of the weights.
        whole = first.new_empty(shape, device=self.device or first.device)
        start = 0
        for part in parts:
            whole[..., start : start + len(part), :] = rows_of(part) if start else first
            start += len(part)
        return whole


@dataclass(frozen=True)
class Call:
    """One call of an attention module."""

    name: str
    """Name of the called module in `named_modules`; empty for the module given to `capture`."""
    weights: Tensor
    """Weights (B,H,Q,K) of the chosen heads, or (B,Q,K) for a mechanism without heads; detached."""
    within: bool | None
    """Whether queries and keys came from the same sequence; None if that is not known."""
    is_causal: bool | None = None
    """Value of the module's attribute `is_causal` or `is_decoder`; None if it has neither."""
    is_checked: bool = True
    """False if the first axis has sentences and something else, such as heads, in an unknown order."""


class Observer:
    """The parts of a module that are running, except compiled and scripted ones, and the attention captured in them."""

    def __init__(self, module: nn.Module, selection: Selection) -> None:
        self.selection = selection
        self.calls: list[Call] = []
        self.running: list[tuple[str, nn.Module]] = []
        self.missed: dict[str, None] = {}
        self.errors: list[Exception] = []
        self.names: dict[nn.Module, list[str]] = {}
        self._named: dict[str, None] = {}
        self._batch: int | None = None
        self._thread = get_ident()
        compiled: list[str] = []
        for name, part in module.named_modules(remove_duplicate=False):
            # Hooks do not run inside compiled modules, nor inside their parts.
            if not any(name.startswith(f"{outer}." if outer else "") for outer in compiled):
                if is_compiled(part):
                    compiled.append(name)
                else:
                    self.names.setdefault(part, []).append(name)
        inside = {name: [each for each, _ in module.named_modules() if f"{each}.".startswith(f"{name}.")] for name in compiled}
        if refused := [name for name, parts in inside.items() if any(map(selection.includes, parts))]:
            names = ", ".join(repr(name) if name else f"this {type(module).__name__}" for name in refused)
            raise RequestError(
                f"capture: {names} {'is' if len(refused) == 1 else 'are'} compiled or scripted, which cannot be captured: run "
                "without compilation, with torch.compiler.set_stance('force_eager'), regard.capture(model): …; or give the "
                "module from which it was made, such as model._orig_mod; or leave it out with names"
            )
        known = [name for names in self.names.values() for name in names]
        for pattern in selection.names or ():
            if not any(fnmatchcase(name, pattern) for name in known):
                raise RequestError(f"capture: no module has the name {pattern!r}{nearest(pattern, known)}")

    def name_of(self, part: nn.Module) -> str:
        """Return the name of a module; if it is used in several places, the name of the place that runs now."""
        names = self.names[part]
        for outer, _ in reversed(self.running):
            for name in names:
                if name == outer or name.startswith(f"{outer}." if outer else ""):
                    return name
        return names[0]

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Keep `running` up to date while the context is open."""

        def enter(part: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            if part not in self.names or get_ident() != self._thread:  # other threads may run the same modules
                return
            name = self.name_of(part)
            if not self.running:
                inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor) and each.ndim > 1]
                self._batch = len(inputs[0]) if inputs else None
            self.running.append((name, part))
            is_named = "attention" in type(part).__name__.lower() or isinstance(part, Pooling)
            if is_named and not isinstance(part, Readout | MeanPooling):
                self._named[name] = None

        def leave(part: nn.Module, *_: Any) -> None:
            # The call of the part may have started before the capture.
            if get_ident() == self._thread and self.running and self.running[-1][1] is part:
                self.running.pop()

        with ExitStack() as stack:
            for part in self.names:
                stack.callback(part.register_forward_pre_hook(enter, prepend=True, with_kwargs=True).remove)
                stack.callback(part.register_forward_hook(leave, always_call=True).remove)
            yield

    def observe(self, name: str, look: Callable[[], object]) -> None:
        """Call `look` for a module; an error in it does not affect the module, and is kept for the end of the capture."""
        # A backward pass may compute a module a second time.
        if get_ident() != self._thread or in_backward() or not self.selection.includes(name):
            return
        try:
            # An outer capture must not take what is computed here for attention of the module.
            with torch.no_grad(), without_modes():
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

    def take(self, name: str, weights: Tensor, within: bool | None, *, has_all_rows: bool = True) -> None:
        """Add a call of a module, if it is selected; `within` says whether queries and keys came from the same sequence."""
        self.observe(name, lambda: self._add(name, self.selection.keep(weights, name, has_all_rows=has_all_rows), within))

    def take_own(self, name: str, weights: Tensor, *, is_checked: bool = True) -> int:
        """Add a call of attention that a module computes in its own code, and return its index."""
        # Only the name, and different numbers of queries and keys, show that the keys come from another sequence.
        differ = self.selection.rows is None and weights.shape[-2] != weights.shape[-1]
        across = differ or any(part in name.lower() for part in _ACROSS)
        return self._add(name, weights, False if across else None, is_checked=is_checked)

    def _add(self, name: str, weights: Tensor, within: bool | None, *, is_checked: bool = True) -> int:
        if type(weights) is not Tensor or weights.is_meta or weights.is_nested:
            raise TypeError(f"the weights are a {type(weights).__name__} on {weights.device}, expected a tensor with values")
        part = next((part for each, part in reversed(self.running) if each == name), None)
        facts = (getattr(part, fact, None) for fact in ("is_causal", "is_decoder"))
        causal = next((fact for fact in facts if isinstance(fact, bool)), None)
        self.calls.append(Call(name, weights, within, causal, is_checked))
        return len(self.calls) - 1

    def fold(self, tensor: Tensor) -> tuple[int, int] | None:
        """Return the numbers of sentences and heads (B,H) if the first of three axes has B·H entries, otherwise None.

        B is the number of sentences in the input, H an attribute of a running module; (0, 0) if the axis fits neither.
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

    def _heads(self) -> int | None:
        for _, part in reversed(self.running):
            for owner in (part, getattr(part, "config", None)):
                for name in _HEADS:
                    if type(heads := getattr(owner, name, None)) is int:
                        return heads
        return None

    def unseen(self) -> list[str]:
        """Return the names of the modules that seem to compute attention, but whose attention was not captured."""
        names: list[str] = []
        for name in (*self.missed, *filter(self.selection.includes, self._named)):
            others = {call.name for call in self.calls}.union(names)
            if name not in names and (name in self.missed or not any(_related(name, other) for other in others)):
                names.append(name)
        return names


def _related(one: str, other: str) -> bool:
    """Return whether one of two modules is inside the other, or both are the same."""
    shorter, longer = sorted((one, other), key=len)
    return not shorter or f"{longer}.".startswith(f"{shorter}.")
