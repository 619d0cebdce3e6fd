"""Additive scores without tanh against the eager formula, on one core in float32. Prints one JSON line of ratios.

Both forms run in turn in one process, and the ratio is that of their medians. The exponentials of the rows and the check of
their range are counted, but for a single query, whose keys were prepared before (as a decoder's are).

    python benchmarks/additive.py [--repeats 5]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention.additive import additive_scores
from regard.attention.kernels.additive import exponential, plain_additive_scores

SIZES = {"long": (4, 512, 512, 256), "sentences": (32, 30, 30, 256), "step": (64, 1, 50, 512)}


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def ratio(plain: Callable[[], object], fast: Callable[[], object], repeats: int) -> dict[str, float]:
    """Medians in milliseconds of the two in turn, and how many times faster the second is."""
    plain(), fast()
    times = [(seconds(plain), seconds(fast)) for _ in range(repeats)]
    slow, quick = (statistics.median(column) for column in zip(*times, strict=True))
    return {"eager_ms": round(1e3 * slow, 3), "regard_ms": round(1e3 * quick, 3), "ratio": round(slow / quick, 2)}


def measure(shape: tuple[int, int, int, int], repeats: int) -> dict[str, object]:
    batch, queries, keys, width = shape
    query, key, weight = torch.randn(batch, queries, width), torch.randn(batch, keys, width), torch.randn(width)
    ready = exponential(key) if queries == 1 else None

    def backward(form: Callable[[], Tensor]) -> Callable[[], object]:
        grad = torch.randn(batch, queries, keys)
        return lambda: torch.autograd.grad(form(), (query, key, weight), grad)

    def plain() -> Tensor:
        return plain_additive_scores(query, key, weight)

    def fast() -> Tensor:
        return additive_scores(query, key, weight, ready)

    count = repeats if batch * queries * keys * width > 1 << 26 else 20 * repeats
    result: dict[str, object] = {"forward": ratio(plain, fast, count)}
    truth = plain_additive_scores(query[:1].double(), key[:1].double(), weight.double())
    errors = [(scores[:1].double() - truth).abs().max().item() for scores in (plain(), fast())]
    result["error"] = {"eager": errors[0], "regard": errors[1]}
    for tensor in (query, key, weight):
        tensor.requires_grad_()
    result["forward_backward"] = ratio(backward(plain), backward(fast), count)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {f"{name} {shape}": measure(shape, repeats) for name, shape in SIZES.items()}
    print(json.dumps({"benchmark": "additive", "torch": torch.__version__, **results}))


if __name__ == "__main__":
    main()
