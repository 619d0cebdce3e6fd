"""Measure an NVIDIA GPU: updates with and without recorded operations, and the kernels of additive attention.

    python -m benchmarks.gpu --train train.en,train.de

Updates: each preset is trained for some hundred updates, with `training.cuda_graphs` and without. The median time of an update
comes from the last updates, when most shapes of batches have been recorded; the speed of all updates includes the recording.
Kernels: additive attention with the Triton kernels, and without them. The last line printed is JSON.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import regard
from regard.attention import additive_attention
from regard.attention.scores import additive
from regard.training.updater import Updater

SIZES = [
    (32, 30, 30, 256, 512),
    (64, 50, 50, 512, 512),
    (4, 512, 512, 256, 256),
    (16, 256, 256, 512, 512),
    (16, 1024, 1024, 512, 512),
]
"""B, Q, K, H and Dv of additive attention."""


def measure_updates(preset: str, files: Sequence[str], updates: int, *, recorded: bool) -> dict[str, float]:
    """Return the median time of an update in milliseconds, and target tokens per second of the last and of all updates."""
    seconds, counts, make = [], [], Updater.make

    def timed(self: Updater, update: Any) -> None:
        start = time.perf_counter()
        make(self, update)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        counts.append(update.count)

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(Updater, "make", timed):
        settings = {"data.train": list(files), "data.cache": str(Path(folder, "cache")), "out": str(Path(folder, "run"))}
        settings |= {"training.max_steps": updates, "training.max_epochs": 1000, "training.validate_every": 10 * updates}
        settings |= {"training.cuda_graphs": recorded, "training.tensorboard": False, "device": "cuda"}
        if len(files) > 1:
            settings["training.validation_pairs"] = 8
        regard.fit(regard.load_preset(preset, settings), progress=False)
    last = slice(len(seconds) // 3 * 2, None)
    return {
        "ms": statistics.median(seconds[last]) * 1000,
        "tokens_per_second": sum(counts[last]) / sum(seconds[last]),
        "tokens_per_second_of_all_updates": sum(counts) / sum(seconds),
    }


def milliseconds(function: Callable[[], object], repeats: int = 20) -> float:
    """Return the median time of a call on the GPU."""
    for _ in range(3):
        function()
    found = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end))
    return statistics.median(found)


def measure_additive(size: tuple[int, ...], dtype: torch.dtype, *, fused: bool, gradients: bool) -> dict[str, float]:
    """Return the time in milliseconds and the memory in MB of additive attention; an empty dict if the GPU has too little."""
    batch, queries, keys, width, values = size
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = (batch, queries, width), (batch, keys, width), (batch, keys, values), (width,)
    inputs = [torch.randn(shape, device="cuda", generator=generator).to(dtype).requires_grad_(gradients) for shape in shapes]

    def run() -> Sequence[Tensor]:
        with mock.patch.object(additive, "is_fused", return_value=fused), torch.set_grad_enabled(gradients):
            context = additive_attention(*inputs, need_weights=False).context
        return torch.autograd.grad(context.float().sum(), inputs) if gradients else [context]

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    try:
        return {"ms": milliseconds(run), "mb": (torch.cuda.max_memory_allocated() - before) / 2**20}
    except torch.OutOfMemoryError:
        return {}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything, and print tables and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, metavar="SOURCE,TARGET", help="files of the training pairs")
    parser.add_argument(
        "--updates",
        type=int,
        default=600,
        metavar="N",
        help="updates of a recorded run; the other run makes a sixth, but at least 60 (%(default)s)",
    )
    parser.add_argument(
        "--preset", action="append", default=[], help="preset to train; repeatable (transformer-tiny, luong, language-tiny)"
    )
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("there is no GPU that PyTorch can use")
    files = options.train.split(",")
    found: dict[str, Any] = {"benchmark": "gpu", "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for preset in options.preset or ["transformer-tiny", "luong", "language-tiny"]:
        text = files[:1] if preset.startswith("language") else files
        rows = {
            "recorded": measure_updates(preset, text, options.updates, recorded=True),
            "started one by one": measure_updates(preset, text, max(60, options.updates // 6), recorded=False),
        }
        found[preset] = rows
        for name, row in rows.items():
            print(
                f"{preset:20}{name:22}{row['ms']:8.2f} ms an update{row['tokens_per_second']:12,.0f} target tokens/s",
                flush=True,
            )
    for size in SIZES:
        for dtype in (torch.float32, torch.bfloat16):
            for gradients in (False, True):
                pair = [measure_additive(size, dtype, fused=fused, gradients=gradients) for fused in (False, True)]
                name = f"{size} {str(dtype).removeprefix('torch.')} {'with gradients' if gradients else 'forward'}"
                found[f"additive {name}"] = pair
                cells = [f"{row['ms']:9.3f} ms {row['mb']:8,.0f} MB" if row else f"{'out of memory':>21}" for row in pair]
                print(f"{name:58}{cells[0]}{cells[1]}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
