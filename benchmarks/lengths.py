"""Linear attention and Gated DeltaNet against multi-head attention, by length, on one core in float32. Prints one JSON line.

All compute causal self-attention of one sequence without weights, with the same width and number of heads. `MultiHead` uses
PyTorch's fused kernel. For each length, the mechanisms run in turn in one process. Times are medians of processor time, which
other programs affect little.

    ms        milliseconds of each mechanism at each length, forward, and forward and backward
    ratio     time of MultiHead divided by that of the mechanism; above 1, the mechanism is faster
    faster_from   shortest measured length from which all ratios are above 1; null if there is none

    python -m benchmarks.lengths [--lengths 128 256 512 1024 2048 4096 8192] [--size 512] [--heads 8] [--repeats 5]
"""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.multihead import medians
from regard.attention import Attention, GatedDeltaNet, LinearAttention, MultiHead

KINDS: dict[str, Callable[..., Attention]] = {
    "MultiHead": MultiHead,
    "LinearAttention": LinearAttention,
    "GatedDeltaNet": GatedDeltaNet,
}
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)


def forward(attention: Attention, x: Tensor) -> Tensor:
    """Compute the self-attention of x, as when a model reads a text."""
    with torch.no_grad():
        return attention(x, need_weights=False).context


def both(attention: Attention, x: Tensor) -> tuple[Tensor, ...]:
    """Compute the self-attention of x, and the gradients of x and of the parameters, as in training."""
    context = attention(x, need_weights=False).context
    return torch.autograd.grad(context.sum(), [x, *attention.parameters()])


PASSES: dict[str, Callable[[Attention, Tensor], object]] = {"forward": forward, "forward and backward": both}


def measure(length: int, size: int, heads: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return milliseconds by pass and mechanism."""
    torch.manual_seed(0)
    x = torch.randn(1, length, size, requires_grad=True)
    built = {name: kind(size, heads, causal=True) for name, kind in KINDS.items()}
    return {
        name: medians({kind: partial(run, attention, x) for kind, attention in built.items()}, repeats)
        for name, run in PASSES.items()
    }


def faster_from(ratios: dict[int, float]) -> int | None:
    """Return the shortest length from which all ratios are above 1; None if there is none."""
    found = None
    for length, ratio in sorted(ratios.items(), reverse=True):
        if ratio <= 1:
            break
        found = length
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all lengths and print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lengths", description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    times = {length: measure(length, options.size, options.heads, options.repeats) for length in options.lengths}
    found: dict[str, object] = {
        "benchmark": "lengths",
        "torch": torch.__version__,
        "size": options.size,
        "heads": options.heads,
    }
    for name in PASSES:
        ms = {kind: {length: times[length][name][kind] for length in times} for kind in KINDS}
        ratio = {kind: {n: round(ms["MultiHead"][n] / ms[kind][n], 2) for n in times} for kind in KINDS if kind != "MultiHead"}
        found[name] = {"ms": ms, "ratio": ratio, "faster_from": {kind: faster_from(of) for kind, of in ratio.items()}}
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
