"""Examples of public names whose docstring has none: each is a section `## Name` in a Markdown file of this folder.

A name that several modules have is written with its module: `## viz.grid.draw`.
"""

import re
from functools import cache
from pathlib import Path

_SECTION = re.compile(r"^## ([\w.]+)\n(?:% [^\n]*\n+)?```python\n(.*?)```", re.M | re.S)


@cache
def examples() -> dict[str, str]:
    """Return the code of each name's example.

    The examples of mechanisms come from their pages, and those of most classes of settings are generated.
    """
    from docs.generate.page import MECHANISMS, example_code
    from docs.site.examples.configs import generated

    found = {entry.name: example_code(entry.example) + "\n" for entry in MECHANISMS}
    found |= {name: example.python for name, example in generated().items()}
    for file in sorted(Path(__file__).parent.glob("*.md")):
        found |= dict(_SECTION.findall(file.read_text(encoding="utf-8")))
    return found


def example_of(module: str, name: str) -> str:
    """Return the example of a name that a module defines, or an empty text."""
    return examples().get(f"{module}.{name}".removeprefix("regard."), examples().get(name, ""))
