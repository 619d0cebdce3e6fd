"""Training in one process and in two: speed, processor time, and the time that the processes need to communicate.

    python -m benchmarks.scaling --preset transformer-tiny

Makes the same updates, on the same joint batches of built-in pairs, in one process with one thread, in one process with two
threads, and in two processes with one thread each (torchrun, gloo, the loopback network). For each, measures words per second
of elapsed time, and processor seconds per 1,000 words of all processes together, which other programs affect little. Then
measures how long gloo takes to sum as many numbers as the model has weights, and three numbers. The first updates are not
counted. Prints one JSON line to standard output.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.rival import say
from regard.config import DataConfig
from regard.config.loading import load_config
from regard.errors import RegardError
from regard.processes.ranks import read_ranks

LEFT_OUT = 5
"""Updates at the beginning that are not counted."""
WAYS = ((1, 1), (1, 2), (2, 1))
"""Number of processes, and number of threads of each."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, or one step of it in each process."""
    parser = argparse.ArgumentParser("benchmarks.scaling", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="transformer-tiny", metavar="NAME", help="preset of the model (%(default)s)")
    parser.add_argument("--pairs", type=int, default=20_000, metavar="N", help="built-in pairs (%(default)s)")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="updates (%(default)s)")
    parser.add_argument("--tokens", type=int, default=4096, metavar="N", help="tokens in a joint batch (%(default)s)")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=("train", "talk"), help=argparse.SUPPRESS)
    parser.add_argument("--weights", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        {"train": _train, "talk": _talk}[options.step](options)
        return
    try:
        with tempfile.TemporaryDirectory(prefix="regard-scaling-") as folder:
            options.folder = Path(folder)
            print(json.dumps(measure(options)))
    except RegardError as error:
        sys.exit(f"error: {error}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train with each number of processes and threads, and measure the communication of two processes.

    Raises:
        RegardError: If a step fails.
    """
    from tools.corpora.pairs import GeneratedPairs

    GeneratedPairs().write(options.folder / "pairs.tsv", options.pairs)
    found: dict[str, Any] = {"benchmark": "scaling", "preset": options.preset, "tokens": options.tokens, "steps": options.steps}
    for processes, threads in WAYS:
        each = _launch(options, processes, "train", "--threads", threads)
        words = each[0]["words"]
        name = f"{processes} process{'es' * (processes > 1)}, {threads} thread{'s' * (threads > 1)}"
        found[name] = {
            "words_per_second": round(words / max(one["seconds"] for one in each), 1),
            "processor_seconds_per_1000_words": round(1000 * sum(one["processor"] for one in each) / words, 4),
            "load_average": round(os.getloadavg()[0], 2),
        }
        found["weights"] = each[0]["weights"]
        say(f"{name}: {json.dumps(found[name])}")
    found["milliseconds_to_add_up"] = _launch(options, 2, "talk", "--weights", found["weights"])[0]
    return found | {"cores": len(os.sched_getaffinity(0))}


def _launch(options: argparse.Namespace, processes: int, step: str, *more: object) -> list[dict[str, Any]]:
    """Run a step in several processes, and return the results of each."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    for name in ("preset", "pairs", "steps", "tokens", "folder"):
        more = (*more, f"--{name}", getattr(options, name))
    command += ["-m", "benchmarks.scaling", "--step", step, *map(str, more)]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise RegardError(f"`{' '.join(command)}` failed; its output is above")
    return [json.loads((options.folder / f"{rank}.json").read_text()) for rank in range(processes)]


def _train(options: argparse.Namespace) -> None:
    import regard
    from regard.presets import preset_layer
    from regard.training.updater import Update, Updater

    config = load_config({"task": "translation"}, preset_layer(options.preset))
    training = replace(
        config.training,
        max_steps=options.steps,
        max_epochs=1000,
        batch_tokens=options.tokens,
        batch_sentences=0,
        accumulate=1,
        validate_every=10 * options.steps,
        validation_pairs=0,
        monitor="loss",
        precision="float32",
        tensorboard=False,
    )
    data = DataConfig(train=(str(options.folder / "pairs.tsv"),), source="en", target="de", cache=str(options.folder / "cache"))
    config = replace(config, data=data, training=training, out=str(options.folder / "run"), overwrite=True, device="cpu")
    seen: list[tuple[float, float, int]] = []
    inner = Updater.make

    def make(self: Updater, update: Update) -> None:
        inner(self, update)
        seen.append((time.perf_counter(), time.process_time(), self._run.progress.count))

    Updater.make = make  # type: ignore[method-assign]
    made = regard.fit(replace(config, threads=options.threads), progress=False)
    begin, end = seen[LEFT_OUT], seen[-1]
    found = {"seconds": end[0] - begin[0], "processor": end[1] - begin[1], "words": end[2] - begin[2]}
    found["weights"] = sum(parameter.numel() for parameter in made.model.parameters())
    (options.folder / f"{read_ranks().rank}.json").write_text(json.dumps(found))


def _talk(options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    for size in (3, options.weights):
        numbers, times = torch.ones(size), []
        for _ in range(20):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(numbers)
            times.append(time.perf_counter() - begin)
        found[f"{size} numbers"] = round(1000 * sorted(times)[len(times) // 2], 3)
    (options.folder / f"{read_ranks().rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
