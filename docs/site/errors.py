"""The error index: the messages of regard's own errors, collected from the source."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType

from docs.site.folding import folded, search_field

SOURCE = Path(__file__).parents[2] / "src" / "regard"
KINDS = {
    "ConfigError": "A setting or an argument is misspelt, of the wrong type, out of range, or contradicts another one.",
    "ArgumentError": "A call has an unknown argument, too many arguments, or one of the wrong type.",
    "DataError": "A file cannot be read, or its content is not what it should be.",
    "ShapeError": "A tensor or an array has the wrong shape.",
    "BundleError": "A folder is not a trained model, or the model is damaged or too new.",
    "RequestError": "A trained model or a record cannot do what was asked for.",
    "TrainingError": "Training cannot continue.",
}
AREAS = {
    "text": "Data files and tokenizers",
    "config": "Settings",
    "choose": "Settings",
    "presets": "Settings",
    "attention": "Attention",
    "layers": "Models",
    "models": "Models",
    "bundle": "Models on disk",
    "records": "Attention records",
    "viz": "Pictures",
    "decoding": "Predictions",
    "tasks": "Tasks",
    "training": "Training",
    "processes": "Several processes",
    "analysis": "Analysis",
    "evaluation": "Scores",
    "cli": "Command line",
    "demo": "Demo",
}


# A message with fewer characters of its own consists of the variables that it names.
_SHORT = 30
# Maximum number of values of a variable that are listed.
_MOST = 6


@dataclass(frozen=True, order=True)
class Message:
    """One message of an error, the class of the error, and the area of the package that raises it."""

    area: str
    kind: str
    text: str


@cache
def collect() -> tuple[Message, ...]:
    """Return the messages of regard's own errors, each once; messages without literal words are left out."""
    modules = [_Module(path) for path in sorted(SOURCE.rglob("*.py"))]
    found = set()
    for module in modules:
        area = AREAS.get(module.path.relative_to(SOURCE).parts[0].removesuffix(".py"), "Other")
        for kind, text in _raised(module, modules):
            words = " ".join(text.split())
            if len(words) > 12 and re.search(r"[a-z]{3}", re.sub(r"`[^`]*`", "", words).replace("…", "")):
                found.add(Message(area, kind, words))
    return tuple(sorted(found))


class _Module:
    """A file of the package, with the function around each call."""

    def __init__(self, path: Path) -> None:
        self.path, self.calls = path, list[tuple[ast.Call, _Function | None]]()
        self.calls_of: dict[str, list[tuple[ast.Call, _Function | None]]] = defaultdict(list)
        self.yields: list[ast.Yield] = []
        self._visit(ast.parse(path.read_text(encoding="utf-8")), None)

    def _visit(self, node: ast.AST, around: "_Function | None") -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                self.calls.append((child, around))
                self.calls_of[_called(child)].append((child, around))
            if isinstance(child, ast.Yield) and around is not None and around.name.endswith("conflicts"):
                self.yields.append(child)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            self._visit(child, _Function(child) if inside else around)


class _Function:
    """A function: its parameters, and the values of its local variables."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.name, given = node.name, node.args
        places = [each.arg for each in (*given.posonlyargs, *given.args)]
        self.method = places[:1] in (["self"], ["cls"])
        self.places = places[self.method :]
        self.parameters = {*places, *(each.arg for each in given.kwonlyargs)}
        self.values: dict[str, list[ast.expr]] = defaultdict(list)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
                self.values[inner.targets[0].id].append(inner.value)

    def given(self, call: ast.Call) -> dict[str, ast.expr]:
        """Return the arguments of a call of this name by parameter name; none if a method is called like a function."""
        if self.method and not isinstance(call.func, ast.Attribute):
            return {}
        named = {each.arg: each.value for each in call.keywords if each.arg}
        return dict(zip(self.places, call.args, strict=False)) | named


def _called(call: ast.Call) -> str:
    """Return the name of the function or method that is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _raised(module: _Module, modules: list[_Module]) -> Iterator[tuple[str, str]]:
    for call, around in module.calls:
        if isinstance(call.func, ast.Name) and call.func.id in KINDS and call.args:
            for text in _texts(call.args[0], around):
                yield call.func.id, text
            yield from _helped(call.func.id, call.args[0], around, module, modules)
    for pair in module.yields:  # the conflicts between settings
        if isinstance(pair.value, ast.Tuple):
            yield from (("ConfigError", text) for text in _texts(pair.value.elts[-1], None))


def _helped(
    kind: str, message: ast.expr, around: _Function | None, module: _Module, modules: list[_Module]
) -> Iterator[tuple[str, str]]:
    """Yield the messages of a function whose argument is a part of them: one for each of its calls."""
    passed = (
        set() if around is None else {node.id for node in ast.walk(message) if isinstance(node, ast.Name)} & around.parameters
    )
    if around is None or not passed:
        return
    for other in [module] if around.name.startswith("_") else modules:
        for call, caller in other.calls_of[around.name]:
            given = around.given(call)
            for name in passed & given.keys():
                said = (text for text in _texts(given[name], caller) if _is_said(text))
                yield from ((kind, filled) for text in said for filled in _texts(message, around, {name: text}))


def _is_said(text: str) -> bool:
    """Return whether a text is a message, or the main part of one, and not a name."""
    return text.count(" ") > 2


def _texts(node: ast.expr, around: _Function | None, known: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return the texts that a message can be, with … for each value that is filled in.

    `known` has the values of parameters. A message that has hardly any words of its own consists of local variables.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Name) and node.id in known:
        return [known[node.id]]
    if isinstance(node, ast.IfExp):
        return [text for each in (node.body, node.orelse) for text in _texts(each, around, known) if _is_said(text)]
    parts: Sequence[ast.expr] = ()
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = node.left, node.right
    elif isinstance(node, ast.Name):
        parts = [node]
    short = sum(len(part.value) for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)) < _SHORT
    choices = []
    for part in parts:
        found = _texts(part, around, known) if not isinstance(part, ast.Name) or part.id in known else []
        if isinstance(part, ast.Name) and part.id not in known and short and around is not None:
            found = [text for value in around.values.get(part.id, ()) for text in _texts(value, None) if _is_said(text)]
        choices.append(found[:_MOST] or ["…"])
    return [re.sub("…+", "…", "".join(each)) for each in product(*choices)] if choices else []


def page() -> str:
    """Return the error index in Markdown."""
    by_area: dict[str, list[Message]] = defaultdict(list)
    for message in collect():
        by_area[message.area].append(message)
    kinds = "".join(f"\n| `{kind}` | {meaning} |" for kind, meaning in KINDS.items())
    beginning = (Path(__file__).parent / "errors.md").read_text(encoding="utf-8").rstrip()
    tables = f"{search_field('Search the messages:')}\n\n| error | meaning |\n|---|---|{kinds}"
    parts = [beginning.replace("<!-- kinds -->", tables)]
    for area in dict.fromkeys([*AREAS.values(), "Other"]):
        if area in by_area:
            lines = "\n".join(f"- `{message.kind}`: {_escape(message.text)}" for message in by_area[area])
            parts += [f"## {area}", folded(f"{len(by_area[area])} messages", lines)]
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    return re.sub(r"([\\*_{}\[\]<>#$|`])", r"\\\1", text)
