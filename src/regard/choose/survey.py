"""A first look at training files: how many texts, how long, and in which script."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from regard.config import DataConfig, LabelledDataConfig, TextDataConfig
from regard.text.labelled.readers import read_labelled
from regard.text.plain.readers import read_texts
from regard.text.readers import read_pairs
from regard.text.report import ReadingReport
from regard.text.resolve import is_tokenised

SAMPLE_SIZE = 20_000
"""Most texts that the script is judged by; lengths are measured on all."""
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""First words of the Unicode names of letters whose scripts do not put spaces between words."""


@dataclass(frozen=True)
class TextSurvey:
    """What the first texts of one kind (sources, targets, texts) look like."""

    words: float
    """Mean number of words between spaces in a text."""
    characters: float
    """Mean number of characters in a text."""
    unspaced: bool
    """Whether most letters belong to scripts that do not separate words by spaces."""
    tokenised: bool
    """Whether punctuation already stands apart from words."""
    alphabet: frozenset[str]
    """Letters, in lower case, that make up all but a hundredth of the text."""
    num_characters: int
    """Number of different characters."""

    @property
    def units(self) -> float:
        """Mean number of words in a text, where two characters count as a word in scripts without spaces."""
        return self.characters / 2 if self.unspaced else self.words


STAND_IN = TextSurvey(words=10, characters=50, unspaced=False, tokenised=False, alphabet=frozenset("ae"), num_characters=60)
"""Ordinary texts, in the place of texts that have not been read."""


@dataclass(frozen=True)
class PairSurvey:
    """What sentence pairs look like."""

    pairs: int
    source: TextSurvey
    target: TextSurvey

    @property
    def sides(self) -> dict[str, TextSurvey]:
        """Both sides by name."""
        return {"source": self.source, "target": self.target}

    @property
    def related(self) -> bool:
        """Whether both sides are written with mostly the same letters."""
        smaller, larger = sorted((self.source.alphabet, self.target.alphabet), key=len)
        return bool(smaller) and len(smaller & larger) >= 0.6 * len(smaller)


@dataclass(frozen=True)
class LabelledSurvey:
    """What labelled texts look like."""

    texts: int
    text: TextSurvey
    labels: tuple[int, ...]
    """Number of texts with each label, the most frequent first."""


@dataclass(frozen=True)
class PlainSurvey:
    """What the texts for a language model look like."""

    texts: int
    characters: int
    """Of all texts together."""
    text: TextSurvey


@dataclass
class _Sample:
    """Counts the texts of one kind, and keeps some that are spread evenly over the file, which may be sorted."""

    count: int = 0
    characters: int = 0
    spaces: int = 0
    texts: list[str] = field(default_factory=list)
    _stride: int = 1
    """One text in as many is kept."""

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
                letters[character.lower()] += number
        total = sum(letters.values())
        return TextSurvey(
            words=1 + self.spaces / self.count,
            characters=self.characters / self.count,
            unspaced=2 * sum(number for letter, number in letters.items() if _is_unspaced(letter)) > total,
            tokenised=is_tokenised(self.texts),
            alphabet=_cover(letters, 0.99 * total),
            num_characters=len(counts),
        )


def survey_pairs(data: DataConfig) -> PairSurvey:
    """Read `data.train` once and measure it.

    Raises:
        DataError: As `regard.text.readers.read_pairs`.
    """
    source, target = _Sample(), _Sample()
    for chunk in read_pairs(data.train, data, ReadingReport()):
        source.add(chunk.source)
        target.add(chunk.target)
        if 0 < data.max_pairs <= source.count:
            break
    pairs = min(source.count, data.max_pairs or source.count)
    return PairSurvey(pairs, source.survey(), target.survey())


def survey_labelled(data: LabelledDataConfig) -> LabelledSurvey:
    """Read `data.train` once and measure it.

    Raises:
        DataError: As `regard.text.labelled.readers.read_labelled`.
    """
    sample, labels = _Sample(), Counter[str]()
    for chunk in read_labelled(data.train, data, ReadingReport()):
        sample.add(chunk.text)
        for own in chunk.labels:
            labels.update(own)
    texts = min(sample.count, data.max_texts or sample.count)
    return LabelledSurvey(texts, sample.survey(), tuple(count for _, count in labels.most_common()))


def survey_plain(data: TextDataConfig) -> PlainSurvey:
    """Read `data.train` once and measure it.

    Raises:
        DataError: As `regard.text.plain.readers.read_texts`.
    """
    sample = _Sample()
    for chunk in read_texts(data.train, data, ReadingReport()):
        sample.add(chunk.text)
        if 0 < data.max_texts <= sample.count:
            break
    texts = min(sample.count, data.max_texts or sample.count)
    return PlainSurvey(texts, round(sample.characters * texts / sample.count), sample.survey())


def _is_unspaced(letter: str) -> bool:
    return unicodedata.name(letter, "").startswith(_UNSPACED)


def _cover(letters: Counter[str], wanted: float) -> frozenset[str]:
    """The most frequent letters that together come `wanted` times."""
    covered: set[str] = set()
    reached = 0
    for letter, count in _by_count(letters.items()):
        if reached >= wanted:
            break
        covered.add(letter)
        reached += count
    return frozenset(covered)


def _by_count(items: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(items, key=lambda item: (-item[1], item[0]))
