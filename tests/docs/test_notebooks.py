"""The notebooks of the lessons."""

import json
import re

import pytest
from docs.site.address import SOURCE, colab
from docs.site.notebooks import INSTALL, LESSONS, STUDENT, add_outputs, notebook_of, pages, plain_markdown


def code_of(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def prose_of(notebook):
    return "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_notebook_has_all_code_and_no_markup_of_the_site(page):
    text = page.read_text(encoding="utf-8")
    notebook = notebook_of(page)
    install, *code = code_of(notebook)
    assert install == INSTALL.strip()
    assert code == [block.strip("\n") for block in re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.M | re.S)]
    for block in code:
        compile(block.removesuffix(";"), page.name, "exec")
    prose = prose_of(notebook)
    assert not re.search(r":::|\{\w[\w-]*\}`|^```\{|\.md\)", prose, re.M)
    assert prose.startswith("# ")
    assert "<details><summary>Solutions</summary>" in prose
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    attached = {name for cell in notebook["cells"] for name in cell.get("attachments", ())}
    assert attached == set(re.findall(r"\(attachment:(.*?)\)", prose))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_version_for_students_has_no_solutions_and_a_cell_for_each_exercise(page):
    notebook = json.loads((STUDENT / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
    assert notebook == notebook_of(page, student=True), "run python -m docs.generate --text"
    full = notebook_of(page)
    assert code_of(notebook) == [*code_of(full), *(f"# Exercise {number}" for number in (1, 2, 3))]
    assert "Solutions" not in prose_of(notebook)
    assert "## What next" in prose_of(notebook)


def test_colab_opens_a_file_of_the_repository():
    address = colab(STUDENT / "01-attention-in-ten-lines.ipynb")
    assert address == SOURCE.replace("github.com", "colab.research.google.com/github") + (
        "/blob/main/docs/lessons/student/01-attention-in-ten-lines.ipynb"
    )


def test_outputs_come_from_cells_with_the_same_code():
    notebook = notebook_of(pages()[0])
    executed = json.loads(json.dumps(notebook))
    for number, cell in enumerate(cell for cell in executed["cells"] if cell["cell_type"] == "code"):
        parts = [{"output_type": "stream", "name": "stdout", "text": [f"{number} ", part]} for part in "ab"]
        picture = {"output_type": "display_data", "data": {}, "metadata": {}}
        cell |= {"execution_count": number, "outputs": [parts[0], picture, parts[1]]}
    [changed] = [cell for cell in executed["cells"] if cell.get("execution_count") == 2]
    changed["source"] = ["changed()"]
    add_outputs(notebook, executed)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [number for number, cell in enumerate(code) if not cell["outputs"]] == [2]
    for number, cell in enumerate(code):
        if cell["outputs"]:
            assert cell["execution_count"] == number
            assert [output.get("text") for output in cell["outputs"]] == [f"{number} a{number} b", None]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_lesson_has_what_every_lesson_has(page):
    text = page.read_text(encoding="utf-8")
    for heading in ("## What this proves, and what it doesn't", "## Exercises", "## What next"):
        assert f"\n{heading}\n" in text, heading
    exercises = text.partition("## Exercises")[2].partition(":::")[0]
    solutions = text.partition(":::{dropdown} Solutions")[2].partition("\n:::")[0]
    assert re.findall(r"^(\d)\. ", exercises, re.M) == re.findall(r"^(\d)\. ", solutions, re.M) == ["1", "2", "3"]
    assert "you know" in text.partition("\n## ")[0].lower()


def test_markdown_of_the_site_becomes_plain():
    text = "See [two](02.md#a) and [a paper](https://x.org/a.md).\n:::{dropdown} S\n1. a\n:::\n"
    assert plain_markdown(text, LESSONS / "01.md") == (
        "See [two](https://regard-attention.github.io/regard/lessons/02.html#a) and [a paper](https://x.org/a.md).\n"
        "<details><summary>S</summary>\n\n1. a\n\n</details>"
    )
