"""Sentence pairs out of files, whatever they hold, with a report on every line that is not one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import DataConfig
from regard.errors import DataError
from regard.text.files.clean import is_unicode, normalise
from regard.text.files.delimited import read_csv, read_fast_align, read_tsv
from regard.text.files.encoding import show_encoding
from regard.text.files.formats import FORMS, detect_table, read_start
from regard.text.files.lines import LONGEST_SIDE, OVER_LONG_LINE
from regard.text.files.report import EMPTY_LINE, EMPTY_SOURCE, EMPTY_TARGET, NOT_UNICODE, NUL, OVER_LONG, ReadingReport
from regard.text.files.show import quoted
from regard.text.files.structured import read_jsonl, read_parquet
from regard.text.files.usable import SkipLimit
from regard.text.pairs.columns import PairColumns
from regard.text.pairs.parallel import read_parallel

_READERS = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "fast_align": read_fast_align,
}


@dataclass(frozen=True)
class PairChunk:
    """Some pairs, in the file's order; lists of one length."""

    source: list[str]
    target: list[str]
    line: list[int]
    """Number of the line (or row) each pair stands on, from 1."""

    @property
    def columns(self) -> tuple[list[str], list[str]]:
        """The sources and the targets."""
        return self.source, self.target


def read_pairs(paths: Sequence[str | Path], data: DataConfig, report: ReadingReport) -> Iterator[PairChunk]:
    """Read sentence pairs, chunk by chunk, so that memory does not grow with the file.

    Both sides come stripped and in the Unicode normal form that `data.normalization` asks for. Nothing else about them is
    changed: quotes, inner line separators, "None" and "nan" are text.

    Args:
        paths: One file of pairs, or two parallel text files.
        data: `format`, `columns`, `header`, `encoding`, `allow_skipped`, `normalization`, and the languages' codes.
        report: Filled while reading: every line is either kept or skipped with a reason.

    Raises:
        DataError: If a file is missing, empty, damaged or not in the expected format; if two parallel files differ in length;
            if a column does not exist, or it is not clear which columns are wanted; or, at the end, if no usable pair was
            found, or a larger share than `data.allow_skipped` is unusable. The message names the file and the line.
    """
    files = [Path(path) for path in paths]
    if len(files) not in (1, 2):
        raise DataError(f"{len(files)} files were given, expected one file of pairs or two parallel text files (FILE,FILE)")
    form = find_format(files, data)
    report.files = [str(file) for file in files]
    report.form = FORMS[form]
    report.encoding = show_encoding(files[0], "utf-8" if form == "parquet" else data.encoding)
    if form == "text":
        chunks = read_parallel(files[0], files[1], PairColumns(data), report)
    else:
        chunks = _READERS[form](files[0], PairColumns(data), report)
    limit = SkipLimit(data.allow_skipped, data.encoding, report)
    for (source, target), lines in chunks:
        chunk = clean(source, target, lines, data, report)
        if chunk.line:
            report.first = report.first or " → ".join(quoted(side[0], mark='"') for side in (chunk.source, chunk.target))
            report.kept += len(chunk.line)
            yield chunk
    limit.check(files)
    if not report.kept:
        raise DataError(f"no usable pair in {' + '.join(report.files)}; what became of its {report.unit}:\n{report.render()}")


def find_format(paths: Sequence[Path], data: DataConfig) -> str:
    """How to read the files: as `data.format` says, else by their number, names and first bytes.

    Raises:
        DataError: If the number of files does not fit the format, or a file cannot be read.
    """
    if data.format == "text" or len(paths) == 2:
        if len(paths) != 2:
            raise DataError(f"{paths[0]}: data.format is 'text', which needs two parallel files (FILE,FILE), and one was given")
        if data.format not in ("auto", "text"):
            raise DataError(f"two files were given with data.format '{data.format}', expected one; parallel files are 'text'")
        return "text"
    if data.format != "auto":
        return data.format
    found = detect_table(paths[0], data.encoding)
    return "fast_align" if found == "tsv" and _has_bars(paths[0], data.encoding) else found


def _has_bars(path: Path, encoding: str) -> bool:
    """Return True if nearly all of the first lines have `|||` between two sides, and no tab."""
    lines = [line for line in read_start(path, encoding).split(b"\n")[:1000] if line.strip()]
    parted = sum(line.count(b"|||") == 1 and b"\t" not in line for line in lines)
    return bool(lines) and parted * 10 >= len(lines) * 9


def clean(
    source: Sequence[str], target: Sequence[str], lines: Sequence[int], data: DataConfig, report: ReadingReport
) -> PairChunk:
    """Strip and normalise both sides, and leave out what is no pair of sentences, with its reason in the report."""
    source, target = normalise(source, data.normalization), normalise(target, data.normalization)
    if _sound(source) and _sound(target):
        return PairChunk(source, target, list(lines))
    kept: list[int] = []
    for position, pair in enumerate(zip(source, target, strict=True)):
        reason = _find_fault(*pair)
        if reason:
            report.skip(reason, lines[position])
        else:
            kept.append(position)
    return PairChunk([source[i] for i in kept], [target[i] for i in kept], [lines[i] for i in kept])


def _sound(texts: list[str]) -> bool:
    """Whether no text of a block has a fault, found out without looking at each."""
    if not texts or not all(texts) or max(map(len, texts)) > LONGEST_SIDE:
        return not texts
    block = "\n".join(texts)
    return "\0" not in block and is_unicode(block)


def _find_fault(source: str, target: str) -> str | None:
    if source is OVER_LONG_LINE or target is OVER_LONG_LINE or max(len(source), len(target)) > LONGEST_SIDE:
        return OVER_LONG
    if not source and not target:
        return EMPTY_LINE
    if not source:
        return EMPTY_SOURCE
    if not target:
        return EMPTY_TARGET
    if "\0" in source or "\0" in target:
        return NUL
    return None if is_unicode(source) and is_unicode(target) else NOT_UNICODE
