"""A scrambled order of the numbers below a power of two."""

from random import Random


class Permutation:
    """A bijection of [0, 2^bits) that looks random: odd multiples, a shift, and the upper half folded onto the lower.

    Args:
        bits: how many bits the numbers have.
        random: which bijection.
    """

    def __init__(self, bits: int, *, random: Random) -> None:
        self.size = 1 << bits
        self._half = bits // 2
        self._first = random.getrandbits(bits) | 1
        self._second = random.getrandbits(bits) | 1
        self._shift = random.getrandbits(bits)

    def __call__(self, index: int) -> int:
        """Where `index`, of [0, 2^bits), goes."""
        number = (index * self._first + self._shift) % self.size
        number ^= number >> self._half
        number = number * self._second % self.size
        return number ^ number >> self._half
