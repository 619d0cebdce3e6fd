"""Read labelled texts from files of any format, with a report on every skipped line."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text import reasons
from regard.text.clean import Chunk, Labels, clean, read_usable
from regard.text.column_rules import LabelledColumns
from regard.text.labelled.files import WHAT, LabelFile, find_files
from regard.text.opening import CHUNK_CHARACTERS, LONGEST_SIDE, check_file, line_blocks, show_encoding
from regard.text.report import ReadingReport
from regard.text.rows import load_format
from regard.text.strings import normalise, quoted, trim, write_value

LONGEST_LABEL = 200
"""Maximum number of characters of a label; texts with a longer label are skipped."""
_MOST_KNOWN = 50_000
# A list in the notation of Python, JSON, NumPy or SQL, such as `['film', 'good']`.
_LIST = re.compile(r"[\[{(]\s*['\"].*[\]})]|\[.*,.*\]|\{.*,.*\}", re.DOTALL)
_MISSING = frozenset(("nan", "NaN", "NAN", "-nan", "n/a", "N/A", "#N/A", "<NA>", "null", "NULL", "Null"))


def read_labelled(paths: Sequence[str | Path], data: LabelledDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read labelled texts, chunk by chunk, so that memory does not grow with the file; the report is filled on the way.

    Texts and labels are stripped and converted to the Unicode form of `data.normalization`, and not changed otherwise. Numeric
    and boolean labels in JSON or Parquet are written as `1`, `0.5`, `true`; `1.0` is `1` in every format. A cell such as `NaN`
    or `null` means that the label is missing. If `data.label_separator` is set, or JSON or Parquet has lists, a text may have
    several labels or none; otherwise a text without a label is skipped. Only the first 65,536 characters of a text are read.
    """
    found = find_files(paths, data)
    report.files, report.kind = [str(file.path) for file in found.files], "texts"
    is_table = found.form not in ("text", "folders")
    first = next((text for file in found.files for text in file.texts_with_content), None)
    if first:
        report.encoding = show_encoding(first, (is_table and load_format(found.form).encoding) or data.encoding)
    read = _read_table if is_table else _read_label
    sources = [(str(file.path), file.texts, read(file, found.form, data, report)) for file in found.files]
    yield from read_usable(sources, data, report)


def _read_table(file: LabelFile, form: str, data: LabelledDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read a table with a column of texts and a column of labels."""
    table = load_format(form)
    report.form = table.title
    reader = _LabelReader(data, report, typed=table.typed)
    for (values, cells), lines in table.read(file.path, LabelledColumns(data), report):
        labels = reader.read(cells, lines)
        if any(isinstance(value, list) and value for value in values):
            raise DataError(f"{file.path}: '{report.columns[0]}' holds lists, expected texts; join each list to one text")
        texts = [write_value(value)[:LONGEST_SIDE] if value != [] else "" for value in values]
        yield clean(
            [texts], lines, data.normalization, report, empty=(reasons.EMPTY_TEXT,), labels=labels, multiple=reader.multiple
        )


def _read_label(file: LabelFile, form: str, data: LabelledDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read the texts of one label: the lines of a text file, or the files of a folder."""
    report.form = "a text file for each label" if form == "text" else "a folder for each label"
    if form == "folders":
        report.unit = "files"
    blocks: Iterator[tuple[list[str], Sequence[int]]] = _read_files(file, data, report)
    if form == "text":
        blocks = line_blocks(check_file(file.path, WHAT), data.encoding, report.hashes)
    where = f"{reasons.IN_FILE}{file.path.name if form == 'text' else file.label})"
    label = tuple(normalise([file.label.casefold() if data.fold_case else file.label], data.normalization))
    for texts, lines in blocks:
        report.read += len(texts)
        texts = [text[:LONGEST_SIDE] for text in texts]
        empty = reasons.EMPTY_LINE if form == "text" else reasons.EMPTY_TEXT
        yield clean([texts], lines, data.normalization, report, empty=(empty,), labels=[label] * len(texts), where=where)


def _read_files(file: LabelFile, data: LabelledDataConfig, report: ReadingReport) -> Iterator[tuple[list[str], Sequence[int]]]:
    """Yield the texts of a folder's files, with the numbers of the files; of a long file, only the beginning is read."""
    texts: list[str] = []
    size, done = 0, 0
    for path in file.texts:
        parts: list[str] = []
        long = 0
        # An empty file is an empty text, and `line_blocks` would raise an error. Lines may end in any way.
        blocks = line_blocks(path, data.encoding, report.hashes, any_line_ends=True) if path.stat().st_size else ()
        for lines, _ in blocks:
            if long <= LONGEST_SIDE:
                parts += lines
                long += sum(map(len, lines)) + len(lines)
        texts.append("\n".join(parts))
        size += long
        if size > CHUNK_CHARACTERS:
            yield texts, range(done + 1, done + len(texts) + 1)
            texts, size, done = [], 0, done + len(texts)
    yield texts, range(done + 1, done + len(texts) + 1)


class _LabelReader:
    """A reader of the cells of a column of labels; `typed` is True if values have types, as in JSON and Parquet."""

    def __init__(self, data: LabelledDataConfig, report: ReadingReport, *, typed: bool) -> None:
        self.data, self.report, self.typed = data, report, typed
        self.multiple = bool(data.label_separator)
        self._known: dict[str, Labels | str] = {}

    def read(self, cells: Sequence[Any], lines: Sequence[int]) -> list[Labels | str]:
        """Return the labels in each cell, or the reason for skipping the row."""
        if not self.multiple and any(isinstance(cell, list) for cell in cells):
            self.multiple, self._known = True, {}
        return [self._read_cell(cell, line) for cell, line in zip(cells, lines, strict=True)]

    def _read_cell(self, cell: Any, line: int) -> Labels | str:
        if isinstance(cell, list):
            return self._clean([write_value(item) for item in cell if item is not None], filled=False)
        cell = write_value(cell)
        if cell not in self._known:
            # A list in a cell of text, as pandas writes it, would become a label of its own.
            if _LIST.fullmatch(trim(cell)):
                raise DataError(
                    f"{self.report.files[0]}, line {line}: the label {quoted(cell, mark=chr(34))} is a list in a cell of text; "
                    "write arrays to JSON lines (pandas: df.to_json(FILE, orient='records', lines=True)), or plain labels such "
                    "as film;good with data.label_separator"
                )
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            separator = self.data.label_separator
            self._known[cell] = self._clean(cell.split(separator) if separator else [cell], filled=bool(cell.strip()))
        return self._known[cell]

    def _clean(self, labels: Sequence[str], *, filled: bool) -> Labels | str:
        """Return the different labels, without invisible characters at their ends, which would make labels that look alike."""
        # A whole number loses its decimals, so that `1.0` from CSV and 1 from JSON are the same label.
        found = [name for label in labels if (name := trim(normalise([label], self.data.normalization)[0]))]
        found = [label for label in found if not is_missing(label, typed=self.typed)]
        found = [label.casefold() for label in found] if self.data.fold_case else found
        if len(found) > 2 and found.count("0") + found.count("1") == len(found):
            raise DataError(
                f"{self.report.files[0]}: labels are lists of 0 and 1, expected the names of labels, as in ['film', 'good']"
            )
        whole = [label.endswith(".0") and label[:-2].removeprefix("-").isdecimal() for label in found]
        cleaned = dict.fromkeys(label[:-2] if cut else label for label, cut in zip(found, whole, strict=True))
        if any(len(label) > LONGEST_LABEL for label in cleaned):
            return reasons.LONG_LABEL
        return tuple(cleaned) if cleaned or self.multiple else reasons.MISSING_LABEL if filled else reasons.EMPTY_LABEL


def is_missing(label: str, *, typed: bool) -> bool:
    """Return True if a label is a word that programs write for a missing value: NaN, N/A, null, or None."""
    # `none`, `NONE` and `NA` are ordinary labels, and so is `None` in a format with types.
    return label in _MISSING or (label == "None" and not typed)
