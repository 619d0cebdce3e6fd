"""The built-in corpora: two compressed tables in this package, with one example per line and its parts separated by tabs.

`python -m tools.corpora` in the repository wrote them, from a small grammar that knows the correct word alignment of each pair
and the decisive words of each review.
"""

import lzma
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from regard import disk

# Distance between the first examples of two consecutive seeds, so that a few seeds give different examples.
_STEP = 20_011
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class DemoPair:
    """One sentence pair.

    `alignment` contains the sure links, and `possible` all links including the sure ones, as (source index, target index) in
    `source_words` and `target_words`, which are the words and punctuation marks of the two sentences.
    """

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    def pharaoh(self) -> str:
        """Return the sure links as `0-0 1-2 …`, by source and target index."""
        return " ".join(f"{i}-{j}" for i, j in sorted(self.alignment))


@dataclass(frozen=True)
class Review:
    """One text with its label.

    `words` are the words and punctuation marks of the text, separated by spaces. `decisive` contains the positions of the words
    that decide the label: each sentiment word of the verdict, and its negator if there is one ("far from": both words).
    Replacing all these sentiment words by their opposites changes the label, and so does removing or adding the negators. No
    other word affects it.
    """

    text: str
    label: str
    words: tuple[str, ...]
    decisive: tuple[int, ...]


class _Corpus:
    """Examples of a table in this package, by index."""

    name: ClassVar[str]
    """Name of an example in messages: `pair` or `review`. The table is `pairs.tsv.xz` or `reviews.tsv.xz`."""
    header: ClassVar[str] = ""
    """First line of a file that `write` writes."""

    def __init__(self, *, seed: int = 1) -> None:
        self.seed = seed
        self._rows = read_table(f"{self.name}s.tsv.xz")
        # The rows stay in one circular order; a seed chooses where it begins.
        self._first = (seed - 1) * _STEP % len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _row(self, index: int) -> list[str]:
        if not 0 <= index < len(self):
            raise IndexError(
                f"{type(self).__name__}: there is no {self.name} {index}; the corpus has {self.name}s 0 to {len(self) - 1}"
            )
        return self._rows[(self._first + index) % len(self)].split("\t")

    def text(self, index: int) -> tuple[str, str]:
        """Return the two sentences of the pair with this index, or the text and the label of the review."""
        first, second, *_ = self._row(index)
        return first, second

    def _range(self, start: int, stop: int | None) -> range:
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise IndexError(
                f"{type(self).__name__}: {self.name}s {start} to {stop} were requested; the corpus has {self.name}s 0 to "
                f"{len(self) - 1}"
            )
        return range(start, stop)

    def _texts(self, start: int, stop: int | None) -> Iterator[tuple[str, str]]:
        return map(self.text, self._range(start, stop))

    def write(self, path: str | os.PathLike[str], start: int = 0, stop: int | None = None) -> None:
        """Write the texts of the examples from `start` to `stop` − 1 (None: to the end) as tab-separated lines.

        The file, in UTF-8, is written completely or not at all.

        Raises:
            DataError: If the file cannot be written.
            IndexError: If the range is not within the corpus.
        """
        disk.save(Path(path), self.header + "".join("\t".join(texts) + "\n" for texts in self._texts(start, stop)))


class DemoCorpus(_Corpus):
    """60,000 English–German sentence pairs with their word alignment, accessed by index.

    No sentence, English or German, is in two pairs. The same seed gives the same corpus.

    Args:
        seed: Chooses which pair has index 0; the others follow in the same circular order.
    """

    name = "pair"

    def __getitem__(self, index: int) -> DemoPair:
        """Return the pair with this index, with its alignment.

        Raises:
            IndexError: If `index` is not in [0, len(self)).
        """
        source, target, *links = self._row(index)
        sure, possible = ({(int(i), int(j)) for i, j in (link.split("-") for link in part.split())} for part in links)
        source_words, target_words = (tuple(_WORD.findall(text)) for text in (source, target))
        return DemoPair(source, target, source_words, target_words, frozenset(sure), frozenset(sure | possible))

    def pairs(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[str, str]]:
        """Yield the sentences of the pairs from `start` to `stop` − 1, without their alignments."""
        return self._texts(start, stop)

    def write(
        self,
        path: str | os.PathLike[str],
        start: int = 0,
        stop: int | None = None,
        *,
        alignments: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write pairs as `source TAB target` lines, and optionally a second file with `0-0 1-2 …`, the sure links of each."""
        super().write(path, start, stop)
        if alignments is not None:
            disk.save(Path(alignments), "".join(self[index].pharaoh() + "\n" for index in self._range(start, stop)))


class ReviewCorpus(_Corpus):
    """30,000 reviews of films, restaurants, hotels, concerts and phones, accessed by index.

    No text occurs twice, and each label has half of the texts. Positive and negative texts have the same forms and differ only
    in the sentiment words, so length and form say nothing about the label. The same seed gives the same corpus.

    Args:
        seed: Chooses which review has index 0; the others follow in the same circular order.
    """

    name, header = "review", "text\tlabel\n"

    def __getitem__(self, index: int) -> Review:
        """Return the review with this index.

        Raises:
            IndexError: If `index` is not in [0, len(self)).
        """
        text, label, decisive = self._row(index)
        return Review(text, label, tuple(text.split(" ")), tuple(map(int, decisive.split())))

    def texts(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[str, str]]:
        """Yield the texts and labels of the reviews from `start` to `stop` − 1."""
        return self._texts(start, stop)


@lru_cache
def read_table(name: str) -> list[str]:
    """Return the lines of a table of this package."""
    return lzma.decompress(files("regard.demo").joinpath(name).read_bytes()).decode().splitlines()
