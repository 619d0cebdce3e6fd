"""Columns of JSON and Parquet, where columns have names; a column inside another is named `outer.inner`."""

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from regard.errors import DataError, nearest
from regard.text.files.columns import SAMPLE_ROWS, TwoColumns, choose_columns
from regard.text.files.delimited import CHUNK_ROWS, RawChunk
from regard.text.files.json_array import LONGEST_ELEMENT, is_json_array, read_elements
from regard.text.files.opening import CHUNK_CHARACTERS, LONGEST_SIDE, OVER_LONG_LINE, line_blocks, open_bytes, open_utf8
from regard.text.files.report import EMPTY_LINE, OVER_LONG, ReadingReport

Keys = tuple[str, ...]

LARGEST_UNPACKED = 1 << 34
"""Maximum size in bytes of a Parquet file within a gzip file."""


def read_jsonl(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read JSON objects, one per line or in one array; the first one determines the columns.

    A null counts as an empty text.

    Raises:
        DataError: If a line or an element is not a JSON object, lacks a column, or has a value of a type not in `wanted.kinds`.
    """
    array = is_json_array(path, wanted.encoding)
    if array:
        report.form, report.unit = "a JSON array", "rows"
    objects = _array_objects(path, wanted, report) if array else _line_objects(path, wanted, report)
    each = "element" if array else "line"
    keys: tuple[Keys, ...] | None = None
    for rows, numbers in objects:
        if keys is None and rows:
            keys = _choose_keys(rows, wanted, path, f"{each} {numbers[0]}")
            report.columns = [".".join(column) for column in keys]
        if keys is not None:
            picked = [
                [_pick(row, column, f"{path}, {each} {number}", wanted) for column in keys]
                for row, number in zip(rows, numbers, strict=True)
            ]
            yield [[row[place] for row in picked] for place in range(len(keys))], numbers


def _line_objects(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    for first, lines in line_blocks(path, wanted.encoding):
        report.read += len(lines)
        rows, numbers = [], []
        for number, line in enumerate(lines, first):
            if line is OVER_LONG_LINE or not line.strip():
                report.skip(OVER_LONG if line is OVER_LONG_LINE else EMPTY_LINE, number)
                continue
            rows.append(_parse(line, path, number, wanted))
            numbers.append(number)
        yield rows, numbers


def _array_objects(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    size = 0
    for number, value in read_elements(path, wanted.encoding):
        report.read += 1
        if not isinstance(value, dict):
            raise DataError(
                f"{path}, element {number}: is a JSON {type(value).__name__}, expected an object with {wanted.what}"
            )
        rows.append(value)
        numbers.append(number)
        size += sum(len(held) for held in value.values() if isinstance(held, str | list))
        if len(rows) >= CHUNK_ROWS or size > CHUNK_CHARACTERS:
            yield rows, numbers
            rows, numbers, size = [], [], 0
    yield rows, numbers


def _parse(line: str, path: Path, number: int, wanted: TwoColumns) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        if line.strip() == "{":
            _check_whole(path, wanted)
        shown = line.strip()[:60]
        raise DataError(f"{path}, line {number}: is not JSON ({error}), expected one object per line: {shown!r}") from error
    except RecursionError as error:
        raise DataError(f"{path}, line {number}: JSON nested too deeply, expected one flat object per line") from error
    if not isinstance(row, dict):
        raise DataError(
            f"{path}, line {number}: is a JSON {type(row).__name__}, expected an object with {wanted.what} on each line"
        )
    return row


def _check_whole(path: Path, wanted: TwoColumns) -> None:
    """Check that a file is not one JSON object on several lines.

    Raises:
        DataError: If it is, or if it begins with such an object; the message says how to write the rows.
    """
    with open_utf8(path, wanted.encoding) as file:
        text = file.read(LONGEST_ELEMENT).decode("utf-8", "replace")
    try:
        whole, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return
    _check_row(whole, path)
    raise DataError(
        f"{path}: has objects on several lines, expected one object per line; convert the file with "
        f"`jq -c . {path.name} > lines.jsonl`"
    )


def _is_list_of_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _check_row(row: Mapping[str, Any], path: Path) -> None:
    """Check that a JSON object is a row, and does not hold all rows or columns of a table.

    Raises:
        DataError: If it holds all rows or columns.
    """
    inner = next((name for name, value in row.items() if _is_list_of_rows(value)), None)
    if inner is not None:
        raise DataError(
            f"{path}: is one JSON object with the rows in '{inner}', expected a list of objects or one object per line; write "
            f"the list to a separate file: `jq '.[\"{inner}\"]' {path.name} > rows.json`"
        )
    columns = [value for value in row.values() if isinstance(value, list | dict) and len(value) > 1]
    if len(columns) == len(row) > 1 and all(isinstance(value, list) or "0" in value for value in columns):
        raise DataError(
            f"{path}: is one JSON object with a list of values for each column ({', '.join(row)}), expected an object for each "
            "row; pandas writes such objects with df.to_json(FILE, orient='records')"
        )


def _choose_keys(rows: Sequence[Mapping[str, Any]], wanted: TwoColumns, path: Path, where: str) -> tuple[Keys, ...]:
    found: list[Keys] = []
    for name, value in rows[0].items():
        if isinstance(value, dict):
            found += [(name, inner) for inner, text in value.items() if text is None or isinstance(text, wanted.kinds)]
        elif value is None or (isinstance(value, wanted.kinds) and not _is_list_of_rows(value)):
            found.append((name,))
    if len(rows) == 1 and (len(found) < 2 or not any(isinstance(value, str) for value in rows[0].values())):
        _check_row(rows[0], path)
    if len(found) < 2:
        kind = "text " if wanted.kinds == (str,) else ""
        held = ", ".join(rows[0])
        raise DataError(f"{path}, {where}: has {len(found)} {kind}values (keys: {held}), expected {wanted.what}")
    sample = [[_look_up(row, keys) for keys in found] for row in rows[:SAMPLE_ROWS]]
    return tuple(found[place] for place in choose_columns([".".join(keys) for keys in found], sample, wanted, path))


def _look_up(row: Mapping[str, Any], keys: Keys) -> Any:
    """Return a value, or None if it is missing."""
    value: Any = row
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _pick(row: Mapping[str, Any], keys: Keys, where: str, wanted: TwoColumns) -> Any:
    value: Any = row
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            names = list(value) if isinstance(value, dict) else []
            raise DataError(
                f"{where}: there is no '{'.'.join(keys)}' in it, only {', '.join(names) or 'nothing'}"
                f"{nearest(key, names)}; every {where.split()[-2]} needs the columns of the first one, or the "
                f"columns that you name with {wanted.settings}"
            )
        value = value[key]
    if value is None:
        return ""
    if not isinstance(value, wanted.kinds):
        raise DataError(f"{where}: '{'.'.join(keys)}' is {json.dumps(value)[:60]}, expected text")
    return value


def read_parquet(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read the columns of a Parquet file. A null counts as an empty text.

    Raises:
        DataError: If the file is not Parquet or is damaged, has fewer than two usable columns, or lacks the requested columns.
    """
    report.unit = "rows"
    with open_bytes(path) as file, tempfile.TemporaryFile() as plain:
        if isinstance(file, gzip.GzipFile):
            _unpack(file, plain, path)  # Parquet is read from its end, so a gzip file is unpacked first.
            file = plain
        try:
            yield from _parquet_rows(file, path, wanted, report)
        except (pa.ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
            reason = str(error).split("\n", 1)[0] or type(error).__name__
            raise DataError(f"{path}: cannot be read as Parquet ({reason}); check the file, or set data.format") from error


def _unpack(file: IO[bytes], plain: IO[bytes], path: Path) -> None:
    while block := file.read(1 << 20):
        plain.write(block)
        if plain.tell() > LARGEST_UNPACKED:
            raise DataError(f"{path}: unpacks to more than {LARGEST_UNPACKED:,} bytes of Parquet; unpack it yourself first")
    plain.seek(0)


def _parquet_rows(file: IO[bytes], path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    schema = pq.ParquetFile(file).schema_arrow
    columns = _find_columns(schema, wanted.kinds)
    if len(columns) < 2:
        held = ", ".join(f"{field.name} ({field.type})" for field in schema)
        kind = "text " if wanted.kinds == (str,) else "usable "
        raise DataError(f"{path}: has {len(columns)} {kind}columns, expected {wanted.what}; it holds {held}")
    names = [".".join(keys) for keys in columns]
    chosen = [columns[place] for place in choose_columns(names, _sample(file, columns, schema), wanted, path)]
    report.columns = [".".join(keys) for keys in chosen]
    number = 1
    # A repeated text, which a page of the file stores only once, is kept in memory only once.
    shared = [name for name, keys in zip(names, columns, strict=True) if keys in chosen and _is_text(schema, keys)]
    table = pq.ParquetFile(file, read_dictionary=shared)
    for batch in table.iter_batches(CHUNK_ROWS, columns=report.columns):
        report.read += batch.num_rows
        values = [_values(batch, keys) for keys in chosen]
        for begin, end in _parts(values):
            yield [column[begin:end] for column in values], range(number + begin, number + end)
        number += batch.num_rows


def _sample(file: IO[bytes], columns: Sequence[Keys], schema: pa.Schema) -> list[list[Any]]:
    """Return the first rows, from which columns are chosen."""
    names = [".".join(keys) for keys in columns]
    shared = [name for name, keys in zip(names, columns, strict=True) if _is_text(schema, keys)]
    table = pq.ParquetFile(file, read_dictionary=shared)
    batch = next(iter(table.iter_batches(SAMPLE_ROWS, columns=names)), None)
    if batch is None:
        return []
    return [list(row) for row in zip(*(_values(batch, keys) for keys in columns), strict=True)]


def _parts(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with a limited number of characters in each."""
    begin = size = 0
    for end, row in enumerate(zip(*columns, strict=True)):
        size += sum(len(value) for value in row if isinstance(value, str | list))
        if size > CHUNK_CHARACTERS:
            yield begin, end + 1
            begin, size = end + 1, 0
    if begin < len(columns[0]):
        yield begin, len(columns[0])


def _find_columns(schema: pa.Schema, kinds: tuple[type, ...]) -> list[Keys]:
    found: list[Keys] = []
    for field in schema:
        if pa.types.is_struct(field.type):
            found += [(field.name, inner.name) for inner in field.type if _kind_of(inner.type) in kinds]
        elif _kind_of(field.type) in kinds:
            found.append((field.name,))
    return found


def _is_text(schema: pa.Schema, keys: Keys) -> bool:
    kind = schema.field(keys[0]).type
    return _kind_of(kind.field(keys[1]).type if len(keys) > 1 else kind) is str


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
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return list if _kind_of(kind.value_type) in (str, bool, int, float) else None
    return None


def _values(batch: pa.RecordBatch, keys: Keys) -> Sequence[Any]:
    column = batch.column(keys[0])
    for key in keys[1:]:
        column = pc.struct_field(column, key)
    if pa.types.is_dictionary(column.type):
        values = _plain(column.dictionary)
        return ["" if place is None else values[place] for place in column.indices.to_pylist()]
    return _plain(column)


def _plain(column: pa.Array) -> list[Any]:
    """Return the values of a column. Over-long texts are truncated, but stay long enough to be recognised as over-long."""
    empty: Any = [] if _kind_of(column.type) is list else ""
    try:
        values = [empty if value is None else value for value in column.to_pylist()]
    except UnicodeDecodeError:
        raw = column.cast(pa.large_binary()).to_pylist()
        values = [(text or b"").decode("utf-8", errors="surrogateescape") for text in raw]
    return [value[: 2 * LONGEST_SIDE] if isinstance(value, str) else value for value in values]
