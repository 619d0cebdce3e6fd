"""Handwritten digits on a canvas, with the digits written out in reading order: images whose correct attention is known.

The digits are the 1,797 of scikit-learn, which are the test part of E. Alpaydin and C. Kaynak's "Optical Recognition of
Handwritten Digits" (UCI Machine Learning Repository, 1998, CC BY 4.0). `python -m tools.corpora data` wrote the table.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from regard import disk
from regard.demo.corpus import read_table
from regard.errors import DataError

Part = Literal["train", "dev", "test"]
Place = tuple[int, int, int, int]
"""Left, top, right and bottom edge of a digit in pixels; the right and the bottom edge are those of the next digit's space."""

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
HEIGHT, WIDTH, SIZE = 32, 48, 8
"""Size of the canvas, and of a digit, in pixels."""
_LINES, _COLUMNS = 2, 4
_INK = 16  # largest value of a pixel in the table
SIZES: dict[str, int] = {"dev": 500, "test": 1000}
"""Number of images that `write_digits` writes for validation and for a test."""
# Digits of the table that each part draws from.
_DIGITS: dict[Part, range] = {"train": range(1400), "dev": range(1400, 1497), "test": range(1497, 1797)}
# Share of the training part's digits that are varied. With 1, three times as many texts are wrong (benchmarks/log.md).
_VARIED = 0.5
# Largest turn in radians, share of stretching, slant, and shift in pixels, by which they are varied.
_TURN, _STRETCH, _SLANT, _SHIFT = 0.28, 0.18, 0.25, 0.6
# Largest logarithm of the power of their brightness.
_BRIGHTNESS = 0.5


@dataclass(frozen=True)
class DigitImage:
    """Handwritten digits on a canvas: three to five, or one to five in the training part."""

    pixels: npt.NDArray[np.uint8]
    """Brightness from 0 (black) to 255 (white, ink), (32, 48)."""
    text: str
    """The digits as words, in reading order: `three five one`."""
    places: tuple[Place, ...]
    """Where each word's digit is: left, top, right and bottom edge in pixels."""


class DigitCorpus:
    """100,000 images for each part, accessed by index. The same part, seed and index always give the same image.

    Two lines have places for four digits each, and three to five of them are filled; a digit has a random offset in its place.
    In the training part, one to five are filled. Half of its digits are turned, stretched, slanted, and made brighter or darker
    a little, so that 1,400 digits give many shapes. The other half stays as it is, because turning blurs digits, and those of
    the test part are not blurred.

    Args:
        part: `train`, `dev` or `test`. No handwritten digit is in two parts; a writer's digits may be.
        seed: Chooses the digits and their places.
    """

    def __init__(self, part: Part = "train", *, seed: int = 1) -> None:
        self.part, self.seed = part, seed

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> DigitImage:
        """Return the image with this index.

        Raises:
            IndexError: If `index` is not in [0, len(self)).
        """
        if not 0 <= index < len(self):
            raise IndexError(f"DigitCorpus: there is no image {index}; the corpus has images 0 to {len(self) - 1}")
        images, digits = _digits()
        known = _DIGITS[self.part]
        draw = np.random.Generator(np.random.PCG64([self.seed, known.start, index]))
        # Images of one and two digits teach what digits look like, long before the order of reading is learned.
        count = int(draw.integers(1 if self.part == "train" else 3, 6))
        slots = np.sort(draw.choice(_LINES * _COLUMNS, count, replace=False))
        canvas, words, places = np.zeros((HEIGHT, WIDTH)), [], []
        for slot in slots.tolist():
            digit = int(draw.integers(known.start, known.stop))
            line, column = divmod(slot, _COLUMNS)
            room = HEIGHT // _LINES, WIDTH // _COLUMNS
            top, left = (
                place * size + int(draw.integers(size - SIZE + 1)) for place, size in zip((line, column), room, strict=True)
            )
            pixels = images[digit]
            if self.part == "train" and draw.random() < _VARIED:
                pixels = _varied(pixels, draw)
            canvas[top : top + SIZE, left : left + SIZE] = pixels
            words.append(WORDS[digits[digit]])
            places.append((left, top, left + SIZE, top + SIZE))
        return DigitImage(np.rint(canvas * (255 / _INK)).astype(np.uint8), " ".join(words), tuple(places))

    def images(self, start: int = 0, stop: int | None = None) -> Iterator[DigitImage]:
        """Yield the images from `start` to `stop` − 1 (None: to the end)."""
        return map(self.__getitem__, range(start, len(self) if stop is None else stop))


def write_digits(folder: str | os.PathLike[str], count: int, *, seed: int = 1) -> None:
    """Write a folder with three tables of images, `train.csv` with `count` of them, `dev.csv` and `test.csv`.

    The images are in folders beside them. `train.regions` and so on have the places of the words of each line of the table; see
    `regard.text.captions.regions.read_regions`.

    Args:
        folder: Folder to write, which must not exist.
        count: Number of images to train on; there are 500 for validation and 1,000 for a test.
        seed: Seed of `DigitCorpus`.

    Raises:
        DataError: If the folder already exists, or cannot be written.
    """
    from PIL import Image

    if Path(folder).exists():
        raise DataError(f"{folder}: already exists; name a new folder, or delete this one")
    try:
        with disk.whole_folder(Path(folder)) as made:
            for part, size in ({"train": count} | SIZES).items():
                table, regions = ["image,text\n"], ["regions\n"]
                for number, one in enumerate(DigitCorpus(cast(Part, part), seed=seed).images(stop=size)):
                    name = f"{part}/{number // 1000:02}/{number:05}.png"
                    if number % 1000 == 0:
                        (made / name).parent.mkdir(parents=True)
                    Image.fromarray(one.pixels).save(made / name)
                    table.append(f"{name},{one.text}\n")
                    regions.append("; ".join(" ".join(map(str, place)) for place in one.places) + "\n")
                disk.write(made / f"{part}.csv", "".join(table))
                disk.write(made / f"{part}.regions", "".join(regions))
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror}") from error


@cache
def _digits() -> tuple[npt.NDArray[np.float64], list[int]]:
    """Return the images, with values from 0 to 16, (1797, 8, 8), and the digits."""
    rows = [row.split("\t") for row in read_table("digits.tsv.xz")]
    values = np.frombuffer("".join(pixels for _, pixels in rows).encode(), np.uint8).astype(float) - ord("a")
    return values.reshape(-1, SIZE, SIZE), [int(digit) for digit, _ in rows]


def _varied(image: npt.NDArray[np.float64], draw: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return an image that is turned, stretched, slanted and shifted a little, and brighter or darker."""
    turn, slant = draw.uniform(-_TURN, _TURN), draw.uniform(-_SLANT, _SLANT)
    stretch = 1 + draw.uniform(-_STRETCH, _STRETCH, 2)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn) + slant, np.cos(turn)]]) * stretch
    grid = np.mgrid[:SIZE, :SIZE].reshape(2, -1) - (SIZE - 1) / 2
    where = matrix @ grid + (SIZE - 1) / 2 + draw.uniform(-_SHIFT, _SHIFT, (2, 1))
    low = np.floor(where).astype(int)
    padded = np.pad(image, 3)
    found = np.zeros(SIZE * SIZE)
    for down in (0, 1):  # bilinear interpolation of the four pixels around each place
        for right in (0, 1):
            weight = np.prod(1 - np.abs(where - low - [[down], [right]]), axis=0)
            rows, columns = np.clip(low + [[down], [right]] + 3, 0, SIZE + 5)
            found += weight * padded[rows, columns]
    power = np.exp(draw.uniform(-_BRIGHTNESS, _BRIGHTNESS))
    return _INK * np.clip(found / _INK, 0, 1).reshape(SIZE, SIZE) ** power
