"""Addresses of the repository and of the published documentation, from the URLs in pyproject.toml."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BRANCH = "main"
_URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
SOURCE = _URLS["Source"]
DOCUMENTATION = _URLS["Documentation"]
INSTALL = f"git+{SOURCE}"
"""Requirement for `pip install`."""


def colab(path: Path) -> str:
    """Return the address that opens a notebook of the repository in Google Colab."""
    owner_and_name = SOURCE.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{owner_and_name}/blob/{BRANCH}/{path.relative_to(ROOT).as_posix()}"


def published(page: Path) -> str:
    """Return the address of a page, given the path of its Markdown file."""
    return DOCUMENTATION + page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
