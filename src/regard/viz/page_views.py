"""The views of a record on a page, as data for its template and its script: words, weights, shades and captions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from regard.plurals import counted
from regard.records import AttentionRecord
from regard.records.views import WordView, sides
from regard.rendering import Units
from regard.viz import caption, colour
from regard.viz.labels import label, runs_right_to_left
from regard.viz.numbers import amount, blank_cells, decimals, fixed, greatest, probability, tick, units
from regard.viz.summary import further_labels, headline

LEVELS = 20
"""Number of shades of weights above zero."""
MOST_LABELS = 20
# Names of the axes; `read` stands for the words that a decoder reads, if they differ from the words that it writes.
_NAMES = {"source": "source", "target": "output", "read": "output"}


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


def shade(share: float) -> str:
    """Return the CSS class of a weight; the weight is given as a share of the full scale, from −1 to 1."""
    return f"{'b' if share < 0 else 'a'}{int(min(1.0, abs(share)) * LEVELS + 0.5)}"


@lru_cache
def palette() -> str:
    """Return a CSS class for each shade (`a…` for positive weights, `b…` for negative), in light and dark colours."""
    classes = []  # a browser that does not know `light-dark` shows the light colours
    for letter, *anchors in (("a", colour.LIGHT, colour.DARK), ("b", colour.LIGHT_NEGATIVE, colour.DARK_NEGATIVE)):
        for level, pair in enumerate(zip(*(colour.ramp(each, LEVELS + 1) for each in anchors), strict=True)):
            (paper, night), (ink, moon) = map(colour.to_hex, pair), map(colour.ink, pair)
            both = f"background:light-dark({paper},{night});color:light-dark({ink},{moon})"
            classes.append(f".{letter}{level}{{background:{paper};color:{ink};{both}}}")
    return "".join(classes)


def _choices(record: AttentionRecord, first: Units) -> dict[str, AttentionRecord]:
    """Return the record in the units between which a page can switch, by their names; equal records count once."""
    spells = "characters" in (record.source_scheme, record.target_scheme)
    choices: dict[str, AttentionRecord] = {}
    for kind in (first, "auto", "words", "tokens"):
        if (converted := record.in_units(kind)) not in choices.values():
            choices[kind if kind != "auto" else "characters" if spells else "words"] = converted
    return choices


def _heads(record: AttentionRecord, site: str) -> list[int | None]:
    """Return the heads of a site, from None for their mean."""
    return [None, *range(record.num_heads(site) or 0)]


def matrices(record: AttentionRecord, sites: Sequence[str], options: Options, *, with_note: bool = True) -> dict[str, Any]:
    """Return the matrices of one or more sites, beginning with the one that is shown first; `with_note` adds the record's."""
    choices, budget, left_out, shown = _choices(record, options.units), options.budget, 0, []
    for kind, converted in choices.items():
        pairs, missing, budget = _fitting(converted, sites, budget)
        left_out = left_out or missing
        shown += [(kind, site, head, converted.view(site, head, special=options.special)) for site, head in pairs]
    # All matrices of a record share one scale, so that their colours can be compared.
    weights_of_all = [view.matrix for *_, view in shown]
    scale, places = colour.full_scale(*weights_of_all), decimals(greatest(*weights_of_all))
    words, unknown, views = _named_views(shown, choices, places, options)
    first, named, lost = views[0], words[shown[0][0]], unknown[shown[0][0]]
    rows, columns = named[first["rows"]], named[first["columns"]]
    turned = [axis for axis, names in named.items() if runs_right_to_left(names)]
    weights = [
        (shade(cell * 10.0**-places / scale), fixed(cell * 10.0**-places, places) if cell else "") for cell in first["cells"]
    ]
    width, letters = len(columns), sum(min(len(word), 24) for word in columns)
    further = counted(left_out, "further matrix", "further matrices")
    rest = [f"To keep the page small, it leaves out {further} (heads or sites)."] if left_out else []
    if any(0 in view["cells"] for view in views):
        rest.append(blank_cells(places))
    return {
        # The source comes first, in reading order.
        "sentences": [(side, _NAMES[first[side]], named[first[side]], lost[first[side]]) for side in ("columns", "rows")],
        "is_empty": not first["cells"],
        "empty": caption.empty(record, sites[0]),
        "direction": "rtl" if first["columns"] in turned else "ltr",
        # Long names are vertical, so that the table is not too wide.
        "crowd": "many crowd" if width > 24 else "many" if width > 8 or letters > 100 else "",
        "columns": columns,
        "unknown": (lost[first["rows"]], lost[first["columns"]]),
        "rows": [(word, weights[row * width : (row + 1) * width]) for row, word in enumerate(rows)],
        "top": tick(scale),
        "negative": any((matrix < 0).any() for matrix in weights_of_all),
        "caption": (first["told"], rest + (caption.note(record) if with_note else [])) if options.caption else None,
        "data": {
            "words": words,
            "unknown": unknown,
            "rtl": turned,
            "views": views,
            "scale": scale,
            "levels": LEVELS,
            "places": places,
        },
    }


def _named_views(
    shown: Sequence[tuple[str, str, int | None, WordView]],
    choices: Mapping[str, AttentionRecord],
    places: int,
    options: Options,
) -> tuple[dict[str, dict[str, list[str]]], dict[str, dict[str, list[int]]], list[dict[str, Any]]]:
    """Return the words of each unit and side, the places of those that are unknown, and the views, which refer to them."""
    words: dict[str, dict[str, list[str]]] = {}
    unknown: dict[str, dict[str, list[int]]] = {}
    views: list[dict[str, Any]] = []
    for kind, site, head, view in shown:
        down, across = sides(site)
        # The words that the decoder reads then begin with the start symbol, and differ from those that it writes.
        if options.special and down == across == "target" and not choices[kind].target_is_read:
            across = "read"
        for axis, names, is_unknown in ((down, view.rows, view.unknown_rows), (across, view.columns, view.unknown_columns)):
            words.setdefault(kind, {}).setdefault(axis, [label(name, 200) for name in names])
            unknown.setdefault(kind, {}).setdefault(axis, _places(is_unknown))
        told = _told(choices[kind], site, head, options) if view.matrix.size else ""
        facts = {"rows": down, "columns": across, "told": told, "cells": units(view.matrix, places)}
        views.append({"units": kind, "site": label(site, 80), "head": head, **facts})
    return words, unknown, views


def _fitting(record: AttentionRecord, sites: Sequence[str], budget: int) -> tuple[list[tuple[str, int | None]], int, int]:
    """Return the pairs (site, head) whose matrices fit into a budget of cells, the number of others, and the remaining budget.

    The mean of the first site is always included, then means come before heads.
    """
    pairs = [(site, head) for site in sites for head in _heads(record, site)]
    fitting: list[tuple[str, int | None]] = []
    left_out = 0
    for site, head in sorted(pairs, key=lambda pair: pair[1] is not None):
        rows, columns = record.words(site)
        if fitting and len(rows) * len(columns) > budget:
            left_out += 1
        else:
            fitting.append((site, head))
            budget -= len(rows) * len(columns)
    return [pair for pair in pairs if pair in fitting], left_out, budget


def _told(record: AttentionRecord, site: str, head: int | None, options: Options) -> str:
    """Return the sentences about one view; empty if the page has no captions."""
    if not options.caption:
        return ""
    view = record.view(site, head, special=options.special)
    return " ".join([caption.shows(record, [site], head), *caption.hides([view]), *caption.unknown(view)])


def _places(chosen: Sequence[bool]) -> list[int]:
    return [place for place, is_chosen in enumerate(chosen) if is_chosen]


def classification(record: AttentionRecord, sites: Sequence[str], options: Options) -> dict[str, Any]:
    """Return the label, the words and the probabilities of a classification, and matrices of the attention among its words."""
    over_words = [site for site in sites if sides(site) == ("target", "source")]
    among_words = [site for site in sites if site not in over_words]
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    shown_text = (_told(record, over_words[0], None, options), caption.note(record)) if over_words and options.caption else None
    return {
        "heading": label(headline(record, with_probability=False), 5000),
        "facts": [] if record.score is None else [("score", fixed(record.score))],
        "words": _words(record, over_words, options) if over_words else None,
        "labels": [(label(name, 200), probability(value), round(1000 * value)) for name, value in ranked[:MOST_LABELS]],
        "further": further_labels(len(ranked) - MOST_LABELS),
        "caption": shown_text,
        "matrices": matrices(record, among_words, options, with_note=not over_words) if among_words else None,
    }


def _words(record: AttentionRecord, sites: Sequence[str], options: Options) -> dict[str, Any]:
    names: dict[str, list[str]] = {}
    unknown: dict[str, list[int]] = {}
    views: list[dict[str, Any]] = []
    for kind, converted in _choices(record, options.units).items():
        named = converted.view(sites[0], special=options.special)
        names[kind], unknown[kind] = [label(word, 200) for word in named.columns], _places(named.unknown_columns)
        for site, head in [(each, head) for each in sites for head in _heads(converted, each)]:
            weights = converted.view(site, head, special=options.special).means
            scale = greatest(weights) or 1.0
            places = decimals(scale)
            facts = {"scale": scale, "top": amount(scale, places), "places": places, "cells": units(weights, places)}
            told = _told(converted, site, head, options)
            views.append({"units": kind, "site": label(site, 80), "head": head, "told": told, **facts})
    first = views[0]
    spans = []
    for name, cell in zip(names[first["units"]], first["cells"], strict=True):
        weight = cell * 10.0 ** -first["places"]
        spans.append((shade(weight / first["scale"]), fixed(weight, first["places"]), name))
    return {
        "spans": spans,
        "unknown": unknown[first["units"]],
        "top": first["top"],
        "negative": any(cell < 0 for view in views for cell in view["cells"]),
        "data": {"words": names, "unknown": unknown, "views": views, "levels": LEVELS},
    }
