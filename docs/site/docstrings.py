"""Conversion of docstrings, which are plain text with `code`, into the reStructuredText that Sphinx expects.

Names whose docstring has no example get theirs from `docs.site.examples`.
"""

import inspect
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

from docs.formulas import FORMULAS
from docs.papers import link_papers
from docs.site.examples import example_of
from docs.site.examples.configs import generated
from docs.site.related import links
from regard.config import Settings
from regard.config.fields import facts_of, field_docs

_EXAMPLE = ("Example:", "Examples:")
_CODE = re.compile(r"(`+[^`]+`+)")
_SPECIAL = re.compile(r"([|*\\]|(?<=\w)_(?=\W|$))")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the conversion; docstrings are converted before napoleon reads their sections."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """Return the parameters of `__init__`; Sphinx would show those of `__new__`, which accepts and checks any arguments."""
    if what != "class" or "__init__" not in vars(obj):
        return None
    made = signature(obj.__init__, bound_method=True)
    if is_dataclass(obj):  # without constraints such as `Ge(1)`
        types = {name: facts.type for name, facts in facts_of(obj).items()}
        made = made.replace(parameters=[item.replace(annotation=types[name]) for name, item in made.parameters.items()])
    text = stringify_signature(made, show_return_annotation=False, unqualified_typehints=True)
    return text.replace("<factory>", "..."), None  # with `<factory>`, which is not Python, Sphinx breaks lines at every comma


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    short = name.rpartition(".")[2]
    if what in ("attribute", "property"):
        lines.insert(0, "")  # otherwise napoleon reads the text before the first colon as a type
    if isinstance(obj, UnionType):
        lines[:] = [f"One of {', '.join(f'`{cls.__name__}`' for cls in obj.__args__)}, chosen by its `kind`.", ""]
    if what == "class" and is_dataclass(obj):
        lines += ["", *_settings(obj)] if issubclass(obj, Settings) else ["", *_inherited_fields(obj)]
    if what in ("class", "function", "exception", "data") and not any(line.strip() in _EXAMPLE for line in lines):
        lines += _example(name)
    example = False
    for place, line in enumerate(lines):
        if line.strip() and not line.startswith(" "):
            example = line.strip() in _EXAMPLE
        if not example and not line.lstrip().startswith((">>>", "...")):
            lines[place] = link_papers(escape(line), "`{} <{}>`__".format)
    if what == "class" and name.startswith("regard.attention.") and short in FORMULAS and "" in lines:
        first = lines.index("")
        lines[first:first] = ["", ".. math::", "", f"    {FORMULAS[short]}"]
    if what in ("class", "function", "exception") and (found := links(short)):
        lines += ["", f".. seealso:: {' · '.join(found)}", ""]


def _settings(cls: Any) -> list[str]:
    """Return all fields of a class of settings, inherited ones too, as a section that napoleon parses."""
    docs, facts = field_docs(cls), facts_of(cls)
    shown = [item for item in fields(cls) if item.name != "kind"]
    lines = [f"    {item.name} ({_type(facts[item.name].type)}): {docs[item.name]}{_default(item)}" for item in shown]
    return ["Args:", *lines] if lines else []


def _inherited_fields(cls: Any) -> list[str]:
    """Return the fields that autodoc leaves out, because a base class defines them, as a section that napoleon parses."""
    docs = field_docs(cls)
    names = [item.name for item in fields(cls) if item.name not in inspect.get_annotations(cls) and item.name[0] != "_"]
    return ["Attributes:", *(f"    {name}: {docs[name]}" for name in names if docs[name])] if names else []


def _type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(f"'{choice}'" for choice in get_args(hint))
    if isinstance(hint, UnionType):
        return " or ".join(_type(part) for part in get_args(hint))
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _default(item: Field[Any]) -> str:
    if item.default is not MISSING:
        return f" Default: `{item.default!r}`."
    if item.default_factory is not MISSING:
        return f" Default: `{item.default_factory()!r}`."
    return ""


def _example(name: str) -> list[str]:
    module, _, short = name.rpartition(".")
    code = example_of(module, short)
    if not code:
        return []
    blocks = [("", "python", code)]
    if made := generated().get(short):
        blocks += [("In a YAML file:", "yaml", made.yaml), ("On the command line:", "shell", made.command)]
    lines = ["", "Example:"]
    for text, language, block in blocks:
        lines += [*(["", f"    {text}"] if text else []), "", f"    .. code-block:: {language}", ""]
        lines += [f"        {row}" for row in block.splitlines()]
    return [*lines, ""]


def escape(line: str) -> str:
    """Return a line of a docstring with its code as literals, and with all other markup of reStructuredText escaped."""
    parts = _CODE.split(line)
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = f"``{part.strip('`')}``"
        else:
            parts[place] = _SPECIAL.sub(r"\\\1", part)
    return "".join(parts)
