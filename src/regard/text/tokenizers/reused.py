"""Tokenizers that were learned from other data, and how well they fit the new data."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.text.tokenizers.tokenizer import Tokenizer

_MANY = 0.05
"""Share of unknown tokens above which the report suggests a new vocabulary."""


def digests(tokenizers: Sequence[Tokenizer] | None) -> dict[str, list[str]]:
    """Return the part of a cache entry's name that depends on given tokenizers; empty if they are learned from the data."""
    return {} if tokenizers is None else {"learned": [tokenizer.digest() for tokenizer in tokenizers]}


def unknown_notes(symbols: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each side that says how many tokens a reused vocabulary doesn't know, for the report.

    Args:
        symbols: Output of `SymbolCounts.summary` by side (`source`, `target`, or `text`).
    """
    return [_note("" if side == "text" else f"{side} ", found["tokens"], found["unknown"]) for side, found in symbols.items()]


def _note(side: str, tokens: int, unknown: int) -> str:
    share = unknown / max(tokens, 1)
    found = f"{unknown:,} of {tokens:,} {side}tokens in training ({share:.1%})"
    line = f"the vocabulary is that of the starting model; it doesn't know {found}"
    return line + "; a new model, which learns its vocabulary from these texts, may be better" * (share > _MANY)
