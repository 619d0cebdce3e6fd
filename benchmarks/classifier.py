"""Training and using the tutorial's attention classifier, on one core. Prints one JSON line.

training   texts per second with the updates of regard's trainer (batches by length, bfloat16 if the machine has it, Adam), and
           with a plain loop over packed `nn.LSTM` batches of 64 texts in file order in float32. The same model is trained by
           both in turn in one process. Ratios compare processor time, which other programs affect little
using      sentences per second through `Classifier.classify` in batches, with attention and without, and the median
           milliseconds of a call with one sentence
rows       with --rows N: N generated reviews are written to a file, prepared in a new process, and used for 100 updates
           in another one; the peak of anonymous memory of each process, in megabytes of 10⁶ bytes (see `benchmarks.scale`)

python -m benchmarks.classifier [--data FILE] [--rounds 5]
python -m benchmarks.classifier --rows 1000000
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.rival import say
from benchmarks.scale import run_watched
from regard.config import AutoConfig, LabelledDataConfig
from regard.config import RecurrentClassifierConfig as Sizes
from regard.demo import ReviewCorpus
from regard.errors import RegardError
from regard.machine import prepared, resolve_machine, seed_step
from regard.task import Bundle
from regard.tasks.classification.config import ClassificationConfig, ClassificationTrainingConfig
from regard.tasks.classification.data import ClassifierParts
from regard.tasks.classification.predict import Classifier
from regard.tasks.classification.train import ClassificationTraining, TrainableClassifier
from regard.training.optimizer import build_optimizer

PLAIN_BATCH = 64


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, or one step of the memory measurement."""
    parser = argparse.ArgumentParser(
        "benchmarks.classifier", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="FILE", help="file of texts and labels (default: built-in reviews)")
    parser.add_argument("--reviews", type=int, default=7000, metavar="N", help="number of built-in reviews (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds of training (%(default)s)")
    parser.add_argument("--updates", type=int, default=10, metavar="N", help="regard's updates per round (%(default)s)")
    parser.add_argument("--batch-tokens", type=int, default=4096, metavar="N", help="tokens in regard's batches (%(default)s)")
    parser.add_argument("--rows", type=int, default=0, metavar="N", help="instead, measure memory with this number of reviews")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="training updates with --rows (%(default)s)")
    parser.add_argument("--folder", type=Path, help="folder for all files, which are kept (default: a temporary folder)")
    parser.add_argument("--step", choices=("prepare", "train"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        print(json.dumps({"prepare": _prepare, "train": _train}[options.step](_config(options, options.folder))))
        return
    try:
        with tempfile.TemporaryDirectory(prefix="regard-classifier-") as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            found = measure_memory(options, folder) if options.rows else measure_speed(options, folder)
    except RegardError as error:
        sys.exit(f"error: {error}")
    print(json.dumps({"benchmark": "classifier", **found, "load_average": round(os.getloadavg()[0], 2)}))


def _config(options: argparse.Namespace, folder: Path) -> ClassificationConfig:
    """Return the configuration of a run with the tutorial's sizes, which are the defaults."""
    return ClassificationConfig(
        data=LabelledDataConfig(train=(str(options.data or folder / "reviews.tsv"),), cache=str(folder / "prepared")),
        tokenizer=AutoConfig(lowercase=True, max_size=10_000),
        model=Sizes(),
        training=ClassificationTrainingConfig(batch_tokens=options.batch_tokens, max_steps=options.steps),
        out=str(folder / "run"),
        overwrite=True,
        device="cpu",
        threads=0 if options.rows else 1,
    )


class PlainClassifier(nn.Module):
    """The same model, written as in the tutorials."""

    def __init__(self, sizes: Sizes, *, vocabulary_size: int, num_labels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, sizes.embedding_size, padding_idx=0)
        self.embedding_dropout, self.output_dropout = nn.Dropout(sizes.embedding_dropout), nn.Dropout(sizes.output_dropout)
        self.lstm = nn.LSTM(sizes.embedding_size, sizes.hidden_size, batch_first=True, bidirectional=True)
        self.score = nn.Linear(2 * sizes.hidden_size, 1)
        self.output = nn.Linear(2 * sizes.hidden_size, num_labels)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the scores of the labels."""
        embedded = self.embedding_dropout(self.embedding(tokens))
        packed = pack_padded_sequence(embedded, mask.sum(1), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=tokens.shape[1])
        weights = self.score(states).squeeze(-1).masked_fill(~mask, float("-inf")).softmax(dim=1)
        scores: Tensor = self.output(self.output_dropout((weights.unsqueeze(1) @ states).squeeze(1)))
        return scores


def measure_speed(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure `training` and `using`."""
    if not options.data:
        ReviewCorpus().write(folder / "reviews.tsv", stop=options.reviews)
    config = _config(options, folder)
    machine = resolve_machine(config)
    with prepared(machine):
        task = ClassificationTraining().prepare(config, model=None, attention=None, start=None, progress=False)
        plain = PlainClassifier(Sizes(), vocabulary_size=task.data.tokenizers[0].size, num_labels=len(task.data.labels.names))
        sizes = [sum(p.numel() for p in model.parameters()) for model in (task.model, plain)]
        trainers = {"regard": regard_updates(task, config), "plain": plain_updates(task, plain)}
        rates: dict[str, list[float]] = {name: [] for name in trainers}
        for turn in range(options.rounds + 1):  # the first round does not count
            texts = options.updates * options.batch_tokens // max(1, int(task.data.train.lengths.mean()))
            for name, updates in trainers.items():
                rate = texts_per_second(updates, texts)
                if turn:
                    rates[name].append(rate)
        training = {name: statistics.median(found) for name, found in rates.items()}
        use = measure_use(task)
    return {
        "data": str(options.data or "built-in reviews"),
        "texts": len(task.data.train),
        "tokens_per_text": round(float(task.data.train.lengths.mean()), 1),
        "parameters": dict(zip(("regard", "plain"), sizes, strict=True)),
        "precision": machine.precision,
        "training_texts_per_second": {name: round(rate) for name, rate in training.items()},
        "training_ratio": round(training["regard"] / training["plain"], 2),
        "training_ratios": [round(a / b, 2) for a, b in zip(rates["regard"], rates["plain"], strict=True)],
        **use,
        "torch": torch.__version__,
    }


def texts_per_second(updates: Iterator[int], texts: int) -> float:
    """Make updates with at least this number of texts, and return the texts per second of processor time."""
    done, start = 0, time.process_time()
    while done < texts:
        done += next(updates)
    return done / (time.process_time() - start)


def regard_updates(task: TrainableClassifier, config: ClassificationConfig) -> Iterator[int]:
    """Make updates endlessly, as regard's trainer does, and yield the number of texts of each."""
    model, sampler, autocast = task.model.train(), task.sampler(), resolve_machine(config).autocast
    optimizer, step = build_optimizer(model, config.training), 0
    while True:
        for indices in sampler:
            batch, step = task.data.train.batch(indices), step + 1
            seed_step(config.seed, step)
            model.train()
            with autocast():
                loss, _ = task.loss(batch, step, 0)
            (loss / len(batch)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.training.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            yield len(batch)
        sampler.resume_at(sampler.epoch + 1, 0)


def plain_updates(task: TrainableClassifier, model: PlainClassifier) -> Iterator[int]:
    """Make updates endlessly, as the tutorials do but in batches, and yield the number of texts of each."""
    optimizer, total = torch.optim.Adam(model.train().parameters(), lr=1e-3), len(task.data.train)
    while True:
        for start in range(0, total, PLAIN_BATCH):
            batch = task.data.train.batch(range(start, min(start + PLAIN_BATCH, total)))
            loss = functional.cross_entropy(model(batch.tokens, batch.mask), batch.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield len(batch)


def measure_use(task: TrainableClassifier, calls: int = 100) -> dict[str, Any]:
    """Measure `using`, on texts of the corpus."""
    classifier = Classifier(
        Bundle(config=task.config, model=task.model, parts=ClassifierParts(task.data.tokenizers[0], task.data.labels))
    )
    texts = task.data.train.texts(range(min(5000, len(task.data.train))))

    def rate(record: tuple[str, ...]) -> float:
        return len(texts) / statistics.median(seconds(lambda: classifier.classify(texts, record=record)) for _ in range(3))

    rates = {"labels": round(rate(())), "labels_and_attention": round(rate(("pool",)))}
    singles = [seconds(partial(classifier.classify, [text])) for text in texts[:calls]]
    return {"sentences_per_second": rates, "single_ms": round(1e3 * statistics.median(singles), 2)}


def seconds(run: Callable[[], object]) -> float:
    """Return the processor time of one call. With one thread on an idle machine, it equals the elapsed time."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measure_memory(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure `rows`."""
    if not Path("/proc/self/status").exists():
        raise RegardError("this system has no /proc, from which memory is read; run the benchmark on Linux")
    say(f"writing {options.rows:,} reviews")
    from tools.corpora.reviews import GeneratedReviews

    GeneratedReviews().write(folder / "reviews.tsv", options.rows)
    numbers = {"--rows": options.rows, "--steps": options.steps, "--batch-tokens": options.batch_tokens, "--folder": folder}
    shared = [str(part) for option in numbers.items() for part in option]
    steps = {}
    for name in ("prepare", "train"):
        say(f"{name}: begins")
        steps[name] = run_watched([sys.executable, "-m", "benchmarks.classifier", "--step", name, *shared])
        say(f"{name}: {json.dumps(steps[name])}")
    peaks = {name: max(step["peaks_mb"], default=0.0) for name, step in steps.items()}
    return {
        "rows": options.rows,
        "rows_per_second": options.rows / steps["prepare"]["seconds"],
        "peak_mb": peaks,
        "steps": steps,
    }


def _prepare(config: ClassificationConfig) -> dict[str, Any]:
    from regard.text.labelled.prepare import LabelledSchema
    from regard.text.preparation import prepare_data

    begin = time.perf_counter()
    data = prepare_data(LabelledSchema(config.data, config.tokenizer), seed=config.seed)
    return {"seconds": time.perf_counter() - begin, "kept": len(data.train) + len(data.dev)}


def _train(config: ClassificationConfig) -> dict[str, Any]:
    import regard
    from regard.training.folder import RunFolder

    begin = time.perf_counter()
    regard.fit(config)
    state, _ = RunFolder(config.out).load_checkpoint()
    assert state is not None
    return {"seconds": time.perf_counter() - begin, "updates": state["progress"]["step"]}


if __name__ == "__main__":
    main()
