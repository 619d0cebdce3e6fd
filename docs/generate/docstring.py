"""Read the parts of the docstring of a class or a function, and its signature as written in the source.

The source is read instead of the running object, because shape checkers wrap functions and change their annotations.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from regard.attention.arguments import constructor_parameters

_LABEL = re.compile(r"(?:^|(?<=\s))(Shapes|Cost|Reference|Differs from the (?:paper|tutorial)|Proof): ")
_SECTIONS = ("Args:", "Returns:", "Raises:", "Example:")


@dataclass
class Described:
    """The parts of a docstring."""

    text: list[str] = field(default_factory=list)
    """Paragraphs without a label."""
    labelled: dict[str, str] = field(default_factory=dict)
    """Text by label: `Shapes`, `Cost`, `Reference`, `Differs from the paper`, `Differs from the tutorial`, `Proof`."""
    arguments: dict[str, str] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)
    """Text by section: `Returns`, `Raises`, `Example`; the arguments are in `arguments`."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a signature, as written in the source."""

    name: str
    kind: str
    default: str | None
    keyword_only: bool


def describe(documented: Callable[..., Any]) -> Described:
    """Split the docstrings of a function, or of a class and its constructor, into parts."""
    described = Described()
    _read(inspect.cleandoc(documented.__doc__ or ""), described)
    if not inspect.isclass(documented):
        return described
    if "__init__" in vars(documented):
        _read(inspect.cleandoc(vars(documented)["__init__"].__doc__ or ""), described)
    names = [parameter.name for parameter in signature(documented)]
    for base in documented.__mro__[1:-1]:  # arguments that only a base class documents
        if set(names) - described.arguments.keys() and base.__module__.startswith("regard."):
            above = Described()
            _read(inspect.cleandoc(base.__doc__ or ""), above)
            described.arguments = above.arguments | described.arguments
            described.sections = above.sections | described.sections
    described.arguments = {name: described.arguments[name] for name in names if name in described.arguments}
    return described


def _read(doc: str, described: Described) -> None:
    section, name = "", ""
    paragraph: list[str] = []
    for line in [*doc.splitlines(), ""]:
        if line.strip() in _SECTIONS:
            section = line.strip()[:-1]
        elif _LABEL.match(line) or (line and not line.startswith(" ")):
            section = ""
        if line.strip() in _SECTIONS:
            continue
        if not section:
            paragraph = [*paragraph, line.strip()] if line.strip() else _finish(paragraph, described)
        elif section == "Args":
            found = re.match(r" {0,4}(\w+): (.*)", line)
            if found:
                name = found[1]
                described.arguments[name] = found[2]
            elif line.strip():
                described.arguments[name] += " " + line.strip()
        elif line.strip():
            described.sections[section] = (described.sections.get(section, "") + " " + line.strip()).strip()


def _finish(paragraph: list[str], described: Described) -> list[str]:
    first, *rest = _LABEL.split(" ".join(paragraph))
    if first.strip():
        described.text.append(first.strip())
    for label, text in zip(rest[::2], rest[1::2], strict=True):
        described.labelled[label] = text.strip()
    return []


def signature(documented: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function, or of a class's constructor, which may be that of a base class.

    If a constructor passes further arguments on to that of its parent, these are included.
    """
    if not inspect.isclass(documented):
        return _written(documented, documented.__name__)
    if is_dataclass(documented):
        return []
    bases = [base for base in documented.__mro__ if base.__module__.startswith("regard.") and "__init__" in vars(base)]
    written = {parameter.name: parameter for base in reversed(bases) for parameter in _written(base, "__init__")}
    return [written[each.name] for each in constructor_parameters(documented)] if bases else []


def _written(documented: Callable[..., Any], name: str) -> list[Parameter]:
    """Return the parameters of a function, or of a method of a class, as its source writes them."""
    module = inspect.getmodule(documented)
    assert module is not None
    body = ast.parse(inspect.getsource(module)).body
    if inspect.isclass(documented):
        [tree_of_class] = [n for n in body if isinstance(n, ast.ClassDef) and n.name == documented.__name__]
        body = tree_of_class.body
    [made] = [n for n in body if isinstance(n, ast.FunctionDef) and n.name == name]
    plain = [a for a in made.args.args if a.arg != "self"]
    defaults = [None] * (len(plain) - len(made.args.defaults)) + list(made.args.defaults)
    return [
        *(_parameter(a, d, keyword_only=False) for a, d in zip(plain, defaults, strict=True)),
        *(_parameter(a, d, keyword_only=True) for a, d in zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True)),
    ]


def _parameter(argument: ast.arg, default: ast.expr | None, *, keyword_only: bool) -> Parameter:
    kind = "" if argument.annotation is None else ast.unparse(argument.annotation).replace("' ", "'").replace("'", '"')
    return Parameter(argument.arg, kind, None if default is None else ast.unparse(default), keyword_only)


def call(documented: Callable[..., Any]) -> str:
    """Return the call with its defaults, in several lines if it is long: `Additive(query_size, *, key_size=None, …)`."""
    parts, starred = [], False
    for parameter in signature(documented):
        if parameter.keyword_only and not starred:
            parts.append("*")
            starred = True
        parts.append(parameter.name + ("" if parameter.default is None else f"={parameter.default}"))
    head = f"{documented.__name__}("
    return "\n".join(textwrap.wrap(head + ", ".join(parts) + ")", 110, subsequent_indent=" " * len(head)))
