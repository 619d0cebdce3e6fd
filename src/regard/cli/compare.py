"""`regard compare`: which of two trained models is better on a file."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.cli.options import Parser, add_machine_options, add_search_options, kind_of, positive_number, set_threads
from regard.errors import RequestError
from regard.tasks.arguments import add_layout_options
from regard.tasks.classification.commands import read_given_texts
from regard.tasks.translation.commands import PAIR_LAYOUT, read_given_pairs

if TYPE_CHECKING:
    from regard.analysis.comparison import ClassifierComparison, TranslatorComparison
    from regard.tasks.classification.predictor import Classifier
    from regard.tasks.translation.predictor import Translator


def main(arguments: Sequence[str]) -> None:
    """Print the scores of both, their difference, and whether chance explains it."""
    parser = Parser(
        "compare",
        "Test which of two models is better on a file that neither was trained on.\n"
        "Two classifiers on labelled texts: accuracy and macro F1, their difference with a 95% interval and p by a paired\n"
        "bootstrap, and McNemar's exact test. Two translators on pairs: sacrebleu's paired bootstrap of BLEU and chrF.",
        "  regard compare runs/bilstm runs/bag test.tsv\n  regard compare runs/luong runs/bahdanau test.en,test.de --beam 5",
    )
    parser.add_argument("first", metavar="DIR", help="a trained model's folder")
    parser.add_argument("second", metavar="DIR", help="the folder of another model of the same kind")
    parser.add_argument(
        "files", metavar="FILE[,FILE]", help="one file of pairs or of labelled texts, or two parallel text files"
    )
    parser.add_argument(
        "--resamples", type=positive_number, metavar="N", help="of the bootstrap (default: 10,000, of translators 1,000)"
    )
    add_search_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_layout_options(parser, *PAIR_LAYOUT, "text", "label")
    add_machine_options(parser)
    options = parser.read(arguments)

    from regard.tasks.classification.predictor import Classifier
    from regard.tasks.loading import load
    from regard.tasks.translation.predictor import Translator

    set_threads(options.threads)
    first, second = (load(folder, device=options.device) for folder in (options.first, options.second))
    found: ClassifierComparison | TranslatorComparison
    if isinstance(first, Classifier) and isinstance(second, Classifier):
        found = _compare_classifiers(first, second, options)
    elif isinstance(first, Translator) and isinstance(second, Translator):
        found = _compare_translators(first, second, options)
    else:
        kinds = f"{options.first} holds {kind_of(first)} and {options.second} {kind_of(second)}"
        raise RequestError(f"compare: {kinds}; expected two models of one kind, translators or classifiers")
    print(json.dumps(found.to_dict(), ensure_ascii=False) if options.json else found.render())


def _compare_classifiers(first: "Classifier", second: "Classifier", options: argparse.Namespace) -> "ClassifierComparison":
    from regard.analysis.comparison import compare_classifiers

    if options.beam is not None:
        raise RequestError(f"compare: --beam is for translators, and {options.first} holds a classifier")
    texts, labels, report = read_given_texts(options, first)
    print(report.render(), file=sys.stderr)
    return compare_classifiers(
        first,
        second,
        texts,
        labels,
        names=(options.first, options.second),
        resamples=options.resamples or 10_000,
        progress=True,
    )


def _compare_translators(first: "Translator", second: "Translator", options: argparse.Namespace) -> "TranslatorComparison":
    from regard.analysis.comparison import compare_translators

    chunks, report = read_given_pairs(options, first.config)
    sources, targets = [], []
    for chunk in chunks:
        sources += chunk.source
        targets += chunk.target
    print(report.render(), file=sys.stderr)
    return compare_translators(
        first,
        second,
        sources,
        targets,
        names=(options.first, options.second),
        beam_size=options.beam,
        resamples=options.resamples or 1000,
        progress=True,
    )
