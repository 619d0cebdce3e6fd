"""The views of a record on a page, as data for its template and its script: words, weights, shades and captions."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from regard.plurals import counted
from regard.records import AttentionRecord, ImageSegment, Segment, SoundSegment
from regard.records.attribution import attribution_of
from regard.records.views import Span, WordView, sides
from regard.rendering import Units
from regard.viz import caption, colour, places
from regard.viz.labels import label, runs_right_to_left
from regard.viz.numbers import amount, blank_cells, decimals, fixed, greatest, probability, tick, units
from regard.viz.summary import further_labels, headline

LEVELS = 20
"""Number of shades of weights above zero."""
MOST_LABELS = 20
# Maximum number of cells of the mean of a layer in which patches attend to patches; larger ones have no rows of patches.
_MOST_AMONG = 40_000
# Quality of photographs on a page, from 0 to 100.
_QUALITY = 88


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
    site: str | None = None
    """Site that is shown first; by default the attention to the source or the pooling, if there is one."""


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
    choices, budget, left_out = _choices(record, options.units), options.budget, 0
    shown: list[tuple[str, str, int | None, WordView]] = []
    for kind, converted in choices.items():
        pairs, missing, budget = _fitting(converted, sites, budget, options)
        left_out = left_out or missing
        shown += [(kind, site, head, _view(converted, site, head, options)) for site, head in pairs]
    spans = list({span.segment: span for *_, view in shown for span in places.places(view)}.values())
    figures = [span.segment for span in spans]
    axes, views = _named_views(shown, choices, figures, options)
    first = views[0]
    unit = figures[0].unit if figures else "word"
    further = counted(left_out, "further matrix", "further matrices")
    rest = [f"To keep the page small, it leaves out {further} (heads or sites)."] if left_out else []
    if any(isinstance(figure, ImageSegment) and figure.picture for figure in figures):
        rest.append(places.LINES)
    turned = [name for name, axis in axes[first["units"]].items() if runs_right_to_left(axis["words"])]
    return _table(axes[first["units"]], first) | {
        "is_empty": not first["cells"],
        "empty": caption.empty(record, sites[0]),
        "direction": "rtl" if first["columns"] in turned else "ltr",
        "top": first["top"],
        "negative": any((view.matrix < 0).any() for *_, view in shown),
        "figures": list(map(_figure, spans, places.names(spans))),
        "figures_top": first["topOnPlaces"],
        "caption": (first["told"], rest + (caption.note(record, unit) if with_note else [])) if options.caption else None,
        "data": {
            **{
                part: {kind: {name: axis[part] for name, axis in each.items()} for kind, each in axes.items()}
                for part in ("words", "unknown", "spans", "times")
            },
            "figures": [_size(segment) for segment in figures],
            "rtl": turned,
            "views": views,
            "levels": LEVELS,
        },
    }


def _scale_of(site: str) -> str:
    """Return the name of a site's scale: all attention shares one, so that colours can be compared; attributions do not."""
    return site if attribution_of(site) else ""


def _scale(views: Sequence[WordView]) -> dict[str, Any]:
    """Return the scale and the digits of the matrices of some views; all images and sounds have a scale of their own."""
    weights, on_places = [view.matrix for view in views], [view.matrix[:, _placed(view.column_spans)] for view in views]
    scale, top = colour.full_scale(*weights), colour.full_scale(*on_places)
    digits = decimals(greatest(*weights))
    # A digit more, because most patches have a small part of the largest weight.
    precision = max(digits, decimals(greatest(*on_places)) + 1) if any(matrix.size for matrix in on_places) else digits
    tops = {"top": tick(scale), "topOnPlaces": tick(top)}
    return {"scale": scale, "onPlaces": top, "digits": digits, "places": precision} | tops


def _table(axes: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of the view that is shown first: its words, shades and numbers, without those of images and sounds."""
    down, across = (axes[first[side]] for side in ("rows", "columns"))
    rows, columns = _listed(down), _listed(across)
    cells = np.reshape(first["cells"], (len(down["words"]), len(across["words"])))[:, columns]
    weights = [[weight * 10.0 ** -first["places"] for weight in row] for row in cells.tolist()]
    width, letters = len(columns), sum(min(len(across["words"][column]), 24) for column in columns)
    return {
        # The source comes first, in reading order.
        "sentences": [
            (side, name, [axis["words"][index] for index in listed], _among(axis["unknown"], listed))
            for side, name, axis, listed in (
                ("columns", first["names"][1], across, columns),
                ("rows", first["names"][0], down, rows),
            )
        ],
        "has_table": bool(columns),
        # Long names are vertical, so that the table is not too wide.
        "crowd": "many crowd" if width > 24 else "many" if width > 8 or letters > 100 else "",
        "columns": [across["words"][column] for column in columns],
        "unknown": (_among(down["unknown"], rows), _among(across["unknown"], columns)),
        "rows": [
            (
                down["words"][row],
                [(shade(weight / first["scale"]), fixed(weight, first["digits"]) if weight else "") for weight in weights[row]],
            )
            for row in rows
        ],
    }


def _view(record: AttentionRecord, site: str, head: int | None, options: Options) -> WordView:
    """Return the view of a site: on images and sounds, that of the words that attend to them."""
    if not places.kind(record, site):
        return record.view(site, head, special=options.special).with_p_gen()
    view = places.looked(record, site, head, special=options.special, earlier=True)
    if head is None and sides(site) == ("source", "source") and len(view.columns) ** 2 <= _MOST_AMONG:
        # The rows of patches are for the script: a patch that is pointed at shows where it looks itself.
        return record.view(site, special=view.with_special)
    return places.without_silence(view)[0] if places.kind(record, site) == "sound" else view


def _placed(spans: Sequence[Span]) -> list[int]:
    """Return the indices of the words that are patches or frames."""
    return [index for span in spans if span.segment.has_places for index in range(span.start, span.end)]


def _listed(axis: Mapping[str, Any]) -> list[int]:
    """Return the indices of the words of an axis that are neither patches nor frames."""
    placed = {index for span in axis["spans"] if span["figure"] is not None for index in range(span["start"], span["end"])}
    return [index for index in range(len(axis["words"])) if index not in placed]


def _among(chosen: Sequence[int], listed: Sequence[int]) -> list[int]:
    """Return the places in a list of indices of those that are chosen."""
    among = set(chosen)
    return [place for place, index in enumerate(listed) if index in among]


def _figure(span: Span, name: str) -> dict[str, Any]:
    """Return what the template shows of an image or a sound."""
    picture = places.open_picture(span)
    if picture is None:
        return {"kind": span.segment.kind, "name": label(name, 80), "source": "", "size": (1, 1)}
    # The image is encoded again, so that the metadata of its file stay out of the page.
    files = {}
    for kind, options in (("png", {"optimize": True}), ("jpeg", {"quality": _QUALITY})):
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        files[kind] = buffer.getvalue()
    kind = min(files, key=lambda each: len(files[each]))
    source = f"data:image/{kind};base64,{base64.b64encode(files[kind]).decode()}"
    return {"kind": span.segment.kind, "name": label(name, 80), "source": source, "size": picture.size}


def _size(segment: Segment) -> dict[str, Any]:
    """Return what the script needs to know about an image or a sound."""
    if isinstance(segment, SoundSegment):
        return {"kind": segment.kind, "seconds": segment.seconds, "length": segment.num_tokens, "wave": segment.wave}
    assert isinstance(segment, ImageSegment)
    return {"kind": segment.kind, "rows": segment.rows, "columns": segment.columns}


def _named_views(
    shown: Sequence[tuple[str, str, int | None, WordView]],
    choices: Mapping[str, AttentionRecord],
    figures: Sequence[Segment],
    options: Options,
) -> tuple[dict[str, dict[str, dict[str, Any]]], list[dict[str, Any]]]:
    """Return the words of each unit and axis with what is known about them, and the views, which refer to them by name."""
    axes: dict[str, dict[str, dict[str, Any]]] = {}
    views: list[dict[str, Any]] = []
    by_scale: dict[str, list[WordView]] = {}
    for _, site, _, view in shown:
        by_scale.setdefault(_scale_of(site), []).append(view)
    scales = {name: _scale(of) for name, of in by_scale.items()}
    for kind, site, head, view in shown:
        named = axes.setdefault(kind, {})
        down, across = sides(site)
        rows = _register(named, down, (view.rows, view.unknown_rows, view.row_spans, view.row_times), figures)
        columns = _register(named, across, (view.columns, view.unknown_columns, view.column_spans, ()), figures)
        scale = scales[_scale_of(site)]
        cells = units(view.matrix, scale["places"])
        told = _told(choices[kind], site, head, view, options) if view.matrix.size else ""
        if told and 0 in cells and _listed(named[columns]):
            told += f" {blank_cells(scale['digits'])}"
        facts = {"rows": rows, "columns": columns, "names": caption.axis_names(site), "told": told}
        views.append({"units": kind, "site": label(site, 80), "head": head, **facts, **scale, "cells": cells})
    return axes, views


def _register(
    named: dict[str, dict[str, Any]],
    side: str,
    axis: tuple[Sequence[str], Sequence[bool], Sequence[Span], Sequence[Any]],
    figures: Sequence[Segment],
) -> str:
    """Add the words of an axis unless they are there, and return their name: the side, with a number for further lists."""
    words, unknown, spans, times = axis
    found = {
        "words": [label(word, 200) for word in words],
        "unknown": _chosen(unknown),
        "spans": [
            {
                "start": span.start,
                "end": span.end,
                "name": label(name, 80),
                "figure": figures.index(span.segment) if span.segment in figures else None,
            }
            for span, name in zip(spans, places.names(spans), strict=True)
        ],
        "times": list(times) if any(times) else [],
    }
    alike = [side, *(f"{side} {number}" for number in range(2, len(named) + 3))]
    return next(name for name in alike if named.setdefault(name, found) == found)


def _fitting(
    record: AttentionRecord, sites: Sequence[str], budget: int, options: Options
) -> tuple[list[tuple[str, int | None]], int, int]:
    """Return the pairs (site, head) whose matrices fit into a budget of cells, the number of others, and the remaining budget.

    The mean of the first site is always included, then means come before heads.
    """
    pairs = [(site, head) for site in sites for head in _heads(record, site)]
    fitting: list[tuple[str, int | None]] = []
    left_out = 0
    cells: dict[tuple[str, bool], int] = {}
    for site, head in sorted(pairs, key=lambda pair: pair[1] is not None):
        kind = (site, head is None)
        if kind not in cells:
            rows, columns = record.words(site)
            is_placed = bool(places.kind(record, site))
            cells[kind] = _view(record, site, head, options).matrix.size if is_placed else len(rows) * len(columns)
        if fitting and cells[kind] > budget:
            left_out += 1
        else:
            fitting.append((site, head))
            budget -= cells[kind]
    return [pair for pair in pairs if pair in fitting], left_out, budget


def _told(record: AttentionRecord, site: str, head: int | None, view: WordView, options: Options) -> str:
    """Return the sentences about one view; empty if the page has no captions."""
    if not options.caption:
        return ""
    described = places.described(view) if places.kind(record, site) else {}
    further = [*caption.copying(view), *caption.hides([view]), *caption.unknown(view)]
    return " ".join([caption.shows(record, [site], head, **described), *further])


def _chosen(chosen: Sequence[bool]) -> list[int]:
    return [place for place, is_chosen in enumerate(chosen) if is_chosen]


def classification(record: AttentionRecord, sites: Sequence[str], options: Options) -> dict[str, Any]:
    """Return the label, the words and the probabilities of a classification, and matrices of the attention among its words."""
    over_words = [site for site in sites if sides(site) == ("target", "source") and not places.kind(record, site)]
    among_words = [site for site in sites if site not in over_words]
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    shown_text = None
    if over_words and options.caption:
        view = record.view(over_words[0], special=options.special)
        shown_text = (_told(record, over_words[0], None, view, options), caption.note(record))
    return {
        "heading": label(headline(record, with_probability=False), 5000),
        "facts": [] if record.score is None else [("score", fixed(record.score))],
        "words": _words(record, over_words, options) if over_words else None,
        "labels": [(label(name, 200), probability(value), round(1000 * value)) for name, value in ranked[:MOST_LABELS]],
        "further": further_labels(len(ranked) - MOST_LABELS),
        "caption": shown_text,
        "matrices": matrices(record, among_words, options, with_note=not over_words) if among_words else None,
        "among": "Attention among the words" if over_words else "",
    }


def _words(record: AttentionRecord, sites: Sequence[str], options: Options) -> dict[str, Any]:
    names: dict[str, list[str]] = {}
    unknown: dict[str, list[int]] = {}
    views: list[dict[str, Any]] = []
    for kind, converted in _choices(record, options.units).items():
        named = converted.view(sites[0], special=options.special)
        names[kind], unknown[kind] = [label(word, 200) for word in named.columns], _chosen(named.unknown_columns)
        for site, head in [(each, head) for each in sites for head in _heads(converted, each)]:
            view = converted.view(site, head, special=options.special)
            weights = view.means
            scale = greatest(weights) or 1.0
            digits = decimals(scale)
            facts = {"scale": scale, "top": amount(scale, digits), "places": digits, "cells": units(weights, digits)}
            told = _told(converted, site, head, view, options)
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
