"""Read labelled texts from files of any format, with a report on every skipped line."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.files.delimited import RawChunk, read_csv, read_tsv
from regard.text.files.formats import ENDINGS, FORMS, detect_table, ending
from regard.text.files.opening import LONGEST_SIDE, OVER_LONG_LINE, check_file, line_blocks, show_encoding
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
from regard.text.files.strings import is_unicode, normalise, quoted
from regard.text.files.structured import read_jsonl, read_parquet
from regard.text.labelled.columns import LabelledColumns

WHAT = "labelled texts"
LONGEST_LABEL = 200
"""Maximum number of characters of a label; texts with a longer label are skipped."""
_MOST_KNOWN = 50_000
_MARK = '"'
_MISSING = frozenset(("nan", "NaN", "NAN", "-nan", "n/a", "N/A", "#N/A", "<NA>", "null", "NULL", "Null"))
_NONE = "None"


@dataclass(frozen=True)
class LabelFile:
    """A file, and the label of its texts if there is one file per label."""

    path: Path
    label: str = ""


def find_files(paths: Sequence[str | Path], data: LabelledDataConfig) -> tuple[list[LabelFile], str]:
    """Return the given files, or the files in the given folders, and their format.

    Args:
        paths: One table, one text file for each label, or a folder of such files.
        data: Settings, of which `format` and `encoding` are used.

    Returns:
        The files, in order of their labels if they have labels, and the format.

    Raises:
        DataError: If no file is given, a file cannot be read, or the number of files does not fit the format.
    """
    if not paths:
        raise DataError("no file was given, expected one table, one text file for each label, or a folder of such files")
    files = [check_file(file, WHAT) for path in paths for file in _expand(Path(path))]
    shown = ", ".join(map(str, files[:4])) + (", …" if len(files) > 4 else "")
    if data.format not in ("auto", "text"):
        if len(files) > 1:
            raise DataError(f"{len(files)} files were given with data.format '{data.format}', expected one: {shown}")
        return [LabelFile(files[0])], data.format
    if data.format == "auto":
        if len(files) == 1:
            return [LabelFile(files[0])], detect_table(files[0], data.encoding)
        tables = [file for file in files if ending(file) in ENDINGS]
        if tables:
            raise DataError(
                f"{len(files)} files were given, and {tables[0].name} is named like a table; expected one table, or one text "
                f"file for each label (then set data.format to text): {shown}"
            )
    if len(files) == 1:
        raise DataError(f"{shown}: data.format is 'text', which needs one file for each label, but only one was given")
    labels = _name_labels(files)
    order = sorted(range(len(files)), key=lambda place: labels[place])
    return [LabelFile(files[place], labels[place]) for place in order], "text"


def _expand(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        inside = next((f", but folders such as {folder.name}" for folder in sorted(path.iterdir()) if folder.is_dir()), "")
        advice = "; write the texts of each folder to one file, with one text per line" if inside else ""
        raise DataError(f"{path}: holds no files{inside}, expected one text file for each label{advice}")
    return files


def _name_labels(files: Sequence[Path]) -> list[str]:
    """Return the files' names without their endings.

    If only the endings differ (`polarity.pos`, `polarity.neg`), return the endings.
    """
    names = [file.name.removesuffix(".gz").removesuffix(".GZ") for file in files]
    stems = [name.rpartition(".")[0] or name for name in names]
    if len(set(stems)) == len(stems):
        return stems
    if len(set(stems)) == 1:
        endings = [name.rpartition(".")[2] for name in names]
        if len(set(endings)) == len(endings):
            return endings
    twice = next(stem for stem in stems if stems.count(stem) > 1)
    both = [str(file) for file, stem in zip(files, stems, strict=True) if stem == twice]
    raise DataError(f"{both[0]} and {both[1]} both stand for the label '{twice}', expected one file for each label; join them")


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
        """The texts."""
        return (self.text,)


def read_labelled(paths: Sequence[str | Path], data: LabelledDataConfig, report: ReadingReport) -> Iterator[LabelledChunk]:
    """Read labelled texts, chunk by chunk, so that memory does not grow with the file.

    Texts and labels are stripped and converted to the Unicode form of `data.normalization`, and not changed otherwise. Numeric
    and boolean labels in JSON or Parquet are written as `1`, `0.5`, `true`; `1.0` is `1` in every format. A cell such as `NaN`
    or `null` means that the label is missing. If `data.label_separator` is set, or JSON or Parquet has lists, a text may have
    several labels or none; otherwise a text without a label is skipped. Only the first 65,536 characters of a text are read.

    Args:
        paths: One table, one text file for each label, or a folder of such files.
        data: Settings, of which `format`, `text`, `label`, `label_separator`, `header`, `encoding`, `allow_skipped` and
            `normalization` are used.
        report: Report, which is filled while reading: every line is either kept or skipped with a reason.

    Raises:
        DataError: If a file is missing, empty, damaged or not in the expected format; if a column does not exist, or it is not
            clear which columns are wanted; or, at the end, if no usable text was found, or the unusable share is
            larger than `data.allow_skipped`. The message names the file and the line.
    """
    files, form = find_files(paths, data)
    report.files = [str(file.path) for file in files]
    report.form, report.kind = ("a text file for each label" if form == "text" else FORMS[form]), "texts"
    report.encoding = show_encoding(files[0].path, "utf-8" if form == "parquet" else data.encoding)
    limit = SkipLimit(data.allow_skipped, data.encoding, report)
    if form == "text":
        cleaner = _Cleaner(data, report, given=True)
        for file in files:
            yield from _read_label_file(file, cleaner, report)
            limit.check([file.path], whole=False)
    else:
        reader = {"tsv": read_tsv, "csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}[form]
        cleaner = _Cleaner(data, report, typed=form in ("jsonl", "parquet"))
        for (texts, cells), lines in reader(files[0].path, LabelledColumns(data), report):
            yield from cleaner.clean(texts, cells, lines)
        limit.check([files[0].path])
    if not report.kept:
        raise DataError(_nothing_usable(report))


class _Cleaner:
    """A cleaner that strips and normalises texts and labels, and skips invalid ones, with the reason in the report."""

    def __init__(self, data: LabelledDataConfig, report: ReadingReport, *, typed: bool = False, given: bool = False) -> None:
        self.data, self.report = data, report
        self.typed, self.given = typed, given  # whether values have types; whether labels are names of files
        self.multiple = bool(data.label_separator)
        self._known: dict[str, tuple[str, ...] | None] = {}

    def clean(
        self, texts: Sequence[Any], cells: Sequence[Any], lines: Sequence[int], where: str = ""
    ) -> Iterator[LabelledChunk]:
        """Yield at most one chunk of usable texts.

        Args:
            texts: The texts as read.
            cells: Content of the label column.
            lines: Their line numbers.
            where: Text that is added to the reasons in the report.
        """
        over_long = [text is OVER_LONG_LINE for text in texts]
        texts = [text if isinstance(text, str) else spell(text) if text != [] else "" for text in texts]
        if max(map(len, texts), default=0) > LONGEST_SIDE:
            texts = [text[:LONGEST_SIDE] for text in texts]
        texts = normalise(texts, self.data.normalization)
        self.multiple = self.multiple or any(isinstance(cell, list) for cell in cells)
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
        """Return the labels in a cell; None if one of them is not a valid label."""
        if isinstance(cell, list):
            return self._clean_labels([spell(item) for item in cell if item is not None])
        cell = cell if isinstance(cell, str) else spell(cell)
        known = self._known
        if cell not in known:
            if len(known) > _MOST_KNOWN:
                known.clear()
            separator = self.data.label_separator
            known[cell] = self._clean_labels(cell.split(separator) if separator else [cell])
        return known[cell]

    def _clean_labels(self, labels: Sequence[str]) -> tuple[str, ...] | None:
        found = normalise(labels, self.data.normalization)
        if not self.given:
            found = [label for label in found if not is_missing(label, typed=self.typed)]
        cleaned = dict.fromkeys(_whole(label) for label in found if label)
        if any(len(label) > LONGEST_LABEL for label in cleaned):
            return None
        return tuple(cleaned)


def _whole(label: str) -> str:
    """Return a label without the decimals of a whole number, so that `1.0` from CSV and 1 from JSON are the same label."""
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


def _read_label_file(file: LabelFile, cleaner: _Cleaner, report: ReadingReport) -> Iterator[LabelledChunk]:
    """Read one text per line; all texts of a file have the same label."""
    encoding = cleaner.data.encoding
    for first, lines in line_blocks(check_file(file.path, WHAT), encoding):
        report.read += len(lines)
        chunk: RawChunk = ([lines, [file.label] * len(lines)], range(first, first + len(lines)))
        (texts, cells), numbers = chunk
        yield from cleaner.clean(texts, cells, numbers, where=f"{IN_FILE}{file.path.name})")


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
