"""Measure an NVIDIA GPU in one session: everything that `docs/explanation/kernels.md` has tables of.

    python -m benchmarks gpu --train train.en,train.de --dev val.en,val.de
    python -m benchmarks gpu --parts sizes --sizes base,gpt2
    python -m benchmarks gpu --tiny --device cpu          # every part that a CPU has, in small: does the script work?

Parts, in this order; a part that would begin after `--minutes` is left out, and one that fails is reported and left:

    run         a default run of `regard train translation`: seconds of updates, of validations, and of start and end
    updates     presets for some hundred updates, with recorded operations (CUDA graphs) and without, and the optimizer's share
    multihead   `MultiHead` without weights against `nn.MultiheadAttention`, and projections and fused attention by hand
    recurrent   linear attention and Gated DeltaNet with fla's kernels and with our own operations
    sizes       training of `transformer-base` and `gpt2-small` against plain loops on the same batches (`benchmarks.sizes`)
    search      1,000 sentences, 21 forced words, beam 5 and greedy, against `generate` of Hugging Face's MarianMT
    additive    additive attention with the Triton kernels, and without them

The median time of an update comes from the last updates, when most shapes of batches have been recorded; the speed of all
updates includes the recording. The last line printed is JSON.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import regard
from benchmarks.marian import build_marian
from benchmarks.multihead import bare
from benchmarks.sizes import SIZES as TRAINED
from benchmarks.sizes import compare, loops_of
from regard.attention import GatedDeltaNet, LinearAttention, MultiHead, additive_attention
from regard.attention.fast import fla
from regard.attention.scores import additive
from regard.config import DecodingConfig
from regard.decoding import beam_search
from regard.inference import pack
from regard.machine import prediction_tokens
from regard.models.build import build_translator
from regard.text.batching import length_batches
from regard.training import Callback
from regard.training.updater import Updater

ADDITIVE = [
    (32, 30, 30, 256, 512),
    (64, 50, 50, 512, 512),
    (4, 512, 512, 256, 256),
    (16, 256, 256, 512, 512),
    (16, 1024, 1024, 512, 512),
]
"""B, Q, K, H and Dv of additive attention."""
PARTS = ("run", "updates", "multihead", "recurrent", "sizes", "search", "additive")
NEED_FILES, NEED_GPU = ("run", "updates"), ("additive",)


def settings_of(files: Sequence[str], folder: str, device: str) -> dict[str, Any]:
    return {
        "data.train": list(files),
        "data.cache": str(Path(folder, "cache")),
        "out": str(Path(folder, "run")),
        "training.tensorboard": False,
        "device": device,
    }


def wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def measure_run(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Train with the default settings, and yield where the time goes."""

    class Times(Callback):
        def end(self, run: Any) -> None:
            found.update(updates=run.progress.step, training_s=run.progress.seconds)
            found.update(validation_s=run.progress.validation_seconds, validations=run.progress.validations)

    found: dict[str, float] = {}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(options.train, folder, options.device) | {"data.dev": list(options.dev)}
        if options.tiny:
            settings |= {"training.max_steps": 4}
        config = regard.choose_config("translation", settings)
        regard.fit(config, callbacks=[Times()], progress=False)
    found["all_s"] = time.perf_counter() - start
    found["validation_share"] = found["validation_s"] / found["all_s"]
    yield "default run", found


def measure_updates(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the median time of an update, the optimizer's share of it, and target tokens per second."""
    presets = ["transformer-tiny"] if options.tiny else options.preset or ["transformer-tiny", "luong", "language-tiny"]
    for preset in presets:
        for recorded in (True, False):
            updates = 6 if options.tiny else options.updates if recorded else max(60, options.updates // 6)
            name = f"{preset}, {'recorded' if recorded else 'started one by one'}"
            yield name, train(preset, options, updates, recorded=recorded)


def train(preset: str, options: argparse.Namespace, updates: int, *, recorded: bool) -> dict[str, float]:
    seconds: list[float] = []
    steps: list[float] = []
    counts: list[int] = []
    make, step = Updater.make, Updater._step

    def timed(self: Updater, update: Any) -> None:
        start = time.perf_counter()
        make(self, update)
        wait(options.device)
        seconds.append(time.perf_counter() - start)
        counts.append(update.count)

    def timed_step(self: Updater, *arguments: Any) -> None:
        if len(steps) % 2:  # every second update, because waiting takes time too
            steps.append(0.0)
            step(self, *arguments)
            return
        wait(options.device)
        start = time.perf_counter()
        step(self, *arguments)
        wait(options.device)
        steps.append(time.perf_counter() - start)

    files = options.train[:1] if preset.startswith("language") else options.train
    patches = mock.patch.object(Updater, "make", timed), mock.patch.object(Updater, "_step", timed_step)
    with tempfile.TemporaryDirectory() as folder, patches[0], patches[1]:
        settings = settings_of(files, folder, options.device)
        settings |= {"training.max_steps": updates, "training.max_epochs": 1000, "training.validate_every": 10 * updates}
        settings |= {"training.cuda_graphs": recorded}
        if len(files) > 1:
            settings["training.validation_pairs"] = 8
        regard.fit(regard.load_preset(preset, settings), progress=False)
    last = slice(len(seconds) // 3 * 2, None)
    optimizer = statistics.median([one for one in steps[last] if one])
    return {
        "ms": statistics.median(seconds[last]) * 1000,
        "optimizer_ms": optimizer * 1000,
        "optimizer_share": optimizer / statistics.median(seconds[last]),
        "tokens_per_second": sum(counts[last]) / sum(seconds[last]),
        "tokens_per_second_of_all_updates": sum(counts) / sum(seconds),
    }


def milliseconds(function: Callable[[], object], device: str, repeats: int = 20) -> float:
    """Return the median time of a call."""
    found = []
    for number in range(repeats + 3):
        wait(device)
        start = time.perf_counter()
        function()
        wait(device)
        if number >= 3:
            found.append(time.perf_counter() - start)
    return 1000 * statistics.median(found)


def measure_multihead(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield milliseconds without weights, in bfloat16, with a padding mask and without, forward and with gradients."""
    batch, length, width, heads = (2, 16, 32, 2) if options.tiny else (8, 2048, 1024, 16)
    build: dict[str, Any] = {"device": options.device, "dtype": torch.bfloat16}
    ours, theirs = MultiHead(width, heads, **build), nn.MultiheadAttention(width, heads, batch_first=True, **build)
    x = torch.randn(batch, length, width, **build).requires_grad_()
    shown = (
        torch.arange(length, device=options.device) < torch.linspace(length // 2, length, batch, device=options.device)[:, None]
    )
    forms: dict[str, Callable[[], Tensor]] = {
        "regard": lambda: ours(x, need_weights=False).context,
        "regard with padding": lambda: ours(x, key_mask=shown, need_weights=False).context,
        "nn.MultiheadAttention": lambda: theirs(x, x, x, need_weights=False)[0],
        "nn.MultiheadAttention with padding": lambda: theirs(x, x, x, key_padding_mask=~shown, need_weights=False)[0],
        "by hand": lambda: bare(ours, x),
    }
    for gradients in (False, True):
        row = {}
        for name, form in forms.items():

            def run(form: Callable[[], Tensor] = form, gradients: bool = gradients) -> None:
                with torch.set_grad_enabled(gradients):
                    out = form()
                if gradients:
                    torch.autograd.grad(out.sum(), x)

            row[name] = milliseconds(run, options.device)
        row["ratio"] = row["regard"] / row["by hand"]
        yield f"MultiHead {(batch, length, width, heads)} {'with gradients' if gradients else 'forward'}", row


def measure_recurrent(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield milliseconds of a layer under bfloat16 autocast, with fla's kernels where they may be used, and without."""
    length, width, heads = (70, 32, 2) if options.tiny else (4096, 1024, 16)
    for kind in (LinearAttention, GatedDeltaNet):
        layer, x = kind(width, heads, causal=True).to(options.device), torch.randn(1, length, width, device=options.device)
        for gradients in (False, True):
            row = {}
            for name, suits in (("chosen", fla._suits), ("our operations", lambda *arguments: False)):

                def run(layer: Any = layer, x: Tensor = x, gradients: bool = gradients) -> None:
                    kept = torch.set_grad_enabled(gradients)
                    with kept, torch.autocast(torch.device(options.device).type, torch.bfloat16):
                        out = layer(x, need_weights=False).context
                    if gradients:
                        torch.autograd.grad(out.sum(), list(layer.parameters()), allow_unused=True)

                with mock.patch.object(fla, "_suits", suits):
                    row[name] = milliseconds(run, options.device, 3 if options.tiny else 10)
            yield f"{kind.__name__} {(length, width, heads)} {'with gradients' if gradients else 'forward'}", row


def measure_sizes(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the comparison of each size of `--sizes`."""
    for name in options.sizes.split(","):
        seconds = 0.2 if options.tiny else options.seconds
        found = compare(name, options.device, seconds, small=options.tiny, only=options.loop)
        for loop, row in found["loops"].items():
            yield f"{name}: {loop}", row
        yield f"{name}: ratio", {"regard to the fastest plain loop": found["ratio_to_the_fastest"]}


def compile_ahead(options: argparse.Namespace) -> None:
    """Fill the cache of compiled code for the part sizes, in three processes at once: one after the other takes minutes."""

    def compile_one(size_and_loop: tuple[str, str]) -> None:
        size, loop = size_and_loop
        arguments = ["--parts", "sizes", "--sizes", size, "--loop", loop, "--seconds", "0", "--device", options.device]
        subprocess.run([sys.executable, "-m", "benchmarks.gpu", *arguments], capture_output=True, check=False)

    jobs = [
        (name, loop)
        for name in options.sizes.split(",")
        for loop in loops_of(TRAINED[name], options.device, small=False)
        if "compiled" in loop
    ]
    start = time.perf_counter()
    with ThreadPoolExecutor(3) as pool:  # more would need too much of the GPU's memory
        list(pool.map(compile_one, jobs))
    print(f"compiled {len(jobs)} loops ahead in {time.perf_counter() - start:.0f} s", flush=True)


def measure_search(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield sentences per second with default settings, and of `generate` in batches of several sizes."""
    words, sentences, steps = (60, 8, 5) if options.tiny else (5000, 1000, 21)
    small = {"model.hidden_size": 32, "model.num_heads": 2, "model.feed_forward_size": 64} if options.tiny else {}
    small |= {"model.norm_order": "post", "model.positions": "sinusoidal"}  # as MarianMT's
    config: Any = regard.load_preset("transformer-tiny", {"data.train": ["none.tsv"], **small})
    torch.manual_seed(0)
    marian = build_marian(config.model, words).to(options.device).eval()
    model = build_translator(config.model, source_size=words, target_size=words).to(options.device).eval()
    ids = torch.randint(4, words, (sentences, 14), device=options.device)
    ids[:, -1] = 3
    mask, lengths = torch.ones_like(ids, dtype=torch.bool), [14] * sentences
    for beam in (5, 1):
        decoding = DecodingConfig(beam_size=beam, min_length=steps - 1, max_length=steps)
        row: dict[str, float] = {}
        for precision in (torch.float32, torch.bfloat16):

            def ours(precision: torch.dtype = precision, decoding: DecodingConfig = decoding, beam: int = beam) -> None:
                low = precision == torch.bfloat16
                kind = torch.device(options.device).type
                with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=low):
                    packed = pack(model, sentences)
                    tokens = max(1, prediction_tokens(torch.device(options.device)) // beam)
                    for numbers in length_batches(lengths, tokens):  # type: ignore[arg-type]
                        beam_search(packed, ids[numbers], mask[numbers], decoding)

            name = f"regard, {str(precision).removeprefix('torch.')}"
            row[name] = 1000 * sentences / milliseconds(ours, options.device, 1 if options.tiny else 3)
        for size in (sentences // 10 or 1, sentences // 2, sentences):
            row[f"generate in batches of {size}"] = generate(options, marian, ids, steps, beam, size)
        best = max(speed for name, speed in row.items() if name.startswith("generate"))
        row["ratio"] = max(speed for name, speed in row.items() if name.startswith("regard")) / best
        yield f"{'greedy' if beam == 1 else f'beam {beam}'}, sentences/s", row


def generate(options: argparse.Namespace, marian: Any, ids: Tensor, steps: int, beam: int, size: int) -> float:
    """Return sentences per second of `generate` in batches of `size` sentences."""
    limits = {"min_new_tokens": steps, "max_new_tokens": steps, "num_beams": beam, "do_sample": False}

    def run() -> None:
        with torch.inference_mode():
            for part in ids.split(size):
                marian.generate(input_ids=part, attention_mask=torch.ones_like(part), **limits)

    return 1000 * len(ids) / milliseconds(run, options.device, 1 if options.tiny else 3)


def measure_additive(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield time and memory of additive attention without the kernels and with them."""
    for size in ADDITIVE:
        for dtype in (torch.float32, torch.bfloat16):
            for gradients in (False, True):
                row: dict[str, float] = {}
                for fused, what in ((False, "operations"), (True, "kernels")):
                    found = attend_additive(size, dtype, options.device, fused=fused, gradients=gradients)
                    row |= {f"{what}_{name}": value for name, value in found.items()}
                name = f"additive {size} {str(dtype).removeprefix('torch.')} {'with gradients' if gradients else 'forward'}"
                yield name, row


def attend_additive(
    size: tuple[int, ...], dtype: torch.dtype, device: str, *, fused: bool, gradients: bool
) -> dict[str, float]:
    """Return the time in milliseconds and the memory in MB of additive attention; an empty dict if the GPU has too little."""
    batch, queries, keys, width, values = size
    generator = torch.Generator(device).manual_seed(0)
    shapes = (batch, queries, width), (batch, keys, width), (batch, keys, values), (width,)
    inputs = [torch.randn(shape, device=device, generator=generator).to(dtype).requires_grad_(gradients) for shape in shapes]

    def run() -> Sequence[Tensor]:
        with mock.patch.object(additive, "is_fused", return_value=fused), torch.set_grad_enabled(gradients):
            context = additive_attention(*inputs, need_weights=False).context
        return torch.autograd.grad(context.float().sum(), inputs) if gradients else [context]

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    try:
        return {"ms": milliseconds(run, device), "mb": (torch.cuda.max_memory_allocated() - before) / 2**20}
    except torch.OutOfMemoryError:
        return {}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the parts that are asked for, and print tables and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default="", metavar="SOURCE,TARGET", help="files of the training pairs, for run and updates")
    parser.add_argument("--dev", default="", metavar="SOURCE,TARGET", help="files to validate on; default: pairs held out")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to measure (%(default)s)")
    parser.add_argument("--sizes", default=",".join(TRAINED), help="models of the part sizes (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="training time of each loop of the part sizes (%(default)s)")
    parser.add_argument("--loop", action="append", default=[], help="loop of the part sizes; repeatable (all)")
    parser.add_argument("--minutes", type=float, default=10, help="no part begins later (%(default)s)")
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
    parser.add_argument("--device", default="cuda", help="device (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to test this script; the figures mean nothing")
    options = parser.parse_args(arguments)
    on_gpu = torch.device(options.device).type == "cuda"
    if on_gpu and not torch.cuda.is_available():
        sys.exit("there is no GPU that PyTorch can use; --tiny --device cpu tests the script")
    parts = options.parts.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        sys.exit(f"unknown parts: {', '.join(unknown)}; expected some of: {', '.join(PARTS)}")
    options.train, options.dev = (list(filter(None, each.split(","))) for each in (options.train, options.dev))
    began = time.perf_counter()
    found: dict[str, Any] = {"benchmark": "gpu", "torch": torch.__version__, "tiny": options.tiny}
    found["gpu"] = torch.cuda.get_device_name() if on_gpu else "none"
    if on_gpu and "sizes" in parts and not options.loop and not options.tiny:
        compile_ahead(options)  # before anything is timed
    for part in parts:
        minutes = (time.perf_counter() - began) / 60
        lacks = (
            "no --train" if part in NEED_FILES and not options.train else "no GPU" if part in NEED_GPU and not on_gpu else ""
        )
        if lacks or minutes > options.minutes:
            print(f"{part}: left out ({lacks or f'{minutes:.1f} minutes are over'})", flush=True)
            continue
        rows = found[part] = {}
        try:
            for name, row in globals()[f"measure_{part}"](options):
                rows[name] = row
                values = (f"{key} {value:,.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
                print(f"{name}: {'  '.join(values)}", flush=True)
        except Exception as error:  # the other parts of a session go on
            rows["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            print(f"{part}: {rows['error']}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
