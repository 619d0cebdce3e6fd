"""Pairs from two text files that hold a sentence a line, in the same order."""

from collections.abc import Iterator
from pathlib import Path

from regard.errors import DataError
from regard.text.files.delimited import RawChunk
from regard.text.files.lines import line_blocks
from regard.text.files.report import HEADER, ReadingReport
from regard.text.files.show import quoted
from regard.text.pairs.columns import PairColumns


def read_parallel(source: Path, target: Path, wanted: PairColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read line n of one file with line n of the other; the blocks of the two need not end at the same line.

    Args:
        source: The file of the sources.
        target: The file of the targets.
        wanted: The settings `header` and `encoding`, and the names of languages.
        report: Filled while reading.

    Raises:
        DataError: If the files differ in length (the message has both counts), or only one begins with a header; else as
            `lines.line_blocks`.
    """
    headed = _find_header((source, target), wanted)
    blocks = [line_blocks(source, wanted.encoding), line_blocks(target, wanted.encoding)]
    waiting: list[list[str]] = [[], []]
    counts, over = [0, 0], [False, False]
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
        skip = 1 if headed and not done else 0
        if skip:
            report.skip(HEADER, 1)
        yield [waiting[0][skip:size], waiting[1][skip:size]], range(done + 1 + skip, done + size + 1)
        done += size
        waiting = [lines[size:] for lines in waiting]
    for side in (0, 1):
        counts[side] += sum(len(lines) for _, lines in blocks[side])
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}, expected as many; line n of one must be the "
            "translation of line n of the other: check that neither was cut or filtered alone"
        )


def _find_header(paths: tuple[Path, Path], wanted: PairColumns) -> bool:
    """Return True if both files begin with a header, such as `English` and `German`.

    Raises:
        DataError: If only one does, because then line n of one file is not the translation of line n of the other.
    """
    if wanted.header != "auto":
        return wanted.header == "yes"
    first = [next(line_blocks(path, wanted.encoding), (1, [""]))[1][0].strip() for path in paths]
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
