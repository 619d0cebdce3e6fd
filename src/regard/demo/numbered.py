"""Corpora of 2^bits examples, accessed by an index. A pseudorandom permutation sets the order of the examples."""

from collections.abc import Iterator
from random import Random
from typing import ClassVar

from regard.text.bars import late_bars

_CHUNK = 20_000


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


class NumberedCorpus:
    """A corpus of 2^bits examples, accessed by an index that a permutation scrambles.

    Args:
        bits: Number of bits of an index.
        random: Source of randomness that chooses the permutation.
    """

    name: ClassVar[str]
    """Name of an example in messages: `pair` or `review`."""

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

    def _indices(self, start: int, stop: int | None) -> range:
        """Return the indices from `start` to `stop` − 1, or all indices from `start` on if `stop` is None.

        Raises:
            IndexError: If the range is not within the corpus.
        """
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise IndexError(
                f"{type(self).__name__}.write: {self.name}s {start} to {stop} were requested; the corpus has {self.name}s 0 to "
                f"{len(self) - 1}"
            )
        return range(start, stop)

    def _chunks(self, indices: range, *, progress: bool) -> Iterator[range]:
        """Yield the indices in chunks, with a bar on standard error if `progress` is True."""
        with late_bars(shown=progress) as bars:
            task = bars.add_task(f"writing built-in {self.name}s", total=len(indices))
            for first in range(0, len(indices), _CHUNK):
                chunk = indices[first : first + _CHUNK]
                yield chunk
                bars.advance(task, len(chunk))
