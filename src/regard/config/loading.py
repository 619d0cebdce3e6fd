"""Strict loading and dumping of configurations.

A configuration is built from layers, such as the defaults, a preset, a file and the command line. Each layer takes precedence
over the layers before it. A layer consists of nested mappings, and of the file and line of each value for error messages. A
value has the setting's type, or is a string, as on a command line. Values in YAML stay strings, so that the setting's type, and
not YAML, decides what `no`, `1e-3` or `007` mean.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml

from regard.config.fields import Role, convert, has_role, show, walk
from regard.config.plugins import KINDS, entry_names, find_entries, load_entry
from regard.config.run import RunConfig
from regard.config.settings import Family, Settings
from regard.config.tasks import is_task, locate_task, task_names
from regard.errors import ConfigError, nearest

LARGEST = 1 << 18
"""Maximum number of characters of a configuration, because reading YAML needs a thousand times as much memory as the text."""
_DEEPEST = 50


@dataclass(frozen=True)
class Layer:
    """Settings, each with the file and line that it comes from."""

    values: dict[str, Any]
    """Values, nested by the parts of the settings' names."""
    places: dict[str, str] = field(default_factory=dict)
    """The file and line of each setting, such as `run.yaml:3`, by dotted name. For a setting that does not come from a file,
    the text is empty, or there is no entry.
    """


def load_config(*layers: Layer | Mapping[str, Any]) -> RunConfig:
    """Build a configuration from the defaults and layers; each layer takes precedence over the layers before it.

    A layer that changes the `kind` of a part resets the part's other settings to that kind's defaults. The last layer with a
    `task` decides the task; the default is translation.

    Args:
        layers: Mappings of settings, nested or with dotted names (`{"task": "language", "training.patience": 3}`), or results
            of `read_layer` and `override_layer`. Each may be incomplete.

    Returns:
        The configuration, checked.

    Raises:
        ConfigError: If a setting is unknown, of the wrong type, out of range, or in conflict with another one. The message
            names the expected value, and the file and line of the setting if it comes from a file.
    """
    nested = [_as_layer(layer) for layer in layers]
    given = Layer({})
    for layer in nested:
        given = lay_over(given, layer)
    cls = _find_class(given)
    # Start from the defaults, and apply one layer after another: a changed `kind` resets the settings of the layers before it.
    merged = Layer(dump_config(cls()))
    for layer in nested:
        merged = lay_over(merged, layer)
    config: RunConfig = _Builder(merged.places, cls).build(cls, merged.values, "")
    check_config(config, merged.places)
    return config


def check_config(config: Settings, places: Mapping[str, str] | None = None) -> None:
    """Check that every number is in its range, and that no settings are in conflict with each other.

    Args:
        config: A run's configuration, or a part of one.
        places: The file and line of each setting, such as `run.yaml:3`, by dotted name, for messages; None for no files.

    Raises:
        ConfigError: If a setting is out of range or conflicts with another.
    """
    problems = [(name, f"{name} is {problem}") for name, facts, value in walk(config) if (problem := facts.problem(value))]
    for name, message in (*problems, *config.conflicts()):
        place = (places or {}).get(name, "")
        raise ConfigError(f"{place}: {message}" if place else message)


def _as_layer(layer: Layer | Mapping[str, Any]) -> Layer:
    if isinstance(layer, Layer):
        return layer
    if not isinstance(layer, Mapping):
        raise ConfigError(
            f"load_config: settings are {layer!r:.80}, expected a mapping of names to values; read a file of settings with "
            "regard.read_config"
        )
    return override_layer(layer)


def _find_class(given: Layer) -> type[RunConfig]:
    task = given.values.get("task", "translation")
    if isinstance(task, str) and is_task(task):
        return locate_task(task).config_class
    place = given.places.get("task", "")
    shown, known = f"{place}: " if place else "", task_names()
    near = nearest(task, known) if isinstance(task, str) else ""
    raise ConfigError(f"{shown}task is {show(task)}, expected one of: {', '.join(known)}{near}")


def dump_config(config: Any) -> dict[str, Any]:
    """Convert a configuration to mappings, lists, strings, numbers and booleans, from which `load_config` restores it."""
    return {item.name: _dump(getattr(config, item.name)) for item in fields(config)}


def settings_with(role: Role, config: Any) -> dict[str, Any]:
    """Return the settings with a role, and all settings in parts that have the role, nested as in `dump_config`."""
    flat = flatten(dump_config(config))
    return nest({name: value for name, value in flat.items() if has_role(role, name, config)})


def flatten(plain: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a mapping of dotted names to values, such as `{"training.patience": 5}`, from nested mappings."""
    flat: dict[str, Any] = {}
    for name, value in plain.items():
        flat |= flatten(value, f"{path}{name}.") if isinstance(value, Mapping) else {f"{path}{name}": value}
    return flat


def render_config(config: Any) -> str:
    """Return a configuration as YAML text, from which `read_layer` restores it."""
    return yaml.safe_dump(dump_config(config), sort_keys=False, allow_unicode=True, width=120)


def read_config(path: str | Path) -> RunConfig:
    """Read a configuration from a YAML file.

    Args:
        path: The file.

    Raises:
        ConfigError: As for `load_config`, or if the file cannot be read.
    """
    return load_config(read_layer(path))


def read_layer(path: str | Path) -> Layer:
    """Read settings from a YAML file without checking their names.

    Raises:
        ConfigError: If the file cannot be read, is not YAML, or does not contain settings.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read the configuration {path}: {reason}") from error
    return parse_layer(text, str(path))


def parse_layer(text: str, name: str) -> Layer:
    """Read settings from YAML text without checking their names; messages call the text `name`, as if it were a file.

    Raises:
        ConfigError: If the text is too long, is not YAML, or does not contain settings.
    """
    places: dict[str, str] = {}
    if len(text) > LARGEST:
        raise ConfigError(f"{name}: has more than {LARGEST:,} characters, too many for a configuration")
    try:
        node = yaml.compose(text, Loader=partial(_SettingsLoader, name=name))  # type: ignore[arg-type]
        values = {} if node is None else _plain(node, "", name, places)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{name}{line}: not valid YAML: {error.problem}") from error
    except (
        yaml.YAMLError,
        RecursionError,
        ValueError,
        OverflowError,
    ) as error:  # for example a ValueError for "\U00110000", which is not a character
        raise ConfigError(f"{name}: not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{name}: expected settings as `name: value` lines, got {show(values)}")
    return Layer(nest(values, places), places)


class _SettingsLoader(yaml.BaseLoader):
    """A YAML loader that raises an error for aliases and for deep nesting.

    A few lines of aliases can expand to gigabytes. With deep nesting, the library is slow: for each token, it checks every
    opening bracket among the last 1,024 characters, because each bracket could begin a key.
    """

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self._name, self._depth = name, 0

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= _DEEPEST:
            raise self._too_deep(self.line)
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        line = event.start_mark.line
        if isinstance(event, yaml.AliasEvent):
            meant = f"write out what *{event.anchor} stands for"
            raise ConfigError(f"{self._name}:{line + 1}: settings cannot contain YAML aliases; {meant}")
        if self._depth >= _DEEPEST and isinstance(event, yaml.CollectionStartEvent):
            raise self._too_deep(line)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _too_deep(self, line: int) -> ConfigError:
        return ConfigError(f"{self._name}:{line + 1}: not valid YAML for settings: it is nested more than {_DEEPEST} deep")


def nest(settings: Mapping[str, Any], places: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return settings with nested names only, from settings whose names may also have dots.

    Args:
        settings: Settings, such as `{"training.patience": 3}` or `{"training": {"patience": 3}}`. They are not changed.
        places: The file and line of each setting, for messages.

    Raises:
        ConfigError: If a name has an empty part or more than 50 parts, a setting is given twice, or a name and a part of it
            both have a value, such as `model.decoder` and `model.decoder.kind`.
    """
    nested: dict[str, Any] = {}
    _nest_into(nested, settings, "", places or {})
    return nested


def _nest_into(nested: dict[str, Any], settings: Mapping[str, Any], path: str, places: Mapping[str, str]) -> None:
    """Put settings into the nested settings below `path`."""
    for name, value in settings.items():
        full = f"{path}.{name}" if path else str(name)
        place = f"{places[full]}: " if places.get(full) else ""
        *parents, last = str(name).split(".")
        if full.count(".") >= _DEEPEST:
            raise ConfigError(f"{place}unknown setting '{full:.60}…': no setting has more than {_DEEPEST} parts")
        if not all((*parents, last)):
            raise ConfigError(f"{place}unknown setting '{full}': a part of its name is empty")
        inner = nested
        for depth, parent in enumerate(parents, 1):
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                outer = full.rsplit(".", len(parents) + 1 - depth)[0]
                raise ConfigError(f"{place}'{outer}' and its part '{full}' are both set; set only one of the two")
        if last in inner and isinstance(inner[last], dict) != isinstance(value, Mapping):
            raise ConfigError(f"{place}'{full}' and a part of it are both set; set only one of the two")
        if isinstance(value, Mapping):
            _nest_into(inner.setdefault(last, {}), value, full, places)
        elif last in inner:
            raise ConfigError(f"{place}the setting '{full}' is given twice")
        else:
            inner[last] = value


def override_layer(overrides: Mapping[str, Any]) -> Layer:
    """Make a layer from settings that no file holds, such as `{"training.learning_rate": "1e-3"}`; see `nest`.

    Raises:
        ConfigError: As for `nest`.
    """
    nested = nest(overrides)
    return Layer(nested, dict.fromkeys(flatten(nested), ""))


def apply_overrides(mapping: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a mapping with changed settings. If a `kind` changes, the settings beside it in `mapping` are removed.

    Args:
        mapping: Nested settings.
        overrides: Changed settings by their dotted names.
    """
    return lay_over(Layer(dict(mapping)), override_layer(overrides)).values


def lay_over(base: Layer, top: Layer) -> Layer:
    """Return `base` with the settings of `top`. If `top` changes a `kind`, the settings beside it in `base` are removed."""
    return Layer(_merge(base.values, top.values), base.places | top.places)


def _merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    if "kind" in top and top["kind"] != base.get("kind"):
        base = {}
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = _merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _plain(node: yaml.Node, path: str, name: str, places: dict[str, str]) -> Any:
    """Convert a YAML node to mappings, lists, strings and None, and add the file and line of each value to `places`.

    YAML tags are not resolved, so no code runs and no type is guessed.
    """
    places[path] = f"{name}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.ScalarNode):
        empty = node.style is None and node.value in ("null", "~")
        return None if empty else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, f"{path}[{position}]", name, places) for position, item in enumerate(node.value)]
    result: dict[str, Any] = {}
    for key, value in node.value:
        here = f"{name}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{here}: expected a setting's name, got a list or a mapping")
        full = f"{path}.{key.value}" if path else key.value
        if key.value in result:
            raise ConfigError(f"{here}: the setting '{full}' is given twice")
        result[key.value] = _plain(value, full, name, places)
        places[full] = here
    return result


def _dump(value: Any) -> Any:
    if is_dataclass(value):
        return dump_config(value)
    return [_dump(item) for item in value] if isinstance(value, tuple) else value


@cache
def field_types(cls: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass; annotations that are strings are evaluated."""
    hints = get_type_hints(cls)
    return {item.name: hints[item.name] for item in fields(cls)}


def kinds_of(hint: Any) -> dict[str, type]:
    """Return a mapping of each `kind` to its class, for a `Family` or a union of classes; empty for any other type."""
    if isinstance(hint, type) and issubclass(hint, Family) and not hasattr(hint, "kind"):
        return dict(hint.kinds())
    if get_origin(hint) not in (UnionType, Union):
        return {}
    return {cls.kind: cls for cls in get_args(hint)}


def setting_names(cls: type, path: str = "") -> Iterator[str]:
    """Yield the dotted names of all settings, also those of every kind; a name that several kinds share is yielded again."""
    for name, hint in field_types(cls).items():
        full = f"{path}.{name}" if path else name
        parts = list(kinds_of(hint).values()) or ([hint] if isinstance(hint, type) and is_dataclass(hint) else [])
        for part in parts:
            yield from setting_names(part, full)
        if not parts:
            yield full


class _Builder:
    """A builder of dataclasses from nested mappings; its errors name the file and line of a wrong value.

    Args:
        places: The file and line of each value, as in `Layer.places`.
        root: Class of the whole configuration, whose settings are suggested for unknown names.
    """

    def __init__(self, places: Mapping[str, str], root: type) -> None:
        self._places, self._root = places, root

    def build(self, cls: type, value: Any, path: str, kinds: Mapping[str, type] | None = None) -> Any:
        """Build a dataclass from a mapping.

        Args:
            cls: The dataclass.
            value: The mapping; any other value raises an error.
            path: Dotted name of this part of the configuration; empty for the whole.
            kinds: Classes of all kinds that could be chosen for this part, for messages; None for a part without kinds.

        Raises:
            ConfigError: If a setting is unknown or of the wrong type.
        """
        if not isinstance(value, Mapping):
            hint = f" (write '{path}.kind' to choose one of: {', '.join(kinds)})" if kinds else ""
            raise self._error(path, f"{path} is {show(value)}, expected settings below it{hint}")
        types = field_types(cls)
        for name in value:
            if name not in types:
                raise self._unknown(cls, str(name), path, kinds or {})
        arguments = {
            item.name: self._value(types[item.name], value[item.name], f"{path}.{item.name}" if path else item.name, item)
            for item in fields(cls)
            if item.name in value
        }
        return cls(**arguments)

    def _value(self, hint: Any, value: Any, path: str, item: Any = None) -> Any:
        kinds = kinds_of(hint)
        if kinds:
            return self._choose(hint, kinds, value, path, item)
        if is_dataclass(hint):
            return self.build(hint, value, path)  # type: ignore[arg-type]
        try:
            return convert(hint, value)
        except ValueError as error:
            raise self._error(path, f"{path} is {error}") from None

    def _choose(self, hint: Any, kinds: Mapping[str, type], value: Any, path: str, item: Any) -> Any:
        default = item.default_factory().kind if item.default_factory is not MISSING else next(iter(kinds))
        kind = value.get("kind", default) if isinstance(value, Mapping) else default
        if not isinstance(kind, str):
            raise self._error(f"{path}.kind", f"{path}.kind is {show(kind)}, expected one of: {', '.join(kinds)}")
        if kind not in kinds:
            kinds = self._import_kind(hint, kind, f"{path}.kind")
        return self.build(kinds[kind], value, path, kinds)

    def _import_kind(self, hint: Any, kind: str, path: str) -> dict[str, type]:
        """Import the installed packages that offer a kind, until one defines it, and return all known kinds with their classes.

        Raises:
            ConfigError: If no package defines the kind, or a package cannot be imported.
        """
        kinds = kinds_of(hint)
        entries = find_entries(KINDS, kind)
        for entry in entries:
            try:
                load_entry(entry, path)
            except ConfigError as error:
                raise self._error(path, str(error)) from error
            kinds = kinds_of(hint)
            if kind in kinds:
                return kinds
        message = f"{path} is {show(kind)}, expected one of: {', '.join(kinds)}"
        if entries:
            raise self._error(path, f"{message}; its entry point '{entries[0].value}' defines no such kind")
        advice = nearest(kind, [*kinds, *entry_names(KINDS)]) or "; if another package defines this kind, install it"
        raise self._error(path, message + advice)

    def _unknown(self, cls: type, name: str, path: str, kinds: Mapping[str, type]) -> ConfigError:
        full = f"{path}.{name}" if path else name
        chosen = next((kind for kind, other in kinds.items() if other is cls), "")
        others = [kind for kind, other in kinds.items() if name in field_types(other)]
        if others:
            message = f"{path} of kind '{chosen}' has no setting '{name}'; it belongs to kind: {', '.join(others)}"
            return self._error(full, message)
        namesakes = [known for known in setting_names(self._root) if known.rpartition(".")[2] == name]
        siblings = [f"{path}.{known}" if path else known for known in field_types(cls)]
        meant = (
            f"; did you mean '{namesakes[0]}'?"
            if namesakes
            else nearest(full, siblings) or nearest(full, setting_names(self._root))
        )
        meant = nearest(full, namesakes) or meant or f"; known here: {', '.join(field_types(cls))}"
        return self._error(full, f"unknown setting '{full}'{meant}")

    def _error(self, path: str, message: str) -> ConfigError:
        place = self._places.get(path) or next((p for name, p in self._places.items() if name.startswith(path + ".")), "")
        return ConfigError(f"{place}: {message}" if place else message)
