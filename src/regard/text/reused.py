"""Tokenizers that were learned from other data, and how well they fit these."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.text.tokenizer import Tokenizer

_MANY = 0.05
"""Share of unknown tokens from which a new vocabulary is worth a thought."""


def digests(tokenizers: Sequence[Tokenizer] | None) -> dict[str, list[str]]:
    """Return what a cache entry's name says of tokenizers that were given; nothing if they are learned from the data."""
    return {} if tokenizers is None else {"learned": [tokenizer.digest() for tokenizer in tokenizers]}


def unknown_notes(symbols: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each side that says how many tokens a reused vocabulary doesn't know, for the report.

    Args:
        symbols: By side (`source`, `target`, or `text`), what `SymbolCounts.summary` gave.
    """
    return [_note("" if side == "text" else f"{side} ", found["tokens"], found["unknown"]) for side, found in symbols.items()]


def _note(side: str, tokens: int, unknown: int) -> str:
    share = unknown / max(tokens, 1)
    found = f"{unknown:,} of {tokens:,} {side}tokens in training ({share:.1%})"
    line = f"the vocabulary is the starting model's; it doesn't know {found}"
    return line + "; with so many, a new model, which learns a vocabulary from these texts, may be better" * (share > _MANY)
