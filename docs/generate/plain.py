"""The plain form of a mechanism, from the first lines of its module, and the option that chooses the mechanism in a run."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

import regard
from regard.attention import MultiHead, Pooling, ScaledDot
from regard.attention.heads import attend
from regard.attention.ordered.monotonic import SoftToHard
from regard.config import AttentionConfig, PoolingConfig
from regard.config.attention import DotConfig
from regard.errors import ConfigError

FIRST_SCREEN = 60
"""Number of lines at the beginning of a module whose functions are shown if a class calls none of the module."""
REPOSITORY = "https://github.com/regard-attention/regard/blob/main"


def module_path(kind: type[nn.Module]) -> str:
    """Return the path of a class's module in the repository."""
    return f"src/regard/{Path(inspect.getfile(kind)).relative_to(Path(regard.__file__).parent).as_posix()}"


def plain_form(kind: type[nn.Module]) -> str:
    """Return the plain form of a class: the functions of its module that the class calls, or that its docstring names.

    Only the summaries of their docstrings are shown. If there is no such function, those in the first 60 lines are shown.
    """
    # The formula of several heads has a module of its own, because other mechanisms call it too.
    path = inspect.getfile(attend if kind is MultiHead else kind)
    source = Path(path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    called = set(_called([cls for cls in tree.body if _is_parent(cls, kind)], functions))
    called |= set(re.findall(r"`(plain_\w+)`", kind.__doc__ or ""))
    chosen = [node for name, node in functions.items() if name in called and not name.startswith("_")]
    chosen = chosen or [node for node in functions.values() if (node.end_lineno or 0) <= FIRST_SCREEN]
    return "\n\n\n".join(_without_details(source, node) for node in chosen)


def _is_parent(node: ast.stmt, kind: type[nn.Module]) -> bool:
    return isinstance(node, ast.ClassDef) and node.name in {parent.__name__ for parent in kind.__mro__}


def _called(nodes: list[Any], functions: dict[str, ast.FunctionDef], seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the names of the module's functions that the nodes use, directly or through other functions of the module."""
    names = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)} & functions.keys() - set(seen)
    yield from names
    for name in names:
        yield from _called([functions[name]], functions, (*seen, *names))


def _without_details(source: str, node: ast.FunctionDef) -> str:
    """Return the source of a function, with only the summary of its docstring."""
    lines = source.splitlines()
    docstring = node.body[0]
    assert isinstance(docstring, ast.Expr)
    summary = (ast.get_docstring(node) or "").split("\n\n")[0]
    head, body = lines[node.lineno - 1 : docstring.lineno - 1], lines[docstring.end_lineno : node.end_lineno]
    return "\n".join([*head, f'    """{summary}"""', *body])


def option(kind: type[nn.Module]) -> str:
    """Return the option that chooses a mechanism in a recurrent translator, or a pooling in a classifier."""
    if kind is ScaledDot:
        return f"--model.decoder.attention.kind {DotConfig.kind} --model.decoder.attention.scaled true"
    return _options()[kind]


def _options() -> dict[type[nn.Module], str]:
    found: dict[type[nn.Module], str] = {}
    builders: list[tuple[str, dict[str, Any], Callable[[Any], nn.Module]]] = [
        ("--model.decoder.attention.kind", AttentionConfig.kinds(), lambda cls: cls().build(query_size=8, key_size=8)),
        ("--model.pooling.kind", PoolingConfig.kinds(), lambda cls: cls().build(size=8)),
    ]
    for name, kinds, build in builders:
        for kind, cls in kinds.items():
            if cls.__module__.startswith("regard."):
                module = build(cls)
                found[type(module.soft) if isinstance(module, SoftToHard) else type(module)] = f"{name} {kind}"
    return found


def section(kind: type[nn.Module]) -> str:
    """Return the part of a page that shows the plain form and how to choose the mechanism."""
    path = module_path(kind)
    if kind is MultiHead:
        path = path.replace("multihead", "attend")
    used = "a classifier" if issubclass(kind, Pooling) else "a recurrent translator"
    return f"```python\n{plain_form(kind)}\n```\n\nFrom [{path}](../../{path}).\n\nIn {used}: `{option(kind)}`.{_widths(kind)}"


def _widths(kind: type[nn.Module]) -> str:
    """Return a sentence on the widths of a translator if queries and keys must have the same width; else an empty text."""
    if issubclass(kind, Pooling):
        return ""
    try:
        AttentionConfig.kinds()[option(kind).split()[1]]().build(query_size=8, key_size=16)
    except ConfigError:
        return (
            " Its queries and keys must have the same width. In the presets `luong` and `bahdanau`, the decoder's states have "
            "256 numbers and the encoder's 512 (256 for each direction), so add `--model.decoder.hidden_size 512`."
        )
    return ""
