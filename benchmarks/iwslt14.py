"""Train on IWSLT 2014 German–English in the published setting, and score the test set as the papers do.

    python -m benchmarks iwslt14 --data iwslt14.tokenized.de-en [--reverse] [--set training.consistency.kind=sim_cut]

The folder holds what fairseq's script `prepare-iwslt14.sh` writes: `train`, `valid` and `test` with the endings `.de` and
`.en`, 160,239, 7,283 and 6,750 lines, tokenised and in lower case. Text that is already split into subwords ("un@@ related") is
joined first, because regard learns its own 10,000 subwords of both languages. The model is the preset `transformer-small`, with
the sizes of `transformer_iwslt_de_en`. BLEU is that of `multi-bleu.perl`: on the tokens of the files, with beam 5. `--set`
changes any setting; without a GPU, a whole run takes days. The last line printed is JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import sacrebleu

import regard

PARTS = ("train", "valid", "test")


def read_part(folder: Path, part: str, language: str) -> list[str]:
    """Return the lines of a file, with subwords joined to words."""
    path = folder / f"{part}.{language}"
    if not path.is_file():
        sys.exit(f"{path} is missing; --data needs {', '.join(PARTS)} with the endings .de and .en (prepare-iwslt14.sh)")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"{line} ".replace("@@ ", "").strip() for line in lines]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, translate the test set, and print its score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, metavar="FOLDER", help="folder with the six files")
    parser.add_argument("--reverse", action="store_true", help="translate from English to German")
    parser.add_argument("--out", default="", metavar="FOLDER", help="folder of the run (default: none is kept)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the run (%(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another setting; repeatable")
    options = parser.parse_args(arguments)
    sides = ("en", "de") if options.reverse else ("de", "en")
    texts = {(part, side): read_part(options.data, part, side) for part in PARTS for side in sides}
    for part in PARTS:
        if len({len(texts[part, side]) for side in sides}) > 1:
            sys.exit(f"{options.data}: {part}.de and {part}.en differ in their numbers of lines")
    with tempfile.TemporaryDirectory() as work:
        for (part, side), lines in texts.items():
            Path(work, f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        settings = {
            "data.train": [str(Path(work, f"train.{side}")) for side in sides],
            "data.dev": [str(Path(work, f"valid.{side}")) for side in sides],
            "data.source": sides[0],
            "data.target": sides[1],
            "data.cache": str(Path(work, "cache")),
            "data.max_tokens": 175,  # as in fairseq's script
            "out": options.out or str(Path(work, "run")),
            "seed": options.seed,
            **dict(one.split("=", 1) for one in options.set),
        }
        began = time.perf_counter()
        translator = regard.fit(regard.load_preset("transformer-small", settings))
        seconds = time.perf_counter() - began
        found = [one.text for one in translator.translate(texts["test", sides[0]], record=())]
    # The files are tokenised, and so are translations; sacrebleu must not split them again.
    bleu = sacrebleu.corpus_bleu(found, [texts["test", sides[1]]], tokenize="none", force=True)
    print(
        json.dumps(
            {
                "benchmark": "iwslt14",
                "direction": "→".join(sides),
                "settings": options.set,
                "seed": options.seed,
                "bleu_of_tokens": round(bleu.score, 2),
                "pairs": len(texts["train", "de"]),
                "training_s": round(seconds),
            },
            ensure_ascii=False,
        )
    )


if __name__ == "__main__":
    main()
