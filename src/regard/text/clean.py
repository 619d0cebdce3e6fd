"""Cleaning of texts that were read: strip and normalise them, and skip unusable ones, with the reason in the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress

from regard.text.opening import LONGEST_SIDE, OVER_LONG_LINE
from regard.text.report import EMPTY_LINE, NOT_UNICODE, NUL, OVER_LONG, ReadingReport
from regard.text.strings import is_unicode, normalise

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Chunk:
    """Some examples in the file's order: sentence pairs, labelled texts or texts alone. The lists have equal length."""

    columns: tuple[list[str], ...]
    """The texts: sources and targets, or one column."""
    line: list[int]
    """Line (or row) number of each example in its file, from 1."""
    labels: list[Labels] = field(default_factory=list)
    """Labels of each text, without duplicates: one, or any number if `multiple`; empty for data without labels."""
    multiple: bool = False
    """Whether texts may have several labels, according to the lines read so far."""

    @property
    def source(self) -> list[str]:
        """The sources."""
        return self.columns[0]

    @property
    def target(self) -> list[str]:
        """The targets."""
        return self.columns[1]

    @property
    def text(self) -> list[str]:
        """The texts of data with one text per example."""
        return self.columns[0]


def clean(
    columns: Sequence[Sequence[str]],
    lines: Sequence[int],
    form: str,
    report: ReadingReport,
    *,
    empty: Sequence[str],
    longest: int = LONGEST_SIDE,
) -> Chunk:
    """Strip and normalise texts, and skip invalid rows, with the reason in the report.

    Args:
        columns: The texts of each column.
        lines: Their line numbers.
        form: Unicode form: `nfc`, `nfkc` or `none`.
        report: Report, which counts the rows.
        empty: For each column, the reason for skipping a row whose other columns are not empty.
        longest: Maximum number of characters of a text.
    """
    texts = [normalise(column, form) for column in columns]

    def find_fault(place: int) -> str:
        row = [column[place] for column in texts]
        if not any(row):
            return EMPTY_LINE
        if OVER_LONG_LINE in row or max(map(len, row)) > longest:
            return OVER_LONG
        return next((reason for text, reason in zip(row, empty, strict=True) if not text), "") or find_damage(row)

    usual = all(map(all, texts)) and max(map(len, chain(*texts)), default=0) <= longest and not find_damage(chain(*texts))
    kept = [True] * len(lines) if usual else keep(lines, find_fault, report)
    report.kept += sum(kept)
    return Chunk(tuple(list(compress(column, kept)) for column in texts), list(compress(lines, kept)))


def keep(lines: Sequence[int], find_fault: Callable[[int], str], report: ReadingReport) -> list[bool]:
    """Return whether to keep each row; the report counts the others.

    Args:
        lines: The line numbers of the rows.
        find_fault: Function that returns the reason for skipping the row at a position; empty to keep it.
        report: The report.
    """
    reasons = [find_fault(place) for place in range(len(lines))]
    for line, reason in zip(lines, reasons, strict=True):
        if reason:
            report.skip(reason, line)
    return [not reason for reason in reasons]


def find_damage(texts: "chain[str] | Sequence[str]") -> str:
    """Return the reason for skipping texts with NUL characters or undecodable bytes; empty if there are none."""
    whole = "\n".join(texts)  # one check for a whole block is fast
    return NUL if "\0" in whole else "" if is_unicode(whole) else NOT_UNICODE
