"""Labelled texts out of files, whatever they hold, with a report on every line that is not one."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.delimited import RawChunk, read_csv, read_tsv
from regard.text.labelled.columns import labelled_columns
from regard.text.labelled.files import LabelFile, find_files
from regard.text.lines import LONGEST_SIDE, OVER_LONG_LINE, check_file, line_blocks
from regard.text.readers import FORMS, is_unicode, normalise
from regard.text.report import EMPTY_LABEL, EMPTY_TEXT, LONG_LABEL, NOT_UNICODE, NUL, OVER_LONG, ReadingReport
from regard.text.structured import read_jsonl, read_parquet

WHAT = "labelled texts"
LONGEST_LABEL = 200
"""Characters of a label; what is longer is a text."""
_MOST_KNOWN = 50_000


@dataclass(frozen=True)
class LabelledChunk:
    """Some texts and their labels, in the file's order; lists of one length."""

    text: list[str]
    labels: list[tuple[str, ...]]
    """Of each text, without repeats: one, or where `multiple` none, one or many."""
    line: list[int]
    """Number of the line (or row) each text stands on in its file, from 1."""
    multiple: bool
    """Whether texts may have several labels, as far as has been read."""


def read_labelled(paths: Sequence[str | Path], data: LabelledDataConfig, report: ReadingReport) -> Iterator[LabelledChunk]:
    """Read labelled texts, chunk by chunk, so that memory does not grow with the file.

    Texts and labels come stripped and in the Unicode normal form that `data.normalization` asks for; nothing else about them is
    changed. Labels that are numbers or true and false in JSON or Parquet are spelled `1`, `0.5`, `true`; `1.0` is `1` in every
    form. With
    `data.label_separator`, or where JSON or Parquet holds lists, a text may have several labels, and no label is none of them;
    else a text without a label is left out. Of a text of more than 65,536 characters, these are read.

    Args:
        paths: One table, one text file for each label, or a folder of such files.
        data: `format`, `text`, `label`, `label_separator`, `header`, `normalization`.
        report: Filled while reading: every line is either kept or skipped with a reason.

    Raises:
        DataError: If a file is missing, empty, damaged or not what it is read as; if a column is not there; or, at the end, if
            no usable text was found. The message names the file and the line.
    """
    files, form = find_files(paths, data)
    report.files = [str(file.path) for file in files]
    report.form, report.kind = ("a text file for each label" if form == "text" else FORMS[form]), "texts"
    cleaner = _Cleaner(data, report)
    if form == "text":
        for file in files:
            yield from _read_label_file(file, cleaner, report)
    else:
        reader = {"tsv": read_tsv, "csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}[form]
        for (texts, cells), lines in reader(files[0].path, labelled_columns(data), report):
            yield from cleaner.clean(texts, cells, lines)
    if not report.kept:
        raise DataError(_nothing_usable(report))


class _Cleaner:
    """Strips and normalises texts and labels, and leaves out what is none, with its reason in the report."""

    def __init__(self, data: LabelledDataConfig, report: ReadingReport) -> None:
        self.data, self.report = data, report
        self.multiple = bool(data.label_separator)
        self._known: dict[str, tuple[str, ...] | None] = {}

    def clean(
        self, texts: Sequence[Any], cells: Sequence[Any], lines: Sequence[int], where: str = ""
    ) -> Iterator[LabelledChunk]:
        """At most one chunk of what is usable.

        Args:
            texts: As read.
            cells: What stands in the label column.
            lines: Their numbers.
            where: Added to the reasons in the report.
        """
        over_long = [text is OVER_LONG_LINE for text in texts]
        texts = [text if isinstance(text, str) else spell(text) for text in texts]
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
                reason = OVER_LONG if over_long[place] else self._find_fault(text, own)
                if reason:
                    self.report.skip(reason + where, lines[place])
                else:
                    kept.append(place)
        self.report.kept += len(kept)
        if kept:
            chosen = [labels[place] or () for place in kept]
            yield LabelledChunk([texts[place] for place in kept], chosen, [lines[place] for place in kept], self.multiple)

    def _find_fault(self, text: str, labels: tuple[str, ...] | None) -> str | None:
        if not text:
            return EMPTY_TEXT
        if labels is None:
            return LONG_LABEL
        if not labels and not self.multiple:
            return EMPTY_LABEL
        whole = "".join((text, *labels))
        if "\0" in whole:
            return NUL
        return None if is_unicode(whole) else NOT_UNICODE

    def _labels(self, cell: Any) -> tuple[str, ...] | None:
        """The labels in a cell; None if one cannot be one."""
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
        cleaned = dict.fromkeys(_whole(label) for label in normalise(labels, self.data.normalization) if label)
        if any(len(label) > LONGEST_LABEL for label in cleaned):
            return None
        return tuple(cleaned)


def _whole(label: str) -> str:
    """A label as the other forms of files give it: `1.0` of a CSV file is `1`, as it is where numbers have types."""
    return label[:-2] if label.endswith(".0") and label[:-2].removeprefix("-").isdecimal() else label


def spell(value: Any) -> str:
    """A value of JSON or Parquet as text: whole numbers without a point, true and false in lower case."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return ""  # how a missing number is written
        return str(int(value)) if value.is_integer() else repr(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


def _read_label_file(file: LabelFile, cleaner: _Cleaner, report: ReadingReport) -> Iterator[LabelledChunk]:
    """A text a line, all with the label that the file is named after."""
    for first, lines in line_blocks(check_file(file.path, WHAT)):
        report.read += len(lines)
        chunk: RawChunk = ([lines, [file.label] * len(lines)], range(first, first + len(lines)))
        (texts, cells), numbers = chunk
        yield from cleaner.clean(texts, cells, numbers, where=f" ({file.path.name})")


def _nothing_usable(report: ReadingReport) -> str:
    files = " + ".join(report.files)
    counts = {reason: entry.count for reason, entry in report.skipped.items()}
    names = dict(zip(("text", "label"), report.columns, strict=False))
    rest = f"what became of its {report.unit}:\n{report.render()}"
    for reason, side in ((EMPTY_LABEL, "label"), (EMPTY_TEXT, "text")):
        if counts.get(reason) and side in names and counts[reason] * 2 > report.read:
            return (
                f"{files}: the {side} column '{names[side]}' is empty in {counts[reason]:,} of {report.read:,} {report.unit}; "
                f"name another with data.{side}, or fill it; {rest}"
            )
    return f"no usable text in {files}; {rest}"
