"""Sentence pairs from files of any format, with a report on every line that is not a pair."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from regard.config import DataConfig
from regard.errors import DataError
from regard.text import reasons
from regard.text.clean import Chunk, clean, read_usable
from regard.text.column_rules import PairColumns
from regard.text.header import skip_headers
from regard.text.languages import find_language
from regard.text.opening import check_file, ending, line_blocks, read_start, show_encoding
from regard.text.report import PARALLEL, ReadingReport
from regard.text.rows import Chunk as RawChunk
from regard.text.rows import detect_format, find_table, load_format
from regard.text.strings import quoted, trim


def read_pairs(paths: Sequence[str | Path], data: DataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read sentence pairs, chunk by chunk, so that memory does not grow with the file; the report is filled on the way.

    Both sides are stripped and converted to the Unicode form of `data.normalization`, and not changed otherwise: quotes, inner
    line separators, "None" and "nan" are ordinary text.
    """
    files = [check_file(path) for path in paths]
    if len(files) not in (1, 2):
        raise DataError(f"{len(files)} files were given, expected one file of pairs or two parallel text files (FILE,FILE)")
    form, rules = _find_format(files, data), PairColumns(data)
    report.files = [str(file) for file in files]
    table = None if form == "text" else load_format(form)
    report.form = table.title if table else PARALLEL
    report.encoding = show_encoding(files[0], (table and table.encoding) or data.encoding)
    raw = table.read(files[0], rules, report) if table else _read_parallel(files, data, rules, report)
    empty = (reasons.EMPTY_SOURCE, reasons.EMPTY_TARGET)
    chunks = (clean(columns, lines, data.normalization, report, empty=empty) for columns, lines in raw)
    yield from read_usable([(" + ".join(report.files), files, chunks)], data, report)


def name_languages(data: DataConfig) -> DataConfig:
    """Return the settings with the languages that the columns of a table are named after, if the settings name none.

    The settings stay the same unless the names of both chosen columns are languages, and different ones.
    """
    if (data.source, data.target) != ("source", "target") or len(data.train) != 1:
        return data
    report = ReadingReport()
    with suppress(DataError):  # the preparation of the data raises the same error
        next(read_pairs(data.train, data, report), None)
    names = [trim(name) for name in report.columns]
    languages = [find_language(name) for name in names]
    if len(names) != 2 or None in languages or languages[0] == languages[1]:
        return data
    return replace(data, source=names[0], target=names[1])


def _find_format(paths: Sequence[Path], data: DataConfig) -> str:
    """Return the format of the files: `data.format`, or the format found from their number and names."""
    if len(paths) == 1:
        if data.format == "text":
            raise DataError(
                f"{paths[0]}: data.format is 'text', which needs two parallel files (FILE,FILE), but only one was given"
            )
        return data.format if data.format != "auto" else detect_format(paths[0])
    if data.format not in ("auto", "text"):
        raise DataError(f"two files were given with data.format '{data.format}', expected one; parallel files are 'text'")
    # Line n of one table, such as one of two parts of a data set, would not be the translation of line n of the other.
    table = find_table(paths)
    starts = [[line for line in read_start(path, data.encoding).split(b"\n") if line.strip()] for path in paths]
    tabs = all(10 * sum(b"\t" in line for line in lines) >= 9 * len(lines) > 0 for lines in starts)
    if data.format == "auto" and (table or tabs):
        found = f"{table.name} is named like a table" if table else "nearly all lines of both contain a tab, as in tables"
        raise DataError(
            f"{paths[0]} and {paths[1]}: two files are read as parallel text, but {found}; expected one table or two text "
            "files. Join tables into one file, or set data.format to text if line n of one file is the translation of line n "
            "of the other"
        )
    return "text"


def _check_one_header(first: Sequence[str], paths: Sequence[Path], rules: PairColumns) -> None:
    """Raise an error if only one file begins with a header, so that line n of one does not translate line n of the other."""
    for side in (0, 1):
        if rules.names_side(first[side], side) and len(first[1 - side].split()) > 2:
            raise DataError(
                f"{paths[side]} begins with what looks like a header, {quoted(first[side])}, and {paths[1 - side]} with "
                f"{quoted(first[1 - side])}: delete the header, or set data.header to no if it is a sentence"
            )


def _read_parallel(paths: Sequence[Path], data: DataConfig, rules: PairColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read two parallel files: line n of one file and line n of the other are a pair."""
    named = [find_language(ending(path)[1:]) for path in paths]
    if None not in named and named[0] != named[1] and tuple(named) == rules.languages[::-1]:
        raise DataError(
            f"{paths[0]} and {paths[1]}: are named like the languages '{data.target}' and '{data.source}', but data.source is "
            f"'{data.source}' and data.target is '{data.target}'; give the files in the other order, or exchange the languages"
        )
    blocks = [line_blocks(path, rules.encoding, report.hashes) for path in paths]
    waiting: list[list[str]] = [[], []]
    header: tuple[str, ...] = ()
    done = 0
    while True:
        for side in (0, 1):
            waiting[side] = waiting[side] or next(blocks[side], ([], range(0)))[0]
        size = min(map(len, waiting))
        if not size:
            break
        first = tuple(trim(lines[0]) for lines in waiting)
        if not done and (rules.header == "yes" or (rules.header == "auto" and rules.recognises(first))):
            header = first
        elif not done and rules.header == "auto":
            _check_one_header(first, paths, rules)
        report.read += size
        pairs = list(map(list, zip(waiting[0][:size], waiting[1][:size], strict=True)))
        pairs, numbers = skip_headers(pairs, range(done + 1, done + size + 1), header, report)
        yield [[pair[side] for pair in pairs] for side in (0, 1)], numbers
        done += size
        waiting = [lines[size:] for lines in waiting]
    left = [len(lines) + sum(len(more) for more, _ in rest) for lines, rest in zip(waiting, blocks, strict=True)]
    counts = [done + count for count in left]
    if counts[0] != counts[1]:
        raise DataError(
            f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}, expected the same number; line n of one "
            "must be the translation of line n of the other: check that no lines were removed from only one of the files, and "
            "that no header is in only one"
        )
