"""Tab-separated files.

Because sentences often contain quotation marks, lines are split at every tab, and quotation marks are part of the text.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from regard.text.column_rules import ColumnRules
from regard.text.header import Layout, find_layout
from regard.text.opening import OVER_LONG_LINE, line_blocks
from regard.text.report import OVER_LONG, ReadingReport
from regard.text.rows import Chunk, Format
from regard.text.rows.csv import HEAD_ROWS, end_line, split_head


def read_tsv(path: Path, rules: ColumnRules, report: ReadingReport, separator: str = "\t") -> Iterator[Chunk]:
    """Read lines that are split at every separator.

    Raises:
        DataError: As for `opening.line_blocks` and `header.find_layout`.
    """
    layout: Layout | None = None
    for first, lines in line_blocks(path, rules.encoding, report.hashes):
        report.read += len(lines)
        if lines[0] is OVER_LONG_LINE:  # such a line forms its own block
            report.skip(OVER_LONG, first)
            continue
        rows = [line.split(separator) for line in lines]
        numbers: Sequence[int] = range(first, first + len(rows))
        if layout is None:
            layout = find_layout(rows[:HEAD_ROWS], rules, path)
            report.columns, report.advice = list(layout.names), layout.advice
            head = lines[:HEAD_ROWS]
            for reason in layout.above:
                stray = next(place for place, row in enumerate(rows) if any(cell.strip() for cell in row))
                report.skip(reason, numbers[stray])
                rows.pop(stray)
                head.pop(stray)
                numbers = [*numbers[:stray], *numbers[stray + 1 :]]
            if separator == "\t" and (remedy := _find_remedy(head, rows[: len(head)], layout)):
                report.advice = f"The quotation marks around cells of {path.name} are read as text; to remove them, {remedy}."
        yield layout.select(rows, numbers, report)


def _find_remedy(lines: Sequence[str], rows: Sequence[Sequence[str]], layout: Layout) -> str:
    """Return advice on how to remove the quotation marks around tab-separated cells; an empty text if no advice fits.

    Advice is given if at least half of the cells of a wanted column begin and end with a quotation mark, or if a quoted cell
    seems to have a line break: a line ends in an open quote, and this line or the next one has too few columns. In the second
    case, there is only advice if the lines can be read as CSV.
    """
    columns = ([row[place].strip() for row in rows if place < len(row)] for place in layout.places)
    quoted = any(2 * sum(cell[:1] == cell[-1:] == '"' for cell in cells) >= len(cells) > 0 for cells in columns)
    following = chain(rows[1:], [[""] * layout.least])
    broken = any(
        row[-1].startswith('"') and row[-1].count('"') % 2 and min(len(row), len(after)) < layout.least
        for row, after in zip(rows, following, strict=False)
    )
    if not quoted and not broken:
        return ""
    read = split_head(list(map(end_line, lines)), "\t", strict=True)
    most = min(layout.width, max(map(len, rows)))

    def count(some: Sequence[Sequence[str]]) -> int:
        return sum(layout.least <= len(row) <= most for row in some)

    if read is not None and count(read.rows) >= count(rows):
        return "set data.format to csv"
    return "write the file without them" if quoted else ""


FORMAT = Format("tab-separated", read_tsv, (".tsv", ".tab"))
