"""`regard look`: a translation, a classification or a text, and the attention behind it."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.options import (
    Parser,
    add_machine_options,
    add_search_options,
    check_ending,
    kind_of,
    load_model,
    record_of,
)
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.predict import Classifier, LanguageModel, Translator
    from regard.record import AttentionRecord

_SHOWN_LABELS = 5
_PICTURES = (".png", ".svg", ".pdf")
_ENDINGS = (*_PICTURES, ".html", ".json", ".npz")


def main(arguments: Sequence[str]) -> None:
    """Translate or classify a sentence, or take a given translation, and show the attention."""
    options = _parser().read(arguments)
    if not options.sentence.strip():
        raise RequestError("look: the sentence is empty")
    if options.to:
        check_ending(options.to, _ENDINGS, "--to")
    model = load_model(options)

    from regard.predict import Classifier, Translator

    for name in ("target", "beam"):
        if getattr(options, name) is not None and not isinstance(model, Translator):
            raise RequestError(f"look: --{name} is for translators, and {options.dir} holds {kind_of(model)}")
    site = None
    if isinstance(model, Translator):
        headline, record = _look_at_translation(model, options)
    elif isinstance(model, Classifier):
        headline, record = _look_at_classification(model, options)
    else:
        headline, record = _look_at_text(model, options)
        site = record.sites[-1]

    from rich.console import Console

    from regard.viz import terminal

    print(f"{headline}\n")
    terminal.render(record, Console(), site=site)
    if site is not None:
        print(f"{site}, the mean of its heads; --to FILE has all layers and heads")
    if options.to and site is not None and Path(options.to).suffix.lower() in _PICTURES:
        record.save(options.to, site=site.partition(".")[0])  # a grid of all
    elif options.to:
        record.save(options.to)
    if options.to:
        print(f"written to {options.to}")


def _parser() -> Parser:
    parser = Parser(
        "look",
        "Translate a sentence and show where the model looked when it wrote each word; or label a text and show\n"
        "which words it looked at; or read a text as a language model does, and show which words it looked back at.",
        '  regard look runs/mine "she kissed him ."\n'
        '  regard look runs/mine "she kissed him ." --to map.png\n'
        '  regard look runs/mine "she kissed him ." --target "sie küsste ihn ."\n'
        '  regard look runs/reviews "a gripping , honest film" --to words.html\n'
        '  regard look runs/stories "once upon a time" --to heads.png',
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument("sentence", metavar="SENTENCE", help="what to translate, to label, or to read")
    parser.add_argument("--target", metavar="TEXT", help="look at this translation of it instead of the model's own")
    parser.add_argument("--to", metavar="FILE", help=f"write it to a file ({' '.join(_ENDINGS)}) too")
    add_search_options(parser)
    add_machine_options(parser)
    return parser


def _look_at_translation(translator: "Translator", options: argparse.Namespace) -> "tuple[str, AttentionRecord]":
    if options.target is None:
        [result] = translator.translate([options.sentence], beam_size=options.beam)
    else:
        [result] = translator.force([options.sentence], [options.target])
    headline = f"{result.source}\n{result.text}   (log probability {result.log_probability:.2f})"
    return headline, record_of(result, "look")


def _look_at_classification(classifier: "Classifier", options: argparse.Namespace) -> "tuple[str, AttentionRecord]":
    [result] = classifier.classify([options.sentence])
    shown = ", ".join(f"{label} {value:.1%}" for label, value in list(result.probabilities.items())[:_SHOWN_LABELS])
    return f"{result.text}\n{shown}", record_of(result, "look")


def _look_at_text(model: "LanguageModel", options: argparse.Namespace) -> "tuple[str, AttentionRecord]":
    [result] = model.score([options.sentence], record=model.model.sites)
    headline = f"{result.text}   (log probability {result.log_probability:.2f}, perplexity {result.perplexity:,.2f})"
    return headline, record_of(result, "look")
