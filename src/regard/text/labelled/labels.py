"""The labels of a classifier, in their order."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.errors import DataError, nearest
from regard.text.strings import is_unicode, write_value

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_SHOWN = 12


@dataclass(frozen=True)
class Labels:
    """Labels of a classifier."""

    names: tuple[str, ...]
    """Names in natural order (`sort_names`); the number of a label is its index."""
    multiple: bool
    """Whether a text may have any number of labels; if False, it has exactly one."""
    counts: tuple[int, ...]
    """Number of training texts with each label. It can be 0, for example if a fold holds out all of them."""

    def __post_init__(self) -> None:
        problem = ""
        if not self.names or not all(isinstance(name, str) and name for name in self.names):
            problem = "expected names"
        elif not all(map(is_unicode, self.names)):
            problem = "and one contains half of a surrogate pair, which is not a character"
        elif len(set(self.names)) != len(self.names):
            problem = "and one of them occurs twice"
        if problem:
            raise DataError(f"labels are {self.names!r:.200}, {problem}")
        if len(self.counts) != len(self.names) or not all(type(count) is int and count >= 0 for count in self.counts):
            raise DataError(f"the labels' counts are {self.counts!r:.200}, expected {len(self.names)} numbers of texts")

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str, where: str = "") -> int:
        """Return the number of a label; `where` is its file and line, for messages."""
        try:
            return self._numbers[name]
        except KeyError:
            place = f"{where}: " if where else ""
            marks = ",;|" if self.multiple else ""
            separator = next((mark for mark in marks if all(part.strip() in self._numbers for part in name.split(mark))), "")
            advice = f"; if it is several labels, set data.label_separator to '{separator}'" if separator else ""
            raise DataError(
                f"{place}label '{name[:60]}' is unknown; the model knows {show_names(self.names)}"
                f"{advice or nearest(name[:60], self.names)}"
            ) from None

    def encode(self, labels: Iterable[Any]) -> np.ndarray:
        """Return the number of each text's label, (N,); if texts may have several labels, ones and zeros, (N,C).

        A number or a boolean means the label that training reads from it in JSON: 1 means '1', and True means 'true'.
        """
        plain = (label.tolist() if hasattr(label, "tolist") else label for label in labels)  # values and rows of arrays
        given = [list(label) if isinstance(label, Iterable) and not isinstance(label, str) else [label] for label in plain]
        gold = np.zeros((len(given), len(self.names)), np.int64)
        for row, own in enumerate(given):
            if not self.multiple and len(own) != 1:
                raise DataError(f"text {row + 1} has {len(own)} labels, but this model was trained on texts with one each")
            for label in own:
                if label is None or type(label).__name__ == "NAType" or label != label:  # NaN, and pandas's NA
                    raise DataError(f"text {row + 1} has the label {label}, expected a label; leave out texts without a label")
                name = str(label) if str(label) in self.names else write_value(label)  # as in CSV, or as in JSON
                gold[row, self.number(name, f"text {row + 1}")] = 1
        return gold if self.multiple else gold.argmax(axis=-1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"names": list(self.names), "multiple": self.multiple, "counts": list(self.counts)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Labels":
        """Build labels from the result of `to_dict`, which may come from a stranger."""
        match plain:
            case {"names": list(names), "multiple": bool(multiple), "counts": list(counts)}:
                return cls(tuple(names), multiple, tuple(counts))
        raise DataError(
            f"expected labels with lists of names and counts, and a flag for several labels per text; got {plain!r:.200}"
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def sort_names(names: Iterable[str]) -> list[str]:
    """Sort names in natural order: numbers by value, before words; numbers inside words by value too."""
    return sorted(names, key=_natural)


def find_separator(names: Sequence[str]) -> str:
    """Return the separator that seems to join several labels in each of some names, such as `film,good`; empty if none does."""
    for mark in ",;|":
        split = [[part.strip() for part in name.split(mark)] for name in names]
        counts = Counter(part for parts in split for part in set(parts))
        joined = [parts for parts in split if len(parts) > 1]
        if len(joined) > 1 and all(counts[part] > 1 for parts in joined for part in parts):
            return mark
    return ""


def show_names(names: Sequence[str]) -> str:
    """Return the names as text; if there are many, only the first ones and the total number."""
    shown = ", ".join(f"'{name[:60]}'" for name in names[:_SHOWN])
    return f"{shown}, … ({len(names):,} in all)" if len(names) > _SHOWN else shown


def _natural(name: str) -> tuple[int, float, list[tuple[int, str]], str]:
    if _NUMBER.fullmatch(name):
        return 0, float(name), [], name
    parts = re.split(r"(\d+)", name.casefold())
    # Without leading zeros, a number with more digits is the larger one.
    digits = [part.lstrip("0") if place % 2 else part for place, part in enumerate(parts)]
    return 1, 0.0, [(len(part) if place % 2 else 0, part) for place, part in enumerate(digits)], name
