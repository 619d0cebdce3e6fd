"""The modules of public names, which packages import when a name is first used."""

import ast
from pathlib import Path


def read_homes(file: str) -> dict[str, str]:
    """Return the module of each public name of a package, from the imports `from MODULE import NAME as NAME` in its stub.

    Args:
        file: Path of the package's `__init__.py`; the stub is `__init__.pyi` in the same folder.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {one.asname: str(node.module) for node in imports for one in node.names if one.asname}
