"""Every mechanism, pooling and normalizer against itself in an earlier commit: no new option may slow down an old mechanism.

Processes of both versions run in turn, on one core in float32, with 32 sequences of 30 queries and 30 keys, 256 wide, a third
of the keys masked. The times are the smallest of all processes of a version. Prints one JSON line.

    ms        milliseconds now: forward, forward and backward, and one step of a decoder
    ratio     time before divided by time now; below 1, the mechanism is slower than before

    python -m benchmarks.mechanisms --before COMMIT [--rounds 4]      COMMIT is of this repository, which git must have
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).parents[1]
SIZE, ROWS, LENGTH = 256, 32, 30
NAMES = (
    *("Additive", "Concat", "SumConcat", "Dot", "ScaledDot", "General", "LinearConcat", "WeightNormAdditive", "SelfAttention"),
    *("LocalMonotonic", "LocalPredictive", "LocationSensitive", "Coverage", "FertilityCoverage"),
    *("SoftMonotonic", "HardMonotonic", "MoChA", "HardMoChA", "MultiHead"),
)
OPTIONS = {"MoChA": {"chunk_size": 4}, "HardMoChA": {"chunk_size": 4}, "MultiHead": {"num_heads": 8}}
POOLINGS = {"AdditivePooling": {}, "AttentionPooling": {}, "MeanPooling": {}, "MultiHeadPooling": {"num_heads": 8}}
NORMALIZERS = ("Softmax", "Sigmoid", "Sparsemax", "Entmax15")


def fastest(run: Callable[[], object], seconds: float = 0.25) -> float:
    """Return the smallest milliseconds of a call, of as many as fit into the time, and at least three."""
    run()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def both(module: nn.Module, compute: Callable[[], torch.Tensor], leaves: list[torch.Tensor]) -> Callable[[], object]:
    """Return a function that computes the output and all gradients."""
    inputs = [*leaves, *module.parameters()]
    return lambda: torch.autograd.grad(compute().sum(), inputs, allow_unused=True)


def measure() -> dict[str, float]:
    """Return the times of all mechanisms of the regard that Python finds."""
    import regard.attention as kinds

    torch.manual_seed(0)
    torch.set_num_threads(1)
    query, key = (torch.randn(ROWS, LENGTH, SIZE, requires_grad=True) for _ in range(2))
    mask = torch.arange(LENGTH) < torch.full((ROWS, 1), LENGTH - LENGTH // 3)
    times: dict[str, float] = {}

    def note(name: str, module: nn.Module, compute: Callable[[], torch.Tensor], leaves: list[torch.Tensor]) -> None:
        with torch.no_grad():
            times[f"{name}, forward"] = fastest(compute)
        if compute().requires_grad:
            times[f"{name}, forward and backward"] = fastest(both(module, compute, leaves))

    for name in NAMES:
        attention = getattr(kinds, name)(SIZE, **OPTIONS.get(name, {}))
        note(name, attention, lambda used=attention: used(query, key, key_mask=mask).context, [query, key])
        with torch.inference_mode():
            memory, step = attention.prepare(key, key_mask=mask), query[:, :1]
            times[f"{name}, step"] = fastest(partial(attention.attend, step, memory))
    for name, options in POOLINGS.items():
        pooling = getattr(kinds, name)(SIZE, **options)
        note(name, pooling, lambda used=pooling: used(key, key_mask=mask).context, [key])
    for name in NORMALIZERS:
        normalizer = getattr(kinds, name)()
        scores = torch.randn(ROWS, LENGTH, LENGTH, requires_grad=True)
        note(name, normalizer, lambda used=normalizer, of=scores: used(of, mask[:, None]), [scores])
    return times


def run(source: Path) -> dict[str, float]:
    """Measure the regard of a source folder in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--measure"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", metavar="COMMIT", help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=4, help="processes of each version (default: 4)")
    parser.add_argument("--measure", action="store_true", help="measure the installed version once, in this process")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure()))
        return
    if not options.before:
        parser.error("--before COMMIT is needed")
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", options.before, "src"], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        rounds = [(run(Path(folder) / "src"), run(ROOT / "src")) for _ in range(options.rounds)]
    before, now = ({name: min(one[name] for one in version) for name in version[0]} for version in zip(*rounds, strict=True))
    ratios = {name: round(before[name] / now[name], 2) for name in now}
    spread = sorted(ratios.values())
    print(
        json.dumps(
            {
                "before": options.before,
                "ratio": {"lowest": spread[0], "median": statistics.median(spread), "highest": spread[-1]},
                "ratios": ratios,
                "ms": {name: round(value, 3) for name, value in now.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
