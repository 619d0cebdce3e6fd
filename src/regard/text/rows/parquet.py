"""Parquet files."""

from collections.abc import Iterator
from pathlib import Path

from regard.text.column_rules import ColumnRules
from regard.text.report import ReadingReport
from regard.text.rows import Chunk, Format


def _read(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    from regard.text.rows.arrow import read_parquet  # pyarrow takes a quarter of a second

    return read_parquet(path, rules, report)


FORMAT = Format("Parquet", _read, (".parquet", ".pq"), typed=True)
