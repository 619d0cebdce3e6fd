"""Docstrings are written in plain text with `code`; turn them into the reStructuredText that Sphinx expects.

Names whose docstring has no example get theirs from `docs.site.examples`.
"""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

from docs.site.examples import examples

_EXAMPLE = ("Example:", "Examples:")
_CODE = re.compile(r"(`+[^`]+`+)")
_SPECIAL = re.compile(r"([|*\\]|(?<=\w)_(?=\W|$))")


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """Show the parameters of the constructor, although a metaclass checks the call first."""
    if what != "class" or "__init__" not in vars(obj):
        return None
    made = signature(obj.__init__, bound_method=True)
    return stringify_signature(made, show_return_annotation=False, unqualified_typehints=True), None


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what in ("class", "function", "exception", "data") and not any(line.strip() in _EXAMPLE for line in lines):
        code = examples().get(name.rpartition(".")[2])
        if code:
            lines += [
                "",
                "Example:",
                "",
                "    .. code-block:: python",
                "",
                *(f"        {row}" for row in code.splitlines()),
                "",
            ]
    example = False
    for place, line in enumerate(lines):
        if line.strip() and not line.startswith(" "):
            example = line.strip() in _EXAMPLE
        if not example and not line.lstrip().startswith((">>>", "...")):
            lines[place] = escape(line)


def escape(line: str) -> str:
    """Return a line with its code as literals, and with nothing else that reStructuredText would read as markup."""
    parts = _CODE.split(line)
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = f"``{part.strip('`')}``"
        else:
            parts[place] = _SPECIAL.sub(r"\\\1", part)
    return "".join(parts)
