"""Time and memory of `regard.capture` on a model of `transformers` that reads a long text. Prints one JSON line per setting.

Each setting has a process of its own, because a process's peak memory never falls. Time is the median of three runs.

    python -m benchmarks.capture [--tokens 4096] [--layers 4]      needs: pip install transformers
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

SETTINGS: dict[str, dict[str, Any] | None] = {
    "without": None,
    "all weights": {},
    "one head of one layer": {"names": ["h.0.attn"], "heads": [0]},
    "one row": {"rows": [-1]},
    "eager": None,
}
"""Arguments of `capture`; None for a run without `capture`. In `eager`, the model itself returns its weights."""


def measure(setting: str, tokens: int, layers: int, width: int, runs: int) -> dict[str, Any]:
    import torch
    from transformers import GPT2Config, GPT2Model

    import regard

    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = GPT2Config(vocab_size=100, n_positions=tokens, n_layer=layers, n_embd=width, n_head=width // 64)
    kind = "eager" if setting == "eager" else "sdpa"
    model = GPT2Model._from_config(config, attn_implementation=kind).eval()
    ids, options, seconds = torch.randint(100, (1, tokens)), SETTINGS[setting], []
    before = _peak()
    for _ in range(runs):
        start = time.perf_counter()
        with torch.no_grad(), nullcontext() if options is None else regard.capture(model, **options):
            model(ids, use_cache=False, output_attentions=setting == "eager")
        seconds.append(time.perf_counter() - start)
    return {
        "setting": setting,
        "tokens": tokens,
        "layers": layers,
        "seconds": round(statistics.median(seconds), 2),
        "peak_mb_above_model": round((_peak() - before) / 1024),
    }


def _peak() -> int:
    """Return the peak memory of this process in kB. `getrusage` would also count the process that started it."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=768, help="64 for each head")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--setting", choices=SETTINGS, help="measure only this setting, in this process")
    options = parser.parse_args()
    if options.setting:
        print(json.dumps(measure(options.setting, options.tokens, options.layers, options.width, options.runs)))
        return
    for setting in SETTINGS:
        sizes = [f"--{name}={getattr(options, name)}" for name in ("tokens", "layers", "width", "runs")]
        subprocess.run([sys.executable, "-m", "benchmarks.capture", "--setting", setting, *sizes], check=True)


if __name__ == "__main__":
    main()
