"""The part of a page that shows matrices: two lines of words that shade each other, and a grid with a value in each cell."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.record import AttentionRecord
from regard.record.views import sides
from regard.viz import colour
from regard.viz.labels import label
from regard.viz.markup import LEVELS, UNITS, legend, script_data, shade, text


def body(record: AttentionRecord, sites: Sequence[str], budget: int, note: str) -> str:
    """The matrices of some sites, the first of which is shown first.

    Args:
        record: Whose they are.
        sites: At least one.
        budget: Of cells; what goes beyond it is left out, heads before sites.
        note: What the pictures prove and what not.
    """
    views, told = _views(record, sites, budget)
    matrices = [record.matrix(*view) for view in views]
    scale = colour.full_scale(*matrices)
    digits = min(9, max(3, 3 - int(np.floor(np.log10(scale)))))
    units = [np.rint(matrix * (UNITS / scale)).astype(int) for matrix in matrices]
    data = {
        "words": {side: [label(word, 200) for word in getattr(record, f"{side}_words")] for side in ("source", "target")},
        "views": [_view(site, head, cells) for (site, head), cells in zip(views, units, strict=True)],
        "scale": scale,
        "units": UNITS,
        "levels": LEVELS,
        "digits": digits,
    }
    negative = any((matrix < 0).any() for matrix in matrices)
    trimmed = max(float(record.trimmed_mass(*view).max(initial=0.0)) for view in views)
    if trimmed >= 0.005:
        told = f" Up to {trimmed:.2f} of a row fell on special symbols and is not shown.{told}"
    return (
        '<div class="choice" hidden><label>Site <select class="site"></select></label> '
        '<label>Head <select class="head"></select></label></div>\n'
        '<details hidden><summary>All sites and heads</summary><div class="gallery"></div></details>\n'
        f"{_sentences(record, views[0][0])}"
        '<p class="readout" role="status"></p>\n'
        f"{_table(record, views[0][0], units[0], scale, digits)}{legend(scale, negative)}"
        f'<p class="note">{text(note) if note.strip() else ""}{told}</p>\n'
        f"{script_data(data)}"
    )


def _views(record: AttentionRecord, sites: Sequence[str], budget: int) -> tuple[list[tuple[str, int | None]], str]:
    """Which (site, head) fit into the budget of cells, the first mean first; and a sentence on what was left out, if any."""
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
    told = f" {left_out} further matrices (heads or sites) are left out to keep the page small." if left_out else ""
    return sorted(views, key=lambda view: (sites.index(view[0]), -1 if view[1] is None else view[1])), told


def _view(site: str, head: int | None, cells: np.ndarray) -> dict[str, Any]:
    rows, columns = sides(site)
    return {"site": label(site, 80), "head": head, "rows": rows, "columns": columns, "cells": cells.ravel().tolist()}


def _sentences(record: AttentionRecord, site: str) -> str:
    lines = []
    for kind, side, words in zip(("rows", "columns"), sides(site), record.words(site), strict=True):
        name = {"source": "source", "target": "output"}[side]
        spans = " ".join(f'<span class="word">{text(word, 200)}</span>' for word in words)
        lines.append(
            f'<p class="sentence {kind}"><span class="name">{name}</span><span class="words" dir="auto">{spans}</span></p>\n'
        )
    return "".join(reversed(lines))  # the source first, as it is read


def _table(record: AttentionRecord, site: str, units: np.ndarray, scale: float, digits: int) -> str:
    rows, columns = record.words(site)

    def head(word: str, scope: str) -> str:
        return f'<th scope="{scope}"><span dir="auto" title="{text(word, 200)}">{text(word, 200)}</span></th>'

    def cell(unit: int) -> str:
        return f"<td class={shade(unit)}>{unit / UNITS * scale:.{digits}f}</td>"

    lines = "\n".join(
        f"<tr>{head(word, 'row')}{''.join(map(cell, line))}</tr>" for word, line in zip(rows, units.tolist(), strict=True)
    )
    crowd = "many crowd" if len(columns) > 24 else "many" if len(columns) > 8 else ""
    heads = "".join(head(word, "col") for word in columns)
    return (
        f'<div class="scroll"><table class="{crowd}" aria-label="Attention weights: each word down looks at those across">\n'
        f'<thead><tr><th class="corner" aria-hidden="true"></th>{heads}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>\n"
    )
