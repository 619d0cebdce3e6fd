"""The text of a mechanism's page that is not in the docstring of its class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """Texts and functions for a mechanism's page, its row in the index, and the toy problem."""

    kind: type[nn.Module]
    build: Callable[[], nn.Module] | None
    """Function that builds the mechanism for the toy problem; None for a hard form, which uses its soft form's parameters."""
    score: str
    """The score in one line, for the index."""
    state: str = "none"
    """State that is passed from one query to the next."""
    cost: str
    """Leading term of the number of operations, for the index."""
    operations: str
    memory: str
    choose: str
    """Clause that completes "choose it when …", for the index."""
    when: str
    """Two or three sentences on when to choose it, and when not."""
    picture: str = ""
    """Sentences about the picture."""
    notes: str = ""
    """Further Markdown, shown after `when`."""
    example: str
    tests: tuple[str, ...]
    """Files with tests of the mechanism."""
    settings: str = ""
    """Sentences about settings of a model that uses the mechanism, shown after the option that chooses it."""
    also: tuple[Callable[..., Any], ...] = ()
    """Functions and classes that are described on the same page."""
    also_title: str = "Functions"

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.kind.__name__

    @property
    def slug(self) -> str:
        """File name of the page and of its picture, without the extension."""
        return slug(self.name)


def slug(name: str) -> str:
    """Return the file name for the name of a class: `sum-concat` for `SumConcat`, `mocha` for `MoChA`."""
    short = name.replace("MoChA", "Mocha")
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(short))
