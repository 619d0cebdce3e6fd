"""Distillation: students of several sizes, with and without teachers, scored on dev pairs.

    python -m benchmarks.distillation --train train.en,train.de --dev val.en,val.de --work runs/distillation

Some translators with different seeds are trained on the same pairs: they are the teachers, and the baseline of their size.
Students of the same size and of other widths learn from all teachers, and models of the other widths are trained alone.
Complete runs in `--work` are used again, so an interrupted benchmark continues. The last line printed is JSON.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import regard


def main(arguments: list[str] | None = None) -> None:
    """Train the models, score them on the dev pairs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, metavar="SOURCE,TARGET", help="training pairs")
    parser.add_argument("--dev", required=True, metavar="SOURCE,TARGET", help="dev pairs")
    parser.add_argument("--test", metavar="SOURCE,TARGET", help="test pairs; give them once, when the choice is made")
    parser.add_argument("--work", required=True, metavar="DIR", help="folder of the runs")
    parser.add_argument("--preset", default="transformer-tiny", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="teachers, and runs of each row")
    parser.add_argument("--width", type=int, action="append", default=[], metavar="N", help="other widths of students; 64")
    parser.add_argument("--weight", type=float, action="append", default=[], metavar="W", help="shares of the teachers; 0.5")
    parser.add_argument("--updates", type=int, default=0, metavar="N", help="updates of each run; 0 for the preset's")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    options = parser.parse_args(arguments)
    work, seeds = Path(options.work), range(1, options.seeds + 1)
    teachers = [train(options, work / f"teacher-{seed}", seed) for seed in seeds]
    rows = [row(options, "teachers", teachers), ensemble_row(options, teachers)]
    sizes = [{"model.hidden_size": width, "model.feed_forward_size": 2 * width} for width in options.width or [64]]
    for size in [{}, *sizes]:
        name = f"width-{size['model.hidden_size']}" if size else "same-width"
        if size:
            rows.append(
                row(options, f"{name}, alone", [train(options, work / f"{name}-alone-{seed}", seed, **size) for seed in seeds])
            )
        for weight in options.weight or [0.5]:
            taught = {"distillation.teachers": [str(teacher) for teacher in teachers], "distillation.weight": weight}
            students = [train(options, work / f"{name}-{weight:g}-{seed}", seed, **size, **taught) for seed in seeds]
            rows.append(row(options, f"{name}, students, weight {weight:g}", students))
    print(f"{'':<36}{'weights':>12}{'BLEU':>8}{'chrF':>8}{'loss':>8}   (means over {options.seeds} seeds ± standard deviation)")
    for one in rows:
        spread = f"± {one['bleu_deviation']:.2f}" if one["bleu_deviation"] is not None else ""
        figures = f"{one['bleu']:>8.2f}{one['chrf']:>8.2f}{one['loss']:>8.3f}"
        print(f"{one['model']:<36}{one['weights']:>12,}{figures}   {spread}")
    print(json.dumps({"benchmark": "distillation", "preset": options.preset, "models": rows}))


def train(options: argparse.Namespace, out: Path, seed: int, **settings: Any) -> Path:
    """Return the folder of a run, which is trained or resumed if it is not complete."""
    if not (out / "signature.json").exists() or not json.loads((out / "signature.json").read_text())["finished"]:
        if (out / "checkpoints" / "run.json").exists():
            regard.resume(out)
        else:
            every = {"threads": options.threads, "device": "cpu", "training.tensorboard": False, "seed": seed, "out": str(out)}
            every |= {"data.train": options.train.split(","), "data.dev": options.dev.split(",")}
            every |= {"data.cache": str(Path(options.work) / "cache")}
            every |= {"training.max_steps": options.updates} if options.updates else {}
            regard.fit(regard.load_preset(options.preset, {**every, **settings}))
    return out


def row(options: argparse.Namespace, name: str, folders: list[Path]) -> dict[str, Any]:
    """Return the mean scores of some runs."""
    scores = [score(options, folder) for folder in folders]
    means: dict[str, Any] = {key: statistics.mean(one[key] for one in scores) for key in scores[0]}
    deviation = statistics.stdev([one["bleu"] for one in scores]) if len(scores) > 1 else None
    weights = sum(weight.numel() for weight in regard.load(folders[0], device="cpu").model.parameters())
    made = {"model": name, **means, "bleu_deviation": deviation, "weights": weights, "each": scores}
    print(made, file=sys.stderr, flush=True)
    return made


def ensemble_row(options: argparse.Namespace, folders: list[Path]) -> dict[str, Any]:
    """Return the scores of the average of all teachers."""
    weights = sum(weight.numel() for folder in folders for weight in regard.load(folder, device="cpu").model.parameters())
    return {"model": "all teachers, averaged", **score(options, folders), "bleu_deviation": None, "weights": weights}


def score(options: argparse.Namespace, folder: Path | list[Path]) -> dict[str, float]:
    """Score a model, or the average of several, with beam 5."""
    files = (options.test or options.dev).split(",")
    sources, targets = (Path(path).read_text(encoding="utf-8").splitlines() for path in files)
    found = regard.load(folder, device="cpu").evaluate(sources, targets, beam_size=5)
    return {"bleu": found.bleu, "chrf": found.chrf, "loss": found.loss}


if __name__ == "__main__":
    main()
