"""Counts of the symbols in the training texts, for the report on a vocabulary."""

from typing import Any

import numpy as np
from jaxtyping import Int

from regard.text.symbols import SPECIAL_TOKENS, UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer

SHOWN = 20
"""Number of the most frequent symbols that a report names."""


class SymbolCounts:
    """A counter of symbols, chunk by chunk."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts = np.zeros(tokenizer.size, np.int64)

    def add(self, ids: Int[np.ndarray, " tokens"]) -> None:
        """Count the symbols of some texts, given without start and end symbols."""
        self._counts += np.bincount(ids, minlength=len(self._counts))

    def summary(self) -> dict[str, Any]:
        """Return plain data: the number of tokens, unknown tokens, symbols seen once and never, and the most frequent ones."""
        ordinary = self._counts[len(SPECIAL_TOKENS) :]
        order = np.argsort(-ordinary, kind="stable")[:SHOWN]
        tokens = self._tokenizer.vocabulary()[len(SPECIAL_TOKENS) :]
        return {
            "tokens": int(self._counts.sum()),
            "unknown": int(self._counts[UNKNOWN]),
            "seen_once": int((ordinary == 1).sum()),
            "never_seen": int((ordinary == 0).sum()),
            "most_frequent": [[tokens[place], int(ordinary[place])] for place in order.tolist() if ordinary[place]],
        }
