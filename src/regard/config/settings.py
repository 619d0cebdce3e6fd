"""Base classes of all settings. The `repr` of settings shows only changed ones."""

from abc import ABC
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any, ClassVar

from regard.errors import ConfigError

_DEFINITIONS = count()


class Settings:
    """Base class of all dataclasses of settings."""

    _definition: ClassVar[int]
    """Number of the class, in the order in which classes were defined."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._definition = next(_DEFINITIONS)
        if "__repr__" not in cls.__dict__:
            # If the class itself has no `__repr__`, `@dataclass` adds one that prints all settings, which is a page long.
            inherited = next(base.__dict__["__repr__"] for base in cls.__mro__[1:] if "__repr__" in base.__dict__)
            type.__setattr__(cls, "__repr__", inherited)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in _differences(self))
        return f"{type(self).__name__}({shown})"

    def conflicts(self) -> Iterable[tuple[str, str]]:
        """Return the conflicts between settings; each is a pair of the dotted name of a setting and a message for the user."""
        return ()


class DataSettings(Settings):
    """Base class of the settings under `data` of all tasks."""

    train: tuple[str, ...]
    """Training files. The default name of the run's folder is the name of the first file."""
    dev: tuple[str, ...]
    """Files to validate on; empty: a part of `train` is held out."""


class ModelSettings(Settings):
    """Base class of the settings under `model` of all tasks."""

    freeze: tuple[str, ...]
    """Parts that training does not change: `embeddings`, modules such as `encoder`, or prefixes of parameter names."""


class Family(Settings, ABC):
    """Base class of a family of settings classes, such as those of attention mechanisms; a run chooses a class by its `kind`.

    Each subclass with a default for `kind` is one kind. Once its module is imported, the kind can be chosen wherever the family
    is expected, also in YAML. If a configuration names a kind that is not imported, `load_config` imports the installed
    packages that offer it (`regard.config.plugins`).
    """

    @classmethod
    def kinds(cls) -> "dict[str, type[Family]]":
        """Return a mapping of each `kind` of the family to its class.

        Raises:
            ConfigError: If two classes with different full names (module and class) have the same kind.
        """
        found: dict[str, type[Family]] = {}
        for each in _descendants(cls):
            kind = getattr(each, "kind", None)
            if not isinstance(kind, str):
                continue
            other = found.get(kind, each)
            if _full_name(other) != _full_name(each):
                raise ConfigError(
                    f"{_full_name(other)} and {_full_name(each)} have the same kind, '{kind}'; give one of them another kind"
                )
            # In a notebook, a class may be defined again, perhaps with another base. The last definition counts.
            found[kind] = max(other, each, key=lambda one: one._definition)
        return found


def _descendants(cls: type[Family]) -> Iterator[type[Family]]:
    for each in cls.__subclasses__():
        yield each
        yield from _descendants(each)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def changed_settings(config: Any) -> dict[str, Any]:
    """Return the settings that differ from the defaults, nested as in a YAML file.

    Args:
        config: A run's configuration, or a part of one. For a part whose `kind` is not the default, the result contains the
            `kind`, and the settings that differ from the defaults of this kind.
    """
    found: dict[str, Any] = {}
    for name, value in _differences(config):
        if is_dataclass(value):
            other = type(value) is not type(getattr(type(config)(), name))
            found[name] = ({"kind": value.kind} if other and hasattr(value, "kind") else {}) | changed_settings(value)
        else:
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


def _differences(config: Any) -> list[tuple[str, Any]]:
    defaults = type(config)()
    pairs = [(item.name, getattr(config, item.name), getattr(defaults, item.name)) for item in fields(config)]
    return [(name, value) for name, value, default in pairs if value != default]
