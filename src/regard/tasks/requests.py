"""Functions that predictors share: they check arguments, group lines, find the device, and show the progress."""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar

import torch

from regard.config.fields import facts_of
from regard.config.settings import Settings
from regard.errors import ArgumentError, RequestError, nearest
from regard.processes.ranks import read_ranks
from regard.reweight import Reweight, ReweightBySite
from regard.stopping import check_wanted
from regard.text.bars import late_bars
from regard.text.opening import CHUNK_CHARACTERS, LONGEST_LINE

SettingsT = TypeVar("SettingsT", bound=Settings)
MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def override(settings: SettingsT, given: Mapping[str, Any], caller: str) -> SettingsT:
    """Return settings with the values that are given as arguments of a method; None leaves a setting as it is.

    Args:
        settings: A part of the run's configuration, such as `decoding`.
        given: Arguments by the names of the settings.
        caller: Name of the method, for messages.

    Raises:
        ArgumentError: If there is no such setting.
        RequestError: If a value is of the wrong type or out of range.
    """
    kind: Any = type(settings)
    facts = facts_of(kind)
    for name, value in given.items():
        if name not in facts:
            raise ArgumentError(f"{caller} got an unexpected argument {name!r}{nearest(name, facts)}")
        if value is None:
            continue
        accepted, words = _KINDS.get(facts[name].type, (str, f"one of: {', '.join(facts[name].choices)}"))
        if not isinstance(value, accepted) or (isinstance(value, bool) and accepted is not bool):
            raise RequestError(f"{name} is {value!r:.40}, expected {words}")
        if problem := facts[name].problem(value):
            raise RequestError(f"{name} is {problem}")
    changes = {name: value for name, value in given.items() if value is not None}
    return kind(**{item.name: getattr(settings, item.name) for item in fields(kind)} | changes)


_KINDS: Mapping[Any, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
}


def with_settings(cls: type, *, without: Collection[str] = ()) -> Callable[[MethodT], MethodT]:
    """Return a decorator for a method whose `**settings` are the fields of a class; its signature then lists them.

    Args:
        cls: Class of the settings.
        without: Fields that the method does not take.
    """

    def add(method: MethodT) -> MethodT:
        signature = inspect.signature(method)
        before = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        hints = {name: facts.type for name, facts in facts_of(cls).items() if name not in without}
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=f"{_name(hint)} | None")
            for name, hint in hints.items()
        ]
        method.__signature__ = signature.replace(parameters=[*before, *options])  # type: ignore[attr-defined]
        return method

    return add


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).removeprefix("typing.")


def check_texts(caller: str, texts: Sequence[str]) -> list[str]:
    """Check that the argument of a method is a sequence of texts, and return the texts in a list.

    Args:
        caller: Name of the method, for messages.
        texts: The argument.

    Raises:
        RequestError: If `texts` is a single text, contains an object that is not a text, or contains a text that is too long.
    """
    if isinstance(texts, str):
        raise RequestError(f"{caller}: got one text, expected a list of texts: write [{texts[:40]!r}]")
    checked = list(texts)
    for number, text in enumerate(checked, 1):
        if not isinstance(text, str):
            raise RequestError(f"{caller}: text {number} is a {type(text).__name__}, expected a str")
        if len(text) > LONGEST_LINE:
            raise RequestError(
                f"{caller}: text {number} has {len(text):,} characters, expected at most {LONGEST_LINE:,}; split it into parts"
            )
    return checked


def check_record(record: Collection[str]) -> list[str]:
    """Check that `record` is a collection of names of attention sites, and return them in a list.

    Raises:
        RequestError: If `record` is not a collection of names.
    """
    if isinstance(record, str):
        raise RequestError(f"record is the text {record!r}, expected a list of attention sites: record=[{record!r}]")
    if not isinstance(record, Collection) or not all(isinstance(site, str) for site in record):
        raise RequestError(
            f"record is {record!r:.60}, expected a list of attention sites, such as record=['cross']; () records none, and "
            "None the default ones"
        )
    return list(record)


def text_blocks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Group lines into blocks of `size` lines, or fewer if the lines are long, so that memory is bounded.

    A new block begins after every `size` lines, even if long lines ended a block earlier. If several processes
    share a file, and each begins at a multiple of `size`, they therefore make the same blocks as one process.

    Args:
        lines: The lines; their line ends are removed.
        size: Maximum number of lines in a block.
    """
    block: list[str] = []
    characters = 0
    for number, line in enumerate(lines, 1):
        block.append(line.rstrip("\r\n"))
        characters += len(line)
        if number % size == 0 or characters > CHUNK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def find_device(name: str) -> torch.device:
    """Return the device of this name; `auto` means a GPU if PyTorch finds one, otherwise the CPU.

    Raises:
        RequestError: If there is no such device.
    """
    if name in ("auto", "cuda") and torch.cuda.is_available():
        # Each of several processes uses its own GPU, or shares one if there are fewer GPUs than processes.
        return torch.device("cuda", read_ranks().local_rank % torch.cuda.device_count())
    if name == "auto":
        return torch.device("cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise RequestError(f"device is {name!r}, expected auto, cpu, cuda, or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise RequestError(f"device is {name!r}, expected auto, cpu, cuda, or cuda:N")
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if (device.index or 0) >= count:
        raise RequestError(
            f"device is {name!r}, but PyTorch finds {count or 'no'} GPU{'s' * (count > 1)} here; use cpu or auto"
        )
    return device


def reweight_by_site(reweight: Reweight | ReweightBySite | None, kind: str) -> ReweightBySite | None:
    """Return functions by site; a single function is used for all sites of one kind, such as `cross`."""
    return {kind: reweight} if callable(reweight) else reweight


@contextmanager
def counting_bar(words: str, total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error, and yield a function that advances it by a number of items.

    Args:
        words: Text beside the bar.
        total: Number of items.
        shown: If False, no bar is shown.
    """
    with late_bars(shown=shown) as bars:
        task = bars.add_task(words, total=total)

        def advance(count: int) -> None:
            check_wanted()
            bars.advance(task, count)

        yield advance
