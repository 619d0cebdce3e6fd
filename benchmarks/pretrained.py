"""Classifiers with a pretrained encoder against others, by number of training texts. Prints one JSON line for each model.

logistic   scikit-learn's logistic regression of the mean of the frozen encoder's states, with length 1
combined   the classifier that regard chooses without an encoder
setfit     SetFit's two steps on the same encoder, with 20 pairs of the same label and 20 of different labels
           for each text (needs the packages setfit and datasets)
frozen, lora, whole   a pretrained encoder with this `model.encoder.tuning`, with the settings that regard chooses

python -m benchmarks.pretrained --encoder FOLDER --train train.tsv --dev dev.tsv [--texts 100 500 0] [--models combined whole]
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.tasks.requests import pad

MODELS = ("logistic", "setfit", "combined", "frozen", "lora", "whole")
Rows = list[tuple[str, str]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and score each model with each number of texts."""
    parser = argparse.ArgumentParser(
        "benchmarks.pretrained", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--encoder", required=True, metavar="FOLDER", help="encoder in the format of transformers")
    parser.add_argument("--train", type=Path, required=True, metavar="FILE", help="lines of a text, a tab and a label")
    parser.add_argument("--dev", type=Path, required=True, metavar="FILE", help="texts to score on, in the same form")
    parser.add_argument("--texts", type=int, nargs="+", default=[100, 500], help="numbers of texts; 0 for all (%(default)s)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="models to train (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed that draws the texts (%(default)s)")
    options = parser.parse_args(arguments)
    train, dev = (_read(path) for path in (options.train, options.dev))
    for number in options.texts:
        rows = _draw(train, number, options.seed)
        for name in options.models:
            with tempfile.TemporaryDirectory(prefix="regard-pretrained-") as folder:
                begin = time.process_time()
                accuracy = _score(name, rows, dev, options.encoder, Path(folder))
                seconds = round(time.process_time() - begin, 1)
            print(
                json.dumps({"model": name, "texts": len(rows), "accuracy": accuracy, "processor_seconds": seconds}), flush=True
            )


def _read(path: Path) -> Rows:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(text, label) for text, _, label in (line.rpartition("\t") for line in lines)]


def _draw(rows: Rows, number: int, seed: int) -> Rows:
    """Draw the same number of texts of each label."""
    if not number:
        return rows
    labels, draw = sorted({label for _, label in rows}), random.Random(seed)
    by_label = [[row for row in rows if row[1] == label] for label in labels]
    return [row for some in by_label for row in draw.sample(some, number // len(labels))]


def _score(name: str, rows: Rows, dev: Rows, encoder: str, folder: Path) -> float:
    if name == "setfit":
        return _setfit(rows, dev, encoder, folder)
    path = folder / "texts.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    settings: dict[str, Any] = {"data.train": [str(path)], "data.text": "0", "data.label": "1", "out": str(folder / "run")}
    settings |= {"data.cache": str(folder / "cache"), "training.score_folds": 0}
    if name != "combined":
        settings |= {"model.encoder.name": encoder, "model.encoder.tuning": "frozen" if name == "logistic" else name}
    if name == "logistic":
        settings["training.max_epochs"] = 1  # only its states are used
    classifier = regard.fit(regard.choose_config("classification", settings), progress=False)
    texts, labels = zip(*dev, strict=True)
    if name == "logistic":
        return _logistic(classifier, rows, dev)
    return round(float(classifier.evaluate(texts, labels).accuracy), 4)


def _setfit(rows: Rows, dev: Rows, encoder: str, folder: Path) -> float:
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    texts, labels = zip(*rows, strict=True)
    model = SetFitModel.from_pretrained(encoder, labels=sorted(set(labels)))
    # Settings of Tunstall et al. 2022, section 4.1: batches of 16 pairs, one epoch, R = 20.
    settings = TrainingArguments(str(folder), batch_size=16, num_epochs=1, num_iterations=20, report_to="none")
    Trainer(model, settings, train_dataset=Dataset.from_dict({"text": texts, "label": labels})).train()
    right = [found == label for found, (_, label) in zip(model.predict([text for text, _ in dev]), dev, strict=True)]
    return round(sum(right) / len(right), 4)


def _logistic(classifier: Any, rows: Rows, dev: Rows) -> float:
    from sklearn.linear_model import LogisticRegression

    vectors = [_means(classifier, [text for text, _ in some]) for some in (rows, dev)]
    model = LogisticRegression(max_iter=1000).fit(vectors[0], [label for _, label in rows])
    return round(float(model.score(vectors[1], [label for _, label in dev])), 4)


@torch.inference_mode()
def _means(classifier: Any, texts: Sequence[str]) -> np.ndarray:
    """Return the mean of the encoder's states of each text, divided by its length."""
    found = []
    for ids in classifier.encode(texts):
        tokens, mask = pad([ids], classifier.device)
        states = classifier.model.states(classifier.model.embed(tokens), mask, regard.reweight.Sites())
        found.append(torch.nn.functional.normalize(states[0].mean(0), dim=0).numpy())
    return np.stack(found)


if __name__ == "__main__":
    main()
