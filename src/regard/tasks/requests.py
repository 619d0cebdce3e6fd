"""Functions that predictors share: they check arguments, group lines, build batches, and show the progress."""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from regard.config import DecodingConfig
from regard.config.fields import facts_of
from regard.decoding import Hypothesis, force
from regard.errors import RequestError
from regard.machine import device_of, prediction_tokens
from regard.models.seq2seq import Seq2Seq, Source
from regard.reweight import Reweight, ReweightBySite
from regard.stopping import check_wanted
from regard.text.bars import late_bars
from regard.text.batching import length_batches
from regard.text.copying import Copier
from regard.text.opening import CHUNK_CHARACTERS, LONGEST_LINE
from regard.text.symbols import END, PAD, START
from regard.text.tokenizers.tokenizer import Tokenizer

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def with_settings(cls: type, *, without: Collection[str] = ()) -> Callable[[MethodT], MethodT]:
    """Return a decorator for a method whose `**settings` are the fields of a class; its signature then lists them."""

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
    """Return the texts that the method `caller` was given, as a list.

    Raises:
        RequestError: If one of them is not a text, or is too long.
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


def check_same_length(caller: str, **lists: Sequence[Any]) -> None:
    """Raise a `RequestError` unless two arguments of a method, given by their names, are equally long and not empty."""
    sizes = [len(one) for one in lists.values()]
    if not sizes[0] or sizes[0] != sizes[1]:
        counts = " and ".join(f"{size:,} {name}" for size, name in zip(sizes, lists, strict=True))
        raise RequestError(f"{caller}: got {counts}, expected the same number, at least one")


def without_each(words: Sequence[str]) -> list[str]:
    """Return for each word the text without it."""
    return [" ".join([*words[:place], *words[place + 1 :]]) for place in range(len(words))]


def text_blocks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Group lines, without their line ends, into blocks of at most `size`, or fewer if they are long: memory is bounded."""
    block: list[str] = []
    characters = 0
    for line in lines:
        block.append(line.rstrip("\r\n"))
        characters += len(line)
        if len(block) == size or characters > CHUNK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def pad(rows: Sequence[np.ndarray], device: torch.device) -> tuple[Source, Bool[Tensor, "B S"]]:
    """Return the rows, of ids or of cells with P values each, as one tensor, and a mask that is False at padding."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    shape, kind = (rows[0].shape[1:], rows[0].dtype) if rows and rows[0].ndim > 1 else ((), np.dtype(np.int64))
    padded = np.full((*mask.shape, *shape), PAD, dtype=kind)
    padded[mask] = np.concatenate(rows)  # a mask selects row by row, so this needs no loop
    return torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device)


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
    """Show a progress bar on standard error if `shown`, and yield a function that advances it by a number of items."""
    with late_bars(shown=shown) as bars:
        task = bars.add_task(words, total=total)

        def advance(count: int) -> None:
            check_wanted()  # a service stops a batch here if nobody waits for it any more
            bars.advance(task, count)

        yield advance


@contextmanager
def padded_batches(
    words: str, rows: Sequence[np.ndarray], device: torch.device, *, tokens: int = 0, shown: bool
) -> Iterator[Iterator[tuple[np.ndarray, Source, Bool[Tensor, "B S"]]]]:
    """Show a progress bar, and yield an iterator of batches of rows of similar length: their numbers, ids and mask.

    A batch has at most `tokens` tokens, including padding; 0: as many as suit the device.
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    with counting_bar(words, len(rows), shown=shown) as advance:

        def batches() -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
            for numbers in length_batches(lengths, prediction_tokens(device, tokens)):
                yield numbers, *pad([rows[number] for number in numbers], device)
                advance(len(numbers))

        yield batches()


def force_rows(
    model: Seq2Seq,
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    *,
    batch_tokens: int = 0,
    progress: bool,
    **options: Any,
) -> list[Hypothesis]:
    """Score given targets in batches of similar length, and return them as hypotheses in the same order.

    Sources end with the end symbol, and targets begin with the start symbol and end with the end symbol. `options` are those of
    `regard.decoding.force`.
    """
    device = device_of(model)
    lengths = [max(len(source), len(target) - 1) for source, target in zip(sources, targets, strict=True)]
    found: dict[int, Hypothesis] = {}
    with counting_bar("scoring", len(sources), shown=progress) as advance:
        for numbers in length_batches(np.array(lengths, dtype=np.int64), prediction_tokens(device, batch_tokens)):
            source, source_mask = pad([sources[number] for number in numbers], device)
            target_in, _ = pad([targets[number][:-1] for number in numbers], device)
            target_out, _ = pad([targets[number][1:] for number in numbers], device)
            batch = force(model, source, source_mask, target_in, target_out, **options)
            found |= zip(numbers.tolist(), batch, strict=True)
            advance(len(numbers))
    return [found[number] for number in range(len(sources))]


def force_texts(
    model: Seq2Seq,
    sources: Sequence[np.ndarray],
    texts: Sequence[str],
    tokenizer: Tokenizer,
    decoding: DecodingConfig,
    *,
    copier: Copier | None = None,
    words: Sequence[Sequence[str]] = (),
    **options: Any,
) -> list[Hypothesis]:
    """Score given texts as outputs, with the scores of a search with these settings; `options` are those of `force_rows`.

    With a `copier`, unknown words of the texts are copied from the `words` of each source.
    """
    ids, offsets = tokenizer.encode_batch(texts)
    rows: list[Any] = [ids[start:stop] for start, stop in pairwise(offsets)]
    if copier is not None:
        own = map(copier.target.split, texts)
        rows = [copier.extended(row.tolist(), *both) for row, *both in zip(rows, own, words, strict=True)]
    return force_rows(
        model,
        sources,
        [np.array([START, *row, END], np.int64) for row in rows],
        batch_tokens=decoding.batch_tokens,
        length_penalty=decoding.length_penalty,
        length_reward=decoding.length_reward,
        **options,
    )
