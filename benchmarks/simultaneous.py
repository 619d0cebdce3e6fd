"""BLEU against average lagging of wait-k translators (Ma et al. 2019), and of one that reads the whole sentence.

    python -m benchmarks.simultaneous --train multi30k/train.en,multi30k/train.de --test multi30k/val.en,multi30k/val.de

Without files, the built-in pairs are used. All models are Transformers with the settings that regard chooses from the data, and
search greedily; they differ only in `model.wait_k`. The last line printed is JSON.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import yaml

WAITS = (1, 3, 5, 7, 0)
"""Values of k; 0 for the model that reads the whole sentence, whose average lagging is the length of the source."""


def main(arguments: list[str] | None = None) -> None:
    """Train the models that are not in the folder yet, score them, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default="", metavar="FILES", help="sentence pairs (default: built-in pairs)")
    parser.add_argument("--test", default="", metavar="SOURCE,TARGET", help="two parallel files")
    parser.add_argument("--pairs", type=int, default=3_000, metavar="N", help="pairs to train on")
    parser.add_argument("--most", type=int, default=500, metavar="N", help="test pairs")
    parser.add_argument("--epochs", type=int, default=40, metavar="N")
    parser.add_argument("--wait", type=int, nargs="*", default=WAITS, metavar="K")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--set", nargs="*", default=(), metavar="NAME=VALUE", help="further settings of all runs")
    parser.add_argument("--work", metavar="DIR", help="folder for the runs; models in it are used again")
    parser.add_argument("--picture", metavar="FILE", help="picture of BLEU against average lagging (.png .svg .pdf)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(options.work or folder))
    for row in rows:
        name = f"wait-{row['wait_k']}" if row["wait_k"] else "whole sentence"
        print(f"{name:<16}{row['lagging']:>8.2f}{row['bleu']:>8.1f}{row['chrf']:>8.1f}")
    if options.picture:
        draw(rows, options.picture)
    print(json.dumps({"benchmark": "simultaneous", "pairs": options.pairs, "epochs": options.epochs, "models": rows}))


def measure(options: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    """Train and score a model for each k."""
    import regard

    work.mkdir(parents=True, exist_ok=True)
    if not options.train:
        from regard.demo import DemoCorpus

        DemoCorpus().write(work / "train.tsv", 0, options.pairs)
        test = list(DemoCorpus().pairs(options.pairs, options.pairs + options.most))
        train = [str(work / "train.tsv")]
    else:
        train = options.train.split(",")
        test = list(
            zip(*(Path(file).read_text(encoding="utf-8").splitlines() for file in options.test.split(",")), strict=True)
        )
    settings = {"data.train": train, "data.max_pairs": options.pairs, "data.source": "en", "data.target": "de"}
    settings |= {"model.kind": "transformer", "training.max_epochs": options.epochs, "training.tensorboard": False}
    settings |= {"threads": options.threads, "device": "cpu", "data.cache": str(work / "cache"), "decoding.beam_size": 1}
    settings |= {name: yaml.safe_load(value) for name, value in (each.split("=", 1) for each in options.set)}
    rows = []
    for k in options.wait:
        out = work / f"wait-{k}"
        if not (out / "README.md").exists():
            regard.fit(regard.choose_config("translation", {**settings, "model.wait_k": k, "out": str(out), "overwrite": True}))
        translator = regard.load(out, device="cpu")
        sources, targets = (list(side) for side in zip(*test[: options.most], strict=True))
        scores = translator.evaluate(sources, targets)
        _, offsets = translator.tokenizers.source.encode_batch(sources)
        lagging = getattr(scores, "average_lagging", float(offsets[-1]) / len(sources))
        rows.append({"wait_k": k, "lagging": lagging, "bleu": scores.bleu, "chrf": scores.chrf})
    return rows


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """Draw BLEU against average lagging."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    waiting, whole = [row for row in rows if row["wait_k"]], [row for row in rows if not row["wait_k"]]
    axes.plot([row["lagging"] for row in waiting], [row["bleu"] for row in waiting], "o-", color="#2a6f97", label="wait-k")
    for row in waiting:
        place = row["lagging"], row["bleu"]
        axes.annotate(f"k = {row['wait_k']}", place, xytext=(6, -12), textcoords="offset points", fontsize=9)
    for row in whole:
        axes.plot(row["lagging"], row["bleu"], "s", color="#9b2226", label="whole sentence")
    axes.set(xlabel="average lagging (source tokens)", ylabel="BLEU")
    axes.margins(0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=160)


if __name__ == "__main__":
    main()
