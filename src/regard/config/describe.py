"""Descriptions of all settings for help texts, made from their docstrings, defaults and types."""

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any

from regard.config.fields import Range, facts_of
from regard.config.loading import kinds_of


@dataclass(frozen=True)
class Setting:
    """One setting, or the heading of a group of settings."""

    name: str
    """Dotted name of the setting, or of the group."""
    doc: str
    default: str = ""
    choices: tuple[str, ...] = ()
    range: str = ""
    """Range of a number, such as `1 or more`; empty for any other setting, and for any finite number."""
    kind: str = ""
    """For a heading: the `kind` to which the following settings belong; empty if the group has no kinds."""
    heading: bool = False
    """Whether this is the heading of a group."""


def describe(cls: Any, path: str = "", _shown: dict[Any, str] | None = None) -> Iterator[Setting]:
    """Yield all settings of a class, first single values and then groups. Each group, or each kind of a group, has a heading.

    If a group has the same kinds as an earlier group, its text refers to the earlier one instead of repeating the settings.
    """
    shown = {} if _shown is None else _shown
    defaults, facts = cls(), facts_of(cls)
    for name, own in facts.items():
        if name != "kind" and not is_dataclass(own.type) and not kinds_of(own.type):
            limits = "" if own.range == Range() else str(own.range)
            yield Setting(path + name, own.help, _show(getattr(defaults, name)), own.choices, limits)
    for name, own in facts.items():
        if kinds := kinds_of(own.type):
            again = f"Each kind has the settings shown above for {shown[own.type]}." if own.type in shown else ""
            shown.setdefault(own.type, path + name)
            yield Setting(f"{path}{name}.kind", f"{own.help} {again}".strip(), getattr(defaults, name).kind, tuple(kinds))
            for kind, part in () if again else kinds.items():
                yield Setting(path + name, _first_line(part), kind=kind, heading=True)
                yield from describe(part, f"{path}{name}.", shown)
        elif is_dataclass(own.type):
            yield Setting(path + name, _first_line(own.type), heading=True)
            yield from describe(own.type, f"{path}{name}.", shown)


def _first_line(cls: Any) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
