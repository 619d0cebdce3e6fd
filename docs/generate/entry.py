"""Text of a mechanism's page that is not in its docstring."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One mechanism: its page, its line in the index, its place in the toy problem."""

    kind: type[nn.Module]
    build: Callable[[], nn.Module] | None
    """For the toy problem; None for a hard form, which takes what its soft form learnt."""
    score: str
    """The score in a line, for the index."""
    state: str = "none"
    """State that is passed from one query to the next."""
    cost: str
    """The leading term, for the index."""
    operations: str
    memory: str
    choose: str
    """Choose it when …, for the index."""
    when: str
    """Two or three sentences: when to take it, and when not."""
    picture: str = ""
    """Sentence about the picture."""
    notes: str = ""
    """Further Markdown."""
    example: str
    tests: tuple[str, ...]
    """Files that hold it to its word."""
    also: tuple[Callable[..., Any], ...] = ()
    """Functions and classes that are described on the same page."""
    also_title: str = "Functions"

    @property
    def name(self) -> str:
        """Of the class."""
        return self.kind.__name__

    @property
    def slug(self) -> str:
        """Of the page and its picture."""
        return slug(self.name)


def slug(name: str) -> str:
    """`SumConcat` → `sum-concat`; `MoChA` → `mocha`."""
    short = name.replace("MoChA", "Mocha")
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(short))
