"""The demo of translators: train one, score it, and show a translation with its attention."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from regard import disk
from regard.cli.options import record_of
from regard.terminal import show

if TYPE_CHECKING:
    from regard.demo import DemoPair
    from regard.tasks.translation.config import TranslationConfig
    from regard.tasks.translation.predictor import Translator

PRESETS = {"recurrent": "demo", "transformer": "transformer-demo"}
"""Preset for each value of `--model`."""
_PAIRS = 30_000
_HELD_OUT = 1000
FIRST_HELD_OUT = 58_000
"""Index of the first held-out pair, after the training pairs."""
_SHOWN_WORDS = range(8, 12)
"""Lengths in words that the displayed source sentence may have."""


def demonstrate(options: argparse.Namespace) -> None:
    """Write sentence pairs, train a translator on them, score it, and show a translation with its attention."""
    from regard.training import fit

    options.examples = options.examples or _PAIRS
    config, held_out = _prepare(options)
    translator = fit(config)
    out = Path(config.out)
    disk.save(out / "train.tsv", Path(config.data.train[0]).read_bytes())
    held_out_file = out / "held-out.tsv"
    disk.write(held_out_file, "".join(f"{pair.source}\t{pair.target}\n" for pair in held_out))
    _score(translator, held_out)
    _show(translator, held_out, out)
    show(
        f"""
Next:
  regard translate {out} "{held_out[0].source}"
  regard look {out} "{held_out[1].source}" --to map.png
  regard evaluate {out} {held_out_file}
  regard train translation --preset tutorial-bahdanau --data.train {out / "train.tsv"} --out runs/bahdanau
  regard train translation --help       to train on your own sentence pairs"""
    )


def _prepare(options: argparse.Namespace) -> "tuple[TranslationConfig, list[DemoPair]]":
    """Write the training pairs into the cache, and return the settings of the run and the held-out pairs.

    No sentence is in two pairs of the corpus.
    """
    from regard.demo import DemoCorpus
    from regard.presets import load_preset
    from regard.text.cache import cache_folder

    names = ("out", "overwrite", "seed", "device", "threads")
    settings = {name: getattr(options, name) for name in names}
    config = cast("TranslationConfig", load_preset(PRESETS[options.model], settings))
    corpus = DemoCorpus(seed=config.seed)
    file = cache_folder(config.data) / f"demo-{config.seed}-{options.examples}.tsv"
    file.parent.mkdir(parents=True, exist_ok=True)
    corpus.write(file, stop=options.examples, progress=False)
    held_out = [corpus[index] for index in range(FIRST_HELD_OUT, FIRST_HELD_OUT + _HELD_OUT)]
    return replace(config, data=replace(config.data, train=(str(file),))), held_out


def _score(translator: "Translator", held_out: "list[DemoPair]") -> None:
    from regard.analysis import evaluate_alignment

    sources, targets = [pair.source for pair in held_out], [pair.target for pair in held_out]
    scores = translator.evaluate(sources, targets, progress=True)
    error = evaluate_alignment(
        translator,
        sources,
        targets,
        [pair.alignment for pair in held_out],
        [pair.possible for pair in held_out],
        words=[(pair.source_words, pair.target_words) for pair in held_out],
    )
    show(f"On {len(held_out):,} pairs that share no sentence with training:")
    show(scores.render())
    show(f"AER        {error:.3f}   (alignment error rate of the attention against the gold alignments)\n")


def _show(translator: "Translator", held_out: "list[DemoPair]", out: Path) -> None:
    """Translate the first held-out sentence of suitable length, and draw its attention."""
    from regard.console import SafeConsole
    from regard.viz import terminal

    pair = next((pair for pair in held_out if len(pair.source_words) in _SHOWN_WORDS), held_out[0])
    [result] = translator.translate([pair.source])
    record = replace(record_of(result.attention, "demo"), reference=pair.target)
    show(f"A new sentence:             {pair.source}\nits translation:            {result.text}")
    show(f"translation in the corpus:  {pair.target}\n")
    terminal.render(record, SafeConsole())
    for name in ("attention.png", "attention.html"):
        record.save(out / name)
    show(f"\nThe same as pictures: {out / 'attention.png'} and {out / 'attention.html'}")
