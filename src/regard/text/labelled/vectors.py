"""Word vectors in the text formats of GloVe, fastText and word2vec, read as a stream. Only the needed words are kept.

A line is a word and its numbers, separated by spaces. In fastText and word2vec, the first line has two whole numbers: the
number of words, and the width (the number of values of a vector). GloVe has no such line. A word may contain spaces (GloVe 840B
has `. . .`), so lines are split from the right.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from regard.errors import DataError
from regard.text.opening import OVER_LONG_LINE, check_file, line_blocks

_LARGEST_WIDTH = 10_000
# A number with a decimal point, as in these files.
_NUMBER = re.compile(r"(?=.*\d)(?=.*\.)[-+.eE0-9]+", re.ASCII)


@dataclass(frozen=True)
class Vectors:
    """The vectors of some words."""

    matrix: Float[np.ndarray, "words E"]
    """Vectors in the order of the words, in float32; zeros for words without a vector."""
    found: Bool[np.ndarray, " words"]
    """True for words that have a vector."""


def read_vectors(path: str | Path, words: Sequence[str]) -> Vectors:
    """Read the vectors of some words. Memory grows with the number of these words, not with the file.

    A word that is not in the file gets the vector of its lower-case form, else of its capitalised or upper-case form.
    """
    path = check_file(path, "word vectors")
    lines = _lines(path)
    number, first = next(lines, (0, ""))
    # The first line announces the number of words and the width, or is a word with its numbers.
    cells = first.split(" ")
    declared = len(cells) == 2 and all(cell.isascii() and cell.isdigit() and len(cell) < 12 for cell in cells)
    width = int(cells[1]) if declared else len(cells) - 1
    if not 0 < width <= _LARGEST_WIDTH:
        raise DataError(f"{path}: holds no word vectors; expected lines of a word and its numbers, with spaces between")
    head = list(islice(lines, 1)) if declared else [(number, first)]
    for number, line in head:
        _take_apart(line, width, path, number)  # check the announced width before allocating memory for it
    places: dict[str, list[tuple[int, int]]] = {}  # the (index, rank) of each word that a spelling stands for
    for row, word in enumerate(words):
        for order, form in enumerate(dict.fromkeys((word, word.lower(), word.capitalize(), word.upper()))):
            places.setdefault(form, []).append((row, order))
    matrix = np.zeros((len(words), width), np.float32)
    rank = np.full(len(words), np.iinfo(np.int64).max)
    count = 0
    for number, line in chain(head, lines):
        count += 1
        word, numbers = _take_apart(line, width, path, number)
        for row, order in places.get(word, ()):
            if order < rank[row]:
                matrix[row], rank[row] = _parse(numbers, path, number), order
    if declared and count < int(cells[0]):
        raise DataError(f"{path}: its first line announces {int(cells[0]):,} vectors, but there are {count:,}; copy it again")
    return Vectors(matrix, rank < np.iinfo(np.int64).max)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank with their numbers, without fastText's space at the end."""
    for lines, numbers in line_blocks(path):
        for number, line in zip(numbers, lines, strict=True):
            if "\0" in line:
                what = "is too long" if line is OVER_LONG_LINE else "holds a NUL byte"
                raise DataError(f"{path}, line {number}: {what}; expected the text format, not a binary one (.bin, .zip)")
            if line := line.rstrip(" \r\t"):
                yield number, line.replace("\t", " ")


def _take_apart(line: str, width: int, path: Path, number: int) -> tuple[str, str]:
    """Return the word and the text of its numbers."""
    spaces = line.count(" ")
    if spaces == width:
        word, _, numbers = line.partition(" ")
        return word, numbers
    if spaces > width:
        word = line.rsplit(" ", width)[0]
        if not _NUMBER.fullmatch(word.rpartition(" ")[2]):
            return word.rstrip(" "), line[len(word) + 1 :]
    raise DataError(
        f"{path}, line {number}: has {spaces:,} numbers, expected {width:,} as in the other lines (it starts {line[:40]!r}); "
        "was the file truncated, or joined with another? Copy it again"
    )


def _parse(numbers: str, path: Path, number: int) -> Float[np.ndarray, " E"]:
    try:
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, which is an error below
            vector = np.array([float(cell) for cell in numbers.split(" ")], np.float32)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: {error}; expected a word and its numbers, with spaces between") from error
    if not np.isfinite(vector).all():
        raise DataError(f"{path}, line {number}: holds a number that is not finite")
    return vector
