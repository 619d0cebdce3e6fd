"""The notebooks of the lessons."""

import re

import pytest
from docs.site.notebooks import LESSONS, notebook_of, plain_markdown

PAGES = sorted(LESSONS.glob("[0-9]*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_has_all_code_and_no_markup_of_the_site(page):
    text = page.read_text(encoding="utf-8")
    notebook = notebook_of(text)
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code == [block.strip("\n") for block in re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.M | re.S)]
    for block in code:
        compile(block.removesuffix(";"), page.name, "exec")
    prose = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    assert not re.search(r":::|\{\w[\w-]*\}`|^```\{|\.md\)", prose, re.M)
    assert prose.startswith("# ")
    assert "<details><summary>Solutions</summary>" in prose
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_lesson_has_what_every_lesson_has(page):
    text = page.read_text(encoding="utf-8")
    assert f"<notebooks/{page.stem}.ipynb>" in text
    for heading in ("## What this proves, and what it doesn't", "## Exercises", "## What next"):
        assert f"\n{heading}\n" in text, heading
    exercises = text.partition("## Exercises")[2].partition(":::")[0]
    solutions = text.partition(":::{dropdown} Solutions")[2].partition("\n:::")[0]
    assert re.findall(r"^(\d)\. ", exercises, re.M) == re.findall(r"^(\d)\. ", solutions, re.M) == ["1", "2", "3"]
    assert "you know" in text.partition("\n## ")[0].lower()


def test_markdown_of_the_site_becomes_plain():
    text = (
        "See [two](02.md#a) and [a paper](https://x.org). {download}`Get it <notebooks/a.ipynb>`.\n:::{dropdown} S\n1. a\n:::\n"
    )
    assert plain_markdown(text) == (
        "See two and [a paper](https://x.org).\n<details><summary>S</summary>\n\n1. a\n\n</details>"
    )
