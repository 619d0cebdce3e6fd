"""Corpora of 2^bits examples, accessed by an index. A pseudorandom permutation sets the order of the examples."""

from abc import ABC, abstractmethod
from pathlib import Path
from random import Random
from typing import ClassVar


class Permutation:
    """A pseudorandom bijection of [0, 2^bits): multiplication by odd numbers, a shift, and xor of the upper and the lower half.

    Args:
        bits: Number of bits of an index.
        random: Source of randomness that chooses the bijection.
    """

    def __init__(self, bits: int, *, random: Random) -> None:
        self.size = 1 << bits
        self._half = bits // 2
        self._first = random.getrandbits(bits) | 1
        self._second = random.getrandbits(bits) | 1
        self._shift = random.getrandbits(bits)

    def __call__(self, index: int) -> int:
        """Return the image of `index`, a number in [0, 2^bits)."""
        number = (index * self._first + self._shift) % self.size
        number ^= number >> self._half
        number = number * self._second % self.size
        return number ^ number >> self._half


class NumberedCorpus(ABC):
    """A corpus of 2^bits examples, accessed by an index that a permutation scrambles.

    Args:
        bits: Number of bits of an index.
        random: Source of randomness that chooses the permutation.
    """

    name: ClassVar[str]
    """Name of an example in messages: `pair` or `review`."""
    header: ClassVar[str] = ""
    """First line of a file with examples, with its line end."""

    def __init__(self, bits: int, *, random: Random) -> None:
        self._permutation = Permutation(bits, random=random)

    def __len__(self) -> int:
        return self._permutation.size

    def _scramble(self, index: int) -> int:
        """Return the number of the example with this index.

        Raises:
            IndexError: If there is no such example.
        """
        if not 0 <= index < len(self):
            raise IndexError(
                f"{type(self).__name__}: there is no {self.name} {index}; the corpus has {self.name}s 0 to {len(self) - 1}"
            )
        return self._permutation(index)

    @abstractmethod
    def text(self, index: int) -> tuple[str, str]:
        """Return the two parts of the example with this index: two sentences, or a text and its label."""

    def write(self, path: Path, count: int) -> None:
        """Write the first `count` examples to a tab-separated file."""
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(self.header)
            file.writelines("\t".join(self.text(index)) + "\n" for index in range(count))
