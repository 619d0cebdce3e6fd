"""The part of a page that shows a classification: its words on the colours of their weights, and a bar for each label."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.record import AttentionRecord
from regard.record.views import sides
from regard.viz import page_matrix
from regard.viz.labels import label
from regard.viz.markup import LEVELS, UNITS, facts, legend, script_data, shade, text
from regard.viz.summary import headline

MOST_LABELS = 20


def body(record: AttentionRecord, sites: Sequence[str], budget: int) -> str:
    """Label, words, probabilities; below them the sites that hold words among words, as matrices.

    Args:
        record: A classification.
        sites: Its sites, the one shown first in front.
        budget: Of cells, for the matrices.
    """
    over_words = [site for site in sites if sides(site) == ("target", "source")]
    among_words = [site for site in sites if site not in over_words]
    parts = [f'<h2 dir="auto">{text(headline(record))}</h2>\n']
    if record.score is not None:
        parts.append(facts([("score", f"{record.score:.3f}")]))
    parts += [_words(record, over_words)] if over_words else []
    parts.append(_probabilities(record))
    if over_words:
        parts.append(f'<p class="note">{text(record.note) if record.note.strip() else ""}{_trimmed(record, over_words)}</p>\n')
    if among_words:
        matrices = page_matrix.body(record, among_words, budget, "" if over_words else record.note)
        parts.append(f'<section class="matrix">\n<h3>Attention among the words</h3>\n{matrices}</section>\n')
    return "".join(parts)


def _words(record: AttentionRecord, sites: Sequence[str]) -> str:
    names = [label(word, 200) for word in record.source_words]
    views = [_view(record, site, head) for site in sites for head in (None, *range(record.num_heads(site) or 0))]
    first = views[0]
    spans = " ".join(
        f'<span class="word {shade(cell)}" title="{value(first, cell)}">{text(name, 200)}</span>'
        for name, cell in zip(names, first["cells"], strict=True)
    )
    negative = any(cell < 0 for view in views for cell in view["cells"])
    return (
        '<div class="choice" hidden><label>Site <select class="site"></select></label> '
        '<label>Head <select class="head"></select></label></div>\n'
        f'<p class="text" dir="auto">{spans or "The text has no words."}</p>\n<p class="readout" role="status"></p>\n'
        f"{legend(first['scale'], negative)}"
        f"{script_data({'words': names, 'views': views, 'units': UNITS, 'levels': LEVELS})}"
    )


def _view(record: AttentionRecord, site: str, head: int | None) -> dict[str, Any]:
    weights = record.word_weights(site, head).astype(np.float64)
    scale = float(np.abs(weights).max(initial=0.0)) or 1.0
    cells = np.rint(weights * (UNITS / scale)).astype(int)
    return {"site": label(site, 80), "head": head, "scale": scale, "cells": cells.tolist()}


def value(view: dict[str, Any], cell: int) -> str:
    """A weight in figures, as the script writes it too."""
    weight = cell / UNITS * view["scale"]
    return f"{weight:.3f}" if view["scale"] >= 0.05 else f"{weight:.2e}" if view["scale"] < 1e-4 else f"{weight:.5f}"


def _trimmed(record: AttentionRecord, sites: Sequence[str]) -> str:
    most = max(float(record.trimmed_mass(site).max(initial=0.0)) for site in sites)
    return f" Up to {most:.2f} of the weight fell on special symbols and is not shown." if most >= 0.005 else ""


def _probabilities(record: AttentionRecord) -> str:
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    rows = "".join(_row(text(name, 200), probability) for name, probability in ranked[:MOST_LABELS])
    more = len(ranked) - MOST_LABELS
    further = f'<p class="note">and {more} labels with less</p>\n' if more > 0 else ""
    return f'<table class="labels" aria-label="Probability of each label">\n<tbody>\n{rows}</tbody></table>\n{further}'


def _row(name: str, probability: float) -> str:
    bar = f'<rect width="{round(1000 * probability)}" height="10"/>'  # no style, which the page's policy forbids
    return (
        f'<tr><th scope="row"><span dir="auto" title="{name}">{name}</span></th><td>{probability:.3f}</td>'
        f'<td><svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">{bar}</svg></td></tr>\n'
    )
