"""Regions of images that words are about, from a file: to measure whether a model looks where it should."""

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from regard.errors import DataError
from regard.text.captions.images import Region
from regard.text.opening import check_file, line_blocks


def read_regions(path: str | Path, lines: Sequence[int]) -> list[list[Region]]:
    """Return the regions in some lines of a file, counted from 1, with a list for each line.

    A line has a region for each word: left, top, right and bottom edge in pixels, separated by spaces; regions are separated
    by semicolons.

    Raises:
        DataError: If a line is missing or malformed.
    """
    texts = list(chain.from_iterable(block for block, _ in line_blocks(check_file(path, "regions"))))
    if lines and max(lines) > len(texts):
        raise DataError(f"{path}: has {len(texts):,} lines, but the table has an image in line {max(lines):,}")
    return [_parse(texts[line - 1], f"{path}, line {line}") for line in lines]


def _parse(text: str, where: str) -> list[Region]:
    regions: list[Region] = []
    for part in text.strip().split(";"):
        try:
            left, top, right, bottom = map(float, part.split())
        except ValueError:
            raise DataError(f"{where}: a region is {part.strip()[:40]!r}, expected left, top, right and bottom edge") from None
        if not all(map(math.isfinite, (left, top, right, bottom))) or left >= right or top >= bottom:
            raise DataError(f"{where}: the region {part.strip()[:40]!r} is empty; expected left < right and top < bottom")
        regions.append((left, top, right, bottom))
    return regions
