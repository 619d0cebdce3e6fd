"""Base classes of all settings. The `repr` of settings shows only changed ones."""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, dataclass_transform

from regard.config.fields import Role, facts_of
from regard.errors import ArgumentError, ConfigError, RequestError, nearest

SettingsT = TypeVar("SettingsT", bound="Settings")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Settings:
    """Base class of all settings. Each subclass becomes a frozen dataclass with keyword arguments, without a decorator.

    If a run chooses one of several classes, each has a name, its `kind`: `class DotConfig(ScorerConfig, kind="dot")`.
    """

    def __init_subclass__(cls, kind: str = "") -> None:
        super().__init_subclass__()
        if kind:  # the first field, so that files of settings begin with it
            cls.__annotations__ = {"kind": str, **cls.__annotations__}
            cls.kind = kind  # type: ignore[attr-defined]
        dataclass(frozen=True, kw_only=True, repr=False)(cls)  # the usual `repr` prints all settings, which is a page long

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in _differences(self))
        return f"{type(self).__name__}({shown})"

    def conflicts(self) -> Iterable[tuple[str, str]]:
        """Return the conflicts between settings; each is a pair of the dotted name of a setting and a message for the user."""
        return ()


class DataSettings(Settings):
    """Base class of the settings under `data` of all tasks."""

    train: Annotated[tuple[str, ...], Role.FILE] = ()
    """Training files."""
    dev: Annotated[tuple[str, ...], Role.FILE] = ()
    """Files to validate on."""


class ModelSettings(Settings):
    """Base class of the settings under `model` of all tasks."""

    if TYPE_CHECKING:  # only a field of models among which a run chooses
        kind: str = ""

    freeze: tuple[str, ...] = ()
    """Parts that training does not change: `embeddings`, modules such as `encoder`, or prefixes of parameter names."""


class Family(Settings, ABC):
    """Base class of a family of settings classes, such as those of attention mechanisms; a run chooses a class by its `kind`.

    Each subclass with a `kind` can be chosen. Once its module is imported, the kind can be named wherever the family is
    expected, also in YAML. If a configuration names a kind that is not imported, `load_config` imports the installed
    packages that offer it (`regard.config.plugins`).
    """

    _members: ClassVar[dict[str, "type[Family]"]] = {}
    """All subclasses by module and name. In a notebook, a class may be defined again; the last definition counts."""

    kind: str = ""
    """Name of the class; empty for a base of several kinds."""

    def __init_subclass__(cls, kind: str = "") -> None:
        super().__init_subclass__(kind)
        Family._members[f"{cls.__module__}.{cls.__qualname__}"] = cls

    @classmethod
    def kinds(cls) -> "dict[str, type[Family]]":
        """Return a mapping of each `kind` of the family to its class.

        Raises:
            ConfigError: If two classes have the same kind.
        """
        names: dict[str, str] = {}
        for name, each in Family._members.items():
            kind = each.kind
            if kind and issubclass(each, cls) and names.setdefault(kind, name) != name:
                raise ConfigError(f"{names[kind]} and {name} have the same kind, '{kind}'; give one of them another kind")
        return {kind: Family._members[name] for kind, name in names.items()}


def changed_settings(config: Any) -> dict[str, Any]:
    """Return the settings that differ from the defaults, nested as in a YAML file.

    A part whose `kind` is not the default is compared with the defaults of its own kind, which is named.
    """
    changed: dict[str, Any] = {}
    for name, value in _differences(config):
        if is_dataclass(value):
            other = type(value) is not type(getattr(type(config)(), name))
            changed[name] = ({"kind": value.kind} if other and hasattr(value, "kind") else {}) | changed_settings(value)
        else:
            changed[name] = list(value) if isinstance(value, tuple) else value
    return changed


def _differences(config: Any) -> list[tuple[str, Any]]:
    defaults = type(config)()
    pairs = [(item.name, getattr(config, item.name), getattr(defaults, item.name)) for item in fields(config)]
    return [(name, value) for name, value, default in pairs if value != default]


def override(settings: SettingsT, given: Mapping[str, Any], caller: str) -> SettingsT:
    """Return settings with the values that are given as arguments of `caller`; None leaves a setting as it is."""
    facts = facts_of(type(settings))
    changes = {}
    for name, value in given.items():
        if name not in facts:
            raise ArgumentError(f"{caller} got an unexpected argument {name!r}{nearest(name, facts)}")
        if value is not None:
            try:  # NumPy's numbers become Python's, which the types of the fields accept
                changes[name] = facts[name].parse(value.item() if hasattr(value, "item") else value)
            except ValueError as error:
                raise RequestError(f"{name} is {error}") from error
    return replace(settings, **changes)  # type: ignore[type-var]
