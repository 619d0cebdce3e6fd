"""Columns of JSON files with one object per line, or with all objects in one array."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.files.advise import advise_encoding
from regard.text.files.columns import COLUMNS_JUDGED, SAMPLE_ROWS, TwoColumns, pick_evenly, sample_rows
from regard.text.files.delimited import CHUNK_ROWS, RawChunk
from regard.text.files.json_array import LONGEST_ELEMENT, is_json_array, read_elements
from regard.text.files.named_columns import Keys, choose_keys, describe_shape
from regard.text.files.opening import CHUNK_CHARACTERS, OVER_LONG_LINE, line_blocks, open_utf8
from regard.text.files.report import EMPTY_LINE, OVER_LONG, ReadingReport
from regard.text.files.strings import is_unicode

_TYPES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "true or false", type(None): "null"}
"""Descriptions of the JSON values that are not objects, by their types in Python."""


def read_jsonl(path: Path, wanted: TwoColumns, report: ReadingReport) -> Iterator[RawChunk]:
    """Read JSON objects, one per line or in one array.

    The columns are chosen from the keys of the first objects. A null or a missing key counts as an empty text.

    Raises:
        DataError: If a line or an element is not a JSON object; if the value of a chosen key has a type that is not in
            `wanted.kinds`; if the settings name a key that does not exist; or if it is not clear which keys are wanted.
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
            raise DataError(f"{path}, element {number}: is {_TYPES[type(value)]}, expected an object with {wanted.what}")
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
        raise DataError(f"{path}, line {number}: is {_TYPES[type(row)]}, expected an object with {wanted.what} on each line")
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
    # Whether a key can be a column depends on its first value that is neither null nor an empty list or object.
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
        shapes = "".join(f"; '{name}' holds {shape}" for name, value in unusable.items() if (shape := describe_shape(value)))
        raise DataError(f"{path}, {where}: has {len(found)} {kind}values (keys: {held}{shapes}), expected {wanted.what}")

    scored = found[:COLUMNS_JUDGED]  # objects with different keys in each row can give thousands of columns

    def values(objects: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        return [[_look_up(row, keys) for keys in scored] for row in objects]

    names = [".".join(keys) for keys in scored]
    judged = sample_rows(values(rows[:SAMPLE_ROWS]), len(scored), wanted, lambda: values(sample()), names)
    return choose_keys(found, judged, unusable, wanted, path)


def _find_values(row: Mapping[str, Any]) -> Iterator[tuple[Keys, Any]]:
    """Yield each key of a row with its value; for a value that is an object, yield the keys in that object instead."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from (((name, inner), held) for inner, held in value.items())
        else:
            yield (name,), value


def _is_usable(value: Any, wanted: TwoColumns) -> bool:
    """Return True if a value can be a text or a label, or a list of labels."""
    return isinstance(value, wanted.kinds) and not (isinstance(value, list) and any(isinstance(x, list | dict) for x in value))


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
        raise DataError(f"{where}: '{'.'.join(keys)}' is {json.dumps(value)[:60]}, expected {wanted.allowed}")
    return value
