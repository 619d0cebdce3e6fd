"""Packages whose public names are imported when they are first used."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def read_homes(file: str) -> dict[str, str]:
    """Return the module of each public name of a package, from the imports `from MODULE import NAME as NAME` in its stub."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {one.asname: str(node.module) for node in imports for one in node.names if one.asname}


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the functions `__getattr__` and `__dir__` and the list `__all__` of a package that has a stub; see `read_homes`.

    Args:
        package: Name of the package.
        file: Path of its `__init__.py`.
    """
    homes = read_homes(file)

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted({*vars(sys.modules[package]), *homes}), sorted(homes)
