"""Every row of a table has as many cells as the table's first row: a row that was wrapped is no table any more."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if "generated" not in page.parts)


def tables(page: Path) -> Iterator[list[str]]:
    """Yield the lines of each table outside code blocks, up to the first empty line."""
    text = re.sub(r"^ *(`{3,}|~{3,}).*?^ *\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").splitlines()
        if lines and lines[0].startswith("|"):
            yield [line for line in lines if not line.startswith("<!--")]


def cells(line: str) -> int:
    """Count the bars between cells, without those in code and escaped ones."""
    return re.sub(r"`[^`]*`", "", line.replace(r"\|", "")).count("|")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_have_the_cells_of_the_first_row(page):
    for first, *others in tables(page):
        for row in (first, *others):
            assert row.startswith("|"), row
            assert row.rstrip().endswith("|"), row
            assert cells(row) == cells(first), row
