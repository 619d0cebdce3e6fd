"""Facts about settings and options, which stand on the fields of their dataclasses: type, range, role and help.

    class TrainingConfig(Settings):
        max_epochs: Annotated[Count, Role.ADJUSTABLE] = 10
        '''Maximum number of passes over the training data.'''

The range consists of constraints of `annotated-types`, which pydantic reads, too; the types below name the common ones. A
number without constraints may be any finite number. A `Role` says how a setting is treated elsewhere. The help is the string
below the field. The loader, the help texts, resuming, fine-tuning, and the limits of untrusted files read these facts, and
name no setting.
"""

import ast
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt

from regard.errors import nearest

LARGEST = 1e9
"""Largest absolute value of a number whose range has no upper bound; larger numbers would overflow."""
_LARGEST_INTEGER = 2**63 - 1


class Role(Enum):
    """Treatment of a setting outside its class."""

    ADJUSTABLE = "may change when a run is resumed, and in a run that starts from the trained model"
    VOCABULARY = "decides the vocabulary; a run that starts from a trained model must have the same value"
    READING = "decides how texts are read; a run that starts from a trained model takes the value from there by default"
    FILE = "names a file: its content affects the prepared data, and its name does not"
    LAYOUT = "describes the layout of a file; an option of every command that reads files like the training data"
    DERIVED = "is set by regard, not by the user"
    DEPTH = "number of layers: a model's weights consist of at least as many tensors"
    WIDTH = "size of tensors: a model's weights contain at least as many numbers"


Natural = Annotated[int, Ge(0)]
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]
Count = Annotated[int, Ge(1)]
NotNegative = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
Probability = Annotated[float, Ge(0), Le(1)]
BelowOne = Annotated[float, Ge(0), Lt(1)]
Dropout = Annotated[BelowOne, Role.ADJUSTABLE]
Width = Annotated[Count, Role.WIDTH]
Depth = Annotated[int, Ge(1), Le(1000), Role.DEPTH]


@dataclass(frozen=True)
class Range:
    """Range of a number."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    @classmethod
    def of(cls, constraints: Sequence[Any]) -> "Range":
        """Return the range that constraints of `annotated-types` describe; other objects are ignored."""
        bounds: dict[str, Any] = {}
        for each in constraints:
            match each:
                case Ge(ge=bound):
                    bounds |= {"low": bound, "open_low": False}
                case Gt(gt=bound):
                    bounds |= {"low": bound, "open_low": True}
                case Le(le=bound):
                    bounds |= {"high": bound, "open_high": False}
                case Lt(lt=bound):
                    bounds |= {"high": bound, "open_high": True}
        return cls(**bounds)

    def __contains__(self, number: float) -> bool:
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return above and below and (self.high < math.inf or abs(number) <= LARGEST)

    def __str__(self) -> str:
        if self.low == -math.inf:
            return "a finite number" if self.high == math.inf else f"at most {_spell(self.high)}"
        low = f"more than {_spell(self.low)}" if self.open_low else f"{_spell(self.low)} or more"
        if self.high == math.inf:
            return low
        if not self.open_low and not self.open_high:
            return f"from {_spell(self.low)} to {_spell(self.high)}"
        return f"{low} and {'less than' if self.open_high else 'at most'} {_spell(self.high)}"


def _spell(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"


@dataclass(frozen=True)
class FieldFacts:
    """The facts about one field."""

    name: str
    type: Any
    """Type without constraints and roles."""
    range: Range
    """Range of the number, or of each number in a tuple."""
    roles: frozenset[Role]
    owner: type
    """The dataclass."""
    field: Field[Any]

    @property
    def default(self) -> Any:
        """The default value; `dataclasses.MISSING` if the field has no default."""
        return self.field.default if self.field.default_factory is MISSING else self.field.default_factory()

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values of a `Literal` type; empty for other types."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def help(self) -> str:
        """The string below the field, as one line; empty if no string is there."""
        return field_docs(self.owner)[self.name]

    def parse(self, value: Any) -> Any:
        """Convert a value, which may be text, to the field's type, and check its range; see `convert`."""
        parsed = convert(self.type, value)
        if problem := self.problem(parsed):
            raise ValueError(problem)
        return parsed

    def mismatch(self, value: Any) -> str:
        """Return a message such as `'1e-3', expected 0.001` if a value is not of the field's type; else an empty text."""
        if is_dataclass(self.type) or get_origin(self.type) in (UnionType, Union):
            classes = get_args(self.type) or (self.type,)
            names = " or ".join(cls.__name__ for cls in classes)
            return "" if isinstance(value, classes) else f"{show(value)}, expected {names}"
        try:
            right = convert(self.type, value)
        except ValueError as error:
            return str(error)
        return "" if right == (tuple(value) if isinstance(value, list) else value) else f"{show(value)}, expected {right!r}"

    def problem(self, value: Any) -> str:
        """Return a message such as `0, expected 1 or more` if a number is out of range; else an empty text."""
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and not isinstance(number, bool) and number not in self.range:
                bound = f", and at most {LARGEST:,.0f}" if self.range.high == math.inf and abs(number) > LARGEST else ""
                return f"{number:g}, expected {self.range}{bound}"
        return ""


def facts_of(cls: type) -> Mapping[str, FieldFacts]:
    """Return the facts about each field of a dataclass, by name."""
    return _collect(cls)


@cache
def _collect(cls: Any) -> Mapping[str, FieldFacts]:
    hints, types = get_type_hints(cls, include_extras=True), get_type_hints(cls)
    found = {}
    for item in fields(cls):
        notes = _notes(hints[item.name])
        roles = frozenset(note for note in notes if isinstance(note, Role))
        found[item.name] = FieldFacts(item.name, types[item.name], Range.of(notes), roles, cls, item)
    return found


def _notes(hint: Any) -> list[Any]:
    """Return the constraints and roles of a type, and those of a tuple's items, which are all alike."""
    found: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        for note in notes:
            found += note if isinstance(note, GroupedMetadata) else [note]
    if get_origin(hint) is tuple:
        found += _notes(get_args(hint)[0])
    return found


def walk(config: Any, path: str = "") -> Iterator[tuple[str, FieldFacts, Any]]:
    """Yield the dotted name, which begins with `path`, the facts and the value of each setting in a configuration or a part.

    A part comes before the settings in it.
    """
    for name, facts in facts_of(type(config)).items():
        value = getattr(config, name)
        yield path + name, facts, value
        if is_dataclass(value):
            yield from walk(value, f"{path}{name}.")


def settings_with(role: Role, config: Any) -> dict[str, Any]:
    """Return the settings with a role, and all settings in parts that have the role, by dotted names."""
    parts: tuple[str, ...] = ()
    found = {}
    for name, facts, value in walk(config):
        parts += (f"{name}.",) if role in facts.roles else ()
        if f"{name}.".startswith(parts) and not is_dataclass(value):
            found[name] = value
    return found


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Return the string below each field as one line; empty if there is no string or the source code cannot be read."""
    docs = {item.name: "" for item in fields(cls)}
    for base in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(inspect.getsource(base)).body[0].body  # type: ignore[attr-defined]
        except (OSError, SyntaxError, TypeError):
            continue
        for statement, following in pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                docs[statement.target.id] = " ".join(ast.literal_eval(following.value).split())  # type: ignore[union-attr]
    return docs


def convert(hint: Any, value: Any) -> Any:
    """Convert a value, which may be text as on a command line, to the type of a field.

    The type is `str`, `int`, `float`, `bool`, a `Literal` of texts, or a tuple of these.

    Raises:
        ValueError: If the value does not fit the type. The message has the form `'x', expected a whole number`.
    """
    origin = get_origin(hint)
    if origin is tuple:
        return _tuple(get_args(hint), value)
    if origin is Literal:
        choices = get_args(hint)
        if value not in choices or isinstance(value, bool):
            advice = nearest(value, choices) if isinstance(value, str) else ""
            raise ValueError(f"{show(value)}, expected one of: {', '.join(choices)}{advice}")
        return value
    result = _CONVERTERS[hint](value)
    if result is None:
        advice = "; rename a file or folder whose name is not UTF-8" if hint is str and isinstance(value, str) else ""
        advice = "; convert the path with str(…)" if hint is str and isinstance(value, PurePath) else advice
        raise ValueError(f"{show(value)}, expected {_EXPECTED[hint]}{advice}")
    return result


def _tuple(hints: Sequence[Any], value: Any) -> tuple[Any, ...]:
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, Sequence):
        raise ValueError(f"{show(value)}, expected values separated by commas, or a list")
    if hints[-1] is ...:
        items = [] if items == [""] else items
        hints = [hints[0]] * len(items)
    if len(items) != len(hints):
        raise ValueError(f"{show(value)}, expected {len(hints)} values separated by commas")
    return tuple(convert(hint, part) for hint, part in zip(hints, items, strict=True))


def _string(value: Any) -> str | None:
    if isinstance(value, str):
        half = any("\ud800" <= character <= "\udfff" for character in value)  # half of a surrogate pair
        return None if half else value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if abs(number) <= _LARGEST_INTEGER else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


_CONVERTERS = {str: _string, int: _integer, float: _number, bool: _truth}
_EXPECTED = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}


def show(value: Any) -> str:
    """Return a value of any type as short text, for messages."""
    if isinstance(value, Mapping):
        return "a mapping"
    shown = "empty" if value is None else repr(value)
    return shown if len(shown) <= 200 else shown[:199] + "…"
