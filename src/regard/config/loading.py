"""Strict loading and dumping of configurations.

A configuration is built from layers, such as the defaults, a preset, a file and the command line. Each layer takes precedence
over the layers before it. A layer maps dotted names to values, and has the file and line of each value for error messages. A
value has the setting's type, or is a string, as on a command line. Values in YAML stay strings, so that the setting's type, and
not YAML, decides what `no`, `1e-3` or `007` mean.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, reduce
from importlib.metadata import entry_points
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml

from regard.config.fields import FieldFacts, convert, facts_of, show, walk
from regard.config.plugins import KINDS, entry_names, is_task, load_entry, locate_task, unknown_task
from regard.config.run import RunConfig
from regard.config.settings import Family, Settings
from regard.errors import ConfigError, nearest

LARGEST = 1 << 18
"""Maximum number of characters of a configuration, because reading YAML needs a thousand times as much memory as the text."""
_DEEPEST = 50


@dataclass(frozen=True)
class Layer:
    """Settings, each with the file and line that it comes from."""

    values: dict[str, Any]
    """Values by dotted names, such as `training.patience`."""
    places: dict[str, str] = field(default_factory=dict)
    """The file and line of each setting that comes from a file, such as `run.yaml:3`, by dotted name."""


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
    made = [layer if isinstance(layer, Layer) else override_layer(layer) for layer in layers]
    together = reduce(lay_over, made, Layer({}))
    task = together.values.get("task", "translation")
    if not is_task(task):
        raise _error(together.places, "task", unknown_task(task))
    cls: type[RunConfig] = locate_task(task).config_class
    # Start from the defaults, and apply one layer after another: a changed `kind` resets the settings of the layers before it.
    merged = reduce(lay_over, made, Layer(flatten(dump_config(cls()))))
    config: RunConfig = _Builder(merged, cls).build(cls, "")
    check_config(config, merged.places)
    return config


def check_config(config: Settings, places: Mapping[str, str] | None = None) -> None:
    """Check that every setting has its type, every number is in its range, and no settings are in conflict with each other.

    `places` has the file and line of each setting, such as `run.yaml:3`, by dotted name, for messages.

    Raises:
        ConfigError: If a setting is of the wrong type or out of range, or conflicts with another.
    """
    for name, facts, value in walk(config):
        if problem := facts.problem(value) or facts.mismatch(value):
            raise _error(places or {}, name, f"{name} is {problem}")
    for name, message in config.conflicts():
        raise _error(places or {}, name, message)


def _error(places: Mapping[str, str], name: str, message: str) -> ConfigError:
    """Return an error about a setting, which begins with its file and line, or those of the first setting below it."""
    inner = (place for other, place in places.items() if other.startswith(f"{name}."))
    place = places.get(name) or next(inner, "")
    return ConfigError(f"{place}: {message}" if place else message)


def dump_config(config: Any) -> dict[str, Any]:
    """Convert a configuration to mappings, lists, strings, numbers and booleans, from which `load_config` restores it."""
    return {item.name: _dump(getattr(config, item.name)) for item in fields(config)}


def _dump(value: Any) -> Any:
    if is_dataclass(value):
        return dump_config(value)
    return [_dump(item) for item in value] if isinstance(value, tuple) else value


def flatten(settings: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a mapping of dotted names to values, such as `{"training.patience": 5}`, from nested mappings.

    Raises:
        ConfigError: If a setting is given twice, by a nested and a dotted name.
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        nested = isinstance(value, Mapping) and value
        inner = flatten(value, f"{path}{name}.") if nested else {f"{path}{name}": value}
        for twice in flat.keys() & inner.keys():
            raise ConfigError(f"the setting '{twice}' is given twice")
        flat |= inner
    return flat


def changed_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the dotted names of the settings that differ between two flattened configurations."""
    return [name for name in {**before, **now} if name not in before or name not in now or before[name] != now[name]]


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
    if len(text) > LARGEST:
        raise ConfigError(f"{name}: has more than {LARGEST:,} characters, too many for a configuration")
    try:
        _check_events(text, name)
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{name}{line}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as "\U00110000", which is not a character
        raise ConfigError(f"{name}: not valid YAML: {error}") from error
    layer = Layer({})
    if isinstance(node, yaml.MappingNode):
        _add_settings(layer, node, "", name)
    elif node is not None:
        raise ConfigError(f"{name}: expected settings as `name: value` lines, got {show(_plain(node))}")
    return layer


def _check_events(text: str, name: str) -> None:
    """Raise an error for aliases, a few lines of which can expand to gigabytes, and for deep nesting, which takes hours."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        place = f"{name}:{event.start_mark.line + 1}"  # type: ignore[union-attr]
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{place}: settings cannot contain YAML aliases; write out what *{event.anchor} stands for")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ConfigError(f"{place}: not valid YAML for settings: it is nested more than {_DEEPEST} deep")


def _add_settings(layer: Layer, node: yaml.MappingNode, path: str, name: str) -> None:
    """Add the settings in a mapping of YAML to a layer, with their lines.

    YAML tags are not resolved, so no code runs and no type is guessed.
    """
    for key, value in node.value:
        place = f"{name}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{place}: expected a setting's name, got a list or a mapping")
        full = f"{path}{key.value}"
        if full in layer.values or (full in layer.places and not isinstance(value, yaml.MappingNode)):
            raise ConfigError(f"{place}: the setting '{full}' is given twice")
        layer.places[full] = place
        if isinstance(value, yaml.MappingNode) and value.value:
            _add_settings(layer, value, f"{full}.", name)
        else:
            layer.values[full] = _plain(value)


def _plain(node: yaml.Node) -> Any:
    """Return the text of a YAML node, the texts of a list, or None for `null`."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {}
    plain = isinstance(node, yaml.ScalarNode) and node.style is None
    return None if plain and node.value in ("null", "~") else node.value


def override_layer(overrides: Mapping[str, Any]) -> Layer:
    """Make a layer from settings that no file holds, nested or with dotted names: `{"training.learning_rate": "1e-3"}`.

    Raises:
        ConfigError: If the settings are not a mapping, or one is given twice.
    """
    if not isinstance(overrides, Mapping):
        raise ConfigError(
            f"load_config: settings are {overrides!r:.80}, expected a mapping of names to values; read a file of settings with "
            "regard.read_config"
        )
    return Layer(flatten(overrides))


def lay_over(base: Layer, top: Layer) -> Layer:
    """Return `base` with the settings of `top`. If `top` changes a `kind`, the settings beside it in `base` are removed."""
    # Settings of another kind would be unknown to the new one, or have the same name and another meaning.
    changed = [name for name in top.values if name.endswith(".kind") and top.values[name] != base.values.get(name)]
    parts = tuple(name.removesuffix("kind") for name in changed)
    kept = {name: value for name, value in base.values.items() if not name.startswith(parts)}
    places = {name: place for name, place in base.places.items() if name not in top.values}
    return Layer(kept | top.values, places | top.places)


def kinds_of(hint: Any) -> dict[str, type]:
    """Return a mapping of each `kind` to its class, for a `Family` or a union of classes; empty for any other type."""
    if isinstance(hint, type) and issubclass(hint, Family) and not hint.kind:
        return dict(hint.kinds())
    if get_origin(hint) not in (UnionType, Union):
        return {}
    return {cls.kind: cls for cls in get_args(hint)}


def setting_names(cls: Any) -> list[str]:
    """Return the dotted names of all settings, also those of every kind."""

    @cache  # for this call only: a plug-in can add a kind later
    def names(cls: Any) -> list[str]:
        found: dict[str, None] = {}  # kinds share names
        for name, facts in facts_of(cls).items():
            parts: list[Any] = list(kinds_of(facts.type).values()) or [facts.type] * is_dataclass(facts.type)
            inner = [f"{name}.{each}" for part in parts for each in names(part)]
            found |= dict.fromkeys(inner if parts else [name])
        return list(found)

    return names(cls)


class _Builder:
    """A builder of the dataclass `root` and its parts from a layer; its errors name the file and line of a wrong value."""

    def __init__(self, layer: Layer, root: type) -> None:
        self._values, self._places, self._root = layer.values, layer.places, root

    def build(self, cls: Any, path: str, kinds: Mapping[str, type] | None = None) -> Any:
        """Build a dataclass from the settings whose names begin with a path, such as `model.decoder.`.

        If the part has kinds, `kinds` has the classes of all that could be chosen, for messages.
        """
        part = path.removesuffix(".")
        if self._values.get(part, {}) != {}:
            hint = f" (write '{part}.kind' to choose one of: {', '.join(kinds)})" if kinds else ""
            raise self._error(part, f"{part} is {show(self._values[part])}, expected settings below it{hint}")
        facts = facts_of(cls)
        names = {name[len(path) :].partition(".")[0]: name for name in self._values if name.startswith(path)}
        for name, full in names.items():
            if not name:
                raise self._error(full, f"unknown setting '{full}': a part of its name is empty")
            if name not in facts:
                raise self._error(f"{path}{name}", self._describe_unknown(cls, name, path, kinds or {}))
        return cls(**{name: self._value(facts[name], f"{path}{name}") for name in facts if name in names})

    def _error(self, name: str, message: str) -> ConfigError:
        return _error(self._places, name, message)

    def _value(self, facts: FieldFacts, name: str) -> Any:
        if kinds := kinds_of(facts.type):
            kind = self._values.get(f"{name}.kind", next(iter(kinds)) if facts.default is MISSING else facts.default.kind)
            if kind not in (kinds if isinstance(kind, str) else ()):
                kinds = self._import_kind(facts.type, kind, f"{name}.kind")
            return self.build(kinds[kind], f"{name}.", kinds)
        if is_dataclass(facts.type):
            return self.build(facts.type, f"{name}.")
        if inner := next((other for other in self._values if other.startswith(f"{name}.")), ""):
            raise self._error(inner, f"unknown setting '{inner}'; '{name}' has no settings below it")
        try:
            return convert(facts.type, self._values[name])
        except ValueError as error:
            raise self._error(name, f"{name} is {error}") from None

    def _import_kind(self, hint: Any, kind: Any, name: str) -> dict[str, type]:
        """Import packages that offer a kind until one defines it, and return all known kinds; raise an error if none does."""
        entries = list(entry_points(group=KINDS, name=kind)) if isinstance(kind, str) else []
        for entry in entries:
            try:
                load_entry(entry, name)
            except ConfigError as error:
                raise self._error(name, str(error)) from error
            if kind in kinds_of(hint):
                return kinds_of(hint)
        kinds = kinds_of(hint)
        advice = nearest(kind, [*kinds, *entry_names(KINDS)]) or "; if another package defines this kind, install it"
        if entries:
            advice = f"; its entry point '{entries[0].value}' defines no such kind"
        raise self._error(name, f"{name} is {show(kind)}, expected one of: {', '.join(kinds)}{advice}")

    def _describe_unknown(self, cls: type, name: str, path: str, kinds: Mapping[str, type]) -> str:
        """Return the message about an unknown setting: the kinds that have it, or the known setting that was probably meant."""
        if others := [kind for kind, other in kinds.items() if name in facts_of(other)]:
            chosen = next(kind for kind, other in kinds.items() if other is cls)
            part = path.removesuffix(".")
            return f"{part} of kind '{chosen}' has no setting '{name}'; it belongs to kind: {', '.join(others)}"
        full, known = f"{path}{name}", setting_names(self._root)
        namesakes = [other for other in known if other.rpartition(".")[2] == name]
        meant = (
            nearest(full, namesakes)
            or (f"; did you mean '{namesakes[0]}'?" if namesakes else "")
            or nearest(full, [f"{path}{sibling}" for sibling in facts_of(cls)])
            or nearest(full, known)
            or f"; known here: {', '.join(facts_of(cls))}"
        )
        return f"unknown setting '{full}'{meant}"
