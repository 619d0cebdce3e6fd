"""Make segments of images and sounds, and sides of records from words and segments."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from regard.errors import DataError, ShapeError
from regard.images import read_image, to_png
from regard.records import checks
from regard.records.segments import MAX_PICTURE_BYTES, ImageSegment, Segment, SoundSegment, TextSegment

Side = Iterable[str | Segment] | Segment | Mapping[str, Iterable[str] | Segment]
"""The words of one side of a record, with images and sounds among them, or several texts, images and sounds by their names."""
_WAVE, _MAX_RATE = 2000, 1e9


def patches(rows: int, columns: int, image: Any = None, *, name: str = "") -> ImageSegment:
    """Return the patches of an image, for `regard.record` and `source_segments`.

    Args:
        rows: Number of rows of patches: 14 for a model with patches of 16 pixels and an input of 224 pixels.
        columns: Number of columns.
        image: The image that the patches cover, for drawing: a path, an image of Pillow, or an array (h,w) or (h,w,3). If the
            model crops its input, give the cropped part. The record keeps a copy of at most 768 pixels and 1 MB.
        name: Name in pictures, such as `image 1`.

    Raises:
        DataError: If the image cannot be read, or a number is not possible.

    Example:
        >>> regard.record([[0.7, 0.1, 0.1, 0.1]], regard.patches(2, 2), ["cat"]).source_words
        ('row 1, column 1', 'row 1, column 2', 'row 2, column 1', 'row 2, column 2')
    """
    if any(type(number) is not int or number < 1 for number in (rows, columns)):
        raise DataError(f"patches: rows and columns must be at least 1, got {rows!r:.20} and {columns!r:.20}")
    picture = b"" if image is None else to_png(read_image(image), max_bytes=MAX_PICTURE_BYTES)
    return ImageSegment(start=0, end=rows * columns, rows=rows, columns=columns, picture=picture, name=name)


def frames(count: int, seconds: float, samples: Any = None, rate: float | None = None, *, name: str = "") -> SoundSegment:
    """Return the frames of a sound, for `regard.record` and `source_segments`.

    Args:
        count: Number of frames, such as 1500 for Whisper's encoder.
        seconds: Length of one frame in seconds, such as 0.02.
        samples: The sound, for drawing: a list or array of numbers. What is longer than the frames is cut off.
        rate: Samples per second, such as 16000. None if the samples are as long as the frames.
        name: Name in pictures.

    Raises:
        ShapeError: If the samples have more than one axis.
        DataError: If a number is not possible.

    Example:
        >>> regard.record([[0.9, 0.1]], regard.frames(2, 0.5), ["yes"]).source_words
        ('0.00 s', '0.50 s')
    """
    if type(count) is not int or count < 1:
        raise DataError(f"frames: the number of frames must be at least 1, got {count!r:.20}")
    sound = SoundSegment(start=0, end=count, seconds=seconds, name=name)
    return sound if samples is None else replace(sound, wave=_envelope(samples, rate, count * sound.seconds))


def _envelope(samples: Any, rate: float | None, seconds: float) -> tuple[float, ...]:
    """Return the largest magnitude in each of up to 2,000 equal parts of the time, as shares of the largest of all."""
    array = np.abs(checks.to_float32("samples", samples)).astype(np.float64)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise ShapeError(f"frames: samples of shape {array.shape}, expected finite numbers along one axis: one channel")
    if (rate := checks.number("frames: rate", rate)) is not None and not 0 < rate <= _MAX_RATE:
        raise DataError(f"frames: rate must be above 0 and at most {_MAX_RATE:g} samples per second, got {rate:g}")
    total = len(array) if rate is None else max(1, round(rate * seconds))
    array = array[:total]
    bins = min(_WAVE, total)
    wave = np.zeros(bins)
    np.maximum.at(wave, np.arange(len(array)) * bins // total, array)
    return tuple((wave / (wave.max() or 1.0)).round(4).tolist())


def side(name: str, parts: Side) -> tuple[tuple[str, ...], tuple[Segment, ...]]:
    """Return the words and the segments of a side of a record."""
    if isinstance(parts, Segment):
        parts = [parts]
    words: list[str] = []
    segments: list[Segment] = []
    for key, part in parts.items() if isinstance(parts, Mapping) else [(None, parts)]:
        begin = len(words)
        items = [part] if isinstance(part, Segment) else part
        items = [items] if isinstance(items, str) or not isinstance(items, Iterable) else list(items)
        if isinstance(part, str) or not all(isinstance(item, str | Segment) for item in items):
            checks.strings(name, part)  # which raises the error
        for item in items:
            if isinstance(item, str):
                words.append(str(item))
                continue
            if not item.has_places:
                raise DataError(f"{name}: a text is given by its name and words, as in {{'text A': ['a', 'text']}}")
            segments.append(replace(item, start=len(words), end=len(words) + item.num_tokens, name=item.name or key or ""))
            words += item.places()
        if key is not None and len(words) > begin and not any(isinstance(item, Segment) for item in items):
            segments.append(TextSegment(start=begin, end=len(words), name=key))
    return tuple(words), tuple(segments)
