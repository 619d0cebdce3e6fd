"""Measure how many invented names are copied, on the built-in pairs with names that occur nowhere else.

    python -m benchmarks.copying --work runs/copying --picture docs/_static/copying.png

The names of the built-in English–German pairs (Anna, Paul, …) are replaced by invented ones, a new one in each pair, so that no
name of the test pairs is in training. Translators with and without `model.copy` are trained on the same pairs, and translate
test pairs with names. The last line printed is JSON.
"""

import argparse
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import regard
from regard.demo import DemoCorpus
from regard.presets import load_preset
from regard.tasks.translation.predict import Translator

_KNOWN = re.compile(r"\b(Anna|Julia|Maria|Paul|Peter|Thomas)\b")
_SYLLABLES = [first + second for first in "bdfklmnrstv" for second in "aeio"]
_FIRST_TEST = 50_000


class NamedPair(NamedTuple):
    """A pair, and the invented name in it; an empty text if there is none."""

    source: str
    target: str
    name: str


def named_pairs(start: int, stop: int, *, seed: int = 1) -> Iterator[NamedPair]:
    """Yield the built-in pairs from `start` to `stop` − 1 with invented names, each of which occurs in one pair only."""
    corpus = DemoCorpus()
    for number in range(start, stop):
        source, target = corpus.text(number)
        known = set(_KNOWN.findall(source)) & set(_KNOWN.findall(target))
        name = invent(number, seed) if len(known) == 1 else ""
        yield NamedPair(*(_KNOWN.sub(name, text) if name else text for text in (source, target)), name)


def invent(number: int, seed: int) -> str:
    """Return a name of five syllables, another one for each number: of 44⁵ names, hardly any is drawn twice."""
    return "".join(random.Random(f"{seed} {number}").choices(_SYLLABLES, k=5)).capitalize()


def fit(work: Path, options: argparse.Namespace, *, copy: bool) -> Translator:
    """Train a translator, or load the one that is there."""
    out = work / ("copying" if copy else "plain")
    if (out / "model.safetensors").exists():
        return regard.load(out, "cpu")
    settings = {
        "data.train": [str(work / "train.tsv")],
        "data.dev_size": 200,
        "tokenizers.source.min_count": 2,
        "tokenizers.target.min_count": 2,
        "model.copy": copy,
        "training.max_epochs": options.epochs,
        "training.validation_pairs": 50,
        "device": "cpu",
        "out": str(out),
    }
    return regard.fit(load_preset(options.preset, settings))


def main(arguments: list[str] | None = None) -> None:
    """Train both models, count the names that they copy, and draw a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="runs/copying", help="folder of the models (runs/copying)")
    parser.add_argument("--preset", default="demo", help="preset of the models (demo)")
    parser.add_argument("--pairs", type=int, default=12_000, help="number of training pairs (12,000)")
    parser.add_argument("--epochs", type=int, default=3, help="number of epochs (3)")
    parser.add_argument("--names", type=int, default=500, help="number of test pairs, all with a name (500)")
    parser.add_argument("--picture", help="file of the picture of a translation with a name")
    options = parser.parse_args(arguments)
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    pairs = list(named_pairs(0, options.pairs))
    lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    (work / "train.tsv").write_text(lines, encoding="utf-8")
    test = [pair for pair in named_pairs(_FIRST_TEST, len(DemoCorpus())) if pair.name][: options.names]
    assert {pair.name for pair in pairs}.isdisjoint(pair.name for pair in test)
    results = {}
    for copy in (True, False):
        begin = time.perf_counter()
        translator = fit(work, options, copy=copy)
        seconds = time.perf_counter() - begin
        found = translator.translate([pair.source for pair in test], record=())
        copied = sum(pair.name in one.text for pair, one in zip(test, found, strict=True))
        bleu = translator.evaluate(*zip(*[pair[:2] for pair in test], strict=True)).bleu
        results["copy" if copy else "plain"] = {"copied": copied / len(test), "bleu": bleu, "seconds": seconds}
        print(f"model.copy {copy}: {copied / len(test):.1%} of {len(test)} names, BLEU {bleu:.1f}")
        if copy and options.picture:
            [one] = translator.translate(["Zurabo sees the old man."])
            assert one.attention is not None
            one.attention.save(options.picture)
    print(json.dumps({"benchmark": "copying", "pairs": options.pairs, "preset": options.preset, **results}))


if __name__ == "__main__":
    main()
