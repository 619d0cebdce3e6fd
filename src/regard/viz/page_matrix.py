"""The part of a page with matrices: two lines of words, where a selected word shades the other line, and a grid of values."""

from collections.abc import Sequence
from typing import Any

from regard.plurals import counted
from regard.records import AttentionRecord
from regard.records.views import WordView, sides
from regard.viz import caption, colour, markup
from regard.viz.labels import label, runs_right_to_left
from regard.viz.markup import LEVELS, UNITS_SELECT, Options, legend, script_data, shade, text, unit_choices
from regard.viz.numbers import decimals, fixed, greatest, tick, units

_NAMES = {"source": "source", "target": "output", "read": "output"}
"""Names of the axes; `read` stands for the words that a decoder reads, if they differ from the words that it writes."""


def body(record: AttentionRecord, sites: Sequence[str], options: Options, *, with_note: bool = True) -> str:
    """Return the HTML of the matrices of some sites, beginning with the site that is shown first.

    Args:
        record: The record.
        sites: One or more sites.
        options: Options of the page.
        with_note: Whether to write the record's note; False if it is written elsewhere.
    """
    choices, shown, left_out, budget = unit_choices(record, options.units), [], "", options.budget
    for kind, one in choices.items():
        pairs, told, budget = _choose(one, sites, budget)
        left_out = left_out or told
        shown += [(kind, site, head) for site, head in pairs]
    views = [choices[kind].view(site, head, special=options.special) for kind, site, head in shown]
    top = greatest(*(view.matrix for view in views))
    scale, places = colour.full_scale(*(view.matrix for view in views)), decimals(top)
    data: dict[str, Any] = {"words": {}, "rtl": [], "views": [], "scale": scale, "levels": LEVELS, "places": places}
    for (kind, site, head), view in zip(shown, views, strict=True):
        named = data["words"].setdefault(kind, {})
        data["views"].append({"units": kind} | _view(choices[kind], site, head, view, named, places, options))
    data["rtl"] = [axis for axis, words in data["words"][shown[0][0]].items() if runs_right_to_left(words)]
    first = data["views"][0]
    negative = any((view.matrix < 0).any() for view in views)
    written = [left_out] if left_out else []
    written += caption.note(record) if with_note else []
    return (
        '<div class="choice" hidden><label>Site <select class="site"></select></label> '
        f'<label>Head <select class="head"></select></label> {UNITS_SELECT}</div>\n'
        '<details hidden><summary>All sites and heads</summary><div class="gallery"></div></details>\n'
        f"{_sentences(first, data['words'][first['units']])}"
        f'<p class="nothing"{" hidden" if first["cells"] else ""}>{caption.empty(record, sites[0])}</p>\n'
        '<p class="readout" role="status"></p>\n'
        f"{_table(first, data)}{legend(tick(scale), negative)}"
        f"{markup.caption([first['told']], written) if options.caption else ''}"
        f"{script_data(data)}"
    )


def _choose(record: AttentionRecord, sites: Sequence[str], budget: int) -> tuple[list[tuple[str, int | None]], str, int]:
    """Return the pairs (site, head) whose matrices fit into the budget of cells, a sentence about the others, and what is left.

    The head is None for the mean over heads. The mean of the first site is always included.
    """
    first = sites[0]

    def cells(site: str) -> int:
        rows, columns = record.words(site)
        return len(rows) * len(columns)

    views: list[tuple[str, int | None]] = [(first, None)]
    left_out = 0
    budget -= cells(first)
    wanted: list[tuple[str, int | None]] = [(site, None) for site in sites[1:]]
    wanted += [(site, head) for site in sites for head in range(record.num_heads(site) or 0)]
    for site, head in wanted:
        if cells(site) <= budget:
            views.append((site, head))
            budget -= cells(site)
        else:
            left_out += 1
    matrices = counted(left_out, "further matrix", "further matrices")
    told = f"To keep the page small, it leaves out {matrices} (heads or sites)." if left_out else ""
    return sorted(views, key=lambda view: (sites.index(view[0]), -1 if view[1] is None else view[1])), told, budget


def _view(
    record: AttentionRecord,
    site: str,
    head: int | None,
    view: WordView,
    named: dict[str, list[str]],
    places: int,
    options: Options,
) -> dict[str, Any]:
    """Return the data of a view for the script, and add the view's words to `named`."""
    rows, columns = sides(site)
    if options.special and rows == columns == "target" and not record.target_is_read:
        columns = "read"
    for axis, words in ((rows, view.rows), (columns, view.columns)):
        named.setdefault(axis, [label(word, 200) for word in words])
    told = (
        " ".join([caption.shows(record, [site], head), *caption.hides([view])]) if options.caption and view.matrix.size else ""
    )
    cells = units(view.matrix, places)
    return {"site": label(site, 80), "head": head, "rows": rows, "columns": columns, "told": told, "cells": cells}


def _sentences(view: dict[str, Any], words: dict[str, list[str]]) -> str:
    lines = []
    for kind in ("rows", "columns"):
        spans = " ".join(f'<span class="word">{text(word, 200)}</span>' for word in words[view[kind]])
        lines.append(
            f'<p class="sentence {kind}"><span class="name">{_NAMES[view[kind]]}</span>'
            f'<span class="words" dir="auto">{spans}</span></p>\n'
        )
    return "".join(reversed(lines))  # the source comes first, in reading order


def _table(view: dict[str, Any], data: dict[str, Any]) -> str:
    rows, columns = (data["words"][view["units"]][view[axis]] for axis in ("rows", "columns"))
    unit = 10.0 ** -data["places"]

    def head(word: str, scope: str) -> str:
        return f'<th scope="{scope}"><span dir="auto" title="{text(word, 200)}">{text(word, 200)}</span></th>'

    def cell(number: int) -> str:
        return f"<td class={shade(number * unit / data['scale'])}>{fixed(number * unit, data['places'])}</td>"

    width = len(columns)
    lines = "\n".join(
        f"<tr>{head(word, 'row')}{''.join(map(cell, view['cells'][row * width : (row + 1) * width]))}</tr>"
        for row, word in enumerate(rows)
    )
    letters = sum(min(len(word), 24) for word in columns)  # long names are vertical, so that the table is not too wide
    crowd = "many crowd" if width > 24 else "many" if width > 8 or letters > 100 else ""
    direction = "rtl" if view["columns"] in data["rtl"] else "ltr"
    heads = "".join(head(word, "col") for word in columns)
    return (
        f'<div class="scroll" dir="{direction}"{"" if view["cells"] else " hidden"}><table class="{crowd}" '
        'aria-label="Attention weights: the words down attend to the words across">\n'
        f'<thead><tr><th class="corner" aria-hidden="true"></th>{heads}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>\n"
    )
