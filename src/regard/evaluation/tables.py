"""Tables of fixed width, for terminals and files; wide characters count as the two cells they take."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size


def shorten(text: str, width: int) -> str:
    """Return the text itself, or its beginning and an ellipsis, in at most `width` cells."""
    text = " ".join(text.split())
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, widest: int = 32) -> str:
    """Return the lines of aligned columns: the first to the left, the others to the right.

    Args:
        header: The columns' names.
        rows: As many cells each.
        widest: Cells of the first column beyond which it is shortened.
    """
    lines = [[shorten(line[0], widest), *line[1:]] for line in (header, *rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            [set_cell_size(line[0], widths[0])]
            + [" " * (width - cell_len(cell)) + cell for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )
