"""Alignment error of a small Transformer's attention, trained without known links and with links for half of the pairs.

python -m benchmarks.alignment [--pairs N] [--epochs N] [--seeds N]

Trains a model of the shape of preset `transformer-tiny` on the built-in English–German pairs. Then measures the attention of
every layer at both steps on held-out pairs that share no sentence with the training pairs; the decoder reads the reference
translations. Prints a table, then one JSON line.

1. Unguided: the site and the step are those with the lowest error on 500 other pairs with known links.
2. Guided (Garg et al. 2019): known links for the first half of the training pairs train one head of the second-last layer.
"""

import argparse
import json
import statistics
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Literal

import regard
from regard import evaluate_alignment
from regard.demo import DemoCorpus, DemoPair
from regard.presets import load_preset
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.predict import Translator

_HELD_OUT = 500
_FIRST_HELD_OUT = 58_000
_STEPS: tuple[Literal["produce", "consume"], ...] = ("produce", "consume")


def prepare(folder: Path, count: int) -> list[DemoPair]:
    """Write the pairs, and the links of the first half; return held-out pairs that share no sentence with the written pairs."""
    corpus = DemoCorpus(seed=1)
    corpus.write(folder / "pairs.tsv", stop=count, alignments=folder / "all.links")
    with (folder / "all.links").open(encoding="utf-8") as lines, (folder / "half.links").open("w", encoding="utf-8") as half:
        half.writelines(islice(lines, count // 2))
    return [corpus[index] for index in range(_FIRST_HELD_OUT, _FIRST_HELD_OUT + 2 * _HELD_OUT)]


def train(folder: Path, *, epochs: int, seed: int, guided: bool) -> Translator:
    """Train on the pairs; if `guided`, also with the known links of the first half."""
    settings = {
        "data.train": [str(folder / "pairs.tsv")],
        "data.source": "en",
        "data.target": "de",
        "data.cache": str(folder / "cache"),
        "data.alignments": str(folder / "half.links") if guided else "",
        "tokenizers.source": {"kind": "words"},
        "tokenizers.target": {"kind": "words"},
        "tokenizers.joint": False,
        "model.tie_embeddings": "target",
        "model.norm_order": "pre",
        "model.positions": "sinusoidal",
        "model.alignment_head": 0 if guided else -1,
        "model.embedding_dropout": 0.1,
        "model.layer_dropout": 0.1,
        "training.max_epochs": epochs,
        "training.max_steps": 0,
        "training.batch_tokens": 2048,
        "training.optimizer": "adam",
        "training.learning_rate": 2e-3,
        "training.weight_decay": 0.0,
        "training.clip_norm": 0.0,
        "training.validate_every": 0,
        "training.schedule": {"kind": "linear_decay", "warmup_steps": 100},
        "training.average_last": 1,
        "training.tensorboard": False,
        "out": str(folder / f"run-{seed}-{guided}"),
        "seed": seed,
        "device": "cpu",
    }
    config = load_preset("transformer-tiny", settings)
    assert isinstance(config, TranslationConfig)
    return regard.fit(config)


def errors_of(translator: Translator, held_out: list[DemoPair]) -> dict[str, float]:
    """Return the alignment error rate of each site and step."""
    sources, targets = [pair.source for pair in held_out], [pair.target for pair in held_out]
    sure, possible = [pair.alignment for pair in held_out], [pair.possible for pair in held_out]
    words = [(pair.source_words, pair.target_words) for pair in held_out]
    sites = [site for site in translator.model.sites if site.startswith(("cross", "norm"))]
    return {
        f"{site} {step}": evaluate_alignment(translator, sources, targets, sure, possible, words=words, site=site, step=step)
        for site in sites
        for step in _STEPS
    }


def choose(errors: dict[str, float]) -> str:
    """Return the site and the step with the lowest error."""
    return min(errors, key=errors.__getitem__)


def main(arguments: list[str]) -> None:
    """Train and score the models, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args(arguments)
    found: dict[str, list[dict[str, float]]] = {"unguided": [], "guided": []}
    chosen: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        held_out = prepare(folder, options.pairs)
        for seed in range(1, options.seeds + 1):
            for kind, errors in found.items():
                model = train(folder, epochs=options.epochs, seed=seed, guided=kind == "guided")
                errors.append(errors_of(model, held_out[_HELD_OUT:]))
                if kind == "unguided":
                    chosen.append(choose(errors_of(model, held_out[:_HELD_OUT])))
    means = {kind: {at: statistics.mean(one[at] for one in errors) for at in errors[0]} for kind, errors in found.items()}
    for at in means["unguided"]:
        print(f"{at:18} unguided {means['unguided'][at]:.3f}   guided {means['guided'][at]:.3f}", file=sys.stderr)
    print(
        json.dumps(
            {
                "benchmark": "alignment",
                "pairs": options.pairs,
                "epochs": options.epochs,
                "seeds": options.seeds,
                "unguided": {"at": chosen, "error": [one[at] for one, at in zip(found["unguided"], chosen, strict=True)]},
                "guided": {"at": "cross produce", "error": [one["cross produce"] for one in found["guided"]]},
                "all": means,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
