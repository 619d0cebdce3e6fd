"""Links from a name's page in the reference: to the page of its mechanism, and to the lessons and guides that use it."""

import re
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parents[1]
_FOLDERS = ("lessons", "how-to", "explanation")
_BUILDS = {"Linear": "LinearConcat", "Monotonic": "SoftMonotonic", "LinearPooling": "AttentionPooling"}
"""Configurations, without `Config`, that are not named after the class that they build."""
_CODE = re.compile(r"^```(?:\{code-cell\} ipython3|python)\n(.*?)^```", re.M | re.S)
_IMPORT = re.compile(r"^ *from regard[\w.]* import (?:\((.*?)\)|(.*?)$)", re.M | re.S)
_USE = re.compile(r"\bregard\.(?:(?:attention|analysis|config)\.)?(\w+)")
_MOST = 6


def links(name: str) -> list[str]:
    """Return the links for the page of a public name as reStructuredText."""
    import regard.attention

    found = []
    module = _BUILDS.get(name.removesuffix("Config"), name.removesuffix("Config"))
    if name.endswith("Config") and module in regard.attention.__all__:
        found.append(f":py:obj:`~regard.attention.{module}`")
    if module in _mechanisms():
        found.append(f":doc:`formula, weights and cost </mechanisms/{_mechanisms()[module]}>`")
    found += [f":doc:`{_title(page)} </{page.relative_to(DOCS).with_suffix('')}>`" for page in _users().get(name, [])[:_MOST]]
    return found


@cache
def _mechanisms() -> dict[str, str]:
    from docs.generate.page import MECHANISMS

    return {kind.__name__: entry.slug for entry in MECHANISMS for kind in (*entry.also, entry.kind)}


@cache
def _users() -> dict[str, list[Path]]:
    """Return, for each name of the package, the pages whose code imports or uses it."""
    users: dict[str, list[Path]] = {}
    for page in (page for folder in _FOLDERS for page in sorted((DOCS / folder).glob("*.md"))):
        code = "\n".join(_CODE.findall(page.read_text(encoding="utf-8")))
        imported = [name for group in _IMPORT.findall(code) for name in re.findall(r"\w+", "".join(group))]
        for name in {*imported, *_USE.findall(code)}:
            users.setdefault(name, []).append(page)
    return users


def _title(page: Path) -> str:
    [title] = re.findall(r"^# (.*)$", page.read_text(encoding="utf-8"), re.M)[:1]
    return title.replace("`", "")
