"""`regard demo`: train on built-in texts, and draw the attention of a prediction."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import disk
from regard.cli.options import Parser, add_machine_options, at_least, record_of
from regard.terminal import show

if TYPE_CHECKING:
    from regard.demo import DemoCorpus, ReviewCorpus

PRESETS = {"recurrent": "demo", "transformer": "transformer-demo"}
"""Preset of a translator for each value of `--model`."""
# Presets of the classifiers that are compared; the prediction of the first is shown.
_CLASSIFIERS = ("bag", "tutorial-bilstm", "bilstm", "hierarchical")
# Settings that shorten the training of all classifiers except the first, so that the whole demo takes about a minute.
_SHORTER = {"training.max_epochs": 2, "training.batch_sentences": 32, "data.max_texts": 10_000}
_NUM_EXAMPLES = {"translation": 30_000, "classification": 16_000}
# Index of the first held-out example, after those for training. No sentence is in two pairs of the corpus.
_FIRST_HELD_OUT = {"translation": 58_000, "classification": 28_000}
_HELD_OUT = 1000
# Lengths in words that the text whose prediction is shown may have.
_SHOWN_WORDS = {"translation": range(8, 12), "classification": range(10, 18)}


def main(arguments: Sequence[str]) -> None:
    """Write a corpus, train on it, score the model on held-out texts, and show one prediction with its attention."""
    parser = Parser(
        "demo",
        "Train on built-in texts, score the model on new texts, and show one prediction with its attention. Nothing is\n"
        "downloaded. A small recurrent English-German translator takes some two minutes on two cores, a Transformer up to\n"
        "five; classifiers of reviews, one for each preset, take a minute.",
        "  regard demo\n  regard demo --model transformer\n  regard demo --task classification\n  regard demo --out /tmp/demo",
    )
    parser.add_argument(
        "--task", choices=tuple(_NUM_EXAMPLES), default="translation", help="what to train (default: translation)"
    )
    parser.add_argument(
        "--model",
        choices=tuple(PRESETS),
        help="translator to train: recurrent (the default, preset demo) or transformer (preset transformer-demo)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder of the run (default: runs/demo, runs/demo-transformer or runs/demo-classification)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the run that the folder already holds")
    parser.add_argument(
        "--examples",
        "--pairs",
        type=at_least(1),
        metavar="N",
        help="pairs or reviews to train on (default: 30000 pairs, 16000 reviews)",
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=1, metavar="N", help="seed of the texts and of training (default: 1)"
    )
    add_machine_options(parser)
    options = parser.read(arguments)
    if (options.examples or 0) > (most := _FIRST_HELD_OUT[options.task]):
        parser.error(f"--examples is {options.examples:,}, expected at most {most:,}; the examples after these are held out")
    if options.model and options.task == "classification":
        parser.error("--model chooses a translator; the demo of classifiers trains one for each preset, so leave it out")
    options.examples = options.examples or _NUM_EXAMPLES[options.task]
    endings = {"translation": "-transformer" * (options.model == "transformer"), "classification": "-classification"}
    options.out = Path(options.out or f"runs/demo{endings[options.task]}")
    {"translation": _translate, "classification": _classify}[options.task](options)


def _translate(options: argparse.Namespace) -> None:
    """Train a translator, score it, and show a translation with its attention."""
    from regard.demo import DemoCorpus
    from regard.tasks.translation.alignments import evaluate_alignment

    out, corpus = options.out, DemoCorpus(seed=options.seed)
    file, held_out = _prepare(corpus, options)
    translator = _train(PRESETS[options.model or "recurrent"], file, out, options)
    disk.save(out / "train.tsv", file.read_bytes())
    held_out_file = out / "held-out.tsv"
    disk.write(held_out_file, "".join(f"{pair.source}\t{pair.target}\n" for pair in held_out))
    sources, targets = [pair.source for pair in held_out], [pair.target for pair in held_out]
    scores = translator.evaluate(sources, targets, progress=True)
    links = [pair.alignment for pair in held_out], [pair.possible for pair in held_out]
    words = [(pair.source_words, pair.target_words) for pair in held_out]
    error = evaluate_alignment(translator, sources, targets, *links, words=words)
    show(f"On {len(held_out):,} pairs that share no sentence with training:\n{scores.render()}")
    show(f"AER        {error:.3f}   (alignment error rate of the attention against the gold alignments)\n")
    pair = _choose(held_out, lambda pair: len(pair.source_words) in _SHOWN_WORDS["translation"])
    [result] = translator.translate([pair.source])
    show(f"A new sentence:             {pair.source}\nits translation:            {result.text}")
    show(f"translation in the corpus:  {pair.target}\n")
    _draw(result, pair.target, out, "attention")
    show(
        f"""
Next:
  regard translate {out} "{held_out[0].source}"
  regard look {out} "{held_out[1].source}" --to map.png
  regard evaluate {out} {held_out_file}
  regard train translation --preset demo --model.decoder.kind bahdanau --data.train {out / "train.tsv"} --out runs/bahdanau
  regard train translation --help       to train on your own sentence pairs"""
    )


def _classify(options: argparse.Namespace) -> None:
    """Train a classifier for each of several presets, score all, and show which words the first attends to."""
    from regard.demo import ReviewCorpus
    from regard.tasks.classification.decisive import decisive_share

    out: Path = options.out
    models: list[Any] = []
    file, held_out = _prepare(ReviewCorpus(seed=options.seed), options)
    texts, labels = [review.text for review in held_out], [review.label for review in held_out]
    lines = ["", f"On {_HELD_OUT:,} reviews that no model has seen:", ""]
    lines.append(f"  {'preset':<18}{'right':>8}{'attention on the words that decide':>38}")
    for preset in _CLASSIFIERS:
        show(f"\nPreset {preset}:", flush=True)
        # The words are those of the corpus, whose decisive words are known.
        further = {"tokenizer.kind": "whitespace"} | (_SHORTER if models else {})
        models.append(_train(preset, file, out / preset, options, further))
        accuracy = models[-1].evaluate(texts, labels).accuracy
        decisive, words = [review.decisive for review in held_out], [review.words for review in held_out]
        share = decisive_share(models[-1], texts, decisive, words=words)
        lines.append(f"  {preset:<18}{accuracy:>8.1%}{share:>38.1%}")
    held_out_file = out / "held-out.tsv"
    disk.write(held_out_file, "text\tlabel\n", "".join(f"{review.text}\t{review.label}\n" for review in held_out))
    show("\n".join(lines))
    show(
        "\nThe bag attends to the words themselves. The others attend to states of an encoder, which depend on several words:\n"
        "information about one word can be at the position of another, so a small share does not mean an error."
    )
    review = _choose(held_out, lambda review: len(review.words) in _SHOWN_WORDS["classification"])
    [result] = models[0].classify([review.text])
    show(f"\nA new review: {review.text}")
    show(f"predicted label: {result.label} ({result.probability:.1%}); correct label: {review.label}\n")
    _draw(result, review.label, out, "words")
    first, second, *_ = (out / preset for preset in _CLASSIFIERS)
    show(
        f"""
Next:
  regard classify {first} "{held_out[0].text}"
  regard look {first} "{held_out[1].text}" --to words.html
  regard evaluate {first} {held_out_file}
  regard faithfulness {first} {held_out_file}
  regard compare {first} {second} {held_out_file}
  regard train classification --help       to train on your own labelled texts"""
    )


def _prepare(corpus: "DemoCorpus | ReviewCorpus", options: argparse.Namespace) -> tuple[Path, list[Any]]:
    """Write the training examples into a file in the cache, and return this file and the held-out examples."""
    from regard.config.data import FileSettings
    from regard.text.cache import cache_folder

    file = cache_folder(FileSettings()) / f"demo-{options.task}-{options.seed}-{options.examples}.tsv"
    file.parent.mkdir(parents=True, exist_ok=True)
    corpus.write(file, stop=options.examples)
    first = _FIRST_HELD_OUT[options.task]
    return file, [corpus[index] for index in range(first, first + _HELD_OUT)]


def _train(preset: str, file: Path, out: Path, options: argparse.Namespace, further: dict[str, Any] | None = None) -> Any:
    from regard.presets import load_preset
    from regard.training import fit

    settings = {name: getattr(options, name) for name in ("overwrite", "seed", "device", "threads")}
    return fit(load_preset(preset, {"data.train": [str(file)], "out": str(out), **settings, **(further or {})}))


def _choose(examples: list[Any], is_suitable: Any) -> Any:
    return next(filter(is_suitable, examples), examples[0])


def _draw(result: Any, reference: str, out: Path, name: str) -> None:
    """Show the attention of a prediction in the terminal, and write it as a picture and as a page."""
    from regard.console import SafeConsole
    from regard.viz import terminal

    record = replace(record_of(result.attention, "demo"), reference=reference)
    terminal.render(record, SafeConsole())
    files = [out / f"{name}.png", out / f"{name}.html"]
    for file in files:
        record.save(file)
    show(f"\nThe same as pictures: {files[0]} and {files[1]}")
