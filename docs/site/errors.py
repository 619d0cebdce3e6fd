"""The error index: the messages of regard's own errors, collected from the source."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.site.folding import folded, search_field

SOURCE = Path(__file__).parents[2] / "src" / "regard"
KINDS = {
    "ConfigError": "A setting or an argument is misspelt, of the wrong type, out of range, or contradicts another one.",
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


@dataclass(frozen=True, order=True)
class Message:
    """One message of an error, the class of the error, and the area of the package that raises it."""

    area: str
    kind: str
    text: str


def collect() -> list[Message]:
    """Return the messages of regard's own errors, each once; messages without literal words are left out."""
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for kind, text in _raised(ast.parse(path.read_text(encoding="utf-8"))):
            if re.search(r"[a-z]{3}", re.sub(r"`[^`]*`", "", text).replace("…", "")):
                found.add(Message(AREAS.get(package, "Other"), kind, text))
    return sorted(found)


def _raised(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS and node.args:
            text = " ".join(_text(node.args[0]).split())
            if len(text) > 12:
                yield node.func.id, text


def _text(node: ast.expr) -> str:
    """Return the literal parts of a message, with … for each value that is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return "…"


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
