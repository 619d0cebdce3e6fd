"""The part of a page with a classification: words coloured by their weights, and a bar for each label."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.records import AttentionRecord
from regard.records.views import sides
from regard.viz import caption, markup, page_matrix
from regard.viz.labels import label
from regard.viz.markup import LEVELS, UNITS_SELECT, Options, facts, legend, script_data, shade, text, unit_choices
from regard.viz.numbers import amount, decimals, fixed, greatest, probability, units
from regard.viz.summary import further_labels, headline

MOST_LABELS = 20


def body(record: AttentionRecord, sites: Sequence[str], options: Options) -> str:
    """Return the HTML of the label, the words and the probabilities, followed by matrices of the attention among the words.

    Args:
        record: A classification.
        sites: Its sites, beginning with the one that is shown first.
        options: Options of the page.
    """
    over_words = [site for site in sites if sides(site) == ("target", "source")]
    among_words = [site for site in sites if site not in over_words]
    parts = [f'<h2 dir="auto">{text(headline(record, with_probability=False))}</h2>\n']
    if record.score is not None:
        parts.append(facts([("score", fixed(record.score))]))
    parts += [_words(record, over_words, options)] if over_words else []
    parts.append(_probabilities(record))
    if over_words and options.caption:
        first = record.view(over_words[0], special=options.special)
        shown = [caption.shows(record, over_words[:1]), *caption.hides([first])]
        parts.append(markup.caption(shown, caption.note(record)))
    if among_words:
        matrices = page_matrix.body(record, among_words, options, with_note=not over_words)
        parts.append(f'<section class="matrix">\n<h3>Attention among the words</h3>\n{matrices}</section>\n')
    return "".join(parts)


def _words(record: AttentionRecord, sites: Sequence[str], options: Options) -> str:
    names, views = {}, []
    for kind, one in unit_choices(record, options.units).items():
        names[kind] = [label(word, 200) for word in one.view(sites[0], special=options.special).columns]
        each = [(site, head) for site in sites for head in (None, *range(one.num_heads(site) or 0))]
        views += [{"units": kind} | _view(one, site, head, options) for site, head in each]
    first = views[0]
    spans = " ".join(_span(first, name, cell) for name, cell in zip(names[first["units"]], first["cells"], strict=True))
    negative = any(cell < 0 for view in views for cell in view["cells"])
    return (
        '<div class="choice" hidden><label>Site <select class="site"></select></label> '
        f'<label>Head <select class="head"></select></label> {UNITS_SELECT}</div>\n'
        f'<p class="text" dir="auto">{spans or "The text has no words."}</p>\n<p class="readout" role="status"></p>\n'
        f"{legend(first['top'], negative)}{script_data({'words': names, 'views': views, 'levels': LEVELS})}"
    )


def _view(record: AttentionRecord, site: str, head: int | None, options: Options) -> dict[str, Any]:
    view = record.view(site, head, special=options.special)
    weights = view.matrix.sum(axis=0, dtype=np.float64) / max(1, len(view.matrix))
    scale = greatest(weights) or 1.0
    places = decimals(scale)
    told = " ".join([caption.shows(record, [site], head), *caption.hides([view])]) if options.caption else ""
    return {
        "site": label(site, 80),
        "head": head,
        "scale": scale,
        "top": amount(scale, places),
        "places": places,
        "told": told,
        "cells": units(weights, places),
    }


def _span(view: dict[str, Any], name: str, cell: int) -> str:
    colour = shade(_weight(view, cell) / view["scale"])
    return f'<span class="word {colour}" title="{value(view, cell)}">{text(name, 200)}</span>'


def _weight(view: dict[str, Any], cell: int) -> float:
    return float(cell * 10.0 ** -view["places"])


def value(view: dict[str, Any], cell: int) -> str:
    """Return the weight of a cell as text, in the same format as the script writes it."""
    return fixed(_weight(view, cell), view["places"])


def _probabilities(record: AttentionRecord) -> str:
    ranked = sorted(record.probabilities.items(), key=lambda item: -item[1])
    rows = "".join(_row(text(name, 200), value) for name, value in ranked[:MOST_LABELS])
    more = further_labels(len(ranked) - MOST_LABELS)
    further = f'<p class="note">{more}</p>\n' if more else ""
    return f'<table class="labels" aria-label="Probability of each label">\n<tbody>\n{rows}</tbody></table>\n{further}'


def _row(name: str, value: float) -> str:
    bar = f'<rect width="{round(1000 * value)}" height="10"/>'  # a width instead of a style, which the page's policy forbids
    return (
        f'<tr><th scope="row"><span dir="auto" title="{name}">{name}</span></th><td>{text(probability(value))}</td>'
        f'<td><svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">{bar}</svg></td></tr>\n'
    )
