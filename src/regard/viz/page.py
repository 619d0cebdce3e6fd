"""Records as one self-contained HTML page: nothing is fetched, and nothing a word holds can run.

The page shows each sentence as two lines of words, in which a word shades the words of the other side, and as a grid with a
value in each cell. The grid is in the markup, so that it is there without scripts; the script adds what moves. The content
security policy allows the page's own style and script, by their hashes, and nothing else.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from regard.errors import RequestError
from regard.record import AttentionRecord
from regard.record.views import sides
from regard.viz import colour
from regard.viz.labels import label

LEVELS, UNITS = 20, 1000
"""Shades, and the fineness to which weights are written: a thousandth of the full scale."""
MAX_CELLS = 1_500_000
"""Of all matrices of a page, about 5 MB; beyond it heads are left out, and then sites."""


def render(records: AttentionRecord | Iterable[AttentionRecord]) -> str:
    """Write the page.

    Args:
        records: One record, or several for one page.

    Returns:
        A whole HTML document. The same records give the same text.

    Raises:
        RequestError: If there is no record.
    """
    many = [records] if isinstance(records, AttentionRecord) else list(records)
    if not many:
        raise RequestError("page.render: there is no record to show, expected at least one")
    style, script = _asset("page.css") + _palette(), _asset("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    title = _text(f"{many[0].source_text} → {many[0].target_text}", 120)
    budget = MAX_CELLS // len(many)
    articles = "\n".join(_article(record, number, budget) for number, record in enumerate(many))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{_contents(many)}{articles}\n</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def embed(record: AttentionRecord) -> str:
    """The page in a frame, for a notebook: its style and script stay inside."""
    rows, columns = (len(words) for words in record.words(_default_site(record)))
    height = min(760, 330 + 34 * rows + (80 if columns > 8 else 0))
    page = html.escape(render(record), quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" width="100%" height="{height}" frameborder="0" '
        f'title="Attention of: {_text(record.source_text, 120)}"></iframe>'
    )


@lru_cache
def _asset(name: str) -> str:
    return resources.files("regard.viz").joinpath(name).read_text(encoding="utf-8")


@lru_cache
def _palette() -> str:
    """A class for each shade: `a` of positive weights, `b` of negative, in light and in dark."""

    def classes(letter: str, anchors: Sequence[str]) -> str:
        shades = colour.ramp(anchors, LEVELS + 1)
        return "".join(
            f".{letter}{level}{{background:{colour.to_hex(shade)};color:{colour.ink(shade)}}}"
            for level, shade in enumerate(shades)
        )

    light = classes("a", colour.LIGHT) + classes("b", colour.LIGHT_NEGATIVE)
    dark = classes("a", colour.DARK) + classes("b", colour.DARK_NEGATIVE)
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _text(text: str, limit: int = 5000) -> str:
    return html.escape(label(text, limit), quote=True)


def _default_site(record: AttentionRecord) -> str:
    return "cross" if "cross" in record.weights else record.sites[0]


def _contents(records: Sequence[AttentionRecord]) -> str:
    if len(records) == 1:
        return ""
    links = "\n".join(
        f'<li><a href="#record-{number}" dir="auto">{_text(record.source_text, 200)}</a></li>'
        for number, record in enumerate(records)
    )
    return f'<h1>Attention of {len(records)} sentences</h1>\n<nav aria-label="Sentences"><ol>\n{links}\n</ol></nav>\n'


def _views(record: AttentionRecord, budget: int) -> tuple[list[tuple[str, int | None]], str]:
    """Which (site, head) fit into the budget of cells, the default first; and a sentence on what was left out, if any."""
    first = _default_site(record)
    sites = [first, *(site for site in record.sites if site != first)]

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


def _article(record: AttentionRecord, number: int, budget: int) -> str:
    views, told = _views(record, budget)
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
    note = _text(record.note)
    if trimmed >= 0.005:
        note += f" Up to {trimmed:.2f} of a row fell on special symbols and is not shown."
    return (
        f'<article id="record-{number}">\n<h2 dir="auto">{_text(record.source_text)}</h2>\n{_facts(record)}'
        '<div class="choice" hidden><label>Site <select class="site"></select></label> '
        '<label>Head <select class="head"></select></label></div>\n'
        f"{_sentences(record, views[0][0])}"
        '<p class="readout" role="status"></p>\n'
        f"{_table(record, views[0][0], units[0], scale, digits)}{_legend(scale, negative)}"
        f'<p class="note">{note}{told}</p>\n'
        f'<script type="application/json">{_json(data)}</script>\n</article>'
    )


def _view(site: str, head: int | None, cells: np.ndarray) -> dict[str, Any]:
    rows, columns = sides(site)
    return {"site": label(site, 80), "head": head, "rows": rows, "columns": columns, "cells": cells.ravel().tolist()}


def _json(data: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _facts(record: AttentionRecord) -> str:
    facts = [("output", record.target_text)]
    if record.reference is not None:
        facts.append(("reference", record.reference))
    if record.score is not None:
        facts.append(("score", f"{record.score:.3f}"))
    if record.log_probability is not None:
        facts.append(("log probability", f"{record.log_probability:.3f}"))
    return "<dl>" + "".join(f'<dt>{name}</dt><dd dir="auto">{_text(text)}</dd>' for name, text in facts) + "</dl>\n"


def _sentences(record: AttentionRecord, site: str) -> str:
    lines = []
    for kind, side, words in zip(("rows", "columns"), sides(site), record.words(site), strict=True):
        name = {"source": "source", "target": "output"}[side]
        spans = " ".join(f'<span class="word">{_text(word, 200)}</span>' for word in words)
        lines.append(
            f'<p class="sentence {kind}"><span class="name">{name}</span><span class="words" dir="auto">{spans}</span></p>\n'
        )
    return "".join(reversed(lines))  # the source first, as it is read


def _table(record: AttentionRecord, site: str, units: np.ndarray, scale: float, digits: int) -> str:
    rows, columns = record.words(site)

    def head(word: str, scope: str) -> str:
        return f'<th scope="{scope}"><span dir="auto" title="{_text(word, 200)}">{_text(word, 200)}</span></th>'

    def cell(unit: int) -> str:
        shade = f"{'b' if unit < 0 else 'a'}{int(abs(unit) / UNITS * LEVELS + 0.5)}"
        return f"<td class={shade}>{unit / UNITS * scale:.{digits}f}</td>"

    lines = "\n".join(
        f"<tr>{head(word, 'row')}{''.join(map(cell, line))}</tr>" for word, line in zip(rows, units.tolist(), strict=True)
    )
    crowd = "many crowd" if len(columns) > 24 else "many" if len(columns) > 8 else ""
    heads = "".join(head(word, "col") for word in columns)
    return (
        f'<div class="scroll"><table class="{crowd}" aria-label="Attention weights: output words down, source words across">\n'
        f'<thead><tr><th class="corner" aria-hidden="true"></th>{heads}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>\n"
    )


def _legend(scale: float, negative: bool) -> str:
    bar = "".join(f'<i class="a{level}"></i>' for level in range(LEVELS + 1))
    low = "0"
    if negative:
        bar = "".join(f'<i class="b{level}"></i>' for level in range(LEVELS, 0, -1)) + bar
        low = f"−{scale:g}"
    bar = f'<span class="bar" aria-hidden="true">{bar}</span>'
    return f'<p class="legend"><span>weight {low}</span>{bar}<span>{scale:g}</span></p>\n'
