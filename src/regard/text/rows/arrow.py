"""The rows of Parquet files."""

import gzip
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from regard.errors import DataError
from regard.text.column_rules import ColumnRules
from regard.text.columns import COLUMNS_JUDGED, SAMPLE_ROWS, choose_columns
from regard.text.opening import CHUNK_CHARACTERS, CHUNK_ROWS, LONGEST_SIDE, open_bytes
from regard.text.report import ReadingReport
from regard.text.rows import Chunk
from regard.text.rows.jsonl import Keys, name_unreadable

LARGEST_UNPACKED = 1 << 34
"""Maximum size in bytes of a Parquet file within a gzip file."""


def read_parquet(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    """Read the columns of a Parquet file. A null counts as an empty text.

    Parquet is read from its end, so a gzip file is unpacked first, and the hash of the file needs a pass of its own.

    Raises:
        DataError: If the file is not Parquet or is damaged, has fewer than two usable columns, or lacks the requested columns;
            or if it is not clear which columns are wanted.
    """
    report.unit = "rows"
    with open_bytes(path) as file, tempfile.TemporaryFile() as unpacked:
        with path.open("rb") as whole:
            report.hashes[str(path)] = hashlib.file_digest(whole, "sha256").hexdigest()
        plain: IO[bytes] = file
        if isinstance(file, gzip.GzipFile):
            _unpack(file, unpacked, path)
            plain = unpacked
        try:
            yield from _parquet_rows(plain, path, rules, report)
        except (pa.ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
            reason = str(error).split("\n", 1)[0] or type(error).__name__
            raise DataError(f"{path}: cannot be read as Parquet ({reason}); check the file, or set data.format") from error


def _unpack(file: IO[bytes], plain: IO[bytes], path: Path) -> None:
    while block := file.read(1 << 20):
        plain.write(block)
        if plain.tell() > LARGEST_UNPACKED:
            raise DataError(f"{path}: unpacks to more than {LARGEST_UNPACKED:,} bytes of Parquet; unpack it yourself first")
    plain.seek(0)


def _parquet_rows(file: IO[bytes], path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    schema = pq.ParquetFile(file).schema_arrow
    fields = dict(_find_fields(schema))
    columns = [keys for keys, kind in fields.items() if _kind_of(kind) in rules.kinds]
    if len(columns) < 2:
        held = ", ".join(f"{field.name} ({field.type})" for field in schema)
        kind = "text " if rules.kinds == (str,) else "usable "
        raise DataError(f"{path}: has {len(columns)} {kind}columns, expected {rules.what}; it holds {held}")
    names = [".".join(keys) for keys in columns]
    # A repeated text, which a page of the file stores only once, is kept in memory only once.
    shared = [name for name, keys in zip(names, columns, strict=True) if _kind_of(fields[keys]) is str]
    table = pq.ParquetFile(file, read_dictionary=shared)
    head = table.iter_batches(SAMPLE_ROWS, columns=names[:COLUMNS_JUDGED])
    judged = columns[:COLUMNS_JUDGED]
    sample = (list(row) for batch in head for row in zip(*(_values(batch, keys) for keys in judged), strict=True))
    unreadable = name_unreadable({keys: _example(kind) for keys, kind in fields.items() if keys not in set(columns)})
    chosen = [columns[place] for place in choose_columns(names, list(islice(sample, SAMPLE_ROWS)), rules, path, unreadable)]
    report.columns = [".".join(keys) for keys in chosen]
    number = 1
    for batch in table.iter_batches(CHUNK_ROWS, columns=report.columns):
        report.read += batch.num_rows
        values = [_name_labels(_values(batch, keys), schema, keys) for keys in chosen]
        for begin, end in _find_parts(values):
            yield [column[begin:end] for column in values], range(number + begin, number + end)
        number += batch.num_rows


def _find_fields(schema: pa.Schema) -> Iterator[tuple[Keys, pa.DataType]]:
    """Yield the name of each column with its type; for a struct, yield the names of the columns inside it instead."""
    for field in schema:
        if pa.types.is_struct(field.type):
            yield from (((field.name, inner.name), inner.type) for inner in field.type)
        else:
            yield (field.name,), field.type


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _kind_of(kind: pa.DataType) -> type | None:
    """Return the Python type of a column's values; None if the values are not of a simple type."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return str
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    return list if _is_list(kind) and _kind_of(kind.value_type) in (str, bool, int, float) else None


def _example(kind: pa.DataType) -> Any:
    """Return an example value of a type: its lists and objects, with None for all other values."""
    if pa.types.is_struct(kind):
        return {field.name: _example(field.type) for field in kind}
    return [_example(kind.value_type)] if _is_list(kind) else None


def _values(batch: pa.RecordBatch, keys: Keys) -> Sequence[Any]:
    column = batch.column(keys[0])
    for key in keys[1:]:
        column = pc.struct_field(column, key)
    if pa.types.is_dictionary(column.type):
        values = _plain(column.dictionary)
        return ["" if place is None else values[place] for place in column.indices.to_pylist()]
    return _plain(column)


def _plain(column: pa.Array) -> list[Any]:
    """Return the values of a column, empty for nulls.

    Over-long texts are truncated, but stay long enough to be recognised as over-long.
    """
    empty: Any = [] if _kind_of(column.type) is list else ""
    try:
        values = [empty if value is None else value for value in column.to_pylist()]
    except UnicodeDecodeError:
        raw = column.cast(pa.large_binary()).to_pylist()
        values = [(text or b"").decode("utf-8", errors="surrogateescape") for text in raw]
    return [value[: 2 * LONGEST_SIDE] if isinstance(value, str) else value for value in values]


def _name_labels(values: Sequence[Any], schema: pa.Schema, keys: Keys) -> Sequence[Any]:
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
