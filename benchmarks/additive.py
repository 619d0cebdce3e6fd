"""Additive scores and attention against the formula with tanh, on one core in float32. Prints one JSON line of ratios.

Four forms run in turn in one process: the formula run eagerly and compiled by `torch.compile`, and regard's blocks and compiled
loops. A ratio compares their median times. The times include the exponentials of the rows and the check of their range. For a
single query, the exponentials of the keys are prepared before, as in a decoder. Memory is measured in a separate process:
the peak of a call of `additive_attention` and its backward pass, and the bound 4·BQK + 4·(BQ + BK)·(H + Dv) floats plus 32 MB.

    python -m benchmarks.additive [--repeats 5] [--size 4,512,512,256]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention import additive_attention
from regard.attention.fast.additive import exponential
from regard.attention.scores.additive import additive_scores, plain_additive_scores

SIZES = {"long": (4, 512, 512, 256), "sentences": (32, 30, 30, 256), "step": (64, 1, 50, 512)}
FORMS: dict[str, Callable[..., Tensor]] = {
    "eager": plain_additive_scores,
    "compiled": torch.compile(plain_additive_scores),
    "regard_blocks": additive_scores,
    "regard_compiled": torch.compile(additive_scores),
}


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def interleaved(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median milliseconds of each function; the functions run in turn."""
    for run in runs.values():
        run()
    times = [{name: seconds(run) for name, run in runs.items()} for _ in range(repeats)]
    return {name: round(1e3 * statistics.median(row[name] for row in times), 3) for name in runs}


def ratios(medians: dict[str, float]) -> dict[str, Any]:
    ours = [name for name in medians if name.startswith("regard")]
    over = {f"{one}_over_{name}": round(medians[name] / medians[one], 2) for one in ours for name in ("eager", "compiled")}
    return {"ms": medians, **over}


def both_ways(form: Callable[..., Tensor], tensors: tuple[Tensor, ...], grad: Tensor) -> None:
    leaves = [x.detach().requires_grad_() for x in tensors]
    torch.autograd.grad(form(*leaves), leaves, grad)


def measure(shape: tuple[int, int, int, int], repeats: int) -> dict[str, Any]:
    """Return the times of the forward pass and of both passes, and the error of each form against float64."""
    batch, queries, keys, width = shape
    tensors = torch.randn(batch, queries, width), torch.randn(batch, keys, width), torch.randn(width)
    ready = (exponential(tensors[1]),) if queries == 1 else ()
    with torch.no_grad():
        runs = {name: lambda f=form, n=name: f(*tensors, *(ready if "regard" in n else ())) for name, form in FORMS.items()}
        found: dict[str, Any] = {"forward": ratios(interleaved(runs, repeats))}
        exact = plain_additive_scores(*(x[:1].double() if x.ndim == 3 else x.double() for x in tensors))
        found["error"] = {name: float((run()[:1] - exact).abs().max()) for name, run in runs.items()}
    if queries > 1:
        grad = torch.randn(batch, queries, keys)
        runs = {name: lambda f=form: both_ways(f, tensors, grad) for name, form in FORMS.items()}
        found["forward_backward"] = ratios(interleaved(runs, repeats))
    return found


def peak_memory(form: str, shape: tuple[int, int, int, int]) -> dict[str, float]:
    """Return the MB by which a process grows during a forward and backward pass, and the expected maximum."""
    command = [sys.executable, "-m", "benchmarks.additive", "--memory", form, "--size", ",".join(map(str, shape))]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def grown(form: str, shape: tuple[int, int, int, int]) -> dict[str, float]:
    batch, queries, keys, width = shape
    run = torch.compile(additive_attention) if form == "compiled" else additive_attention

    def step() -> float:
        query, key, value = torch.randn(batch, queries, width), torch.randn(batch, keys, width), torch.randn(batch, keys, width)
        leaves = [x.requires_grad_() for x in (query, key, value, torch.randn(width))]
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _status("VmRSS")
        run(*leaves).context.sum().backward()
        return _status("VmHWM") - before

    step()  # compiles
    floats = 4 * batch * queries * keys + 4 * batch * (queries + keys) * 2 * width
    return {"grown_mb": round(step() / 1e3, 1), "bound_mb": round(4 * floats / 1e6 + 32, 1)}


def _status(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return float(line.split()[1]) * 1.024


def main() -> None:
    parser = argparse.ArgumentParser(description="Additive scores without tanh against the formula with it.")
    parser.add_argument("--repeats", type=int, default=5, help="number of runs of each form (default 5)")
    parser.add_argument("--size", help="B,Q,K,H in place of the three sizes")
    parser.add_argument("--memory", choices=["blocks", "compiled"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.size:
        size = tuple(int(number) for number in options.size.split(","))
        assert len(size) == 4
        sizes = {"size": size}
    else:
        sizes = SIZES
    if options.memory:
        print(json.dumps(grown(options.memory, next(iter(sizes.values())))))
        return
    result = {name: {"shape": shape, **measure(shape, options.repeats)} for name, shape in sizes.items()}
    for form in ("blocks", "compiled"):
        result[f"memory_{form}"] = peak_memory(form, next(iter(sizes.values())))
    print(json.dumps({"benchmark": "additive", "torch": torch.__version__, **result}))


if __name__ == "__main__":
    main()
