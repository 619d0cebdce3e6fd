"""BPE-dropout: other segmentations of the same text in each epoch.

BPE joins two neighbouring subwords again and again, always by the earliest merge that it learned, from single characters on.
Here, each merge that is possible at a step is left out of this step with probability p. A word ends when no merge is left.

    p = 0: the usual segmentation, "▁unrelated" → "▁un related";    p = 0.1: sometimes "▁u n related", or "▁un rel ated"

Reference: Provilkov, Emelianenko, Voita 2020, "BPE-Dropout: Simple and Effective Subword Regularization", algorithm 1.
    Differs from the paper: a run draws from 64 segmentations of each word, which are computed once.
"""

import random
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from regard.config import RunConfig
from regard.text.mapped import Ids, Offsets
from regard.text.symbols import SPECIAL_TOKENS
from regard.text.tokenizers.schemes import SPACE_MARK
from regard.text.tokenizers.tokenizer import Tokenizer, split_units

_BITS = 6  # 2**6 segmentations of each word
_MOST_WORDS = 100_000  # about 300 MB, if each has all its segmentations


class SubwordDropout:
    """Random segmentations of rows of a BPE tokenizer's ids; Python's global generator chooses among those of a seed."""

    def __init__(self, tokenizer: Tokenizer, p: float, seed: int) -> None:
        self._tokenizer, self._p, self._seed = tokenizer, p, seed
        tokens = tokenizer.vocabulary()
        self._ids = {token: number for number, token in enumerate(tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(tokenizer.symbols.merges or ())}
        special = range(len(SPECIAL_TOKENS))
        self._begins = np.array([number in special or token.startswith(SPACE_MARK) for number, token in enumerate(tokens)])
        self._words: dict[bytes, tuple[Sequence[str], list[Ids | None]]] = {}
        """Units and segmentations of each word, by the bytes of its usual ids; without units if it is never changed."""

    def __call__(self, flat: Ids, starts: Offsets, lengths: Ids) -> tuple[Ids, Offsets, Ids]:
        """Return other segmentations of some rows: their ids, with an unused number behind each row, starts and lengths."""
        rows = [self._redraw(flat[start : start + length]) for start, length in zip(starts, lengths, strict=True)]
        sizes = np.array([len(row) for row in rows], np.int32)
        spare = np.zeros(1, np.int32)
        return np.concatenate([*chain.from_iterable((row, spare) for row in rows)]), np.cumsum(sizes + 1) - sizes - 1, sizes

    def _redraw(self, row: Ids) -> Ids:
        bounds = sorted({0, *np.flatnonzero(self._begins[row]).tolist(), len(row)})
        return np.concatenate([row[:0], *(self._draw(row[start:end].tobytes()) for start, end in pairwise(bounds))])

    def _draw(self, word: bytes) -> Ids:
        number = random.getrandbits(_BITS)
        units, drawn = self._words.get(word) or self._add(word)
        found = drawn[number]
        if found is None:
            draw = random.Random(f"{self._seed} {number} ".encode() + word).random
            found = drawn[number] = np.array(self._segment(units, draw), np.int32)
        return found

    def _add(self, word: bytes) -> tuple[Sequence[str], list[Ids | None]]:
        ids = np.frombuffer(word, np.int32)
        text = "".join(self._tokenizer.vocabulary()[number] for number in ids)
        spaced, chunk = text.startswith(SPACE_MARK), text.removeprefix(SPACE_MARK)
        words = split_units(self._tokenizer.scheme, chunk, lowercase=False, spaced=spaced)
        units = [unit for _, parts in words for unit in parts]
        # A special symbol, or a text that other rules than those of this vocabulary split, stays as it is.
        drawn: list[Ids | None] = [None] * 2**_BITS if self._segment(units, lambda: 1.0) == ids.tolist() else [ids] * 2**_BITS
        if len(self._words) >= _MOST_WORDS:
            self._words.clear()
        self._words[word] = units, drawn
        return units, drawn

    def _segment(self, units: Sequence[str], draw: Callable[[], float]) -> list[int]:
        """Return the ids of units; a merge is left out of a step if `draw` returns less than p."""
        found = []
        for unit in units:
            parts = list(unit)
            while True:
                ranks = ((self._ranks.get(pair), place) for place, pair in enumerate(pairwise(parts)))
                merges = [(rank, place) for rank, place in ranks if rank is not None and draw() >= self._p]
                if not merges:
                    break
                _, place = min(merges)
                parts[place : place + 2] = [parts[place] + parts[place + 1]]
            found += [self._ids.get(part, -1) for part in parts]
        return found


def redraw_subwords(config: RunConfig, tokenizers: Sequence[Tokenizer]) -> dict[str, Any]:
    """Return the arguments for BPE-dropout of the method `batch` of a corpus whose columns have these tokenizers."""
    training = config.training
    if not training.bpe_dropout:
        return {}
    made = {
        id(one): SubwordDropout(one, training.bpe_dropout, config.seed) for one in tokenizers if one.symbols.merges is not None
    }
    return {"redraw": [made.get(id(one)) for one in tokenizers]}
