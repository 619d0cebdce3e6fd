"""Captions: what a picture shows for this kind of model, how much weight is not drawn, and what it does not prove."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from regard.plurals import plural
from regard.records import AttentionRecord
from regard.records.attribution import INPUTS, Attribution, attribution_of
from regard.records.data import NOTE
from regard.records.views import UNKNOWN_TOKENS, WordView, sides
from regard.viz.labels import isolated, label
from regard.viz.numbers import fixed, percent

_NAMES = {"source": "source", "target": "output"}
Kind = Literal["label", "pool", "tag", "encoder", "decoder", "language", "cross"]

# Descriptions of pictures; `row` and `columns` are replaced by the units of rows and columns, such as `word` and `words`.
_SHOWS: dict[Kind, str] = {
    "label": "which {columns} the model attended to when it chose the label",
    "pool": "which {columns} the model attended to when it pooled them",
    "tag": "which {columns} the model attended to when it chose the tag of that {row}",
    "encoder": "which {columns} the encoder attended to when it encoded that {row}",
    "decoder": "which earlier output {columns} the decoder attended to when it wrote that {row}",
    "language": "which {columns} up to that {row} the model attended to when it predicted the next one",
    "cross": "which source {columns} the decoder attended to when it wrote that output {row}",
}
_READ: dict[Kind, str] = {  # for records whose rows are the words that a decoder reads
    "decoder": "which output {columns} the decoder attended to when it read that {row}",
    # Not only decoders: `regard.capture(encoder, rows=[0])` records the attention from one word of a text to all of its words.
    "cross": "which source {columns} the model attended to when it read that {row}",
}
_CAUSAL = "which {columns} up to that {row} the model attended to when it read that {row}"
_MOST_NAMES, _MOST_UNKNOWN = 4, 8
_LONGEST_NOTE = 800
# Rows count as normalised if their sums differ from one by no more than this.
_TOLERANCE = 0.02


def axis_names(site: str) -> tuple[str, str]:
    """Return names for the rows and the columns of a site; those of self-attention are on the same side."""
    down, across = sides(site)
    return ("attending", "attended") if down == across else (_NAMES[down], _NAMES[across])


def kind_of(record: AttentionRecord, site: str) -> Kind:
    """Return the kind of attention at a site, which decides what the caption says."""
    if sides(site) == ("source", "source"):
        return "encoder"
    if sides(site) == ("target", "target"):
        return "language" if record.target_is_read and not record.source_tokens else "decoder"
    own: Mapping[str, Kind] = {"pool": "pool", "tag": "tag"}
    return "label" if record.is_classification else own.get(site, "cross")


def write(
    record: AttentionRecord,
    sites: Sequence[str],
    views: Sequence[WordView],
    head: int | None = None,
    *,
    grid: bool = False,
    each: str = "row",
    units: tuple[str, str] | None = None,
) -> list[str]:
    """Return the sentences of the caption below a picture of some sites of one kind, which has a map for each if `grid`.

    `each` is the part of the picture that shows the weights of one output, and `units` are those of rows and columns.
    """
    row, column = units or map(record.unit, sides(sites[0]))
    shown = shows(record, sites, head, grid=grid, each=each, units=(row, column))
    last = note(record, column, is_attention=not attribution_of(sites[0]))
    return [shown, *copying(views[0]), *borders(views[0]), *hides(views), *unknown(views[0]), *last]


def note(record: AttentionRecord, unit: str = "word", *, is_attention: bool = True) -> list[str]:
    """Return the record's note on what the weights do not prove, or on what a measurement of their faithfulness showed.

    The note that records have by default is about attention; attributions have their own sentence (`shows`).
    """
    text = record.note.replace("words", plural(unit)) if record.note == NOTE else record.note
    text = text if is_attention else record.note.removesuffix(NOTE)
    return [label(text, _LONGEST_NOTE)] if text.strip() else []


def shows(
    record: AttentionRecord,
    sites: Sequence[str],
    head: int | None = None,
    *,
    grid: bool = False,
    each: str = "row",
    units: tuple[str, str] | None = None,
) -> str:
    """Return a sentence that says what a picture shows, and from which site and head."""
    kind = kind_of(record, sites[0])
    what = _READ[kind] if record.target_is_read and kind in _READ else _SHOWS[kind]
    # In causal attention, no token attends to a later one; one or two tokens do not show it.
    is_causal = all(array.shape[-1] > 2 and not np.triu(array, 1).any() for array in map(record.weights.__getitem__, sites))
    what = _CAUSAL if kind == "encoder" and is_causal else what
    row, column = units or map(record.unit, sides(sites[0]))
    if told := attribution_of(sites[0]):
        return _attributed(told, record, sites[0], kind, each, (row, column))
    what = what.format(row=row, columns=plural(column))
    what = f"The colours show {what}" if kind == "label" else f"Each {each} shows {what}"
    family, _, part = sites[0].partition(".")
    if kind == "label" and family == "sentence":
        what += f"; each {column} has the weight of its sentence"
    elif part == "rollout":
        what += ", followed through all layers (attention rollout)"
    elif family == "norm":
        what += f", measured by the length of the vectors that each {column} contributes (norm-based attention)"
    if grid:
        return f"{what}, for each layer and head."
    heads = record.num_heads(sites[0])
    which = "" if heads is None else f", mean of {heads} heads" if head is None else f", head {head} of 0 to {heads - 1}"
    which = which.replace("mean of 1 heads", "its one head")
    return f"{what} ({label(sites[0], 80)}{which})."


def bar_name(site: str) -> str:
    """Return the name of the colour bar of a site's picture: attributions are values, not weights."""
    return "value" if attribution_of(site) else "weight"


def _attributed(told: Attribution, record: AttentionRecord, site: str, kind: Kind, each: str, units: tuple[str, str]) -> str:
    """Return sentences that say what an attribution's values are, and what they do not show."""
    row, column = units
    output = "the label" if kind == "label" else f"the next {row}" if record.target_is_read else f"that output {row}"
    names = {"row": output, "column": column, "columns": plural(column)} | INPUTS.get(column, INPUTS["word"])
    signed = (record.weights[site] < 0).any()
    first = f"{'The colours show' if kind == 'label' else f'Each {each} shows'} {told.shows.format(**names)}."
    return f"{first}{' Negative values count against it.' if signed else ''} {told.limits.format(**names)}"


def copying(view: WordView) -> list[str]:
    """Return a sentence that explains the column p_gen, if the view has it."""
    if not view.p_gen or view.columns[-1:] != ("p_gen",):
        return []
    return [
        "The last column, p_gen, is the probability that the step generated the word from the vocabulary; with the rest, "
        "1 − p_gen, it copied a source word by the weights in the row."
    ]


def borders(view: WordView) -> list[str]:
    """Return a sentence that names the segments between which lines are drawn."""
    texts = [
        [span.segment.name for span in spans if not span.segment.has_places and span.segment.name]
        for spans in (view.column_spans, view.row_spans)
    ]
    names = dict.fromkeys(name for axis in texts if len(axis) > 1 for name in axis)
    return [f"Lines separate {', '.join(isolated(label(name, 40)) for name in names)}."] if names else []


def hides(views: Sequence[WordView]) -> list[str]:
    """Return sentences that say how much weight is not drawn, and what the rows sum to if they do not sum to 1."""
    shares = np.concatenate([view.hidden[view.totals > 0] for view in views])
    totals = np.concatenate([view.totals[view.totals > 0] for view in views])
    if not len(shares):
        return []
    names = list(dict.fromkeys(name for view in views for name in view.special))
    outside = [view.outside[view.totals > 0] for view in views if view.outside is not None]
    if not names:
        said = [] if outside else ["Special tokens are drawn." if views[0].with_special else "All weight is drawn."]
    else:
        shown = ", ".join(isolated(label(name, 16)) for name in names[:_MOST_NAMES]) + (
            ", …" if len(names) > _MOST_NAMES else ""
        )
        said = [f"Special tokens ({shown}) are not drawn; they received {_part(shares)}."]
    if outside:
        said.append(f"Tokens outside this part are not drawn; they received {_part(np.concatenate(outside))}.")
    signed = any((view.matrix < 0).any() for view in views)
    if not signed and (abs(totals - 1) > _TOLERANCE).any():
        low, high = fixed(float(totals.min())), fixed(float(totals.max()))
        said.append(f"Rows sum to {low}, not to 1." if low == high else f"Rows sum to {low} to {high}, not to 1.")
    return said


def _part(shares: np.ndarray) -> str:
    mean, most = percent(float(shares.mean())), percent(float(shares.max()))
    if mean == most:
        return f"{most} of the weight" if len(shares) == 1 else f"{most} of each row's weight"
    return f"{mean} of a row's weight on average and {most} at most"


def unknown(view: WordView) -> list[str]:
    """Return sentences on the words that are underlined because they are not in the model's vocabulary."""
    pairs = [*zip(view.columns, view.unknown_columns, strict=True), *zip(view.rows, view.unknown_rows, strict=True)]
    names = list(dict.fromkeys(word for word, is_unknown in pairs if is_unknown and word not in UNKNOWN_TOKENS))
    shown = ", ".join(isolated(label(name, 24)) for name in names[:_MOST_UNKNOWN])
    said = [f"Not in the vocabulary: {shown}{', …' if len(names) > _MOST_UNKNOWN else ''}."] if names else []
    replaced = dict.fromkeys(word for word, is_unknown in pairs if is_unknown and word in UNKNOWN_TOKENS)
    return said + [f"{isolated(word)} stands for a word that is not in the vocabulary." for word in replaced]


def empty(record: AttentionRecord, site: str) -> str:
    """Return a sentence that says why there is nothing to draw at a site."""
    kind = kind_of(record, site)
    if kind in ("label", "encoder"):
        return "The text has no words."
    if kind == "language":
        return "The text is empty."
    rows, columns = record.words(site)
    if record.target_is_read and not rows:
        return "The rows have no words."
    return "The source is empty." if rows and not columns else "The translation is empty."
