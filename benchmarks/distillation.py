"""Compare students of several sizes, with and without teachers, which are scored on the dev pairs.

    python -m benchmarks.distillation --train train.en,train.de --dev val.en,val.de --work runs/distillation

Translators with different seeds are trained on the same pairs: they are the teachers, and also the baseline for students of
the same size. Students of the same size and of other widths learn from all teachers. Models of the other widths are also
trained without teachers. Complete runs in `--work` are used again, so an interrupted benchmark continues. The last line printed
is JSON.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.runs import add_options, print_table, row, score, train, weights


def main(arguments: list[str] | None = None) -> None:
    """Train and score the models, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument(
        "--width", type=int, action="append", default=[], metavar="N", help="width of further students; repeatable (64)"
    )
    parser.add_argument(
        "--weight", type=float, action="append", default=[], metavar="W", help="teachers' share of the loss; repeatable (0.5)"
    )
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
    print_table(options, rows)
    print(json.dumps({"benchmark": "distillation", "preset": options.preset, "models": rows}))


def ensemble_row(options: argparse.Namespace, folders: list[Path]) -> dict[str, Any]:
    """Return the scores of the ensemble of all teachers."""
    return {
        "model": "ensemble of all teachers",
        **score(options, folders),
        "bleu_deviation": None,
        "weights": weights(folders),
    }


if __name__ == "__main__":
    main()
