"""English–German sentence pairs with gold word alignments, accessed by index."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from tools.corpora.marks import MarkedWord, align, name_row, read_marks
from tools.corpora.numbered import NumberedCorpus, Permutation
from tools.corpora.sentences import Pattern, draw_pattern

from regard.demo import DemoPair

_INDEX_BITS = 24
_SIZE = 1 << _INDEX_BITS
_SEGMENT = 4096
LONGEST = 16  # maximum number of words in a sentence, without punctuation


@dataclass
class _Share:
    """A pattern, the number of its sentences in use (`dealt`), and the multiplier and offset that permute their order."""

    pattern: Pattern
    dealt: int
    multiplier: int
    offset: int


@lru_cache(maxsize=2)  # the call takes a second, and its result depends on the seed only
def _deal(seed: int) -> tuple[list[int], list[tuple[_Share, int]]]:
    """Divide [0, 2^24) into segments for the patterns; no pattern gets more numbers than it has sentences.

    Returns:
        The first number of each segment; and for each segment, its share and an offset. A number plus this offset is the index
        among the share's sentences, before their order is permuted.
    """
    random = Random(seed)
    Permutation(_INDEX_BITS, random=random)  # skips the random numbers that the corpus draws for its permutation
    shares: dict[object, _Share] = {}
    starts: list[int] = []
    segments: list[tuple[_Share, int]] = []
    start = 0
    while start < _SIZE:
        pattern = draw_pattern(random)
        if pattern.longest > LONGEST:
            continue
        share = shares.get(pattern.key)
        if share is None:
            share = shares[pattern.key] = _Share(pattern, 0, pattern.multiplier(random), random.randrange(pattern.size))
        length = min(_SEGMENT, pattern.size - share.dealt, _SIZE - start)
        if length:
            starts.append(start)
            segments.append((share, share.dealt - start))
            share.dealt += length
            start += length
    return starts, segments


class GeneratedPairs(NumberedCorpus):
    """English–German sentence pairs that a small grammar generates, accessed by index.

    No two indices give the same pair, no English sentence has two translations, and the same seed gives the same corpus.
    A permutation of [0, 2^24) scrambles an index. When the corpus is built, that range is divided into segments for the
    sentence patterns, so the scrambled index gives a pattern and a number among its sentences. This number is scrambled again
    (number · a + b modulo the number of sentences of the pattern, with a coprime to it) and read as digits of a mixed radix,
    one digit for each slot. Every step is a bijection, and no sentence belongs to two patterns.

    Args:
        seed: Seed of the choice and the order of the pairs.
    """

    name = "pair"

    def __init__(self, *, seed: int = 1) -> None:
        self.seed = seed
        super().__init__(_INDEX_BITS, random=Random(seed))
        self._starts, self._segments = _deal(seed)

    def __getitem__(self, index: int) -> DemoPair:
        """Return the pair with this index, with its alignment.

        Raises:
            IndexError: If `index` is not in [0, len(self)).
        """
        pattern, rank = self._locate(index)
        rows = {name: name_row(row, name) for name, row in pattern.rows(rank, marked=True).items()}
        source, target = (read_marks(template.format(**rows)) for template in (pattern.marked_source, pattern.marked_target))
        sure, possible = align(source, target)
        stop = {(len(source) - 1, len(target) - 1)}
        texts = pattern.text(rank)
        first, second = (_surface(text, words) for text, words in zip(texts, (source, target), strict=True))
        return DemoPair(*texts, first, second, sure | stop, possible | stop)

    def text(self, index: int) -> tuple[str, str]:
        """Return the two sentences of the pair with this index, without its alignment, which is faster."""
        pattern, rank = self._locate(index)
        return pattern.text(rank)

    def _locate(self, index: int) -> tuple[Pattern, int]:
        """Return the pattern of the pair with this index, and the number of the pair within that pattern."""
        number = self._scramble(index)
        share, offset = self._segments[bisect_right(self._starts, number) - 1]
        return share.pattern, ((number + offset) * share.multiplier + share.offset) % share.pattern.size

    def texts(self, start: int, stop: int) -> Iterator[tuple[str, str]]:
        """Yield the sentences of the pairs from `start` to `stop` − 1, without their alignments."""
        return map(self.text, range(start, stop))


def _surface(text: str, words: list[MarkedWord]) -> tuple[str, ...]:
    """Return the words of a sentence; the first one is taken from `text`, where it is capitalised."""
    return (text[: len(words[0].text)], *(word.text for word in words[1:]))
