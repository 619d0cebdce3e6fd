"""Columns of JSON and Parquet, where columns have names; a column inside another is named `outer.inner`."""

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from regard.errors import DataError
from regard.text.files.advise import advise_encoding
from regard.text.files.columns import (
    COLUMNS_JUDGED,
    MARGIN,
    SAMPLE_ROWS,
    Column,
    MissingColumnError,
    TwoColumns,
    choose_columns,
    pick_evenly,
    sample_rows,
)
from regard.text.files.delimited import CHUNK_ROWS, RawChunk
from regard.text.files.json_array import LONGEST_ELEMENT, is_json_array, read_elements
from regard.text.files.names import EXACT, LABEL, SOURCE, TARGET, TEXT
from regard.text.files.opening import CHUNK_CHARACTERS, LONGEST_SIDE, OVER_LONG_LINE, line_blocks, open_bytes, open_utf8
from regard.text.files.report import EMPTY_LINE, OVER_LONG, ReadingReport
from regard.text.files.strings import is_unicode

Keys = tuple[str, ...]

LARGEST_UNPACKED = 1 << 34
"""Maximum size in bytes of a Parquet file within a gzip file."""
_DEEPEST = 8
"""Maximum depth of nested objects in which names of columns are searched."""


def read_jsonl(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read JSON objects, one per line or in one array.

    The columns are chosen from the keys of the first objects. A null or a missing key counts as an empty text.

    Raises:
        DataError: If a line or an element is not a JSON object, or has a value of a type not in `wanted.kinds`; or if it is not
            clear which keys are wanted.
    """
    array = is_json_array(path, wanted.encoding)
    if array:
        report.form, report.unit = "a JSON array", "rows"
    objects = _array_objects(path, wanted, report) if array else _line_objects(path, wanted, report)
    each = "element" if array else "line"
    keys: tuple[Keys, ...] | None = None
    for rows, numbers in objects:
        if keys is None and rows:
            keys = _choose_keys(rows, wanted, path, f"{each} {numbers[0]}", lambda: _sample_objects(path, wanted, array))
            report.columns = [".".join(column) for column in keys]
        if keys is not None:
            picked = [
                [_pick(row, column, f"{path}, {each} {number}", wanted) for column in keys]
                for row, number in zip(rows, numbers, strict=True)
            ]
            yield [[row[place] for row in picked] for place in range(len(keys))], numbers


def _sample_objects(path: Path, wanted: TwoColumns, array: bool) -> list[dict[str, Any]]:
    objects = (_array_objects if array else _line_objects)(path, wanted, ReadingReport())
    return pick_evenly(row for rows, _ in objects for row in rows)


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
        message = f"{path}, line {number}: is not JSON ({error}), expected one object per line: {line.strip()[:60]!r}"
        advice = "" if is_unicode(line) and "\0" not in line else advise_encoding(path)
        raise DataError(f"{message}. {advice}" if advice else message) from error
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


def _choose_keys(
    rows: Sequence[Mapping[str, Any]],
    wanted: TwoColumns,
    path: Path,
    where: str,
    sample: Callable[[], Sequence[Mapping[str, Any]]],
) -> tuple[Keys, ...]:
    # The first value of a key that is neither null nor empty decides whether the key can be a column.
    first: dict[Keys, Any] = {}
    for row in rows[:SAMPLE_ROWS]:
        for keys, value in _find_values(row):
            if first.get(keys) in (None, [], {}):
                first[keys] = value
    found = [keys for keys, value in first.items() if value is None or _is_usable(value, wanted)]
    if len(rows) == 1 and (len(found) < 2 or not any(isinstance(value, str) for value in rows[0].values())):
        _check_row(rows[0], path)
    unusable = {".".join(keys): value for keys, value in first.items() if not (value is None or _is_usable(value, wanted))}
    if len(found) < 2:
        kind = "text " if wanted.kinds == (str,) else ""
        held = ", ".join(dict.fromkeys(keys[0] for keys in first))
        shapes = "".join(f"; '{name}' holds {shape}" for name, value in unusable.items() if (shape := _describe(value)))
        raise DataError(f"{path}, {where}: has {len(found)} {kind}values (keys: {held}{shapes}), expected {wanted.what}")

    scored = found[:COLUMNS_JUDGED]  # an object with other keys in each row can have thousands of columns

    def values(objects: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        return [[_look_up(row, keys) for keys in scored] for row in objects]

    names = [".".join(keys) for keys in scored]
    judged = sample_rows(values(rows[:SAMPLE_ROWS]), len(scored), wanted, lambda: values(sample()), names)
    return _choose(found, judged, unusable, wanted, path)


def _choose(
    found: Sequence[Keys], rows: Sequence[Sequence[Any]], unusable: Mapping[str, Any], wanted: TwoColumns, path: Path
) -> tuple[Keys, ...]:
    """Choose two columns, and check that a column with a better name can be read.

    If the choice is not clear, columns that are empty in most rows are left out.

    Args:
        found: The columns that can be read.
        rows: Values of these columns, or of the first ones.
        unusable: Columns whose values cannot be read, with an example value of each.
        wanted: The columns to look for.
        path: The file, for messages.

    Raises:
        DataError: As for `choose_columns`, or if a column that cannot be read is named in the settings, or is named like a
            wanted column while the name of the chosen one says nothing.
    """
    unusable = {name: value for name, value in unusable.items() if _describe(value)}
    given = wanted.given()
    for role, name in zip(wanted.sides, given, strict=True):
        if name in unusable:
            raise DataError(
                f"{path}: '{name}' holds {_describe(unusable[name])}, which cannot be read as {role}; write its values as "
                f"plain texts, or name another column with {wanted.settings}"
            )
    names = [".".join(keys) for keys in found]
    try:
        places = choose_columns(names, rows, wanted, path)
    except MissingColumnError:
        raise
    except DataError:
        usual = _choose_usual(names, rows, wanted, path)
        if usual is None:
            raise
        places = usual
    chosen = [names[place] for place in places]
    inner = [name for outer, value in unusable.items() for name in _find_names(value, outer)]
    for side in (0, 1):
        # If the name of the chosen column fits, other columns have such names by chance, such as lists of sources.
        best = _rate(chosen[side], side, wanted)
        if given[side] or best > EXACT[2]:
            continue
        known = (name for name in unusable if _is_known(name, usual=False))
        rivals = [name for name in known if best <= 0 or _describe(unusable[name]) != "lists"]
        rivals += [name for name in inner if best <= 0 and _is_known(name, usual=True)]
        rival = next((name for name in rivals if _rate_name(_last(name), side, wanted) >= MARGIN), None)
        if rival:
            shape = _describe(unusable[rival]) if rival in unusable else "values nested too deeply"
            raise DataError(
                f"{path}: '{rival}' is named like {wanted.sides[side]}, but holds {shape}, which cannot be read; write its "
                f"values as plain texts, or choose other columns, for example {wanted.example(chosen)}"
            )
    return tuple(found[place] for place in places)


def _choose_usual(
    names: Sequence[str], rows: Sequence[Sequence[Any]], wanted: TwoColumns, path: Path
) -> tuple[int, int] | None:
    """Choose two of the columns that have a value in at least half of the rows, so that optional keys can leave no doubt.

    Returns:
        The positions of the columns; None if the choice is not clear, or the name of a chosen column says nothing or less than
        that of a column that was left out.
    """
    width = len(rows[0]) if rows else 0
    filled = [sum(not _is_empty(row[place]) for row in rows) for place in range(width)]
    rare = {place for place in range(width) if 2 * filled[place] < len(rows)} - set(wanted.place_given(names, path))
    if not rare:
        return None
    try:
        places = choose_columns(names, rows, wanted, path, left_out=rare)
    except DataError:
        return None
    for place, given, side in zip(places, wanted.given(), (0, 1), strict=True):
        # An incomplete label must not be replaced silently.
        better = max(_rate_name(names[other], side, wanted) for other in rare)
        if not given and (_rate(names[place], side, wanted) <= 0 or _rate_name(names[place], side, wanted) < better):
            return None
    return places


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {}) or value != value  # NaN differs from itself


def _find_values(row: Mapping[str, Any]) -> Iterator[tuple[Keys, Any]]:
    """Yield the keys of a row, and those of the objects in it, with their values."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from (((name, inner), held) for inner, held in value.items())
        else:
            yield (name,), value


def _is_usable(value: Any, wanted: TwoColumns) -> bool:
    """Return True if a value can be a text or a label, or a list of labels."""
    return isinstance(value, wanted.kinds) and not (isinstance(value, list) and any(isinstance(x, list | dict) for x in value))


def _describe(value: Any) -> str:
    """Return the shape of a list or an object, for messages; empty for other values."""
    if isinstance(value, dict):
        return "objects inside objects"
    if not isinstance(value, list):
        return ""
    inside = next((item for item in value if isinstance(item, list | dict)), None)
    return "lists" if inside is None else f"lists of {'objects' if isinstance(inside, dict) else 'lists'}"


def _find_names(value: Any, name: str, depth: int = 0) -> Iterator[str]:
    """Yield the names of all keys of an object and of the objects inside it, such as `meta.info.label`."""
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, held in value.items():
            yield f"{name}.{key}"
            yield from _find_names(held, f"{name}.{key}", depth + 1)


def _is_known(name: str, *, usual: bool) -> bool:
    """Return True if the last part of a name is a known name of a column; if `usual`, only certain and usual names count."""
    last = _last(name)
    return any(names.is_usual(last) if usual else names.is_exact(last) for names in (TEXT, LABEL, SOURCE, TARGET))


def _rate(name: str, side: int, wanted: TwoColumns) -> float:
    """Return the score of a column's name, or of its last part."""
    return max(_rate_name(part, side, wanted) for part in (name, _last(name)))


def _rate_name(name: str, side: int, wanted: TwoColumns) -> float:
    """Return the score of a column's name alone."""
    return wanted.scores([Column(0, name, [])])[0][side]


def _last(name: str) -> str:
    """Return the last part of the name of a nested value."""
    return name.rpartition(".")[2]


def _look_up(row: Mapping[str, Any], keys: Keys) -> Any:
    """Return a value, or None if it is missing."""
    value: Any = row
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _pick(row: Mapping[str, Any], keys: Keys, where: str, wanted: TwoColumns) -> Any:
    value = _look_up(row, keys)
    if value is None:
        return ""
    if not _is_usable(value, wanted):
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
    unusable = {name: _example(kind) for keys, kind in _find_fields(schema) if (name := ".".join(keys)) not in names}
    chosen = _choose(columns, _sample(file, columns, schema, wanted), unusable, wanted, path)
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


def _sample(file: IO[bytes], columns: Sequence[Keys], schema: pa.Schema, wanted: TwoColumns) -> Sequence[Sequence[Any]]:
    """Return the rows from which columns are chosen."""
    names = [".".join(keys) for keys in columns]
    shared = [name for name, keys in zip(names, columns, strict=True) if _is_text(schema, keys)]
    table = pq.ParquetFile(file, read_dictionary=shared)

    def read() -> Iterator[list[Any]]:
        for batch in table.iter_batches(SAMPLE_ROWS, columns=names):
            yield from map(list, zip(*(_values(batch, keys) for keys in columns), strict=True))

    return sample_rows(list(islice(read(), SAMPLE_ROWS)), len(columns), wanted, lambda: pick_evenly(read()), names)


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
    return [keys for keys, kind in _find_fields(schema) if _kind_of(kind) in kinds]


def _find_fields(schema: pa.Schema) -> Iterator[tuple[Keys, pa.DataType]]:
    """Yield the names of columns, and those of the columns in them, with their types."""
    for field in schema:
        if pa.types.is_struct(field.type):
            yield from (((field.name, inner.name), inner.type) for inner in field.type)
        else:
            yield (field.name,), field.type


def _example(kind: pa.DataType) -> Any:
    """Return an example value of a type: its lists and objects, with None for all other values."""
    if pa.types.is_struct(kind):
        return {field.name: _example(field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_example(kind.value_type)]
    return None


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
