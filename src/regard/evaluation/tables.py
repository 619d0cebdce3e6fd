"""Results as plain data and as text tables for fonts of fixed width, where a wide (Chinese) character takes two cells."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.cells import cell_len, set_cell_size


class Result:
    """Base of dataclasses with the result of an evaluation."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)  # type: ignore[call-overload]


def finite(value: Any) -> Any:
    """Return plain data in which numbers that are not finite, which JSON cannot represent, are None."""
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shorten(text: str, width: int) -> str:
    """Return the text on one line; if it takes more than `width` cells of a terminal, only its beginning and an ellipsis."""
    text = " ".join(text.split())
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, widest: int = 32) -> str:
    """Return a table as text: the first column is aligned left and has at most `widest` cells, the others are aligned right."""
    lines = [[shorten(line[0], widest), *line[1:]] for line in (header, *rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            [set_cell_size(line[0], widths[0])]
            + [" " * (width - cell_len(cell)) + cell for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )
