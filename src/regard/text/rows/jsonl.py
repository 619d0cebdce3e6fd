"""JSON files with one object per line, or with all objects in one array."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text import reasons
from regard.text.column_rules import ColumnRules
from regard.text.columns import COLUMNS_JUDGED, SAMPLE_ROWS, TOO_DEEP, choose_columns
from regard.text.encodings import advise_encoding
from regard.text.opening import CHUNK_ROWS, OVER_LONG_LINE, line_blocks, open_utf8, read_start
from regard.text.report import ReadingReport
from regard.text.rows import Chunk, Format
from regard.text.strings import is_unicode

LARGEST_ARRAY = 1 << 29
"""Maximum number of bytes of an array, which is read into memory as a whole."""
# Descriptions of the JSON values that are not objects, by their types in Python.
_TYPES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "true or false", type(None): "null"}
# Number of keys of nested objects after which the search for names of columns ends.
_MOST_NAMED = 10_000

Object = Mapping[str, Any]
Keys = tuple[str, ...]
"""Name of a column, or the names of an object and of a column in it."""


def _read(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[Chunk]:
    """Read JSON objects. The columns are chosen from the keys of the first objects. A null counts as an empty text."""
    start = read_start(path, rules.encoding).lstrip()
    array = start.startswith(b"[") and start[1:].lstrip()[:1] in (b"{", b"]", b"")
    if array:
        report.form, report.unit = "a JSON array", "rows"
    unit = "element" if array else "line"
    keys: Sequence[Keys] = ()
    for rows, numbers in (_array_objects if array else _line_objects)(path, rules, report):
        if not keys and rows:
            keys = choose_keys(rows, rules, path, f"{path}, {unit} {numbers[0]}")
            report.columns = [".".join(column) for column in keys]
        if keys:
            places = [f"{path}, {unit} {number}" for number in numbers]
            yield [[_pick(row, key, where, rules) for row, where in zip(rows, places, strict=True)] for key in keys], numbers


def _line_objects(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[tuple[list[Object], Sequence[int]]]:
    for lines, places in line_blocks(path, rules.encoding, report.hashes):
        report.read += len(lines)
        rows, numbers = [], []
        for number, line in zip(places, lines, strict=True):
            if line is OVER_LONG_LINE or not line.strip():
                report.skip(reasons.OVER_LONG if line is OVER_LONG_LINE else reasons.EMPTY_LINE, number)
                continue
            rows.append(_parse(line, path, number, rules))
            numbers.append(number)
        yield rows, numbers


def _parse(line: str, path: Path, number: int, rules: ColumnRules) -> Object:
    try:
        row = json.loads(line)
    except ValueError as error:
        advice = "" if is_unicode(line) and "\0" not in line else advise_encoding(path)
        if line.strip() == "{":
            advice = advise_conversion(line, path)
        message = f"{path}, line {number}: is not JSON ({error}), expected one object per line: {line.strip()[:60]!r}"
        raise DataError(f"{message}. {advice}" if advice else message) from error
    except RecursionError as error:
        raise DataError(f"{path}, line {number}: JSON nested too deeply, expected one flat object per line") from error
    if not isinstance(row, dict):
        raise DataError(f"{path}, line {number}: is {_TYPES[type(row)]}, expected an object with {rules.what} on each line")
    return row


def advise_conversion(line: str, path: Path) -> str:
    """Return how to convert JSON that begins with this line, an array or an object of several lines, to one object per line."""
    whole = "." if line.lstrip()[:1] != "[" else "'.[]'"
    return f"To write each object on one line: jq -c {whole} {shlex.quote(path.name)} > lines.jsonl"


def _array_objects(path: Path, rules: ColumnRules, report: ReadingReport) -> Iterator[tuple[list[Object], Sequence[int]]]:
    with open_utf8(path, rules.encoding, report.hashes) as file:
        parts, size = [], 0
        while (part := file.read(1 << 20)) and size <= LARGEST_ARRAY:
            parts.append(part)
            size += len(part)
    if size > LARGEST_ARRAY:
        raise DataError(
            f"{path}: is a JSON array of more than {LARGEST_ARRAY:,} bytes, expected one object per line. "
            f"{advise_conversion('[', path)}"
        )
    try:
        rows = json.loads(b"".join(parts).decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise DataError(f"{path}: is not a JSON array ({error}); check the file") from error
    except RecursionError as error:
        raise DataError(f"{path}: JSON nested too deeply, expected an array of flat objects") from error
    for begin in range(0, len(rows), CHUNK_ROWS):
        chunk = rows[begin : begin + CHUNK_ROWS]
        for number, row in enumerate(chunk, begin + 1):
            if not isinstance(row, dict):
                raise DataError(f"{path}, element {number}: is {_TYPES[type(row)]}, expected an object with {rules.what}")
        report.read += len(chunk)
        yield chunk, range(begin + 1, begin + len(chunk) + 1)


def choose_keys(rows: Sequence[Object], rules: ColumnRules, path: Path, where: str) -> list[Keys]:
    """Return the keys of the two wanted columns; `where` is the file and line of the first row, for messages."""
    # Whether a key can be a column depends on its first value that is neither null nor an empty list or object.
    first: dict[Keys, Any] = {}
    for row in rows[:SAMPLE_ROWS]:
        for keys, value in _find_values(row):
            if first.get(keys) in (None, [], {}):
                first[keys] = value
    parents = {keys[0] for keys in first if len(keys) > 1}  # an object that is null in some rows
    found = [keys for keys, value in first.items() if (value is None and keys[0] not in parents) or _is_usable(value, rules)]
    unusable = {keys: value for keys, value in first.items() if keys not in set(found)}
    if len(found) < 2:
        kind = "text " if rules.kinds == (str,) else ""
        held = ", ".join(dict.fromkeys(keys[0] for keys in first))
        shaped = {".".join(keys): _describe_shape(value) for keys, value in unusable.items()}
        shapes = "".join(f"; '{name}' holds {shape}" for name, shape in shaped.items() if shape)
        raise DataError(f"{where}: has {len(found)} {kind}values (keys: {held}{shapes}), expected {rules.what}")
    judged = found[:COLUMNS_JUDGED]  # objects with different keys in each row can give thousands of columns
    sample = [[look_up(row, keys) for keys in judged] for row in rows[:SAMPLE_ROWS]]
    places = choose_columns([".".join(keys) for keys in found], sample, rules, path, _name_unreadable(unusable))
    return [found[place] for place in places]


def _name_unreadable(values: Mapping[Keys, Any]) -> dict[str, str]:
    """Return the names of columns that hold lists or objects, and of the keys inside these objects, with their shapes."""
    named = {".".join(keys): shape for keys, value in values.items() if (shape := _describe_shape(value))}
    inner = [(".".join(keys), value) for keys, value in values.items() if isinstance(value, dict)]
    while inner and len(named) < _MOST_NAMED:
        name, value = inner.pop()
        for key, held in value.items():
            named.setdefault(f"{name}.{key}", TOO_DEEP)
            inner += [(f"{name}.{key}", held)] if isinstance(held, dict) else []
    return named


def _describe_shape(value: Any) -> str:
    """Return the shape of a list or an object, for messages; empty for other values."""
    if isinstance(value, dict):
        return "objects inside objects"
    if not isinstance(value, list):
        return ""
    inside = next((item for item in value if isinstance(item, list | dict)), None)
    return "lists" if inside is None else f"lists of {'objects' if isinstance(inside, dict) else 'lists'}"


def _find_values(row: Object) -> Iterator[tuple[Keys, Any]]:
    """Yield each key of a row with its value; for a value that is an object, yield the keys in that object instead."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from (((name, inner), held) for inner, held in value.items())
        else:
            yield (name,), value


def _is_usable(value: Any, rules: ColumnRules) -> bool:
    """Return True if a value can be a text or a label, or a list of labels."""
    return isinstance(value, rules.kinds) and not (isinstance(value, list) and any(isinstance(x, list | dict) for x in value))


def look_up(row: Object, keys: Keys) -> Any:
    """Return a value, or None if it is missing."""
    value: Any = row
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _pick(row: Object, keys: Keys, where: str, rules: ColumnRules) -> Any:
    value = look_up(row, keys)
    if value is None:
        return ""
    if not _is_usable(value, rules):
        raise DataError(f"{where}: '{'.'.join(keys)}' is {json.dumps(value)[:60]}, expected {rules.allowed}")
    return value


FORMATS = {"jsonl": Format("JSON lines", _read, (".jsonl", ".ndjson", ".json"), typed=True)}
