"""Cleaning of texts that were read: strip and normalise them, and skip unusable ones, with the reason in the report.

`read_usable` refuses a file of which too many lines are unusable.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path

from regard.config.data import FileSettings
from regard.errors import DataError
from regard.text import reasons
from regard.text.encodings import advise_decoding
from regard.text.opening import LONGEST_SIDE, OVER_LONG_LINE
from regard.text.report import ReadingReport
from regard.text.strings import is_unicode, normalise, quoted

Labels = tuple[str, ...]
# A file with fewer lines is treated as if it had this number, so that one unusable line in a file of five is allowed.
_FEWEST = 10


@dataclass(frozen=True)
class Chunk:
    """Some examples in the file's order: sentence pairs, labelled texts or texts alone."""

    columns: tuple[list[str], ...]
    """The texts: sources and targets, or one column."""
    line: list[int]
    """Line (or row) number of each example in its file, from 1."""
    labels: list[Labels] = field(default_factory=list)
    """Labels of each text, without duplicates: one, or any number if `multiple`; empty for data without labels."""
    multiple: bool = False
    """Whether texts may have several labels, according to the lines read so far."""

    def show_first(self) -> str:
        """Return the first example in quotation marks, shortened."""
        text = " → ".join(quoted(column[0], mark='"') for column in self.columns)
        if not self.labels:
            return text
        shown = ", ".join(quoted(label, mark='"') for label in self.labels[0][:5])
        return f"{text} with the label{'s' * self.multiple} {shown or 'none'}"

    @property
    def source(self) -> list[str]:
        return self.columns[0]

    @property
    def target(self) -> list[str]:
        return self.columns[1]

    @property
    def text(self) -> list[str]:
        return self.columns[0]


def clean(
    columns: Sequence[Sequence[str]],
    lines: Sequence[int],
    form: str,
    report: ReadingReport,
    *,
    empty: Sequence[str],
    longest: int = LONGEST_SIDE,
    labels: Sequence[Labels | str] = (),
    multiple: bool = False,
    where: str = "",
) -> Chunk:
    """Strip and normalise texts, and skip invalid rows, with the reason in the report.

    Args:
        columns: The texts of each column.
        lines: Their line numbers.
        form: Unicode form: `nfc`, `nfkc` or `none`.
        report: Report, which counts the rows.
        empty: For each column, the reason for skipping a row whose other columns are not empty.
        longest: Maximum number of characters of a text.
        labels: Labels of each row, or a reason for skipping it.
        multiple: Whether rows may have several labels.
        where: Addition to the reasons, which names the file.
    """
    # Nearly all blocks are usual, and a few checks of the whole block are much faster than those of each row.
    texts = [normalise(column, form) for column in columns]
    names = {name for row in labels if not isinstance(row, str) for name in row}
    usual = all(map(all, texts)) and max(map(len, chain(*texts)), default=0) <= longest
    kept = [True] * len(lines)
    if not usual or _find_damage([*chain(*texts), *names]) or any(isinstance(row, str) for row in labels):
        for place, line in enumerate(lines):
            row, own = [column[place] for column in texts], labels[place] if labels else ()
            if reason := _find_fault(row, own, empty, longest):
                report.skip(reason + where, line)
                kept[place] = False
    report.kept += sum(kept)
    named = [row for row in compress(labels, kept) if not isinstance(row, str)]
    return Chunk(tuple(list(compress(column, kept)) for column in texts), list(compress(lines, kept)), named, multiple)


def _find_fault(row: Sequence[str], labels: Labels | str, empty: Sequence[str], longest: int) -> str:
    """Return the reason for skipping a row; empty to keep it."""
    if not any(row) and labels in ((), reasons.EMPTY_LABEL):
        return reasons.EMPTY_LINE
    if OVER_LONG_LINE in row or max(map(len, row)) > longest:
        return reasons.OVER_LONG
    if missing := next((reason for text, reason in zip(row, empty, strict=True) if not text), ""):
        return missing
    return labels if isinstance(labels, str) else _find_damage([*row, *labels])


def _find_damage(texts: Sequence[str]) -> str:
    """Return the reason for skipping texts with reasons.NUL characters or undecodable bytes; empty if there are none."""
    whole = "\n".join(texts)  # one check for a whole block is fast
    return reasons.NUL if "\0" in whole else "" if is_unicode(whole) else reasons.NOT_UNICODE


def read_usable(
    sources: Sequence[tuple[str, Sequence[Path], Iterable[Chunk]]], data: FileSettings, report: ReadingReport
) -> Iterator[Chunk]:
    """Yield the chunks of sources, given by name, files and chunks, and refuse a source with too many unusable lines."""
    # Duplicates, blank lines, a header, and examples beyond the limits of the settings do not count as unusable.
    for name, paths, chunks in sources:
        before = report.read - report.count(reasons.NOT_DATA), report.count(reasons.UNUSABLE), report.count(reasons.UNDECODABLE)
        for chunk in chunks:
            if chunk.line:
                report.first = report.first or chunk.show_first()
                yield chunk
        after = report.read - report.count(reasons.NOT_DATA), report.count(reasons.UNUSABLE), report.count(reasons.UNDECODABLE)
        read, unusable, undecodable = (new - old for new, old in zip(after, before, strict=True))
        if undecodable * 100 > read:
            report.advice = advise_decoding(paths, data.encoding)
        if unusable > data.allow_skipped * max(read, _FEWEST) and (report.kept or len(sources) > 1):
            share, advice, report.advice = unusable / read, f"{report.advice} ".lstrip(), ""
            raise DataError(
                f"{name}: {unusable:,} of {read:,} {report.unit} ({share:.0%}) are unusable, but data.allow_skipped allows "
                f"{data.allow_skipped:.0%}. {advice}Fix the file, or set data.allow_skipped to "
                f"{min(int(share * 100) + 1, 100) / 100:g} to use the other {report.unit}. The report:\n  {report.render()}"
            )
    if not report.kept:
        raise DataError(
            f"no usable {report.kind.removesuffix('s')} in {' + '.join(report.files)}; the report on its {report.unit}:\n"
            f"  {report.render()}"
        )
