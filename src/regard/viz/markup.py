"""Helpers for the parts of a page: escaped text, CSS classes for shades, and the legend."""

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from regard.records import AttentionRecord
from regard.rendering import Units
from regard.viz import colour
from regard.viz.labels import label

LEVELS = 20
"""Number of shades of weights above zero."""


@dataclass(frozen=True)
class Options:
    """Options of a page."""

    budget: int
    """Maximum number of cells of all matrices of a record. Beyond it, first heads and then sites are left out."""
    special: bool = False
    """Whether special tokens are shown like words."""
    caption: bool = True
    """Whether to write a text that says what the weights show."""
    units: Units = "auto"
    """Units that are shown first; see `AttentionRecord.in_units`."""


def unit_choices(record: AttentionRecord, first: Units) -> dict[str, AttentionRecord]:
    """Return the record in the units between which a page can switch, by their names; equal records count once."""
    spells = "characters" in (record.source_scheme, record.target_scheme)
    found: dict[str, AttentionRecord] = {}
    for units in (first, "auto", "words", "tokens"):
        if (made := record.in_units(units)) not in found.values():
            found[units if units != "auto" else "characters" if spells else "words"] = made
    return found


UNITS_SELECT = '<label>Units <select class="units"></select></label>'
"""Switch between units; the page's script fills it."""


def text(words: str, limit: int = 5000) -> str:
    """Return a string, shortened to `limit` characters and escaped, for use as text or as the value of an attribute."""
    return html.escape(label(words, limit), quote=True)


def caption(shown: Sequence[str], rest: Sequence[str]) -> str:
    """Return the HTML of a caption: sentences about the shown view, which the script updates, then those about all views."""
    return f'<p class="note"><span class="told">{_sentences(shown)}</span> {_sentences(rest)}</p>\n'


def _sentences(sentences: Sequence[str]) -> str:
    return text(" ".join(sentences)) if sentences else ""


def script_data(data: object) -> str:
    """Return a script element with data as JSON. `<` is escaped, so that `</script>` in a text does not end the element."""
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{content}</script>\n'


def facts(items: Iterable[tuple[str, str]]) -> str:
    """Return an HTML list of names and values; empty if there are no items."""
    rows = "".join(f'<dt>{name}</dt><dd dir="auto">{text(value)}</dd>' for name, value in items)
    return f"<dl>{rows}</dl>\n" if rows else ""


def shade(share: float) -> str:
    """Return the CSS class of a weight; the weight is given as a share of the full scale, from −1 to 1."""
    return f"{'b' if share < 0 else 'a'}{int(min(1.0, abs(share)) * LEVELS + 0.5)}"


@lru_cache
def palette() -> str:
    """Return a CSS class for each shade (`a…` for positive weights, `b…` for negative), in light and dark colours.

    The page's colour scheme chooses between them. Browsers that don't support `light-dark` show the light colours.
    """

    def classes(letter: str, light: Sequence[str], dark: Sequence[str]) -> str:
        pairs = zip(colour.ramp(light, LEVELS + 1), colour.ramp(dark, LEVELS + 1), strict=True)
        return "".join(f".{letter}{level}{{{_colours(*pair)}}}" for level, pair in enumerate(pairs))

    return classes("a", colour.LIGHT, colour.DARK) + classes("b", colour.LIGHT_NEGATIVE, colour.DARK_NEGATIVE)


def _colours(light: Float[np.ndarray, " 3"], dark: Float[np.ndarray, " 3"]) -> str:
    paper, night = colour.to_hex(light), colour.to_hex(dark)
    ink, moon = colour.ink(light), colour.ink(dark)
    return f"background:{paper};color:{ink};background:light-dark({paper},{night});color:light-dark({ink},{moon})"


def legend(top: str, negative: bool) -> str:
    """Return the HTML of the bar of shades, from zero to the full scale, or from −full scale if there are negative weights.

    Args:
        top: The full scale, as text.
        negative: Whether there are negative weights.
    """
    bar = "".join(f'<i class="a{level}"></i>' for level in range(LEVELS + 1))
    low = "0"
    if negative:
        bar = "".join(f'<i class="b{level}"></i>' for level in range(LEVELS, 0, -1)) + bar
        low = f"-{top}"
    bar = f'<span class="bar" aria-hidden="true">{bar}</span>'
    return f'<p class="legend"><span class="low">weight {low}</span>{bar}<span class="top">{top}</span></p>\n'
