"""Pairs from two text files that hold a sentence a line, in the same order."""

from collections.abc import Iterator
from pathlib import Path

from regard.errors import DataError
from regard.text.delimited import RawChunk
from regard.text.lines import line_blocks
from regard.text.report import ReadingReport


def read_parallel(source: Path, target: Path, report: ReadingReport) -> Iterator[RawChunk]:
    """Line n of one file with line n of the other; the blocks of the two need not end at the same line.

    Raises:
        DataError: If the files differ in length, with both counts; else as `lines.line_blocks`.
    """
    blocks = [line_blocks(source), line_blocks(target)]
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
        yield [waiting[0][:size], waiting[1][:size]], range(done + 1, done + size + 1)
        done += size
        waiting = [lines[size:] for lines in waiting]
    for side in (0, 1):
        counts[side] += sum(len(lines) for _, lines in blocks[side])
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}, expected as many; line n of one must be the "
            "translation of line n of the other: check that neither was cut or filtered alone"
        )
