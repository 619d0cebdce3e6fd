"""Sentence pairs from files of any format, with a report on every line that is not a pair."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import DataConfig
from regard.errors import DataError
from regard.text.files.content import guess_language
from regard.text.files.delimited import RawChunk, read_csv, read_fast_align, read_tsv, skip_headers
from regard.text.files.formats import ENDINGS, FORMS, detect_table, ending, read_start
from regard.text.files.json_rows import read_jsonl
from regard.text.files.names import find_language
from regard.text.files.opening import LONGEST_SIDE, OVER_LONG_LINE, line_blocks, show_encoding
from regard.text.files.parquet import read_parquet
from regard.text.files.report import (
    EMPTY_LINE,
    EMPTY_SOURCE,
    EMPTY_TARGET,
    NOT_UNICODE,
    NUL,
    OVER_LONG,
    ReadingReport,
    SkipLimit,
)
from regard.text.files.strings import is_unicode, normalise, quoted, trim
from regard.text.pairs.columns import PairColumns


def read_parallel(source: Path, target: Path, wanted: PairColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read two parallel files: line n of one file and line n of the other are a pair.

    Args:
        source: The file of the sources.
        target: The file of the targets.
        wanted: The settings `header` and `encoding`, and the names of languages.
        report: Report, which is filled while reading.

    Raises:
        DataError: If the files differ in length (the message has both counts), or only one begins with a header; else as for
            `opening.line_blocks`.
    """
    headed = _find_header((source, target), wanted)
    blocks = [line_blocks(source, wanted.encoding), line_blocks(target, wanted.encoding)]
    waiting: list[list[str]] = [[], []]
    counts, over = [0, 0], [False, False]
    header: tuple[str, ...] = ()
    done = 0
    while True:
        for side in (0, 1):
            if not waiting[side] and not over[side]:
                _, lines = next(blocks[side], (0, []))
                over[side] = not lines
                counts[side] += len(lines)
                waiting[side] = lines
        size = min(map(len, waiting))
        if not size:
            break
        report.read += size
        pairs = list(map(list, zip(waiting[0][:size], waiting[1][:size], strict=True)))
        if headed and not done:
            header = tuple(map(trim, pairs[0]))
        pairs, numbers = skip_headers(pairs, range(done + 1, done + size + 1), header, report)
        yield [[pair[side] for pair in pairs] for side in (0, 1)], numbers
        done += size
        waiting = [lines[size:] for lines in waiting]
    for side in (0, 1):
        counts[side] += sum(len(lines) for _, lines in blocks[side])
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}, expected the same number; line n of one "
            "must be the translation of line n of the other: check that no lines were removed from only one of the files"
        )


def _find_header(paths: tuple[Path, Path], wanted: PairColumns) -> bool:
    """Return True if both files begin with a header, such as `English` and `German`, or `data.header` says so.

    Raises:
        DataError: If only one file does, because then line n of one is not the translation of line n of the other.
    """
    if wanted.header != "auto":
        return wanted.header == "yes"
    lines = [next(line_blocks(path, wanted.encoding), (1, [""]))[1][0] for path in paths]
    first = ["" if line is OVER_LONG_LINE else line.strip() for line in lines]
    if wanted.recognises(first):
        return True
    for side in (0, 1):
        other = first[1 - side]
        if wanted.is_header_of(first[side], side) and len(other.split()) > 2:
            raise DataError(
                f"{paths[side]} begins with what looks like a header, {quoted(first[side])}, and {paths[1 - side]} with "
                f"{quoted(other)}; line n of one must be the translation of line n of the other: delete the header, or set "
                "data.header to no if it is a sentence"
            )
    return False


_READERS = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "fast_align": read_fast_align,
}


@dataclass(frozen=True)
class PairChunk:
    """Pairs in the file's order. The fields are lists of equal length."""

    source: list[str]
    target: list[str]
    line: list[int]
    """Line (or row) number of each pair, from 1."""

    @property
    def columns(self) -> tuple[list[str], list[str]]:
        """The sources and the targets."""
        return self.source, self.target


def read_pairs(paths: Sequence[str | Path], data: DataConfig, report: ReadingReport) -> Iterator[PairChunk]:
    """Read sentence pairs, chunk by chunk, so that memory does not grow with the file.

    Both sides are stripped and converted to the Unicode form of `data.normalization`, and not changed otherwise: quotes, inner
    line separators, "None" and "nan" are ordinary text.

    Args:
        paths: One file of pairs, or two parallel text files.
        data: Settings, of which `format`, `columns`, `header`, `encoding`, `allow_skipped`, `normalization` and the languages
            are used.
        report: Report, which is filled while reading: every line is either kept or skipped with a reason.

    Raises:
        DataError: If a file is missing, empty, damaged or not in the expected format; if two parallel files differ in length;
            if two files look like tables; if a column does not exist, or it is not clear which columns are wanted; if the
            sources are in the language of `data.target` and the targets in that of `data.source`; or, at the end, if no usable
            pair was found, or the unusable share is larger than `data.allow_skipped`. The message names the file and the line.
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
            if not report.kept:
                _check_direction(chunk, data, report)
            report.first = report.first or " → ".join(quoted(side[0], mark='"') for side in (chunk.source, chunk.target))
            report.kept += len(chunk.line)
            yield chunk
    limit.check(files)
    if not report.kept:
        raise DataError(f"no usable pair in {' + '.join(report.files)}; the report on its {report.unit}:\n  {report.render()}")


def find_format(paths: Sequence[Path], data: DataConfig) -> str:
    """Return the format of the files: `data.format`, or the format found from their number, names and first bytes.

    Raises:
        DataError: If the number of files does not fit the format, two files look like tables, or a file cannot be read.
    """
    if data.format == "text" or len(paths) == 2:
        if len(paths) != 2:
            raise DataError(
                f"{paths[0]}: data.format is 'text', which needs two parallel files (FILE,FILE), but only one was given"
            )
        if data.format not in ("auto", "text"):
            raise DataError(f"two files were given with data.format '{data.format}', expected one; parallel files are 'text'")
        if data.format == "auto":
            _check_parallel(paths, data.encoding)
        return "text"
    if data.format != "auto":
        return data.format
    found = detect_table(paths[0], data.encoding)
    return "fast_align" if found == "tsv" and _has_bars(paths[0], data.encoding) else found


def _check_parallel(paths: Sequence[Path], encoding: str) -> None:
    """Check that two files do not look like tables, such as two parts of one data set.

    Line n of one table would not be the translation of line n of the other.

    Raises:
        DataError: If a file is named like a table, or nearly all first lines of both have a tab.
    """
    table = next((path for path in paths if ending(path) in ENDINGS), None)
    if table is None and not all(_most_lines(path, encoding, lambda line: b"\t" in line) for path in paths):
        return
    found = f"{table.name} is named like a table" if table else "nearly all lines of both contain a tab, as in tables"
    raise DataError(
        f"{paths[0]} and {paths[1]}: two files are read as parallel text, but {found}; expected one table or two text files. "
        "Join tables into one file, or set data.format to text if line n of one file is the translation of line n of the other"
    )


def _has_bars(path: Path, encoding: str) -> bool:
    """Return True if nearly all of the first lines have `|||` between two sides, and no tab."""
    return _most_lines(path, encoding, lambda line: line.count(b"|||") == 1 and b"\t" not in line)


def _most_lines(path: Path, encoding: str, test: Callable[[bytes], bool]) -> bool:
    """Return True if nearly all of the first lines pass a test."""
    lines = [line for line in read_start(path, encoding).split(b"\n")[:1000] if line.strip()]
    return bool(lines) and sum(map(test, lines)) * 10 >= len(lines) * 9


def _check_direction(chunk: PairChunk, data: DataConfig, report: ReadingReport) -> None:
    """Check that sources and targets are not exchanged, by comparing the languages of the texts with the settings.

    Raises:
        DataError: If they are; the message says how to exchange the sides, or the settings.
    """
    wanted = [find_language(data.source), find_language(data.target)]
    if wanted[0] == wanted[1] or None in wanted:
        return
    if [guess_language(side) for side in (chunk.target, chunk.source)] != wanted:
        return
    if report.form == FORMS["text"]:
        (first, second), order = report.files, f"give the files in the other order: {report.files[1]},{report.files[0]}"
    else:
        first, second = (f"column {quoted(name)}" for name in report.columns)
        first, order = f"{report.files[0]}: {first}", f"set {PairColumns(data).example(report.columns[::-1])}"
    raise DataError(
        f"{first} seems to be in the language '{data.target}' and {second} in '{data.source}', but data.source is "
        f"'{data.source}' and data.target is '{data.target}'. To translate from '{data.source}' to '{data.target}', {order}. "
        f"For the other direction, set data.source to {data.target} and data.target to {data.source}"
    )


def clean(
    source: Sequence[str], target: Sequence[str], lines: Sequence[int], data: DataConfig, report: ReadingReport
) -> PairChunk:
    """Strip and normalise both sides, and skip invalid pairs, with the reason in the report."""
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
    """Return whether all texts of a block are valid, with one check for the whole block."""
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
