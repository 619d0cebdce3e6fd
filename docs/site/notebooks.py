"""Notebooks of the lessons: each page as an .ipynb file that opens in Jupyter, VS Code or Colab.

They are written into docs/lessons/notebooks, which is not part of the repository, before Sphinx reads its sources.
"""

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LESSONS = Path(__file__).parents[1] / "lessons"
FOLDER = LESSONS / "notebooks"
_CODE = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```\n", re.M | re.S)
_HEADER = re.compile(r"\A---\n.*?^---\n", re.M | re.S)
_DOWNLOAD = re.compile(r"\s*\{download\}`[^`]*`\.?")
_DROPDOWN = re.compile(r"^:::\{dropdown\} (.*?)\n(.*?)^:::\n?", re.M | re.S)
_ADMONITION = re.compile(r"^:::\{admonition\} (.*?)\n(.*?)^:::\n?", re.M | re.S)
_IMAGE = re.compile(r"^```\{image\} \S+\n:alt: (.*?)\n.*?^```\n", re.M | re.S)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\([^)\s]+\.md[^)]*\)")
_INSTALL = (
    "To run this notebook, install regard in the environment of its kernel: "
    "`pip install git+https://github.com/regard-attention/regard`."
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the notebooks before Sphinx reads the links to them."""
    app.connect("builder-inited", lambda _: write_notebooks())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_notebooks() -> None:
    """Write a notebook for each lesson. Files whose content has not changed stay as they are."""
    FOLDER.mkdir(exist_ok=True)
    for page in sorted(LESSONS.glob("[0-9]*.md")):
        text = json.dumps(notebook_of(page.read_text(encoding="utf-8")), ensure_ascii=False, indent=1) + "\n"
        file = FOLDER / f"{page.stem}.ipynb"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def notebook_of(page: str) -> dict[str, Any]:
    """Return the notebook of a MyST page: its code cells without output, and its text as Markdown that Jupyter shows."""
    parts = _CODE.split(_HEADER.sub("", page))
    cells = []
    for place, part in enumerate(parts):
        source = part.strip("\n") if place % 2 else plain_markdown(part)
        if source:
            cells.append(_cell(source, len(cells), code=bool(place % 2)))
    cells.insert(1, _cell(_INSTALL, len(cells), code=False))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def plain_markdown(text: str) -> str:
    """Return Markdown in which directives that only Sphinx knows are replaced or removed."""
    text = _DOWNLOAD.sub("", text)
    text = _DROPDOWN.sub(r"<details><summary>\1</summary>\n\n\2\n</details>\n", text)
    text = _ADMONITION.sub(lambda found: f"**{found[1]}.** {found[2]}", text)
    text = _IMAGE.sub(r"*Picture on the page of the lesson: \1.*\n", text)
    return _LINK.sub(r"\1", text).strip()


def _cell(source: str, number: int, *, code: bool) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "code" if code else "markdown", "id": f"cell-{number}", "metadata": {}}
    if code:
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": source.splitlines(keepends=True)}
