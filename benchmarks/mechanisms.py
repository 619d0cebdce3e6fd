"""Compare the speed of mechanisms, poolings and normalizers with an earlier commit. Prints one JSON line.

The two versions run in alternating processes, with one thread and in float32. The input is 32 sequences of 30 queries and 30
keys of width 256; a third of the keys is masked. Each time is the minimum over all processes of that version.

    summary   lowest, median and highest ratio
    ratio     time before divided by time now; below 1, it is slower now
    ms        milliseconds now: forward with weights and without, forward and backward, and the second step of a decoder
    missing   names that the earlier commit does not have

    python -m benchmarks.mechanisms --before COMMIT [--rounds 4]      COMMIT: a commit of this repository (needs git)
"""

import argparse
import inspect
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
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
SIZE, ROWS, LENGTH = 256, 32, 30
OPTIONS = {"chunk_size": 4, "num_heads": 8, "cap": 20.0, "temperature": 2.0}
"""Arguments of the constructors that have them, without a default."""


def minimum_time(run: Callable[[], object], seconds: float = 0.25) -> float:
    """Return the minimum time of a call in milliseconds. Repeat the call for `seconds`, and at least three times."""
    run()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def measure_module(module: nn.Module, compute: Callable[[], Tensor], inputs: list[Tensor]) -> dict[str, float]:
    """Return the times of a forward pass, and of a forward and backward pass."""
    with torch.no_grad():
        times = {"forward": minimum_time(compute)}
    leaves, output = [*inputs, *module.parameters()], compute()
    if output.requires_grad:
        gradient = torch.randn_like(output)
        times["forward and backward"] = minimum_time(
            lambda: torch.autograd.grad(compute(), leaves, gradient, allow_unused=True)
        )
    return times


def build(base: type[nn.Module] | None, *sizes: int) -> list[tuple[str, Any]]:
    """Build all modules of `regard.attention` with this base class, or, for None, all that are called with scores."""
    import regard.attention

    built = []
    for name in regard.attention.__all__:
        kind = getattr(regard.attention, name)
        if not isinstance(kind, type) or not issubclass(kind, nn.Module) or inspect.isabstract(kind):
            continue
        if issubclass(kind, base) if base else "scores" in inspect.signature(kind.forward).parameters:
            needed = {n for n, p in inspect.signature(kind).parameters.items() if p.default is p.empty}
            built.append((name, kind(*sizes, **{n: x for n, x in OPTIONS.items() if n in needed}).eval()))
    return built


def measure() -> dict[str, float]:
    """Return the times for the version of regard that Python imports."""
    import regard.attention

    torch.manual_seed(0)
    torch.set_num_threads(1)
    query, key = (torch.randn(ROWS, LENGTH, SIZE, requires_grad=True) for _ in range(2))
    scores = torch.randn(ROWS, LENGTH, LENGTH, requires_grad=True)
    mask = torch.arange(LENGTH) < torch.full((ROWS, 1), LENGTH - LENGTH // 3)
    found: dict[str, dict[str, float]] = {}
    for name, attention in build(regard.attention.Attention, SIZE):
        call = partial(attention, query, key, key_mask=mask)
        found[name] = measure_module(attention, lambda attend=call: attend().context, [query, key])
        with torch.inference_mode():
            found[name]["forward without weights"] = minimum_time(partial(call, need_weights=False))
            memory, step = attention.prepare(key, key_mask=mask), query[:, :1]
            _, state = attention.attend(step, memory)
            found[name]["step"] = minimum_time(partial(attention.attend, step, memory, state))
    for name, pooling in build(regard.attention.Pooling, SIZE):
        found[name] = measure_module(pooling, lambda pool=pooling: pool(key, key_mask=mask).context, [key])
    hidden = scores.masked_fill(~mask[:, None], -torch.inf)
    for name, normalizer in build(None):
        found[name] = measure_module(normalizer, partial(normalizer, hidden), [hidden])
    return {f"{name}, {form}": time for name, times in found.items() for form, time in times.items()}


def measure_source(source: Path) -> dict[str, float]:
    """Run `measure` in a new process that imports regard from `source`."""
    command = [sys.executable, str(Path(__file__)), "--measure", str(source)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(source)}, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", metavar="COMMIT", help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=4, help="number of processes per version (default: 4)")
    parser.add_argument("--measure", metavar="SOURCE", help="measure this version in this process, and print times as JSON")
    options = parser.parse_args()
    if options.measure:
        import regard

        assert Path(regard.__file__).is_relative_to(options.measure), f"Python imports {regard.__file__}"
        print(json.dumps(measure()))
        return
    if not options.before or options.rounds < 1:
        parser.error("give a commit of this repository, such as --before HEAD~1, and at least one round")
    times: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", options.before, "src"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        sources = [("before", Path(folder) / "src"), ("now", ROOT / "src")]
        for _ in range(options.rounds):
            for version, source in sources:
                times[version].append(measure_source(source))
            sources.reverse()
    before, now = ({name: min(one[name] for one in version) for name in version[0]} for version in times.values())
    ratios = {name: round(before[name] / now[name], 2) for name in now if name in before}
    ordered = sorted(ratios.values())
    missing = sorted({name.partition(",")[0] for name in now.keys() - before.keys()})
    summary = {"measured": len(ordered), "lowest": ordered[0], "median": statistics.median(ordered), "highest": ordered[-1]}
    milliseconds = {name: round(value, 3) for name, value in now.items()}
    print(json.dumps({"before": options.before, "summary": summary, "ratio": ratios, "ms": milliseconds, "missing": missing}))


if __name__ == "__main__":
    main()
