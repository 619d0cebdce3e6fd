"""Tables as the input and the output of operations on texts: `regard classify DIR --input reviews.csv --output labelled.csv`.

All rows and columns are kept in their order, and the columns of the results are added at the end.
"""

import csv
import io
import json
from abc import ABC, abstractmethod
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
from regard.text.rows.jsonl import advise_conversion
from regard.text.strings import is_unicode, quoted

_NOT_UNICODE = "is not in UTF-8; convert the table to UTF-8"


def is_table(path: str) -> bool:
    """Return whether a file is named like a table that can be read here."""
    return name_format(path) in _TABLES


def open_table(path: str, rules: ColumnRules, column: str, added: Sequence[str]) -> "Table":
    """Return the table in a file, with the arguments of `Table`; the ending of its name says of which kind it is."""
    return _TABLES[name_format(path)](path, rules, column, added)


class Table(ABC):
    """A table whose texts are processed row by row; each text is taken from `texts` before its row is rendered.

    Args:
        path: The file.
        rules: The names of columns that hold texts; those of the settings of the model's run come first.
        column: Name or number of the column of texts, as given by the user; empty to find it by the rules.
        added: Names of the columns of results.
    """

    def __init__(self, path: str, rules: ColumnRules, column: str, added: Sequence[str]) -> None:
        self._path, self._rows = path, deque[Any]()  # the rows whose texts were taken, until they are rendered
        rows = self._read(check_file(Path(path), "a table"))
        head = list(islice(rows, HEAD_ROWS))
        if not head:
            raise DataError(f"{path} is empty, so there are no texts in it")
        first, named = self._columns([row for _, row in head], rules, column)
        self.names, self._width = first if named else None, len(first)
        self.place = self._find(first, named, rules, column)
        held, self.added = {*(first if named else ())}, list[str]()
        for name in added:
            while name in held:
                name = f"predicted_{name}"
            self.added.append(name)
        self._waiting = chain(head, rows)

    @abstractmethod
    def _read(self, path: Path) -> Iterator[tuple[int, Any]]:
        """Yield the rows with the numbers of their lines."""

    @abstractmethod
    def _columns(self, head: Sequence[Any], rules: ColumnRules, column: str) -> tuple[list[str], bool]:
        """Return the names of the columns and True, or the cells of the first row and False if it is no header."""

    @abstractmethod
    def _value(self, row: Any, number: int) -> Any:
        """Return the value in the column of texts, and check the row, which stands in the line with this number."""

    @abstractmethod
    def render(self, text: str, results: Sequence[Any]) -> str:
        """Return the line of the next row with its results, which are empty if the row has no text."""

    def header(self) -> str:
        """Return the first line of the output; empty for none."""
        return ""

    def texts(self, *, keep: bool = True) -> Iterator[str]:
        """Yield the text of each row; the rows are kept to be rendered, unless the results are written in another form."""
        for number, row in self._waiting:
            value = self._value(row, number)
            if keep:
                self._rows.append(row)
            yield "" if value is None else value if isinstance(value, str) else json.dumps(value)

    def _error(self, number: int, problem: str) -> DataError:
        return DataError(f"{self._path}, line {number}: {problem}")

    def _lines(self, path: Path) -> Iterator[tuple[int, str]]:
        for lines, numbers in line_blocks(path):
            for number, line in zip(numbers, lines, strict=True):
                if line is OVER_LONG_LINE:
                    raise self._error(number, f"has more than {LONGEST_LINE:,} bytes; shorten its texts")
                yield number, line

    def _find(self, first: Sequence[str], named: bool, rules: ColumnRules, column: str) -> int:
        """Return the place of the column of texts: the given one, that of the run, the best name, or the only column."""
        names = first if named else [str(place) for place in range(len(first))]
        if column := column or (rules.given[0] if rules.given[0] in names else ""):
            return find_position(column, names, self._path, "--column")
        ranks = [rules.rank(name, 0) for name in names]
        best = [place for place, rank in enumerate(ranks) if rank == max(ranks) > 0]
        if len(best) == 1 or (named and len(names) == 1):
            return (best or [0])[0]
        held = ", ".join(quoted(cell, 30) for cell in first)
        raise RequestError(
            f"{self._path}: cannot tell which column holds {rules.sides[0]}; name it with --column, by name or number. "
            f"The first line is {held}"
        )


class _Objects(Table):
    """JSON lines: objects, which keep the types of their values."""

    def _read(self, path: Path) -> Iterator[tuple[int, Any]]:
        for number, line in self._lines(path):
            try:
                row = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError) as error:
                advice = f". {advise_conversion(line, path)}" if line.strip() in ("[", "{") else ""
                raise self._error(number, f"is not JSON ({error}), expected one object per line{advice}") from error
            if row is not None and not isinstance(row, dict):
                advice = f". {advise_conversion(line, path)}" if isinstance(row, list) else ""
                raise self._error(number, f"expected a JSON object with a text on each line{advice}")
            if row is not None:
                yield number, row

    def _columns(self, head: Sequence[Any], rules: ColumnRules, column: str) -> tuple[list[str], bool]:
        return list(dict.fromkeys(name for row in head for name in row)), True  # objects may lack keys that others have

    def _value(self, row: Any, number: int) -> Any:
        value = row.get(self.names[self.place]) if self.names else None
        if isinstance(value, list | dict):
            raise self._error(number, f"holds {json.dumps(value):.40}, expected a text")
        if isinstance(value, str) and not is_unicode(value):
            raise self._error(number, _NOT_UNICODE)
        return value

    def render(self, text: str, results: Sequence[Any]) -> str:
        own, row = results if text.strip() else [None] * len(results), self._rows.popleft()
        if clash := sorted(row.keys() & {*self.added}):
            raise DataError(
                f"{self._path}: a row has the key {clash[0]!r}, which the first {HEAD_ROWS:,} rows do not have; rename it, "
                "because the results would overwrite it"
            )
        return json.dumps({**row, **dict(zip(self.added, own, strict=True))}, ensure_ascii=False)


class _Cells(Table):
    """Rows of cells, one per line, with tabs between them and without quotes."""

    def _read(self, path: Path) -> Iterator[tuple[int, Any]]:
        return ((number, line.rstrip("\r").split("\t")) for number, line in self._lines(path))

    def _columns(self, head: Sequence[Any], rules: ColumnRules, column: str) -> tuple[list[str], bool]:
        first = head[0]
        folded = [cell.strip().casefold() for cell in first]
        wanted = (column or rules.given[0]).strip().casefold()
        by_name = wanted != "" and not is_place(wanted)  # a cell that is a number may be a label
        if (by_name and wanted in folded) or (column and by_name):
            return first, True
        if rules.header != "auto":
            return first, rules.header == "yes"
        # Two words such as `great review` can be a text.
        ranked = any(rules.rank(cell, 0) >= (1 if len(cell.split()) == 1 else INSIDE[CERTAIN]) for cell in first)
        return first, ranked and not any(map(is_value, first))

    def texts(self, *, keep: bool = True) -> Iterator[str]:
        if self.names is not None:
            next(self._waiting)  # the header
        return super().texts(keep=keep)

    def _value(self, row: Any, number: int) -> Any:
        if len(row) > self._width:
            raise self._error(number, f"has {len(row)} cells, expected {self._width}, as in the first line")
        row += [""] * (self._width - len(row))
        if not all(map(is_unicode, row)):
            raise self._error(number, _NOT_UNICODE)
        return row[self.place]

    def header(self) -> str:
        return "" if self.names is None else self._line([*self.names, *self.added])

    def render(self, text: str, results: Sequence[Any]) -> str:
        own = map(str, results) if text.strip() else [""] * len(results)
        return self._line([*self._rows.popleft(), *own])

    def _line(self, cells: Sequence[str]) -> str:
        """Return a line of the output; a tab or a line break inside a cell, which would split it, becomes a space."""
        return "\t".join(" ".join(cell.split()) if {"\t", "\n", "\r"} & {*cell} else cell for cell in cells)


class _QuotedCells(_Cells):
    """CSV: cells that may be quoted, with the separator that the file has."""

    def _read(self, path: Path) -> Iterator[tuple[int, Any]]:
        self._separator, self._is_named, rows = open_csv(path, "auto", ReadingReport())
        return rows

    def header(self) -> str:
        """Return the first line of the output. If the file names its separator (`sep=|`), that line comes before it."""
        own = [f"sep={self._separator}"] if self._is_named else []
        return "\n".join([*own, *filter(None, [super().header()])])

    def _line(self, cells: Sequence[str]) -> str:
        line = io.StringIO()
        csv.writer(line, delimiter=self._separator, lineterminator="\r\n").writerow(cells)
        return line.getvalue().removesuffix("\r\n")


_TABLES: dict[str, type[Table]] = {"csv": _QuotedCells, "tsv": _Cells, "jsonl": _Objects}
