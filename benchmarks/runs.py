"""Train the translators that several benchmarks compare, and print their scores in a table.

Runs that were interrupted are resumed, and complete runs are used again.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import regard


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the data, the folder and the length of training."""
    parser.add_argument("--train", required=True, metavar="SOURCE,TARGET", help="files of the training pairs")
    parser.add_argument("--dev", required=True, metavar="SOURCE,TARGET", help="files of the dev pairs")
    parser.add_argument(
        "--test",
        metavar="SOURCE,TARGET",
        help="files of test pairs, scored instead of the dev pairs; use them once, after you have chosen the settings",
    )
    parser.add_argument(
        "--work",
        required=True,
        metavar="DIR",
        help="folder of the runs; complete runs are used again, so name another folder for other data, preset or updates",
    )
    parser.add_argument("--preset", default="transformer-tiny", metavar="NAME", help="preset of all runs (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="number of runs for each row (%(default)s)")
    parser.add_argument("--updates", type=int, default=0, metavar="N", help="maximum updates of a run; 0 for the preset's")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="CPU threads (%(default)s)")
    parser.add_argument("--device", default="cpu", help="device of the trainings (%(default)s)")


def train(options: argparse.Namespace, out: Path, seed: int, **settings: Any) -> Path:
    """Train or resume a run if it is not complete, and return its folder."""
    if not (out / "signature.json").exists() or not json.loads((out / "signature.json").read_text())["finished"]:
        if (out / "checkpoints" / "run.json").exists():
            regard.resume(out)
        else:
            every = {
                "threads": options.threads,
                "device": options.device,
                "training.tensorboard": False,
                "seed": seed,
                "out": str(out),
            }
            every |= {"data.train": options.train.split(","), "data.dev": options.dev.split(",")}
            every |= {"data.cache": str(Path(options.work) / "cache")}
            every |= {"training.max_steps": options.updates} if options.updates else {}
            regard.fit(regard.load_preset(options.preset, {**every, **settings}))
    return out


def row(options: argparse.Namespace, name: str, folders: list[Path]) -> dict[str, Any]:
    """Return the mean scores of the runs of one row, and print them as progress."""
    scores = [score(options, folder) for folder in folders]
    means: dict[str, Any] = {key: statistics.mean(one[key] for one in scores) for key in scores[0]}
    deviation = statistics.stdev([one["bleu"] for one in scores]) if len(scores) > 1 else None
    made = {"model": name, **means, "bleu_deviation": deviation, "weights": weights(folders[:1]), "each": scores}
    print(made, file=sys.stderr, flush=True)
    return made


def score(options: argparse.Namespace, folder: Path | list[Path]) -> dict[str, float]:
    """Score a model, or an ensemble of several, with beam 5: on the test pairs if they are given, else on the dev pairs."""
    files = (options.test or options.dev).split(",")
    sources, targets = (Path(path).read_text(encoding="utf-8").splitlines() for path in files)
    found = regard.load(folder, device="cpu").evaluate(sources, targets, beam_size=5)
    return {"bleu": found.bleu, "chrf": found.chrf, "loss": found.loss}


def weights(folders: list[Path]) -> int:
    """Return the total number of weights of some models."""
    return sum(weight.numel() for folder in folders for weight in regard.load(folder, device="cpu").model.parameters())


def print_table(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Print the table, with one line for each row."""
    seeds = f"means over {options.seeds} seeds; ± is the standard deviation of BLEU" if options.seeds > 1 else "one seed"
    print(f"{'':<44}{'weights':>12}{'BLEU':>8}{'chrF':>8}{'loss':>8}   ({seeds})")
    for one in rows:
        spread = f"± {one['bleu_deviation']:.2f}" if one["bleu_deviation"] is not None else ""
        figures = f"{one['bleu']:>8.2f}{one['chrf']:>8.2f}{one['loss']:>8.3f}"
        print(f"{one['model']:<44}{one['weights']:>12,}{figures}   {spread}")
