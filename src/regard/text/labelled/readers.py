"""Read labelled texts from files of any format, with a report on every skipped line."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.files.content import read_list
from regard.text.files.delimited import RawChunk, read_csv, read_tsv
from regard.text.files.formats import FORMS
from regard.text.files.json_rows import read_jsonl
from regard.text.files.opening import CHUNK_CHARACTERS, LONGEST_SIDE, OVER_LONG_LINE, check_file, line_blocks, show_encoding
from regard.text.files.parquet import read_parquet
from regard.text.files.report import (
    EMPTY_LABEL,
    EMPTY_LINE,
    EMPTY_TEXT,
    IN_FILE,
    LONG_LABEL,
    MISSING_LABEL,
    NOT_UNICODE,
    NUL,
    OVER_LONG,
    ReadingReport,
    SkipLimit,
)
from regard.text.files.strings import is_unicode, normalise, quoted, trim
from regard.text.labelled.columns import LabelledColumns
from regard.text.labelled.files import WHAT, LabelFile, find_files

LONGEST_LABEL = 200
"""Maximum number of characters of a label; texts with a longer label are skipped."""
_FORMS = FORMS | {"text": "a text file for each label", "folders": "a folder for each label", "fasttext": "fastText's format"}
_MOST_KNOWN = 50_000
_IGNORED_SHOWN = 8
_MARK = '"'
_MISSING = frozenset(("nan", "NaN", "NAN", "-nan", "n/a", "N/A", "#N/A", "<NA>", "null", "NULL", "Null"))
_NONE = "None"
_PREFIXED = re.compile(r"(?<!\S)__label__(\S+)\s*")


def is_missing(label: str, *, typed: bool) -> bool:
    """Return True if a label is a word that programs write for a missing value: NaN, N/A, null, or None.

    `none`, `NONE` and `NA` are ordinary labels.

    Args:
        label: Content of the cell, stripped.
        typed: Whether values have types (JSON, Parquet). If True, `None` is an ordinary label.
    """
    return label in _MISSING or (label == _NONE and not typed)


@dataclass(frozen=True)
class LabelledChunk:
    """Texts and their labels in the file's order. The lists have equal length."""

    text: list[str]
    labels: list[tuple[str, ...]]
    """Labels of each text, without duplicates: one, or any number if `multiple`."""
    line: list[int]
    """Line (or row) number of each text in its file, from 1."""
    multiple: bool
    """Whether texts may have several labels, according to the lines read so far."""

    @property
    def columns(self) -> tuple[list[str]]:
        """The texts, as the only column."""
        return (self.text,)


def read_labelled(paths: Sequence[str | Path], data: LabelledDataConfig, report: ReadingReport) -> Iterator[LabelledChunk]:
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
    files, form = found.files, found.form
    report.files = [str(file.path) for file in files]
    report.form, report.kind = _FORMS[form], "texts"
    first = next((text for file in files for text in file.texts if text.stat().st_size), None)
    if first:
        report.encoding = show_encoding(first, "utf-8" if form == "parquet" else data.encoding)
    limit = SkipLimit(data.allow_skipped, data.encoding, report)
    if form in ("text", "folders"):
        cleaner = _Cleaner(data, report, given=True)
        read = _read_label_file if form == "text" else _read_label_folder
        for file in files:
            yield from read(file, cleaner, report)
            limit.check(file.texts, name=str(file.path), whole=False)
    else:
        readers: dict[str, Any] = {"tsv": read_tsv, "csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}
        reader = readers.get(form, _read_fasttext)
        cleaner = _Cleaner(data, report, typed=form in ("jsonl", "parquet"))
        for (texts, cells), lines in reader(files[0].path, LabelledColumns(data), report):
            yield from cleaner.clean(texts, cells, lines)
        limit.check([files[0].path])
    if found.ignored:
        more = ", …" if len(found.ignored) > _IGNORED_SHOWN else ""
        report.advice = f"{report.advice} not read: {', '.join(found.ignored[:_IGNORED_SHOWN])}{more}".strip()
    if not report.kept:
        raise DataError(_nothing_usable(report))


class _Cleaner:
    """A cleaner that strips and normalises texts and labels, and skips invalid ones, with the reason in the report."""

    def __init__(self, data: LabelledDataConfig, report: ReadingReport, *, typed: bool = False, given: bool = False) -> None:
        self.data, self.report = data, report
        self.typed, self.given = typed, given  # whether values have types; whether labels are names of files
        self.multiple = bool(data.label_separator)
        self.listed: bool | None = None  # whether all labels are written as lists; None if none was read
        self._known: dict[str, tuple[str, ...] | None] = {}

    def clean(
        self, texts: Sequence[Any], cells: Sequence[Any], lines: Sequence[int], where: str = ""
    ) -> Iterator[LabelledChunk]:
        """Yield at most one chunk of usable texts.

        Args:
            texts: The texts as read.
            cells: Content of the label column.
            lines: Their line numbers.
            where: Addition to the reasons in the report, which names the file or the label; empty for a table.
        """
        over_long = [text is OVER_LONG_LINE for text in texts]
        texts = [text if isinstance(text, str) else spell(text) if text != [] else "" for text in texts]
        if max(map(len, texts), default=0) > LONGEST_SIDE:
            texts = [text[:LONGEST_SIDE] for text in texts]
        texts = normalise(texts, self.data.normalization)
        if not self.given:
            self._check_lists(cells, lines)
        self.multiple = self.multiple or bool(self.listed) or any(isinstance(cell, list) for cell in cells)
        labels = [self._labels(cell) for cell in cells]
        faults = not all(texts) or None in labels or (not self.multiple and () in labels) or any(over_long)
        if not faults and texts:
            block = "\n".join(chain(texts, set(chain.from_iterable(filter(None, labels)))))
            faults = "\0" in block or not is_unicode(block)
        kept: Sequence[int] = range(len(texts))
        if faults:
            kept = []
            for place, (text, own) in enumerate(zip(texts, labels, strict=True)):
                reason = OVER_LONG if over_long[place] else self._find_fault(text, own, cells[place])
                if reason:
                    self.report.skip(reason + where, lines[place])
                else:
                    kept.append(place)
        self.report.kept += len(kept)
        if kept:
            chosen = [labels[place] or () for place in kept]
            if not self.report.first:
                shown = ", ".join(quoted(label, mark='"') for label in chosen[0][:5]) or "none"
                self.report.first = f"{quoted(texts[kept[0]], mark=_MARK)} with the label{'s' * self.multiple} {shown}"
            yield LabelledChunk([texts[place] for place in kept], chosen, [lines[place] for place in kept], self.multiple)

    def _check_lists(self, cells: Sequence[Any], lines: Sequence[int]) -> None:
        """Find whether labels are written as lists, such as `['film', 'good']` in a table that pandas wrote.

        Raises:
            DataError: If only some labels are.
        """
        first = {cell: line for cell, line in reversed(list(zip(cells, lines, strict=True))) if isinstance(cell, str)}
        lists = {cell: read_list(cell) for cell in first if (label := trim(cell)) and not is_missing(label, typed=self.typed)}
        if self.listed is None and lists:
            self.listed = None not in lists.values() and any({*"'\","} & {*cell} for cell in lists)
        odd = [cell for cell, items in lists.items() if (items is None if self.listed else items and {*"'\""} & {*cell})]
        if odd:
            raise DataError(
                f"{self.report.files[0]}, line {first[odd[-1]]}: the label is {quoted(odd[-1], mark=_MARK)}, but only some are "
                "lists; write all labels as lists such as ['film', 'good'], or all as plain text with data.label_separator"
            )

    def _find_fault(self, text: str, labels: tuple[str, ...] | None, cell: Any) -> str | None:
        if not text:
            return EMPTY_LINE if self.given or (not labels and not _is_missing_cell(cell)) else EMPTY_TEXT
        if labels is None:
            return LONG_LABEL
        if not labels and not self.multiple:
            return MISSING_LABEL if _is_missing_cell(cell) else EMPTY_LABEL
        whole = "".join((text, *labels))
        if "\0" in whole:
            return NUL
        return None if is_unicode(whole) else NOT_UNICODE

    def _labels(self, cell: Any) -> tuple[str, ...] | None:
        """Return the labels in a cell; None if one of them is too long."""
        if isinstance(cell, list):
            return self._clean_labels([spell(item) for item in cell if item is not None])
        cell = cell if isinstance(cell, str) else spell(cell)
        known = self._known
        if cell not in known:
            if len(known) > _MOST_KNOWN:
                known.clear()
            separator = self.data.label_separator
            items = (read_list(cell) or []) if self.listed else cell.split(separator) if separator else [cell]
            known[cell] = self._clean_labels(items)
        return known[cell]

    def _clean_labels(self, labels: Sequence[str]) -> tuple[str, ...] | None:
        found = normalise(labels, self.data.normalization)
        if not self.given:
            found = [label for label in found if not is_missing(label, typed=self.typed)]
        if len(found) > 2 and found.count("0") + found.count("1") == len(found):
            raise DataError(
                f"{self.report.files[0]}: labels are lists of 0 and 1, expected the names of labels, as in ['film', 'good']"
            )
        cleaned = dict.fromkeys(_whole(label) for label in found if trim(label))
        if any(len(label) > LONGEST_LABEL for label in cleaned):
            return None
        return tuple(cleaned)


def _whole(label: str) -> str:
    """Return a label without invisible characters at its ends, which would make a second label that looks the same.

    A whole number loses its decimals, so that `1.0` from CSV and 1 from JSON are the same label.
    """
    label = trim(label)
    return label[:-2] if label.endswith(".0") and label[:-2].removeprefix("-").isdecimal() else label


def spell(value: Any) -> str:
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


def _is_missing_cell(cell: Any) -> bool:
    """Return True if a cell without a usable label is not empty, so that it holds a word for a missing value."""
    return cell is not None and not isinstance(cell, list) and bool(str(cell).strip())


def _read_fasttext(path: Path, wanted: LabelledColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read lines with labels after a prefix, such as `__label__good __label__short a text`."""
    for first, lines in line_blocks(path, wanted.encoding):
        report.read += len(lines)
        labels = [_PREFIXED.findall(line) for line in lines]
        cells = [own if len(own) > 1 else "".join(own) for own in labels]
        yield [[_PREFIXED.sub("", line) for line in lines], cells], range(first, first + len(lines))


def _read_label_file(file: LabelFile, cleaner: _Cleaner, report: ReadingReport) -> Iterator[LabelledChunk]:
    """Read one text per line; all texts of a file have the same label."""
    encoding = cleaner.data.encoding
    for first, lines in line_blocks(check_file(file.path, WHAT), encoding):
        report.read += len(lines)
        chunk: RawChunk = ([lines, [file.label] * len(lines)], range(first, first + len(lines)))
        (texts, cells), numbers = chunk
        yield from cleaner.clean(texts, cells, numbers, where=f"{IN_FILE}{file.path.name})")


def _read_label_folder(folder: LabelFile, cleaner: _Cleaner, report: ReadingReport) -> Iterator[LabelledChunk]:
    """Read one text per file; all texts of a folder have the same label."""
    report.unit = "files"
    where = f"{IN_FILE}{folder.label})"
    texts: list[str] = []
    numbers: list[int] = []
    size = 0
    for number, file in enumerate(folder.texts, 1):
        report.read += 1
        text = _read_whole(file, cleaner.data.encoding)
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


def _read_whole(path: Path, encoding: str) -> str:
    """Return the text of a file; of a long file, only the beginning is read. Lines may end in any way."""
    if not path.stat().st_size:  # an empty file is an empty text, and `line_blocks` would raise an error
        return ""
    parts: list[str] = []
    size = 0
    for _, lines in line_blocks(path, encoding, any_line_ends=True):
        parts += lines
        size += sum(map(len, lines)) + len(lines)
        if size > LONGEST_SIDE:
            break
    return "\n".join(parts)


def _nothing_usable(report: ReadingReport) -> str:
    files = " + ".join(report.files)
    counts = {reason: entry.count for reason, entry in report.skipped.items()}
    names = dict(zip(("text", "label"), report.columns, strict=False))
    rest = f"the report on its {report.unit}:\n{report.render()}"
    for reasons, side in (((EMPTY_LABEL, MISSING_LABEL), "label"), ((EMPTY_TEXT,), "text")):
        empty = sum(counts.get(reason, 0) for reason in reasons)
        if empty and side in names and empty * 2 > report.read:
            return (
                f"{files}: the {side} column '{names[side]}' is empty in {empty:,} of {report.read:,} {report.unit}; "
                f"name another with data.{side}, or fill it; {rest}"
            )
    return f"no usable text in {files}; {rest}"
