"""Notebooks of the lessons: each page as an .ipynb file that opens in Jupyter, VS Code or Colab.

There are two of each. The student version has no solutions and no outputs, and a cell for each exercise; it is part of the
repository (docs/lessons/student), where Colab opens it, and `python -m docs.generate --text` writes it. The full version is
written into docs/lessons/notebooks when the documentation is built, and gets the outputs of the cells that the build has run.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jupyter_cache import get_cache
from sphinx.application import Sphinx

from docs.site import address
from docs.site.diagrams import DIAGRAMS, STYLE

LESSONS = Path(__file__).parents[1] / "lessons"
FOLDER = LESSONS / "notebooks"
STUDENT = LESSONS / "student"
INSTALL = f"""\
# Install regard unless the kernel has it already; this takes a minute or two. If Colab asks to restart the session, do so.
import importlib.util

if importlib.util.find_spec("regard") is None:
    %pip install --quiet "regard @ {address.INSTALL}"
"""
_CODE = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```\n", re.M | re.S)
_HEADER = re.compile(r"\A---\n.*?^---\n", re.M | re.S)
_DROPDOWN = re.compile(r"^:::\{dropdown\} (.*?)\n(.*?)^:::\n?", re.M | re.S)
_ADMONITION = re.compile(r"^:::\{admonition\} (.*?)\n(.*?)^:::\n?", re.M | re.S)
_IMAGE = re.compile(r"^```\{image\} (\S+)\n:alt: (.*?)\n.*?^```\n", re.M | re.S)
_DIAGRAM = re.compile(r"^```\{diagram\} (\S+)\n```\n", re.M)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:]+\.md)(#[^)]*)?\)")
_EXERCISE = re.compile(r"^(\d)\. ", re.M)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the notebooks before Sphinx reads the links to them, and again with outputs when all pages have run."""
    app.connect("builder-inited", lambda app: write_notebooks(_executed(app)))
    app.connect("source-read", _add_links)
    app.connect("env-updated", lambda app, _: write_notebooks(_executed(app)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _executed(app: Sphinx) -> dict[str, dict[str, Any]]:
    """Return the notebooks with outputs that MyST-NB keeps, by the names of their pages; the latest of each."""
    folder = Path(app.config.nb_execution_cache_path)
    if not folder.exists():
        return {}
    cache = get_cache(folder)
    records = sorted(cache.list_cache_records(), key=lambda record: record.created)
    return {Path(record.uri).stem: cache.get_cache_bundle(record.pk).nb for record in records}


def pages() -> list[Path]:
    """Return the pages of the lessons, in order."""
    return sorted(LESSONS.glob("[0-9]*.md"))


def code_of(page: Path) -> list[str]:
    """Return the code cells of a page."""
    return _CODE.findall(page.read_text(encoding="utf-8"))


def write_notebooks(executed: Mapping[str, dict[str, Any]]) -> None:
    """Write the full notebook of each lesson, with the outputs of its executed page, if there is one with its name."""
    FOLDER.mkdir(exist_ok=True)
    for page in pages():
        notebook = notebook_of(page)
        if page.stem in executed:
            add_outputs(notebook, executed[page.stem])
        _write(FOLDER / f"{page.stem}.ipynb", notebook)


def write_student_notebooks() -> list[Path]:
    """Write the student version of each lesson, and return the files."""
    STUDENT.mkdir(exist_ok=True)
    files = [STUDENT / f"{page.stem}.ipynb" for page in pages()]
    for file, page in zip(files, pages(), strict=True):
        _write(file, notebook_of(page, student=True))
    return files


def add_outputs(notebook: dict[str, Any], executed: dict[str, Any]) -> None:
    """Copy the outputs of an executed page into its notebook; cells whose code has changed since get none."""
    ran = {_source(cell): cell for cell in executed["cells"] if cell["cell_type"] == "code"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and (found := ran.get(_source(cell))):
            cell |= {"execution_count": found["execution_count"], "outputs": _merged(found["outputs"])}


def _merged(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return outputs with the text of all parts of a stream in the first."""
    merged: list[dict[str, Any]] = []
    streams: dict[str, dict[str, Any]] = {}
    for output in outputs:
        if output["output_type"] != "stream":
            merged.append(dict(output))
        elif output["name"] in streams:
            streams[output["name"]]["text"] += "".join(output["text"])
        else:
            streams[output["name"]] = {**output, "text": "".join(output["text"])}
            merged.append(streams[output["name"]])
    return merged


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"]).strip()


def _add_links(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the links to a lesson's notebooks below its first paragraph."""
    page = LESSONS / f"{Path(name).name}.md"
    if name.startswith("lessons/") and page in pages():
        links = (
            f"{{download}}`Notebook with outputs <notebooks/{page.stem}.ipynb>` · "
            f"{{download}}`for students, without solutions <student/{page.stem}.ipynb>` · "
            f"[open in Colab]({address.colab(STUDENT / f'{page.stem}.ipynb')})"
        )
        source[0] = re.sub(r"(^# .*?\n\n.*?\n)\n", rf"\1\n{links}\n\n", source[0], count=1, flags=re.M | re.S)


def notebook_of(page: Path, *, student: bool = False) -> dict[str, Any]:
    """Return the notebook of a MyST page: its code cells without output, and its text as Markdown that Jupyter shows.

    Args:
        page: The page.
        student: If True, leave out solutions, and add a cell for each exercise.
    """
    cells: list[dict[str, Any]] = []
    for place, part in enumerate(_CODE.split(_HEADER.sub("", page.read_text(encoding="utf-8")))):
        if place % 2:
            cells.append(_cell(part))
        elif student and "## Exercises" in part:
            cells += _exercises(part, page)
        else:
            cells.append(_text(part, page))
    cells = [cell for cell in cells if cell["source"]]
    cells.insert(1, _cell(INSTALL))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _exercises(part: str, page: Path) -> Iterator[dict[str, Any]]:
    """Yield the last cells of a student's notebook: the text, and after the exercises a cell for each of them."""
    before, after = _DROPDOWN.split(part, maxsplit=1)[::3]
    yield _text(before, page)
    for number in _EXERCISE.findall(before.partition("## Exercises")[2]):
        yield _cell(f"# Exercise {number}\n")
    yield _text(after, page)


def plain_markdown(text: str, page: Path) -> str:
    """Return Markdown in which directives that only Sphinx knows are replaced, with links to the published pages."""
    text = _DROPDOWN.sub(r"<details><summary>\1</summary>\n\n\2\n</details>\n", text)
    text = _ADMONITION.sub(lambda found: f"**{found[1]}.** {found[2]}", text)
    text = _DIAGRAM.sub(lambda found: f"![{DIAGRAMS[found[1]]().description}](attachment:{found[1]}.svg)\n", text)
    text = _IMAGE.sub(lambda found: f"![{found[2]}](attachment:{Path(found[1]).name})\n", text)

    def link(found: re.Match[str]) -> str:
        target = address.published((page.parent / found[2]).resolve())
        return f"[{found[1]}]({target}{found[3] or ''})"

    return _LINK.sub(link, text).strip()


def _text(part: str, page: Path) -> dict[str, Any]:
    """Return a cell of text; its pictures are part of the notebook."""
    cell: dict[str, Any] = {"cell_type": "markdown", "metadata": {}}
    pictures = [(page.parent / found[1]).resolve() for found in _IMAGE.finditer(part)]
    attachments = {file.name: {"image/png": _base64(file.read_bytes())} for file in pictures}
    for found in _DIAGRAM.finditer(part):
        drawn = DIAGRAMS[found[1]]().svg(style=STYLE.read_text(encoding="utf-8"))
        attachments[f"{found[1]}.svg"] = {"image/svg+xml": _base64(drawn.encode())}
    if attachments:
        cell["attachments"] = attachments
    return cell | {"source": plain_markdown(part, page).splitlines(keepends=True)}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _cell(code: str) -> dict[str, Any]:
    source = code.strip("\n").splitlines(keepends=True)
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source}


def _write(file: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook, unless the file has this content already: Sphinx would read the pages with links to it again."""
    text = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
