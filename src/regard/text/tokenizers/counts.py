"""Counts of the symbols in the training texts, for the report on a new or a reused vocabulary."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.text.symbols import SPECIAL_TOKENS, UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer

SHOWN = 20
"""Number of the most frequent symbols that a report names."""


class SymbolCounts:
    """A counter of the symbols of texts that are added chunk by chunk."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts = np.zeros(tokenizer.size, np.int64)

    def add(self, ids: Int[np.ndarray, " tokens"]) -> None:
        """Count the symbols of some texts, given without start and end symbols."""
        self._counts += np.bincount(ids, minlength=len(self._counts))

    def summary(self) -> dict[str, Any]:
        """Return numbers of tokens, unknown tokens, and symbols seen once or never, and counts of the most frequent symbols."""
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


_MANY = 0.05
"""Share of unknown tokens above which the report suggests a new vocabulary."""


def unknown_notes(symbols: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each side, for the report, with the number of tokens that a reused vocabulary does not know.

    Args:
        symbols: Output of `SymbolCounts.summary` by side (`source`, `target`, or `text`).
    """
    notes = []
    for column, found in symbols.items():
        side = "" if column == "text" else f"{column} "
        share = found["unknown"] / max(found["tokens"], 1)
        unknown = f"{found['unknown']:,} of {found['tokens']:,} {side}tokens in training ({share:.1%})"
        note = f"the vocabulary comes from another model and doesn't know {unknown}"
        better = "; a model whose vocabulary is learned from these texts (without --from or --distill) may be better"
        notes.append(note if share <= _MANY else f"warning: {note}{better}")
    return notes
