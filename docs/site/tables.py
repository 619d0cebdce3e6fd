"""Tables that can be read at every width: on a phone, each row becomes a block whose cells carry the names of their columns."""

from typing import Any

from bs4 import BeautifulSoup
from sphinx.application import Sphinx

LONGEST_WHOLE = 32
"""Code in the first column of a table with at most this number of characters stays on one line."""
FEWEST_COLUMNS = 2
"""Tables with fewer columns fit on a phone as they are."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Name the cells of each page that is written."""
    app.connect("html-page-context", _name_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _name_cells(app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "<table" not in context.get("body", ""):
        return
    page = BeautifulSoup(context["body"], "html.parser")
    for table in page.find_all("table", class_="docutils"):
        columns = [cell.get_text(" ", strip=True) for cell in table.select("thead th")]
        if len(columns) >= FEWEST_COLUMNS:
            table["class"] = [*table.get("class", []), "stacked"]
            for row in table.select("tbody tr"):
                for column, cell in zip(columns, row.find_all("td", recursive=False), strict=False):
                    cell["data-column"] = column
        for code in table.select("td:first-child code"):
            if len(code.get_text()) <= LONGEST_WHOLE:
                code["class"] = [*code.get("class", []), "whole"]
    context["body"] = str(page)
