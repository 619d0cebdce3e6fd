"""A survey of training files: the number of texts, their lengths and their writing systems.

With `data.drop_repeats`, the number of texts does not include duplicates, because training drops them. Means are taken over
all rows that are read, including duplicates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from regard.config import DataConfig, LabelledDataConfig, TextDataConfig
from regard.config.data import FileSettings
from regard.scripts import SENTENCE_ENDS, is_spaceless
from regard.text.labelled.readers import read_labelled
from regard.text.pairs.readers import read_pairs
from regard.text.plain import read_texts
from regard.text.report import ReadingReport
from regard.text.split import Hashes, hash_pairs, hash_texts
from regard.text.tokenizers.resolve import is_tokenised

SAMPLE_SIZE = 20_000
"""Maximum number of texts in the sample whose letters and words are examined; mean lengths are computed from all texts."""
# Maximum number of symbols, and maximum mean lengths: of symbols in characters, names in words, strings in characters.
_MOST_SYMBOLS, _LONGEST_SYMBOL, _LONGEST_NAME, _LONGEST_STRING = 200, 2.5, 2.5, 50


@dataclass(frozen=True)
class TextSurvey:
    """Measurements of the texts of one kind (sources, targets or texts)."""

    words: float
    """Mean number of space-separated words in a text."""
    characters: float
    """Mean number of characters in a text."""
    unspaced: bool
    """Whether most letters belong to writing systems that put no spaces between words."""
    tokenised: bool
    """Whether punctuation is already separated from words."""
    alphabet: frozenset[str]
    """The most frequent letters, in lower case, which together make up 99% of all letters of the sample."""
    num_characters: int
    """Number of different characters in the sample."""
    varied: bool = False
    """Whether distinct words and repeated numbers are at least a third of all words, as in lists of names or dates."""
    sentences: bool = False
    """Whether most texts end with a mark that ends a sentence."""
    symbols: bool = False
    """Whether the texts are sequences of symbols from a small set with spaces between them, such as phonemes."""

    @property
    def units(self) -> float:
        """Mean number of words in a text; if words are not separated by spaces, two characters count as a word."""
        return self.characters / 2 if self.unspaced else self.words

    @property
    def names(self) -> bool:
        """Whether the texts are short and have many distinct words, such as names, so that characters describe them best."""
        return self.varied and self.units <= _LONGEST_NAME


STAND_IN = TextSurvey(words=10, characters=50, unspaced=False, tokenised=False, alphabet=frozenset("ae"), num_characters=60)
"""Typical measurements, used for texts that have not been read yet."""


@dataclass(frozen=True)
class PairSurvey:
    """Measurements of sentence pairs."""

    pairs: int
    source: TextSurvey
    target: TextSurvey

    @property
    def sides(self) -> dict[str, TextSurvey]:
        """The measurements by side, `source` and `target`."""
        return {"source": self.source, "target": self.target}

    @property
    def strings(self) -> bool:
        """Whether the pairs are short strings with words or names on at least one side: pronunciations, dates."""
        texts = self.source, self.target
        short = all(text.symbols or text.characters <= _LONGEST_STRING for text in texts)
        # Short sentences without spaces look like names, so the other side decides.
        names = any(text.names and not text.unspaced for text in texts) or all(text.names or text.symbols for text in texts)
        return short and names and not all(text.sentences for text in texts)

    @property
    def related(self) -> bool:
        """Whether most letters of the smaller alphabet (at least 60%) also occur in the other alphabet."""
        smaller, larger = sorted((self.source.alphabet, self.target.alphabet), key=len)
        return bool(smaller) and len(smaller & larger) >= 0.6 * len(smaller)


@dataclass(frozen=True)
class LabelledSurvey:
    """Measurements of labelled texts."""

    texts: int
    text: TextSurvey
    labels: int
    """Number of different labels."""


@dataclass(frozen=True)
class PlainSurvey:
    """Measurements of the texts for a language model."""

    texts: int
    characters: int
    """Total number of characters in all texts."""
    text: TextSurvey


@dataclass
class _Sample:
    """Counter of the texts of one kind, with a sample spread evenly over the file, because the file may be sorted."""

    count: int = 0
    characters: int = 0
    spaces: int = 0
    texts: list[str] = field(default_factory=list)
    _stride: int = 1  # one of every `_stride` texts is kept

    def add(self, texts: Sequence[str]) -> None:
        first = -self.count % self._stride
        self.texts += texts[first :: self._stride]
        self.count += len(texts)
        self.characters += sum(map(len, texts))
        self.spaces += sum(text.count(" ") for text in texts)
        while len(self.texts) > SAMPLE_SIZE:
            del self.texts[1::2]
            self._stride *= 2

    def survey(self) -> TextSurvey:
        counts: Counter[str] = Counter()
        for text in self.texts:
            counts.update(text)
        letters: Counter[str] = Counter()
        for character, number in counts.items():
            if character.isalpha():
                letters[character.lower()[0]] += number  # in lower case, İ becomes two characters: i and a dot
        total = sum(letters.values())
        words = Counter(word for text in self.texts for word in text.split())
        few = 5 * len(words) <= min(5 * _MOST_SYMBOLS, words.total())  # each occurs five times or more on average
        short = sum(map(len, words.elements())) <= _LONGEST_SYMBOL * words.total()
        unspaced = sum(number for letter, number in letters.items() if is_spaceless(letter))
        rare = len(words) + sum(number - 1 for word, number in words.items() if any(map(str.isdigit, word)))
        return TextSurvey(
            words=1 + self.spaces / self.count,
            characters=self.characters / self.count,
            unspaced=2 * unspaced > total,
            tokenised=is_tokenised(self.texts),
            alphabet=_cover(letters, 0.99 * total),
            num_characters=len(counts),
            varied=3 * rare >= words.total(),
            sentences=2 * sum(text.endswith(tuple(SENTENCE_ENDS)) for text in self.texts) > len(self.texts),
            symbols=2 * self.spaces > self.count and 2 * unspaced <= total and few and short,
        )


def survey_pairs(data: DataConfig) -> PairSurvey:
    """Measure the pairs in `data.train`, which is read once; reading stops soon after `data.max_pairs` pairs."""
    chunks = (
        ((chunk.source, chunk.target), hash_pairs(hash_texts(chunk.source), hash_texts(chunk.target)))
        for chunk in read_pairs(data.train, data, ReadingReport())
    )
    pairs, (source, target) = _measure(chunks, data, data.max_pairs)
    return PairSurvey(pairs, source.survey(), target.survey())


def survey_labelled(data: LabelledDataConfig) -> LabelledSurvey:
    """Measure the texts in `data.train`, which is read once and to its end, because later texts may have new labels."""
    labels = set[str]()

    def chunks() -> Iterator[tuple[tuple[Sequence[str]], Hashes]]:
        for chunk in read_labelled(data.train, data, ReadingReport()):
            labels.update(*chunk.labels)
            sets = np.fromiter((hash(frozenset(own)) for own in chunk.labels), np.int64, len(chunk.labels))
            yield (chunk.text,), hash_pairs(hash_texts(chunk.text), sets)

    texts, (sample,) = _measure(chunks(), data, 0)
    return LabelledSurvey(min(texts, data.max_texts or texts), sample.survey(), len(labels))


def survey_plain(data: TextDataConfig) -> PlainSurvey:
    """Measure the texts in `data.train`, which is read once; reading stops soon after `data.max_texts` texts."""
    chunks = (((chunk.text,), hash_texts(chunk.text)) for chunk in read_texts(data.train, data, ReadingReport()))
    texts, (sample,) = _measure(chunks, data, data.max_texts)
    return PlainSurvey(texts, round(sample.characters * texts / sample.count), sample.survey())


def _measure(
    chunks: Iterable[tuple[tuple[Sequence[str], ...], Hashes]], data: FileSettings, most: int
) -> tuple[int, list[_Sample]]:
    """Return the number of rows, at most `most` (0 for no limit), and a sample of each column.

    If duplicates are dropped, each distinct row counts once. For this, the hashes of distinct rows are kept, 8 bytes each.
    """
    samples: list[_Sample] = []
    known, new, count = np.zeros(0, np.int64), list[Hashes](), 0
    for columns, hashes in chunks:
        samples = samples or [_Sample() for _ in columns]
        for sample, texts in zip(samples, columns, strict=True):
            sample.add(texts)
        count += len(hashes)
        if data.drop_repeats:
            new.append(hashes)
            # Merged when there are as many new ones as known ones, so that all merges cost about as much as sorting twice.
            if sum(map(len, new)) >= len(known):
                known, new = _distinct(known, *new), []
            count = len(known)
        if 0 < most <= count:
            break
    if data.drop_repeats:
        count = len(_distinct(known, *new))
    return min(count, most or count), samples


def _distinct(*hashes: Hashes) -> Hashes:
    # `np.unique` does the same with a hash table, which takes about ten times as long (numpy 2.4).
    together = np.sort(np.concatenate(hashes))
    first = np.ones(len(together), np.bool_)
    first[1:] = together[1:] != together[:-1]
    return together[first]


def _cover(letters: Counter[str], wanted: float) -> frozenset[str]:
    """Return the most frequent letters that together occur at least `wanted` times."""
    ordered = sorted(letters.items(), key=lambda item: (-item[1], item[0]))
    before = accumulate((count for _, count in ordered), initial=0)
    return frozenset(letter for (letter, _), reached in zip(ordered, before, strict=False) if reached < wanted)
