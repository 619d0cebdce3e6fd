"""The demo of classifiers: train one for each of several presets, score all, and show which words one of them attends to."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard import disk
from regard.cli.options import record_of
from regard.terminal import show

if TYPE_CHECKING:
    from regard.demo import Review
    from regard.tasks.classification.predictor import Classifier

_REVIEWS = 16_000
_HELD_OUT = 1000
FIRST_HELD_OUT = 28_000
"""Index of the first held-out review, after the training reviews."""
_PRESETS = ("bag", "tutorial-bilstm", "bilstm", "hierarchical")
_SHORTER = {"training.max_epochs": 2, "training.batch_sentences": 32, "data.max_texts": 10_000}
"""Settings that shorten the training of all presets except the first, so that the whole demo takes about a minute."""
_SHOWN_WORDS = range(10, 18)
"""Lengths in words that the displayed review may have."""


@dataclass(frozen=True)
class _Row:
    """Row of the table: the scores of the classifier that was trained with one preset."""

    preset: str
    accuracy: float
    share: float
    """Share of the attention that is on the words that decide the label, from 0 to 1."""


def demonstrate(options: argparse.Namespace) -> None:
    """Write reviews, train on them, score the models, and show a review with coloured words."""
    out = Path(options.out)
    train, held_out = _prepare(options)
    rows = []
    shown = None
    for preset in _PRESETS:
        classifier = _train(preset, train, options)
        rows.append(_score(preset, classifier, held_out))
        shown = shown or classifier
    held_out_file = out / "held-out.tsv"
    lines = "".join(f"{review.text}\t{review.label}\n" for review in held_out)
    disk.write(held_out_file, f"text\tlabel\n{lines}")
    show(_render(rows))
    assert shown is not None
    _show(shown, held_out, out)
    show(
        f"""
Next:
  regard classify {out / _PRESETS[0]} "{held_out[0].text}"
  regard look {out / _PRESETS[0]} "{held_out[1].text}" --to words.html
  regard evaluate {out / _PRESETS[0]} {held_out_file}
  regard faithfulness {out / _PRESETS[0]} {held_out_file}
  regard compare {out / _PRESETS[0]} {out / _PRESETS[1]} {held_out_file}
  regard train classification --help       to train on your own labelled texts"""
    )


def _prepare(options: argparse.Namespace) -> "tuple[Path, list[Review]]":
    """Write the training reviews into a file in the cache, and return this file and the held-out reviews."""
    from regard.config import LabelledDataConfig
    from regard.demo import ReviewCorpus
    from regard.text.cache import cache_folder

    corpus = ReviewCorpus(seed=options.seed)
    count = options.examples or _REVIEWS
    file = cache_folder(LabelledDataConfig()) / f"reviews-{options.seed}-{count}.tsv"
    file.parent.mkdir(parents=True, exist_ok=True)
    corpus.write(file, stop=count)
    return file, [corpus[index] for index in range(FIRST_HELD_OUT, FIRST_HELD_OUT + _HELD_OUT)]


def _train(preset: str, file: Path, options: argparse.Namespace) -> "Classifier":
    from regard.presets import load_preset
    from regard.training import fit

    settings: dict[str, object] = {
        "data.train": [str(file)],
        "out": str(Path(options.out, preset)),
        "overwrite": options.overwrite,
        "seed": options.seed,
        "device": options.device,
        "threads": options.threads,
        "tokenizer.kind": "whitespace",  # the same words as in the corpus, whose decisive words are known
    }
    if preset != _PRESETS[0]:
        settings |= _SHORTER
    show(f"\nPreset {preset}:", flush=True)
    return fit(load_preset(preset, settings))


def _score(preset: str, classifier: "Classifier", held_out: "list[Review]") -> _Row:
    from regard.analysis import decisive_share

    texts = [review.text for review in held_out]
    found = classifier.evaluate(texts, [review.label for review in held_out])
    share = decisive_share(
        classifier, texts, [review.decisive for review in held_out], words=[review.words for review in held_out]
    )
    return _Row(preset, found.accuracy, share)


def _render(rows: list[_Row]) -> str:
    lines = [
        f"\nOn {_HELD_OUT:,} reviews that no model has seen:\n",
        f"  {'preset':<18}{'right':>8}{'attention on the words that decide':>38}",
    ]
    lines += [f"  {row.preset:<18}{row.accuracy:>8.1%}{row.share:>38.1%}" for row in rows]
    lines.append(
        "\nThe bag attends to the words themselves. The others attend to states of an encoder, which depend on several words:\n"
        "information about one word can be at the position of another, so a small share does not mean an error."
    )
    return "\n".join(lines)


def _show(classifier: "Classifier", held_out: "list[Review]", out: Path) -> None:
    """Label the first held-out review of suitable length, and colour its words."""
    from regard.console import SafeConsole
    from regard.viz import terminal

    review = next((review for review in held_out if len(review.words) in _SHOWN_WORDS), held_out[0])
    [result] = classifier.classify([review.text])
    record = replace(record_of(result.attention, "demo"), reference=review.label)
    show(f"\nA new review: {review.text}")
    show(f"predicted label: {result.label} ({result.probability:.1%}); correct label: {review.label}\n")
    terminal.render(record, SafeConsole())
    for name in ("words.png", "words.html"):
        record.save(out / name)
    show(f"\nThe same as pictures: {out / 'words.png'} and {out / 'words.html'}")
