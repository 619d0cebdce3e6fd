"""The built-in reviews: labelled texts whose decisive words are known, reached by number."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from random import Random

from regard.demo.files import whole_file
from regard.demo.numbered import NumberedCorpus
from regard.demo.reviews_grammar import LABELS, Pattern, draw_outline

_INDEX_BITS = 23
_SIZE = 1 << _INDEX_BITS
_PATTERN_BITS = 11  # as many patterns, half of them for each label


@dataclass(frozen=True)
class Review:
    """One text with its label.

    `words` are the words and punctuation marks of the text, with a space between any two. `decisive` holds the positions of
    those that decide the label: each sentiment word of the verdict, and its negator where it has one ("far from": both words).
    Whoever changes all of the sentiment words among them to their opposites, or takes away or puts in the negators, changes the
    label; no other word bears on it.
    """

    text: str
    label: str
    words: tuple[str, ...]
    decisive: tuple[int, ...]


class ReviewCorpus(NumberedCorpus):
    """Reviews of films, restaurants, hotels, concerts and phones, written by a small grammar, each reached by its index.

    The grammar stands in `reviews_grammar`. No two indices give the same text, the same seed gives the same corpus, and half
    of all texts have each label. For every form of the positive texts there is one of the negative ones that differs in nothing
    but the sentiment words, so that neither length nor form tells a label.

    An index is scrambled by a permutation of [0, 2^23), whose lower bits choose the pattern; the whole number, scrambled once
    more (number · a + b modulo the texts of the pattern, of which there are at least 2^23), is the text's number in it.

    Args:
        seed: governs which texts are in the corpus and their order.
    """

    name = "review"

    def __init__(self, *, seed: int = 1) -> None:
        self.seed = seed
        random = Random(seed)
        super().__init__(_INDEX_BITS, random=random)
        self._patterns: list[tuple[Pattern, int, int]] = []
        while len(self._patterns) < 1 << _PATTERN_BITS:
            outline = draw_outline(random, size=_SIZE)
            patterns = [outline.pattern(label) for label in range(len(LABELS))]
            multiplier, offset = _coprime(random, patterns[0].size), random.randrange(patterns[0].size)
            self._patterns += [(pattern, multiplier, offset) for pattern in patterns]

    def __getitem__(self, index: int) -> Review:
        """The review with this index.

        Raises:
            IndexError: `index` is not in [0, len(self)).
        """
        pattern, rank, label = self._locate(index)
        text = pattern.text(rank)
        return Review(text, label, tuple(text.split(" ")), pattern.decisive)

    def text(self, index: int) -> tuple[str, str]:
        """The text and the label with this index, faster."""
        pattern, rank, label = self._locate(index)
        return pattern.text(rank), label

    def texts(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[str, str]]:
        """Texts and labels from `start` to before `stop`."""
        return map(self.text, range(start, _SIZE if stop is None else stop))

    def write(self, path: str | os.PathLike[str], start: int = 0, stop: int | None = None, *, progress: bool = True) -> None:
        """Write a tab-separated file with the columns `text` and `label`, named in its first line.

        The file appears whole or not at all.

        Args:
            path: the file, UTF-8.
            start: the first index.
            stop: the index after the last; None for all.
            progress: show a bar on standard error.

        Raises:
            DataError: the file cannot be written.
            IndexError: the range is not within the corpus.
        """
        indices = self._indices(start, stop)
        with whole_file(Path(path)) as file:
            file.write("text\tlabel\n")
            for chunk in self._chunks(indices, progress=progress):
                file.write("".join([f"{text}\t{label}\n" for text, label in map(self.text, chunk)]))

    def _locate(self, index: int) -> tuple[Pattern, int, str]:
        """The pattern of a review, its number among that pattern's texts, and its label."""
        number = self._scramble(index)
        place = number % len(self._patterns)
        pattern, multiplier, offset = self._patterns[place]
        return pattern, (number * multiplier + offset) % pattern.size, LABELS[place % len(LABELS)]


def _coprime(random: Random, size: int) -> int:
    while True:
        number = random.randrange(1, size)
        if gcd(number, size) == 1:
            return number
