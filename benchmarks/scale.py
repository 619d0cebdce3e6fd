"""Preparing many sentence pairs, training on them, and translating many lines: speed and memory.

    python -m benchmarks.scale --pairs 5000000
    python -m benchmarks.scale --pairs 10000000 --steps 200 --lines 1000000

Writes generated pairs to a file and prepares the file in a new process. A second process trains a model of the default size for
100 updates, and validates it by its loss on 1,000 held-out pairs. With `--lines`, a third process translates that number of
sources with this model, greedily and with at most 20 words each. Every 50 ms, the anonymous memory of each process and of its
children is read (RssAnon in /proc/PID/status, which does not include memory-mapped files). Progress goes to standard error, and
one JSON line goes to standard output: prepared pairs per second (from the file to prepared data on disk, without imports), and
the peak of each process in megabytes of 10⁶ bytes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.rival import say
from regard.config import DataConfig
from regard.errors import RegardError
from regard.tasks.translation.config import TranslationConfig, TranslationTrainingConfig

EVERY = 0.05
"""Seconds between two measurements of the memory."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, or one step of it."""
    parser = argparse.ArgumentParser("benchmarks.scale", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000, metavar="N", help="number of pairs (%(default)s)")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="training updates (%(default)s)")
    parser.add_argument("--lines", type=int, default=0, metavar="N", help="lines to translate; 0 for none (%(default)s)")
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="threads of the last two steps; 0 for all cores (%(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="folder for all files, which are kept (default: a temporary folder)")
    parser.add_argument("--step", choices=("prepare", "train", "translate"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        print(json.dumps(run_step(options)))
        return
    try:
        if options.folder:
            options.folder.mkdir(parents=True, exist_ok=True)
            print(json.dumps(measure(options)))
        else:
            with tempfile.TemporaryDirectory(prefix="regard-scale-") as folder:
                options.folder = Path(folder)
                print(json.dumps(measure(options)))
    except RegardError as error:
        sys.exit(f"error: {error}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write pairs, prepare them, train on them, and translate.

    Raises:
        RegardError: If a step fails, this system cannot measure memory, or there are fewer pairs than lines.
    """
    if not 0 <= options.lines <= options.pairs:
        raise RegardError(f"--lines {options.lines:,}: expected 0 to {options.pairs:,}, which is --pairs")
    if not Path("/proc/self/status").exists():
        raise RegardError("this system has no /proc, from which memory is read; run the benchmark on Linux")
    from tools.corpora.pairs import GeneratedPairs

    say(f"writing {options.pairs:,} pairs")
    begin = time.perf_counter()
    GeneratedPairs().write(options.folder / "pairs.tsv", options.pairs)
    written = time.perf_counter() - begin
    numbers = {name: getattr(options, name) for name in ("pairs", "steps", "lines", "threads", "folder")}
    shared = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    steps = {}
    for name in ("prepare", "train", "translate") if options.lines else ("prepare", "train"):
        say(f"{name}: begins")
        steps[name] = run_watched([sys.executable, "-m", "benchmarks.scale", "--step", name, *shared])
        say(f"{name}: {json.dumps(steps[name])}")
    return {
        "benchmark": "scale",
        "pairs": options.pairs,
        "pairs_per_second": options.pairs / steps["prepare"]["seconds"],
        "peak_mb": {name: max(step["peaks_mb"], default=0.0) for name, step in steps.items()},
        "writing_seconds": written,
        "steps": steps,
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
    }


def run_step(options: argparse.Namespace) -> dict[str, Any]:
    """Run one step, in a process of its own, and return its results."""
    config = _config(options)
    match options.step:
        case "prepare":
            return _prepare(config)
        case "train":
            return _train(config)
    return _translate(config, options.lines)


def _config(options: argparse.Namespace) -> TranslationConfig:
    return TranslationConfig(
        data=DataConfig(
            train=(str(options.folder / "pairs.tsv"),), source="en", target="de", cache=str(options.folder / "prepared")
        ),
        training=TranslationTrainingConfig(max_steps=options.steps, validation_pairs=0, monitor="loss"),
        out=str(options.folder / "run"),
        overwrite=True,
        device="cpu",
        threads=options.threads,
    )


def _prepare(config: TranslationConfig) -> dict[str, Any]:
    from regard.text.pairs.prepare import PairSchema
    from regard.text.preparation import prepare_data

    begin = time.perf_counter()
    data = prepare_data(PairSchema(config.data, config.tokenizers), seed=config.seed)
    return {"seconds": time.perf_counter() - begin, "kept": len(data.train) + len(data.dev)}


def _train(config: TranslationConfig) -> dict[str, Any]:
    import regard
    from regard.training.folder import RunFolder

    begin = time.perf_counter()
    regard.fit(config)
    state, _ = RunFolder(config.out).load_checkpoint()
    assert state is not None
    return {"seconds": time.perf_counter() - begin, "updates": state["progress"]["step"]}


def _translate(config: TranslationConfig, wanted: int) -> dict[str, Any]:
    import torch

    import regard

    if config.threads:
        torch.set_num_threads(config.threads)
    translator = regard.load(config.out, device="cpu")
    assert isinstance(translator, regard.Translator)
    begin, words = time.perf_counter(), 0
    with (
        open(config.data.train[0], encoding="utf-8") as pairs,
        open(Path(config.out, "translated"), "w", encoding="utf-8") as out,
    ):
        lines = (line.split("\t")[0] for line in islice(pairs, wanted))
        for translation in translator.translate_stream(lines, beam_size=1, max_length=20, record=()):
            out.write(f"{translation.text}\n")
            words += len(translation.text.split())
    return {"seconds": time.perf_counter() - begin, "lines": wanted, "words": words}


def run_watched(command: Sequence[str]) -> dict[str, Any]:
    """Run a command. Return the JSON of its last line, with the memory peak of each of its processes (the command's own first).

    Raises:
        RegardError: If the command fails.
    """
    peaks: dict[int, int] = {}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as sink:
        process = subprocess.Popen(command, stdout=sink)
        try:
            while process.poll() is None:
                for pid in family(process.pid):
                    peaks[pid] = max(peaks.get(pid, 0), anonymous_memory(pid))
                time.sleep(EVERY)
        finally:
            process.kill()
        sink.seek(0)
        printed = sink.read().strip().splitlines()
    if process.returncode or not printed:
        raise RegardError(f"`{' '.join(command)}` failed with exit code {process.returncode}; its output is above")
    return {**json.loads(printed[-1]), "peaks_mb": [round(peak / 1e6, 1) for peak in peaks.values()]}


def family(pid: int) -> list[int]:
    """Return the ids of a process and of its descendants that are still alive."""
    found = [pid]
    for parent in found:
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in path.read_text().split()]
            except OSError:
                continue  # it has just ended
    return found


def anonymous_memory(pid: int) -> int:
    """Return the anonymous memory of a process in bytes; 0 if the process has just ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:")), 0)


if __name__ == "__main__":
    main()
