"""No module imports another that imports it, counting imports inside functions and those for type checkers only."""

import ast
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import regard

SOURCES, ROOT = Path(regard.__file__).parent, Path(__file__).parents[1]


def find_imports(folder: Path) -> dict[str, set[str]]:
    """Return, for each module of a package, the modules of the package that it imports anywhere in its text."""
    paths = {".".join((folder.name, *path.relative_to(folder).with_suffix("").parts)): path for path in folder.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*parents, *filter(None, [node.module])])
                for alias in node.names:  # a module of the package, or a name in it
                    imported.add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base)
        found[name] = imported & modules.keys() - {name}
    return found


def find_cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others (Tarjan's strong components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(imports[module]):
            if other not in order:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                cycles.append(sorted(group))

    for module in sorted(imports):
        if module not in order:
            visit(module)
    return cycles


def test_the_documented_layers_are_those_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [line.replace("regard.", "").split(" | ") for line in contracts[0]["layers"]]
    place = {name: number for number, names in enumerate(reversed(layers)) for name in names}
    rows = re.findall(r"^\| F\d \| (.*) \|$", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = [re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row)) for row in rows]
    assert sorted(name for names in named for name in names) == sorted(place)
    places = [[place[name] for name in names] for names in named]
    assert all(max(lower) < min(higher) for lower, higher in pairwise(places))


def test_there_is_no_cycle():
    imports = find_imports(SOURCES)
    assert len(imports) > 250
    cycles = find_cycles(imports)
    assert not cycles, "\n".join(
        f"{module} imports {', '.join(sorted(imports[module] & set(group)))}" for group in cycles for module in group
    )
