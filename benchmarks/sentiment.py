"""Accuracy of classifier presets on a test file: mean and standard deviation over several seeds, and seconds of training.

    python -m benchmarks.sentiment --train train.tsv --test dev.tsv [--presets bag,bilstm] [--seeds 5]

The settings of the presets were chosen without the test file, and each trained model is scored on it once. The last line
printed is JSON.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from regard.presets import load_preset
from regard.tasks.classification.config import ClassificationConfig

PRESETS = ("tutorial-bilstm", "bilstm", "bag", "transformer", "hierarchical")


def main(arguments: list[str] | None = None) -> None:
    """Train and score each preset, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, metavar="FILE", help="labelled texts for training and validation")
    parser.add_argument("--test", required=True, metavar="FILE", help="labelled texts for the scores")
    parser.add_argument("--presets", default=",".join(PRESETS), metavar="NAMES", help="names with commas between (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads (default: all cores)")
    options = parser.parse_args(arguments)
    found = {preset: measure(preset, options) for preset in options.presets.split(",")}
    print(f"\n{'preset':<18}{'mean':>8}{'± sd':>8}{'seconds':>10}   each seed")
    for preset, row in found.items():
        each = " ".join(f"{100 * value:.2f}" for value in row["accuracy"])
        print(f"{preset:<18}{100 * row['mean']:>8.2f}{100 * row['spread']:>8.2f}{max(row['seconds']):>10.1f}   {each}")
    print(json.dumps({"benchmark": "sentiment", "test": Path(options.test).name, "presets": found}))


def measure(preset: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train a preset with each seed, and score it."""
    from regard.task import Files
    from regard.tasks.classification.commands import read_given_texts
    from regard.training import fit

    accuracy, seconds = [], []
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            settings = {
                "data.train": [options.train],
                "out": str(Path(folder, "run")),
                "seed": seed,
                "threads": options.threads,
                "training.tensorboard": False,
            }
            config = load_preset(preset, settings)
            assert isinstance(config, ClassificationConfig)
            start = time.perf_counter()
            classifier = fit(config, progress=False)
            seconds.append(round(time.perf_counter() - start, 2))
            texts, labels = read_given_texts(Files(options.test), classifier)
            accuracy.append(classifier.evaluate(texts, labels).accuracy)
        print(f"{preset}, seed {seed}: {accuracy[-1]:.2%} after {seconds[-1]:.1f} s", file=sys.stderr, flush=True)
    return {
        "accuracy": accuracy,
        "mean": statistics.mean(accuracy),
        "spread": statistics.stdev(accuracy) if len(accuracy) > 1 else 0.0,
        "seconds": seconds,
        "cores": options.threads or os.cpu_count(),
    }


if __name__ == "__main__":
    main()
