"""Parquet files. Functions import pyarrow themselves, because it takes a quarter of a second."""

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from regard.errors import DataError
from regard.text.column_rules import ColumnRules
from regard.text.columns import SAMPLE_ROWS
from regard.text.opening import CHUNK_CHARACTERS, CHUNK_ROWS, LONGEST_SIDE, open_bytes
from regard.text.report import ReadingReport
from regard.text.rows import Chunk, Format
from regard.text.rows.jsonl import Keys, choose_keys, look_up


def _read(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    """Read the columns of a Parquet file. A null counts as an empty text."""
    # Parquet is read from its end, so the hash of the file needs a pass of its own.
    import pyarrow as pa

    report.unit = "rows"
    with open_bytes(path) as file:
        if isinstance(file, gzip.GzipFile):
            raise DataError(f"{path}: is Parquet within gzip, expected Parquet, which is compressed already; unpack it first")
        report.hashes[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        try:
            yield from _read_rows(file, path, rules, report)
        except (pa.ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
            reason = str(error).split("\n", 1)[0] or type(error).__name__
            raise DataError(f"{path}: cannot be read as Parquet ({reason}); check the file, or set data.format") from error


def _read_rows(file: IO[bytes], path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file)
    schema = table.schema_arrow
    # Images and sounds could fill the memory, and are neither texts nor labels.
    names = [field.name for field in schema if "binary" not in str(field.type)]
    head = next(table.iter_batches(SAMPLE_ROWS, columns=names), None)
    columns = {} if head is None else {name: _to_python(column) for name, column in zip(names, head.columns, strict=True)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] or [dict.fromkeys(names)]
    keys = choose_keys(rows, rules, path, str(path))
    report.columns = [".".join(key) for key in keys]
    # A repeated text, which a page of the file stores only once, is kept in memory only once.
    shared = [".".join(key) for key in keys if any(isinstance(look_up(row, key), str) for row in rows)]
    table = pq.ParquetFile(file, read_dictionary=shared)
    number = 1
    for batch in table.iter_batches(CHUNK_ROWS, columns=report.columns):
        report.read += batch.num_rows
        values = [_name_labels(_values(batch, key, rules), schema, key) for key in keys]
        for begin, end in _find_parts(values):
            yield [column[begin:end] for column in values], range(number + begin, number + end)
        number += batch.num_rows


def _values(batch: Any, keys: Keys, rules: ColumnRules) -> Sequence[Any]:
    """Return the values of a column, empty for nulls. Over-long texts are truncated, but are still recognised as over-long."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(keys[0])
    for key in keys[1:]:
        column = pc.struct_field(column, key)
    coded = pa.types.is_dictionary(column.type)
    values = _to_python(column.dictionary if coded else column)
    listed = pa.types.is_nested(column.type)
    if listed and list not in rules.kinds and column.null_count < len(column):  # the first rows may all be null
        raise DataError(f"the column '{'.'.join(keys)}' holds lists, expected {rules.allowed}")
    empty: Any = [] if listed and list in rules.kinds else ""
    plain = [empty if value is None else value[: 2 * LONGEST_SIDE] if isinstance(value, str) else value for value in values]
    return ["" if place is None else plain[place] for place in column.indices.to_pylist()] if coded else plain


def _to_python(column: Any) -> list[Any]:
    """Return the values of a column; bytes that are not UTF-8 become lone surrogates."""
    import pyarrow as pa

    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        raw = column.cast(pa.large_binary()).to_pylist()
        return [text if text is None else text.decode("utf-8", errors="surrogateescape") for text in raw]


def _name_labels(values: Sequence[Any], schema: Any, keys: Keys) -> Sequence[Any]:
    """Replace the numbers of labels by their names, if metadata of Hugging Face's datasets has them; -1 is a missing label."""
    try:
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        for key in keys:
            feature = feature[key]
        feature = feature[0] if isinstance(feature, list) else feature.get("feature", feature)
        named = dict(enumerate(map(str, feature["names"]))) | {-1: ""}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # no such metadata, or no labels
        return values
    return [[named.get(one, one) for one in value] if isinstance(value, list) else named.get(value, value) for value in values]


def _find_parts(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with a limited number of characters in each."""
    begin = size = 0
    for end, row in enumerate(zip(*columns, strict=True)):
        size += sum(len(value) for value in row if isinstance(value, str | list))
        if size > CHUNK_CHARACTERS:
            yield begin, end + 1
            begin, size = end + 1, 0
    if begin < len(columns[0]):
        yield begin, len(columns[0])


FORMATS = {"parquet": Format("Parquet", _read, (".parquet", ".pq"), encoding="utf-8", typed=True)}
