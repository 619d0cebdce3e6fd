"""Functions of pictures, pages and terminals for images and sounds: the rows that are drawn, and an image under its weights."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.errors import RequestError, nearest
from regard.images import read_image
from regard.records import AttentionRecord, ImageSegment, SoundSegment
from regard.records.views import Span, WordView, sides
from regard.viz import colour
from regard.viz.colour import palette

if TYPE_CHECKING:
    from PIL.Image import Image

MEAN = "mean"
"""Name of the only row of a view whose rows are all places."""
# Silence at the end of a sound is left out if it is longer than this, in seconds.
_SILENCE = 1.0
# The lines of an image on its weights: how near the surroundings are that a pixel differs from, as a share of the longer side,
# and the largest change of a colour.
_RADIUS, _STRENGTH = 0.015, 0.2
LINES = f"The image is drawn as fine lines, which make colours at most {_STRENGTH:.0%} darker or lighter."
"""Sentence of captions on an image under its weights."""


def kind(record: AttentionRecord, site: str) -> str:
    """Return `image` or `sound` if a site's columns have places of this kind, else an empty string."""
    segments = record.source_segments if sides(site)[1] == "source" else record.target_segments
    kinds = {each.kind for each in segments if each.has_places}
    return next((each for each in ("image", "sound") if each in kinds), "")


def looked(
    record: AttentionRecord,
    site: str,
    head: int | None = None,
    *,
    special: bool = False,
    between: tuple[str, str] | None = None,
    earlier: bool = False,
    word: str | int | None = None,
) -> WordView:
    """Return the view of the words that attend to an image or a sound.

    Rows of patches and frames are left out, and unless `earlier`, so are words without any weight on them, for example because
    they come earlier. If no other rows are left, those of special tokens, such as [CLS], are used; without them, the
    mean of all rows. With a `word`, only its row is returned. If all rows are patches or frames, `word` is the name or the
    number of one of them.
    """
    view = record.view(site, head, special=special, between=between)
    if isinstance(word, str) and word in view.rows:
        return view.select(rows=[view.rows.index(word)])
    if not special and not _words(view) and (among_special := record.view(site, head, special=True, between=between)).rows:
        view = among_special if _words(among_special) else view
    words = _words(view)
    if not words:
        if word is not None and view.rows:
            return view.select(rows=[find_row(view, word)])
        return _mean(view) if view.rows else view
    if word is not None:
        view = view.select(rows=words)
        return view.select(rows=[find_row(view, word)])
    view = view.select(rows=words)
    return view if earlier else view.select(rows=with_weight(view))


def with_weight(view: WordView) -> list[int]:
    """Return the rows with weight on images and sounds, or all rows if none has any."""
    placed = [index for span in places(view) for index in range(span.start, span.end)]
    return np.flatnonzero(view.matrix[:, placed].any(axis=1)).tolist() or list(range(len(view.rows)))


def _words(view: WordView) -> list[int]:
    """Return the rows that are neither patches nor frames."""
    placed = {row for span in view.row_spans if span.segment.has_places for row in range(span.start, span.end)}
    return [row for row in range(len(view.rows)) if row not in placed]


def _mean(view: WordView) -> WordView:
    """Return a view with one row: the mean of all rows."""
    total = view.totals.mean(keepdims=True)

    def share(part: np.ndarray) -> np.ndarray:
        mean = (part * view.totals).mean(keepdims=True)
        return np.divide(mean, total, out=np.zeros_like(mean), where=total > 0)

    return replace(
        view,
        rows=(MEAN,),
        matrix=view.matrix.mean(axis=0, keepdims=True),
        totals=total,
        hidden=share(view.hidden),
        outside=None if view.outside is None else share(view.outside),
        unknown_rows=(False,),
        row_spans=(),
        row_times=(None,),
    )


def places(view: WordView, of: str = "") -> list[Span]:
    """Return the spans of a view's columns that are images or sounds, or only those of one kind."""
    return [span for span in view.column_spans if span.segment.has_places and of in ("", span.segment.kind)]


def only(view: WordView, of: str) -> WordView:
    """Return a view of only those columns that are places of one kind."""
    return view.select(columns=[index for span in places(view, of) for index in range(span.start, span.end)])


def without_silence(view: WordView) -> tuple[WordView, str]:
    """Leave out the silence at the end, with which models fill up short sounds, and return a sentence about it."""
    spans = places(view, "sound")
    sound = spans[0].segment
    if len(spans) != 1 or not isinstance(sound, SoundSegment) or not any(sound.wave):
        return view, ""
    heard = (np.flatnonzero(sound.wave)[-1] + 1) / len(sound.wave) * sound.num_tokens * sound.seconds
    end = max([heard, *(times[1] for times in view.row_times if times)]) + _SILENCE / 4
    frames = min(sound.num_tokens, int(np.ceil(end / sound.seconds)))
    if (sound.num_tokens - frames) * sound.seconds < _SILENCE:
        return view, ""
    start, rest = spans[0].start, range(spans[0].start + frames, spans[0].end)
    cut = view.select(columns=[column for column in range(len(view.columns)) if column not in rest])
    spans = sorted([*cut.column_spans, Span(sound, start, rest.start)], key=lambda span: span.start)
    cut = replace(cut, column_spans=tuple(spans))
    return cut, f"The silence after {frames * sound.seconds:.1f} s is left out."


def find_row(view: WordView, word: str | int) -> int:
    """Return the index of a row, by its word or its number; the first such word counts."""
    if isinstance(word, str) and word in view.rows:
        return view.rows.index(word)
    if isinstance(word, int) and not isinstance(word, bool) and -len(view.rows) <= word < len(view.rows):
        return word % len(view.rows)
    have = ", ".join(repr(row[:40]) for row in view.rows[:20]) + (", …" if len(view.rows) > 20 else "")
    close = nearest(word, view.rows) if isinstance(word, str) else ""
    raise RequestError(f"word {word!r:.60} is not one of the picture's {len(view.rows)} rows: {have}{close}")


def names(spans: Sequence[Span]) -> list[str]:
    """Return a name for each image or sound: its own, or its kind, with a number if there are several."""
    kinds = [span.segment.kind for span in spans]
    numbers = [f" {kinds[: index + 1].count(each)}" if kinds.count(each) > 1 else "" for index, each in enumerate(kinds)]
    return [span.segment.name or f"{span.segment.kind}{number}" for span, number in zip(spans, numbers, strict=True)]


def described(view: WordView, each: str = "") -> dict[str, Any]:
    """Return the arguments of `caption.shows` for a view of an image or a sound; `each` is what shows the weights of a row."""
    unit = places(view)[0].segment.unit
    is_place = view.rows == (MEAN,) or set(view.rows) <= {place for span in places(view) for place in span.segment.places()}
    row = unit if is_place else "token" if view.with_special else "word"
    return {"each": each or f"{row}'s map", "units": (row, unit)}


def grid(weights: Float[np.ndarray, " columns"], span: Span) -> Float[np.ndarray, "h w"]:
    """Return the weights of one row on an image's patches; a sound has one row of frames."""
    segment = span.segment
    shape = (segment.rows, segment.columns) if isinstance(segment, ImageSegment) else (1, segment.num_tokens)
    return weights[span.start : span.end].reshape(shape)


def peaks(values: np.ndarray, length: int, axis: int) -> np.ndarray:
    """Return at most `length` values along an axis: the one of the largest magnitude in each part, so that no peak is lost."""
    size = values.shape[axis]
    if size <= length:
        return values
    starts = np.arange(length) * size // length
    high, low = (ufunc.reduceat(values, starts, axis=axis) for ufunc in (np.maximum, np.minimum))
    return np.where(high >= -low, high, low)


def open_picture(span: Span) -> "Image | None":
    """Return the picture of an image; None if it has none."""
    content = span.segment.picture if isinstance(span.segment, ImageSegment) else b""
    return read_image(content, where=str(span.segment)) if content else None


def aspect(span: Span, picture: "Image | None") -> float:
    """Return the width of an image divided by its height."""
    if picture is not None:
        return min(6.0, max(1 / 6, picture.width / picture.height))
    assert isinstance(span.segment, ImageSegment)
    return min(6.0, max(1 / 6, span.segment.columns / span.segment.rows))


def blend(
    weights: Float[np.ndarray, "h w"],
    scale: float,
    size: tuple[int, int],
    picture: "Image | None" = None,
    *,
    smooth: bool = False,
) -> Float[np.ndarray, "height width 3"]:
    """Return an image of `size` (width, height) with weights as colours; a picture is drawn on them as fine lines."""
    share = np.clip(_resize(np.asarray(weights, np.float64) / scale, size, smooth=smooth), -1, 1)
    ramps = [colour.ramp(anchors, 256) for anchors in (palette().positive, palette().negative)]
    level = np.round(np.abs(share) * 255).astype(int)
    colours = np.where(share[..., None] < 0, ramps[1][level], ramps[0][level])
    return colours if picture is None else _draw_lines(colours, picture.convert("L").resize(size))


def _draw_lines(colours: Float[np.ndarray, "height width 3"], grey: "Image") -> Float[np.ndarray, "height width 3"]:
    """Make colours darker or lighter where a grey image is darker or lighter than its surroundings."""
    from PIL import ImageFilter

    # Not the brightness itself, because large dark areas would look like large weights.
    near = ImageFilter.BoxBlur(max(1, round(_RADIUS * max(grey.size))))
    difference = (np.asarray(grey, np.float64) - np.asarray(grey.filter(near).filter(near), np.float64)) / 255
    opacity = np.abs(difference).clip(0, _STRENGTH)[..., None]
    return (1 - opacity) * colours + opacity * (difference > 0)[..., None]


def _resize(values: np.ndarray, size: tuple[int, int], *, smooth: bool) -> np.ndarray:
    """Return the values at the centres of `size` (width, height) pixels: of their cell, or interpolated between cells."""
    for axis, length in ((0, size[1]), (1, size[0])):
        cells = values.shape[axis]
        at = (np.arange(length) + 0.5) * cells / length
        if not smooth:
            values = np.take(values, at.astype(int), axis=axis)
            continue
        at = (at - 0.5).clip(0, cells - 1)
        low = np.minimum(at.astype(int), max(cells - 2, 0))
        share = (at - low).reshape((-1, 1) if axis == 0 else (1, -1))
        high = np.minimum(low + 1, cells - 1)
        values = (1 - share) * np.take(values, low, axis=axis) + share * np.take(values, high, axis=axis)
    return values
