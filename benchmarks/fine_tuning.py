"""Fine-tuning compared with training from scratch on few pairs: BLEU and chrF on pairs that no model has seen.

    python -m benchmarks.fine_tuning --base multi30k/train.en,multi30k/train.de --pairs tatoeba/deu.txt

A translator learns from the first pairs of one corpus and is then fine-tuned on the first pairs of another (`--from`). Two
other translators learn from the second corpus alone: one with the settings that regard chooses, like the first translator,
and one with preset `luong` and Adam. Test pairs are spread over the rest of the second corpus, and share no source and no
target with its first pairs. The last line printed is JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from regard.presets import load_preset
from regard.tasks.translation.config import TranslationConfig

ALONE_EPOCHS = 40
"""Epochs of preset `luong` from scratch; the epoch with the best BLEU on a tenth of the pairs is kept."""
ADAM = {"training.optimizer": "adam", "training.learning_rate": 2e-3, "training.weight_decay": 0.0}


def main(arguments: list[str] | None = None) -> None:
    """Train the models, score their translations, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="SOURCE,TARGET", help="corpus that the model is first trained on")
    parser.add_argument("--pairs", required=True, metavar="FILE", help="corpus for fine-tuning, tab-separated")
    parser.add_argument("--base-pairs", type=int, default=20_000, metavar="N")
    parser.add_argument("--few", type=int, default=2_000, metavar="N", help="pairs to fine-tune on")
    parser.add_argument("--test", type=int, default=1_000, metavar="N", help="test pairs")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--work", metavar="DIR", help="folder for the runs; a base model in it is used again")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(options, Path(options.work or folder))
    for row in rows:
        print(f"{row['model']:<44}{row['bleu']:>7.1f}{row['chrf']:>7.1f}{row['seconds']:>8.0f} s")
    print(json.dumps({"benchmark": "fine_tuning", "base_pairs": options.base_pairs, "pairs": options.few, "models": rows}))


def compare(options: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    """Train the models, and score each on the test pairs."""
    import regard

    work.mkdir(parents=True, exist_ok=True)
    train, test = split_pairs(read_pairs(options.pairs), options.few, options.test)
    file = work / "few.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in train), encoding="utf-8")
    every = {"threads": options.threads, "device": "cpu", "training.tensorboard": False, "data.cache": str(work / "cache")}
    every |= {"data.source": "en", "data.target": "de"}
    few = {**every, "data.train": [str(file)], "overwrite": True}
    base_data = {"data.train": options.base.split(","), "data.max_pairs": options.base_pairs}
    rows, base = [], work / "base"
    if not (base / "signature.json").exists():
        regard.fit(regard.choose_config("translation", {**every, **base_data, "out": str(base)}))
    rows.append(score("the base, not fine-tuned", regard.load(base, device="cpu"), test, 0.0))
    models = {
        "from scratch, settings chosen": lambda: regard.choose_config("translation", {**few, "out": str(work / "chosen")}),
        "from scratch, preset luong with Adam": lambda: luong(
            {**few, **ADAM, "training.max_epochs": ALONE_EPOCHS, "out": str(work / "luong")}
        ),
        "fine-tuned": lambda: {**few, "out": str(work / "tuned")},
        "fine-tuned, encoder frozen": lambda: {**few, "out": str(work / "frozen"), "model.freeze": ["encoder"]},
    }
    for name, config in models.items():
        start = time.perf_counter()
        settings = config()
        model = regard.fit(settings, start_from=base) if isinstance(settings, dict) else regard.fit(settings)
        rows.append(score(name, model, test, time.perf_counter() - start))
    return rows


def luong(settings: dict[str, Any]) -> TranslationConfig:
    """Return the preset with some settings."""
    config = load_preset("luong", settings)
    assert isinstance(config, TranslationConfig)
    return config


def read_pairs(path: str) -> list[tuple[str, str]]:
    """Read tab-separated pairs; skip lines without two texts."""
    lines = (line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines())
    return [(line[0].strip(), line[1].strip()) for line in lines if len(line) >= 2 and any(map(str.isalpha, line[0]))]


def split_pairs(pairs: list[tuple[str, str]], few: int, test: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the first pairs, and test pairs at equal distances in the rest that share no source and no target with them."""
    train = list(dict.fromkeys(pairs))[:few]
    sources, targets = ({pair[side].casefold() for pair in train} for side in (0, 1))
    rest = {
        source: (source, target)
        for source, target in pairs
        if source.casefold() not in sources and target.casefold() not in targets
    }
    left = list(rest.values())
    return train, [left[place * len(left) // test] for place in range(min(test, len(left)))]


def score(name: str, model: Any, test: list[tuple[str, str]], seconds: float) -> dict[str, Any]:
    """Translate the test pairs with beam 5, and score the translations with sacrebleu."""
    from sacrebleu.metrics import BLEU, CHRF

    found = [one.text for one in model.translate([source for source, _ in test], beam_size=5, record=())]
    gold = [[target for _, target in test]]
    row = {"model": name, "bleu": BLEU().corpus_score(found, gold).score, "chrf": CHRF().corpus_score(found, gold).score}
    print({**row, "seconds": seconds}, file=sys.stderr, flush=True)
    return {**row, "seconds": round(seconds, 1)}


if __name__ == "__main__":
    main()
