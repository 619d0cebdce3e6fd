"""Labelled texts with known decisive words, accessed by index."""

from collections.abc import Iterator
from math import gcd
from random import Random

from tools.corpora.numbered import NumberedCorpus
from tools.corpora.reviews_grammar import LABELS, Pattern, draw_outline

from regard.demo import Review

_INDEX_BITS = 23
_SIZE = 1 << _INDEX_BITS
_PATTERN_BITS = 11  # 2^11 patterns, half of them for each label


class GeneratedReviews(NumberedCorpus):
    """Reviews of films, restaurants, hotels, concerts and phones, which a small grammar generates, accessed by index.

    The grammar is in `reviews_grammar`. No two indices give the same text, the same seed gives the same corpus, and each label
    has half of the texts. Positive and negative texts have the same forms and differ only in the sentiment words, so length and
    form say nothing about the label.

    A permutation of [0, 2^23) scrambles an index. The lower bits of the result choose the pattern. The result is then scrambled
    again: result · a + b, modulo the pattern's number of texts (at least 2^23), is the number of the text in its pattern.

    Args:
        seed: Seed of the choice and the order of the texts.
    """

    name = "review"
    header = "text\tlabel\n"

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
        """Return the review with this index.

        Raises:
            IndexError: If `index` is not in [0, len(self)).
        """
        pattern, rank, label = self._locate(index)
        text = pattern.text(rank)
        return Review(text, label, tuple(text.split(" ")), pattern.decisive)

    def text(self, index: int) -> tuple[str, str]:
        """Return the text and the label of the review with this index, which is faster than the whole review."""
        pattern, rank, label = self._locate(index)
        return pattern.text(rank), label

    def texts(self, start: int, stop: int) -> Iterator[tuple[str, str]]:
        """Yield the texts and labels of the reviews from `start` to `stop` − 1."""
        return map(self.text, range(start, stop))

    def _locate(self, index: int) -> tuple[Pattern, int, str]:
        """Return the pattern of a review, its number among that pattern's texts, and its label."""
        number = self._scramble(index)
        place = number % len(self._patterns)
        pattern, multiplier, offset = self._patterns[place]
        return pattern, (number * multiplier + offset) % pattern.size, LABELS[place % len(LABELS)]


def _coprime(random: Random, size: int) -> int:
    while True:
        number = random.randrange(1, size)
        if gcd(number, size) == 1:
            return number
