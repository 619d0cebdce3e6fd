"""Pairs from JSON lines and Parquet, where columns have names; a column inside another is named `outer.inner`."""

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from regard.config import DataConfig
from regard.errors import DataError, nearest
from regard.text.columns import choose_columns
from regard.text.delimited import CHUNK_ROWS, RawChunk
from regard.text.lines import OVER_LONG_LINE, line_blocks, open_bytes
from regard.text.report import EMPTY_LINE, OVER_LONG, ReadingReport

Keys = tuple[str, ...]


def read_jsonl(path: Path, data: DataConfig, report: ReadingReport) -> Iterator[RawChunk]:
    """One JSON object a line; the first one's text values say what columns there are. A null is an empty side.

    Raises:
        DataError: If a line is not a JSON object, lacks a column, or holds something else than text there.
    """
    keys: tuple[Keys, Keys] | None = None
    for first, lines in line_blocks(path):
        report.read += len(lines)
        pairs, numbers = [], []
        for number, line in enumerate(lines, first):
            if line is OVER_LONG_LINE or not line.strip():
                report.skip(OVER_LONG if line is OVER_LONG_LINE else EMPTY_LINE, number)
                continue
            row = _parse(line, path, number)
            if keys is None:
                keys = _choose_keys(row, data, path, number)
                report.columns = [".".join(column) for column in keys]
            pairs.append((_pick(row, keys[0], path, number), _pick(row, keys[1], path, number)))
            numbers.append(number)
        yield [pair[0] for pair in pairs], [pair[1] for pair in pairs], numbers


def _parse(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        shown = line.strip()[:60]
        raise DataError(f"{path}, line {number}: is not JSON ({error}), expected one object a line: {shown!r}") from error
    except RecursionError as error:
        raise DataError(f"{path}, line {number}: JSON nested too deeply, expected one flat object a line") from error
    if not isinstance(row, dict):
        raise DataError(
            f"{path}, line {number}: is a JSON {type(row).__name__}, expected an object with a source and a target, one a line"
        )
    return row


def _choose_keys(row: Mapping[str, Any], data: DataConfig, path: Path, number: int) -> tuple[Keys, Keys]:
    found: list[Keys] = []
    for name, value in row.items():
        if isinstance(value, dict):
            found += [(name, inner) for inner, text in value.items() if text is None or isinstance(text, str)]
        elif value is None or isinstance(value, str):
            found.append((name,))
    if len(found) < 2:
        raise DataError(
            f"{path}, line {number}: has {len(found)} text values (keys: {', '.join(row)}), expected a source and a target"
        )
    source, target = choose_columns([".".join(keys) for keys in found], data, path)
    return found[source], found[target]


def _pick(row: Mapping[str, Any], keys: Keys, path: Path, number: int) -> str:
    value: Any = row
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            names = list(value) if isinstance(value, dict) else []
            raise DataError(
                f"{path}, line {number}: there is no '{'.'.join(keys)}' in it, only {', '.join(names) or 'nothing'}"
                f"{nearest(key, names)}; every line needs the columns of the first one, or those of data.columns"
            )
        value = value[key]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{path}, line {number}: '{'.'.join(keys)}' is {json.dumps(value)[:60]}, expected text")
    return value


def read_parquet(path: Path, data: DataConfig, report: ReadingReport) -> Iterator[RawChunk]:
    """Two text columns of a Parquet file. A null is an empty side.

    Raises:
        DataError: If the file is no Parquet or damaged, has fewer than two text columns, or not those asked for.
    """
    report.unit = "rows"
    with open_bytes(path) as file, tempfile.TemporaryFile() as plain:
        if isinstance(file, gzip.GzipFile):
            copyfileobj(file, plain)  # Parquet is read from its end: a gzip file is unpacked first.
            plain.seek(0)
            file = plain
        try:
            yield from _parquet_rows(pq.ParquetFile(file), path, data, report)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).split("\n", 1)[0]
            raise DataError(
                f"{path}: cannot be read as Parquet ({reason}); check the file, or say what it is with data.format"
            ) from error


def _parquet_rows(file: pq.ParquetFile, path: Path, data: DataConfig, report: ReadingReport) -> Iterator[RawChunk]:
    columns = _text_columns(file.schema_arrow)
    if len(columns) < 2:
        held = ", ".join(f"{field.name} ({field.type})" for field in file.schema_arrow)
        raise DataError(f"{path}: has {len(columns)} text columns, expected a source and a target; it holds {held}")
    names = [".".join(keys) for keys in columns]
    chosen = [columns[place] for place in choose_columns(names, data, path)]
    report.columns = [".".join(keys) for keys in chosen]
    number = 1
    for batch in file.iter_batches(CHUNK_ROWS, columns=report.columns):
        sides = [_texts(batch, keys) for keys in chosen]
        report.read += batch.num_rows
        yield sides[0], sides[1], range(number, number + batch.num_rows)
        number += batch.num_rows


def _text_columns(schema: pa.Schema) -> list[Keys]:
    found: list[Keys] = []
    for field in schema:
        if pa.types.is_struct(field.type):
            found += [(field.name, inner.name) for inner in field.type if _is_text(inner.type)]
        elif _is_text(field.type):
            found.append((field.name,))
    return found


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _texts(batch: pa.RecordBatch, keys: Keys) -> Sequence[str]:
    column = batch.column(keys[0])
    for key in keys[1:]:
        column = pc.struct_field(column, key)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return [text or "" for text in column.to_pylist()]
    except UnicodeDecodeError:
        raw = column.cast(pa.large_binary()).to_pylist()
        return [(text or b"").decode("utf-8", errors="surrogateescape") for text in raw]
