"""Count the operations that training a translator needs, and measure how many this machine can compute.

python -m benchmarks.arithmetic        # one JSON line: the peak of one core, in operations per second
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

BACKWARD = 2
"""The backward pass of a matrix product needs two products of the same size."""


@dataclass(frozen=True)
class Lengths:
    """Sums over a corpus, with end symbols and without padding."""

    pairs: int
    source: int
    target: int
    cells: int
    """Σ source length · target length: cells of all attention matrices."""


@dataclass(frozen=True)
class Shape:
    """A one-layer GRU translator with a bidirectional encoder, additive attention and input feeding."""

    embedding: int
    hidden: int
    target_words: int


def measure_lengths(pairs: Iterable[tuple[str, str]]) -> Lengths:
    """Return the sums for a corpus whose words are separated by spaces."""
    lengths = [(len(source.split()) + 1, len(target.split()) + 1) for source, target in pairs]
    return Lengths(
        pairs=len(lengths),
        source=sum(source for source, _ in lengths),
        target=sum(target for _, target in lengths),
        cells=sum(source * target for source, target in lengths),
    )


def operations_per_target_token(shape: Shape, lengths: Lengths) -> float:
    """Return the operations of an update for each target token: 2 for each multiply-add of its matrix products.

    The forward pass needs these multiply-adds, with E the width of embeddings, H the hidden width and V the number of target
    words:

        for each source token   6H(E + H) for the two directions, 2H·H for the keys
        for each target token   3H(E + H + H) for the cell with input feeding, H·H for the query, 3H·H for the attentional
                                layer, H·V for the output layer
        for each cell           H for the score, 2H for the context
        for each pair           2H·H for the bridge

    The backward pass needs twice as many. tanh, softmax, gates, the optimizer and padding are not counted.
    """
    e, h = shape.embedding, shape.hidden
    forward = (
        lengths.source * (6 * h * (e + h) + 2 * h * h)
        + lengths.target * (3 * h * (e + 2 * h) + 4 * h * h + h * shape.target_words)
        + lengths.cells * 3 * h
        + lengths.pairs * 2 * h * h
    )
    return 2 * (1 + BACKWARD) * forward / lengths.target


def measure_peak(*, size: int = 2048, seconds: float = 2.0) -> dict[str, float]:
    """Return the operations per second of the fastest of many size × size products on one thread, by number format."""
    import torch

    torch.set_num_threads(1)
    peaks = {}
    for dtype in (torch.float32, torch.bfloat16):
        left, right = (torch.randn(size, size).to(dtype) for _ in range(2))
        out = left @ right
        times, end = [], time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            torch.mm(left, right, out=out)
            times.append(time.perf_counter() - start)
        peaks[str(dtype).removeprefix("torch.")] = 2 * size**3 / min(times)
    return peaks


if __name__ == "__main__":
    print(json.dumps(measure_peak()))
