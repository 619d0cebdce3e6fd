"""Compare a preset with variants of it, which are trained on the same pairs and scored on the dev pairs.

    python -m benchmarks.variants --train train.en,train.de --dev val.en,val.de --work runs/variants \\
        --variant model.heads.qk_norm=true --variant model.norm=rms,model.feed_forward=swiglu

Each `--variant` is one row of the table; commas separate its settings. The first row is the preset itself. Complete runs in
`--work` are used again, so an interrupted benchmark continues. The last line printed is JSON.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import yaml

from benchmarks.runs import add_options, print_table, row, train


def main(arguments: list[str] | None = None) -> None:
    """Train and score the preset and its variants, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=VALUE[,NAME=VALUE]", help="settings of a row")
    options = parser.parse_args(arguments)
    rows = [measure(options, text) for text in ["", *options.variant]]
    print_table(options, rows)
    print(json.dumps({"benchmark": "variants", "preset": options.preset, "updates": options.updates, "models": rows}))


def measure(options: argparse.Namespace, text: str) -> dict[str, Any]:
    """Train the preset with the settings of one row, once for each seed, and return the mean scores."""
    settings = {name: yaml.safe_load(value) for name, _, value in (one.partition("=") for one in text.split(",") if one)}
    folder = re.sub(r"[^a-z0-9_.-]+", "-", text.lower()) or "preset"
    runs = [train(options, Path(options.work) / f"{folder}-{seed}", seed, **settings) for seed in range(1, options.seeds + 1)]
    return row(options, text or options.preset, runs)


if __name__ == "__main__":
    main()
