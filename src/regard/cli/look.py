"""`regard look`: a translation or a classification, and the attention behind it."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.cli.options import Parser, add_machine_options, add_search_options, check_ending, load_model, record_of
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.predict import Classifier, Translator
    from regard.record import AttentionRecord

_SHOWN_LABELS = 5
_ENDINGS = (".png", ".svg", ".pdf", ".html", ".json", ".npz")


def main(arguments: Sequence[str]) -> None:
    """Translate or classify a sentence, or take a given translation, and show the attention."""
    parser = Parser(
        "look",
        "Translate a sentence and show where the model looked when it wrote each word; or label a text and show\n"
        "which words it looked at.",
        '  regard look runs/mine "she kissed him ."\n'
        '  regard look runs/mine "she kissed him ." --to map.png\n'
        '  regard look runs/mine "she kissed him ." --target "sie küsste ihn ."\n'
        '  regard look runs/reviews "a gripping , honest film" --to words.html',
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument("sentence", metavar="SENTENCE", help="what to translate, or to label")
    parser.add_argument("--target", metavar="TEXT", help="look at this translation of it instead of the model's own")
    parser.add_argument("--to", metavar="FILE", help=f"write it to a file ({' '.join(_ENDINGS)}) too")
    add_search_options(parser)
    add_machine_options(parser)
    options = parser.read(arguments)
    if not options.sentence.strip():
        raise RequestError("look: the sentence is empty")
    if options.to:
        check_ending(options.to, _ENDINGS, "--to")
    model = load_model(options)

    from regard.predict import Translator

    if isinstance(model, Translator):
        headline, record = _look_at_translation(model, options)
    else:
        headline, record = _look_at_classification(model, options)

    from rich.console import Console

    from regard.viz import terminal

    print(f"{headline}\n")
    terminal.render(record, Console())
    if options.to:
        record.save(options.to)
        print(f"written to {options.to}")


def _look_at_translation(translator: "Translator", options: argparse.Namespace) -> "tuple[str, AttentionRecord]":
    if options.target is None:
        [result] = translator.translate([options.sentence], beam_size=options.beam)
    else:
        [result] = translator.force([options.sentence], [options.target])
    headline = f"{result.source}\n{result.text}   (log probability {result.log_probability:.2f})"
    return headline, record_of(result, "look")


def _look_at_classification(classifier: "Classifier", options: argparse.Namespace) -> "tuple[str, AttentionRecord]":
    for name in ("target", "beam"):
        if getattr(options, name) is not None:
            raise RequestError(f"look: --{name} is for translators, and {options.dir} holds a classifier")
    [result] = classifier.classify([options.sentence])
    shown = ", ".join(f"{label} {value:.1%}" for label, value in list(result.probabilities.items())[:_SHOWN_LABELS])
    return f"{result.text}\n{shown}", record_of(result, "look")
