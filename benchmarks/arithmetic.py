"""How many operations a translator's training needs, and how many this machine can do.

python -m benchmarks.arithmetic        # one JSON line: the peak of one core, in operations a second
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

BACKWARD = 2
"""A product's gradient is two products of its size."""


@dataclass(frozen=True)
class Lengths:
    """Sums over a corpus, end symbols included, padding not."""

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
    """Count a corpus whose words stand between spaces."""
    lengths = [(len(source.split()) + 1, len(target.split()) + 1) for source, target in pairs]
    return Lengths(
        pairs=len(lengths),
        source=sum(source for source, _ in lengths),
        target=sum(target for _, target in lengths),
        cells=sum(source * target for source, target in lengths),
    )


def operations_per_target_token(shape: Shape, lengths: Lengths) -> float:
    """Operations of an update for each target token: 2 for each multiply-add of its matrix products, forward and backward.

    Forward, with E the embedding's and H the hidden width, V target words; for each

        source token   6H(E + H) of the two directions, 2H·H of the keys
        target token   3H(E + H + H) of the cell with what is fed back, H·H of the query, 3H·H of the attentional layer, H·V
        cell           H of the score, 2H of the context
        pair           2H·H of the bridge

    multiply-adds; backward is twice that. tanh, softmax, gates and the optimizer are not counted, nor what padding costs.
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
    """Operations a second of the fastest of many size × size products, on one thread, by number format."""
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
