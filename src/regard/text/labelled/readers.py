"""Read labelled texts from files of any format, with a report on every skipped line."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import Any

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.clean import Chunk, Labels, find_damage, keep
from regard.text.column_rules import LabelledColumns
from regard.text.content import read_list
from regard.text.labelled.files import WHAT, LabelFile, find_files
from regard.text.opening import CHUNK_CHARACTERS, LONGEST_SIDE, OVER_LONG_LINE, check_file, line_blocks, show_encoding
from regard.text.report import (
    EMPTY_LABEL,
    EMPTY_LINE,
    EMPTY_TEXT,
    IN_FILE,
    LONG_LABEL,
    MISSING_LABEL,
    OVER_LONG,
    ReadingReport,
    SkipLimit,
)
from regard.text.rows import Format, load_format
from regard.text.strings import normalise, quoted, trim

LONGEST_LABEL = 200
"""Maximum number of characters of a label; texts with a longer label are skipped."""
_MOST_KNOWN = 50_000
_IGNORED_SHOWN = 8
_MISSING = frozenset(("nan", "NaN", "NAN", "-nan", "n/a", "N/A", "#N/A", "<NA>", "null", "NULL", "Null"))


def read_labelled(paths: Sequence[str | Path], data: LabelledDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read labelled texts, chunk by chunk, so that memory does not grow with the file.

    Texts and labels are stripped and converted to the Unicode form of `data.normalization`, and not changed otherwise. Numeric
    and boolean labels in JSON or Parquet are written as `1`, `0.5`, `true`; `1.0` is `1` in every format. A cell such as `NaN`
    or `null` means that the label is missing. If `data.label_separator` is set, JSON or Parquet has lists, or all labels are
    written as lists (`['film', 'good']`), a text may have several labels or none; otherwise a text without a label is skipped.
    Only the first 65,536 characters of a text are read.

    Args:
        paths: One table, one text file for each label, a folder of such files, or a folder for each label, with one
            text per file.
        data: Settings, of which `format`, `text`, `label`, `label_separator`, `header`, `encoding`, `allow_skipped` and
            `normalization` are used.
        report: Report, which is filled while reading: every line is either kept or skipped with a reason.

    Raises:
        DataError: If a file is missing, empty, damaged or not in the expected format; if a column does not exist, or it is not
            clear which columns are wanted; or, at the end, if no usable text was found, or the unusable share is
            larger than `data.allow_skipped`. The message names the file and the line.
    """
    found = find_files(paths, data)
    report.files, report.kind = [str(file.path) for file in found.files], "texts"
    limit = SkipLimit(data.allow_skipped, data.encoding, report)
    first = next((text for file in found.files for text in file.texts if text.stat().st_size), None)
    if first:
        report.encoding = show_encoding(first, "utf-8" if found.form == "parquet" else data.encoding)
    if found.form in ("text", "folders"):
        report.form = "a text file for each label" if found.form == "text" else "a folder for each label"
        cleaner = _Cleaner(data, report, None)
        for file in found.files:
            yield from (_read_label_file if found.form == "text" else _read_label_folder)(file, cleaner, report)
            limit.check(file.texts, name=str(file.path), whole=False)
    else:
        form = load_format(found.form)
        report.form = form.title
        cleaner = _Cleaner(data, report, form)
        for (texts, cells), lines in form.read(found.files[0].path, LabelledColumns(data), report):
            yield from cleaner.clean(texts, cells, lines)
        limit.check([found.files[0].path])
    if found.ignored:
        more = ", …" if len(found.ignored) > _IGNORED_SHOWN else ""
        report.advice = f"{report.advice} not read: {', '.join(found.ignored[:_IGNORED_SHOWN])}{more}".strip()
    if not report.kept:
        raise DataError(_describe_nothing_usable(report))


def _read_label_file(file: LabelFile, cleaner: "_Cleaner", report: ReadingReport) -> Iterator[Chunk]:
    """Read one text per line; all texts of a file have the same label."""
    for first, lines in line_blocks(check_file(file.path, WHAT), cleaner.data.encoding, report.hashes):
        report.read += len(lines)
        numbers = range(first, first + len(lines))
        yield from cleaner.clean(lines, [file.label] * len(lines), numbers, f"{IN_FILE}{file.path.name})")


def _read_label_folder(folder: LabelFile, cleaner: "_Cleaner", report: ReadingReport) -> Iterator[Chunk]:
    """Read one text per file; all texts of a folder have the same label."""
    report.unit = "files"
    where = f"{IN_FILE}{folder.label})"
    texts: list[str] = []
    numbers: list[int] = []
    size = 0
    for number, file in enumerate(folder.texts, 1):
        report.read += 1
        text = _read_whole(file, cleaner.data.encoding, report.hashes)
        if not text.strip():
            report.skip(EMPTY_TEXT + where, number)
            continue
        texts.append(text)
        numbers.append(number)
        size += len(text)
        if size > CHUNK_CHARACTERS:
            yield from cleaner.clean(texts, [folder.label] * len(texts), numbers, where)
            texts, numbers, size = [], [], 0
    yield from cleaner.clean(texts, [folder.label] * len(texts), numbers, where)


def _read_whole(path: Path, encoding: str, hashes: dict[str, str]) -> str:
    """Return the text of a file; of a long file, only the beginning is kept. Lines may end in any way."""
    if not path.stat().st_size:  # an empty file is an empty text, and `line_blocks` would raise an error
        return ""
    parts: list[str] = []
    size = 0
    for _, lines in line_blocks(path, encoding, hashes, any_line_ends=True):
        if size <= LONGEST_SIDE:
            parts += lines
            size += sum(map(len, lines)) + len(lines)
    return "\n".join(parts)


class _Cleaner:
    """A cleaner that strips and normalises texts and labels, and skips invalid ones, with the reason in the report.

    Args:
        data: The settings.
        report: The report.
        form: The format of the table; None if the labels are names of files.
    """

    def __init__(self, data: LabelledDataConfig, report: ReadingReport, form: Format | None) -> None:
        self.data, self.report, self._form = data, report, form
        self._multiple = bool(data.label_separator)
        self._listed: bool | None = None  # whether all labels are written as lists; None if none was read
        self._known: dict[str, Labels | None] = {}

    def clean(self, texts: Sequence[Any], cells: Sequence[Any], lines: Sequence[int], where: str = "") -> Iterator[Chunk]:
        """Yield at most one chunk of usable texts.

        Args:
            texts: The texts as read.
            cells: Content of the label column.
            lines: Their line numbers.
            where: Addition to the reasons in the report, which names the file or the label; empty for a table.
        """
        texts = [text if isinstance(text, str) else write_value(text) if text != [] else "" for text in texts]
        texts = normalise([text[:LONGEST_SIDE] for text in texts], self.data.normalization)
        if self._form:
            self._check_lists(cells, lines)
        self._multiple = self._multiple or bool(self._listed) or any(isinstance(cell, list) for cell in cells)
        labels = [self._read_labels(cell) for cell in cells]

        def find_fault(place: int) -> str:
            reason = self._find_fault(texts[place], labels[place], cells[place])
            return reason and reason + where

        usual = all(texts) and None not in labels and (self._multiple or () not in labels)
        usual = usual and not find_damage(chain(texts, set(chain.from_iterable(filter(None, labels)))))
        kept = [True] * len(texts) if usual else keep(lines, find_fault, self.report)
        self.report.kept += sum(kept)
        if any(kept):
            chunk = Chunk(
                (list(compress(texts, kept)),),
                list(compress(lines, kept)),
                [own or () for own in compress(labels, kept)],
                self._multiple,
            )
            if not self.report.first:
                shown = ", ".join(quoted(label, mark='"') for label in chunk.labels[0][:5]) or "none"
                text = quoted(chunk.text[0], mark='"')
                self.report.first = f"{text} with the label{'s' * self._multiple} {shown}"
            yield chunk

    def _check_lists(self, cells: Sequence[Any], lines: Sequence[int]) -> None:
        """Find whether labels are written as lists, such as `['film', 'good']` in a table that pandas wrote.

        Raises:
            DataError: If only some labels are.
        """
        first = {cell: line for cell, line in reversed(list(zip(cells, lines, strict=True))) if isinstance(cell, str)}
        lists = {cell: read_list(cell) for cell in first if (label := trim(cell)) and not self._is_missing(label)}
        if self._listed is None and lists:
            self._listed = None not in lists.values() and any({*"'\","} & {*cell} for cell in lists)
        odd = [cell for cell, items in lists.items() if (items is None if self._listed else items and {*"'\""} & {*cell})]
        if odd:
            raise DataError(
                f"{self.report.files[0]}, line {first[odd[-1]]}: the label is {quoted(odd[-1], mark=chr(34))}, but only some "
                "are lists; write all labels as lists such as ['film', 'good'], or all as plain text with data.label_separator"
            )

    def _is_missing(self, label: str) -> bool:
        return self._form is not None and is_missing(label, typed=self._form.typed)

    def _find_fault(self, text: str, labels: Labels | None, cell: Any) -> str:
        if text == OVER_LONG_LINE:
            return OVER_LONG
        filled = cell is not None and not isinstance(cell, list) and bool(str(cell).strip())
        if not text:
            return EMPTY_LINE if not self._form or (not labels and not filled) else EMPTY_TEXT
        if labels is None:
            return LONG_LABEL
        if not labels and not self._multiple:
            return MISSING_LABEL if filled else EMPTY_LABEL
        return find_damage((text, *labels))

    def _read_labels(self, cell: Any) -> Labels | None:
        """Return the labels in a cell; None if one of them is too long."""
        if isinstance(cell, list):
            return self._clean_labels([write_value(item) for item in cell if item is not None])
        cell = write_value(cell)
        if cell not in self._known:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            separator = self.data.label_separator
            items = (read_list(cell) or []) if self._listed else cell.split(separator) if separator else [cell]
            self._known[cell] = self._clean_labels(items)
        return self._known[cell]

    def _clean_labels(self, labels: Sequence[str]) -> Labels | None:
        found = [label for label in normalise(labels, self.data.normalization) if not self._is_missing(label)]
        if len(found) > 2 and found.count("0") + found.count("1") == len(found):
            raise DataError(
                f"{self.report.files[0]}: labels are lists of 0 and 1, expected the names of labels, as in ['film', 'good']"
            )
        cleaned = dict.fromkeys(_whole(label) for label in found if trim(label))
        return None if any(len(label) > LONGEST_LABEL for label in cleaned) else tuple(cleaned)


def is_missing(label: str, *, typed: bool) -> bool:
    """Return True if a label is a word that programs write for a missing value: NaN, N/A, null, or None.

    `none`, `NONE` and `NA` are ordinary labels.

    Args:
        label: Content of the cell, stripped.
        typed: Whether values have types (JSON, Parquet). If True, `None` is an ordinary label.
    """
    return label in _MISSING or (label == "None" and not typed)


def _whole(label: str) -> str:
    """Return a label without invisible characters at its ends, which would make a second label that looks the same.

    A whole number loses its decimals, so that `1.0` from CSV and 1 from JSON are the same label.
    """
    label = trim(label)
    return label[:-2] if label.endswith(".0") and label[:-2].removeprefix("-").isdecimal() else label


def write_value(value: Any) -> str:
    """Return a JSON or Parquet value as text: whole numbers without a decimal point, booleans in lower case."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return ""  # a missing number
        return str(int(value)) if value.is_integer() else repr(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


def _describe_nothing_usable(report: ReadingReport) -> str:
    files = " + ".join(report.files)
    names = dict(zip(("text", "label"), report.columns, strict=False))
    rest = f"the report on its {report.unit}:\n{report.render()}"
    for reasons, side in (((EMPTY_LABEL, MISSING_LABEL), "label"), ((EMPTY_TEXT,), "text")):
        empty = report.count(reasons)
        if empty and side in names and empty * 2 > report.read:
            return (
                f"{files}: the {side} column '{names[side]}' is empty in {empty:,} of {report.read:,} {report.unit}; "
                f"name another with data.{side}, or fill it; {rest}"
            )
    return f"no usable text in {files}; {rest}"
