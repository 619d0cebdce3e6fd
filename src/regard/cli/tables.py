"""Tables as the input and the output of operations on texts: `regard classify DIR --input reviews.csv --output labelled.csv`.

All rows and columns are kept in their order, and the columns of the results are added at the end.
"""

import csv
import io
import json
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.errors import DataError, RequestError
from regard.text.column_rules import CERTAIN, INSIDE, ColumnRules
from regard.text.columns import find_position, is_place
from regard.text.content import is_value
from regard.text.opening import LONGEST_LINE, OVER_LONG_LINE, check_file, line_blocks
from regard.text.report import ReadingReport
from regard.text.rows import name_format
from regard.text.rows.delimited import HEAD_ROWS, open_csv
from regard.text.strings import is_unicode, quoted

_FORMATS = ("csv", "tsv", "jsonl")


def is_table(path: str) -> bool:
    """Return whether a file is named like a table that can be read here."""
    return name_format(path) in _FORMATS


class Table:
    """A table whose texts are processed row by row; each text is taken from `texts` before its row is rendered.

    Args:
        path: The file.
        rules: The names of columns that hold texts; those of the settings of the model's run come first.
        column: Name or number of the column of texts, as given by the user; empty to find it by the rules.
        added: Names of the columns of results.
    """

    def __init__(self, path: str, rules: ColumnRules, column: str, added: Sequence[str]) -> None:
        self._path, self._form = path, name_format(path)
        self._rows: deque[Any] = deque()  # the rows whose texts were taken, until they are rendered
        read = self._read_objects if self._form == "jsonl" else self._read_cells
        self._separator, rows = read(check_file(Path(path), "a table"))
        head = list(islice(rows, HEAD_ROWS))
        if not head:
            raise DataError(f"{path} is empty, so there are no texts in it")
        # Objects may lack keys that others have.
        first = list(dict.fromkeys(name for _, row in head for name in row) if self._form == "jsonl" else head[0][1])
        named = self._form == "jsonl" or self._has_header(first, rules, column)
        self.place = self._find(first, named, rules, column)
        self.names, self._width = first if named else None, len(first)
        held, self.added = {*(first if named else ())}, list[str]()
        for name in added:
            while name in held:
                name = f"predicted_{name}"
            self.added.append(name)
        self._waiting = chain(head[self._form != "jsonl" and named :], rows)

    def _read_cells(self, path: Path) -> tuple[str, Iterator[tuple[int, Any]]]:
        """Return the separator of a CSV or TSV file, and its rows with the numbers of their lines."""
        if self._form == "csv":
            return open_csv(path, "auto", ReadingReport())
        return "\t", ((number, line.rstrip("\r").split("\t")) for number, line in self._lines(path))

    def _lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """Yield the lines of a file with their numbers."""
        for lines, numbers in line_blocks(path):
            for number, line in zip(numbers, lines, strict=True):
                if line is OVER_LONG_LINE:
                    raise DataError(f"{self._path}, line {number}: has more than {LONGEST_LINE:,} bytes; shorten its texts")
                yield number, line

    def _read_objects(self, path: Path) -> tuple[str, Iterator[tuple[int, Any]]]:
        """Return the objects of a file of JSON lines, with the numbers of their lines."""

        def objects() -> Iterator[tuple[int, Any]]:
            for number, line in self._lines(path):
                try:
                    row = json.loads(line) if line.strip() else None
                except (ValueError, RecursionError) as error:
                    raise DataError(
                        f"{self._path}, line {number}: is not JSON ({error}), expected one object per line"
                    ) from error
                if row is not None and not isinstance(row, dict):
                    raise DataError(f"{self._path}, line {number}: expected a JSON object with a text on each line")
                if row is not None:
                    yield number, row

        return "", objects()

    def _has_header(self, first: Sequence[str], rules: ColumnRules, column: str) -> bool:
        """Return whether the first row names the columns."""
        folded = [cell.strip().casefold() for cell in first]
        wanted = (column or rules.given[0]).strip().casefold()
        by_name = wanted != "" and not is_place(wanted)  # a cell that is a number may be a label
        if (by_name and wanted in folded) or (column and by_name):
            return True
        if rules.header != "auto":
            return rules.header == "yes"
        # Two words such as `great review` can be a text.
        ranked = any(rules.rank(cell, 0) >= (1 if len(cell.split()) == 1 else INSIDE[CERTAIN]) for cell in first)
        return ranked and not any(map(is_value, first))

    def _find(self, first: Sequence[str], named: bool, rules: ColumnRules, column: str) -> int:
        """Return the place of the column of texts: the given one, that of the run, the best name, or the only column."""
        names = first if named else [str(place) for place in range(len(first))]
        if column:
            return find_position(column, names, self._path, "--column")
        if rules.given[0] and rules.given[0] in names:
            return names.index(rules.given[0])
        ranks = [rules.rank(name, 0) for name in names]
        best = [place for place, rank in enumerate(ranks) if rank == max(ranks) > 0]
        if len(best) == 1 or (named and len(names) == 1):
            return (best or [0])[0]
        held = ", ".join(quoted(cell, 30) for cell in first)
        raise RequestError(
            f"{self._path}: cannot tell which column holds {rules.sides[0]}; name it with --column, by name or number. "
            f"The first line is {held}"
        )

    def texts(self) -> Iterator[str]:
        """Yield the text of each row."""
        for number, row in self._waiting:
            if self._form == "jsonl":
                value = row.get(self.names[self.place]) if self.names else None
                if isinstance(value, list | dict):
                    raise DataError(f"{self._path}, line {number}: holds {json.dumps(value):.40}, expected a text")
            else:
                if len(row) > self._width:
                    raise DataError(
                        f"{self._path}, line {number}: has {len(row)} cells, expected {self._width}, as in the first line"
                    )
                row = [*row, *[""] * (self._width - len(row))]
                value = row[self.place]
            text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
            if not all(map(is_unicode, [text, *(row if self._form != "jsonl" else ())])):
                raise DataError(f"{self._path}, line {number}: is not in UTF-8; convert the table to UTF-8")
            self._rows.append(row)
            yield text

    def header(self) -> str:
        """Return the first line of the output; empty for none."""
        return "" if self.names is None or self._form == "jsonl" else self._line([*self.names, *self.added])

    def render(self, text: str, cells: Sequence[Any]) -> str:
        """Return the line of the next row with its results, which are empty if the row has no text."""
        row = self._rows.popleft()
        if self._form == "jsonl":
            own = cells if text.strip() else [None] * len(cells)
            return json.dumps({**row, **dict(zip(self.added, own, strict=True))}, ensure_ascii=False)
        return self._line([*row, *(map(str, cells) if text.strip() else [""] * len(cells))])

    def forget(self) -> None:
        """Forget the rows that are not rendered, because results are written in another form."""
        self._rows.clear()

    def _line(self, cells: Sequence[str]) -> str:
        if self._form == "tsv":  # cells of such tables have no quotes, so that a tab or a line break would split them
            return "\t".join(" ".join(cell.split()) if {"\t", "\n", "\r"} & {*cell} else cell for cell in cells)
        line = io.StringIO()
        csv.writer(line, delimiter=self._separator, lineterminator="\n").writerow(cells)
        return line.getvalue().removesuffix("\n")
