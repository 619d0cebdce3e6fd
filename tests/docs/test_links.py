"""Absolute links of the README, which PyPI shows too, lead to files and headings that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = "https://regard-attention.github.io/regard/"
REPOSITORY = "https://github.com/regard-attention/regard"
RAW = "https://raw.githubusercontent.com/regard-attention/regard/main/"
LINKS = sorted(set(re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_are_absolute():
    assert LINKS
    assert all(link.startswith(("https://", "#")) for link in LINKS), "PyPI has no other files to link to"


@pytest.mark.parametrize("link", LINKS)
def test_a_link_of_the_readme_leads_somewhere(link):
    if link.startswith(SITE):
        path, _, anchor = link.removeprefix(SITE).partition("#")
        page = ROOT / "docs" / path.replace(".html", ".md")
        assert page.is_file()
        assert not anchor or anchor in anchors(page)
    elif link.startswith(RAW) or "/blob/main/" in link:
        assert (ROOT / link.removeprefix(RAW).removeprefix(f"{REPOSITORY}/blob/main/")).is_file()
    elif link.startswith(f"{REPOSITORY}/actions/workflows/"):
        workflow = link.removeprefix(f"{REPOSITORY}/actions/workflows/").removesuffix("/badge.svg")
        assert (ROOT / ".github" / "workflows" / workflow).is_file()
    else:
        assert link == f"{REPOSITORY}/issues"
