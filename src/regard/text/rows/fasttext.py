"""Lines in fastText's format, with labels after a prefix: `__label__good __label__short a text`."""

import re
from collections.abc import Iterator
from pathlib import Path

from regard.text.column_rules import ColumnRules
from regard.text.opening import line_blocks
from regard.text.report import ReadingReport
from regard.text.rows import Chunk, Format

_PREFIXED = re.compile(r"(?<!\S)__label__(\S+)\s*")


def _read(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    for lines, numbers in line_blocks(path, rules.encoding, report.hashes):
        report.read += len(lines)
        labels = [_PREFIXED.findall(line) for line in lines]
        cells = [found if len(found) > 1 else "".join(found) for found in labels]
        yield [[_PREFIXED.sub("", line) for line in lines], cells], numbers


FORMATS = {"fasttext": Format("fastText's format", _read)}
