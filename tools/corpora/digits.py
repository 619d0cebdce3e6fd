"""The rows of `digits.tsv.xz`: scikit-learn's handwritten digits, in the order of the parts of `regard.demo.DigitCorpus`."""

from collections.abc import Iterator

import numpy as np

SEED = 0


def digit_rows() -> Iterator[str]:
    """Yield the lines of `digits.tsv.xz`: the digit, and its 8·8 pixels from `a` (0, paper) to `q` (16, ink)."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    for index in np.random.default_rng(SEED).permutation(len(digits)):
        yield f"{digits[index]}\t{''.join(chr(ord('a') + int(value)) for value in images[index])}\n"
