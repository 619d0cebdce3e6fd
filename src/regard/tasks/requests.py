"""Functions that predictors share: they check arguments, group lines, build batches, and show the progress."""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.config.fields import facts_of
from regard.config.settings import Settings
from regard.decoding import Hypothesis, force
from regard.errors import ArgumentError, RequestError, nearest
from regard.models.seq2seq import Seq2Seq
from regard.reweight import Reweight, ReweightBySite
from regard.stopping import check_wanted
from regard.text.bars import late_bars
from regard.text.batching import length_batches
from regard.text.opening import CHUNK_CHARACTERS, LONGEST_LINE
from regard.text.symbols import PAD

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
    facts = facts_of(type(settings))
    changes = {}
    for name, value in given.items():
        if name not in facts:
            raise ArgumentError(f"{caller} got an unexpected argument {name!r}{nearest(name, facts)}")
        if value is not None:
            try:
                changes[name] = facts[name].parse(value.item() if isinstance(value, np.generic) else value)
            except ValueError as error:
                raise RequestError(f"{name} is {error}") from error
    return replace(settings, **changes)  # type: ignore[type-var]


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


def pad(rows: Sequence[np.ndarray], device: torch.device) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return the rows of ids as one tensor, and a mask that is False at padding."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.full(mask.shape, PAD, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def block_diagonal(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join attention maps of several parts of a text into one map, which is zero outside the parts' blocks."""
    if len(parts) == 1:
        return parts[0]
    rows, columns = sum(part.shape[-2] for part in parts), sum(part.shape[-1] for part in parts)
    whole = np.zeros((*parts[0].shape[:-2], rows, columns), dtype=np.float32)
    row = column = 0
    for part in parts:
        whole[..., row : row + part.shape[-2], column : column + part.shape[-1]] = part
        row, column = row + part.shape[-2], column + part.shape[-1]
    return whole


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


def force_rows(
    model: Seq2Seq,
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    *,
    batch_tokens: int,
    progress: bool,
    **options: Any,
) -> list[Hypothesis]:
    """Score given targets in batches of similar length, and return them as hypotheses in the same order.

    Args:
        model: The model.
        sources: Ids of each source, with the end symbol.
        targets: Ids of each target, with the start symbol and the end symbol.
        batch_tokens: Maximum number of tokens in a batch, including padding.
        progress: Whether to show a bar on standard error.
        options: Options of `regard.decoding.force`.

    Raises:
        RequestError: If a probability is NaN.
    """
    device = next(model.parameters()).device
    lengths = [max(len(source), len(target) - 1) for source, target in zip(sources, targets, strict=True)]
    found: dict[int, Hypothesis] = {}
    with counting_bar("scoring", len(sources), shown=progress) as advance:
        for numbers in length_batches(np.array(lengths, dtype=np.int64), batch_tokens):
            source, source_mask = pad([sources[number] for number in numbers], device)
            target_in, _ = pad([targets[number][:-1] for number in numbers], device)
            target_out, _ = pad([targets[number][1:] for number in numbers], device)
            batch = force(model, source, source_mask, target_in, target_out, **options)
            found |= zip(numbers.tolist(), batch, strict=True)
            advance(len(numbers))
    return [found[number] for number in range(len(sources))]
