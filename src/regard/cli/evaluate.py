"""`regard evaluate`: how good a trained model is on pairs, on labelled texts, or on texts."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.cli.options import (
    Parser,
    add_caption_option,
    add_ensemble_option,
    add_length_options,
    add_machine_options,
    add_search_options,
    check_ending,
    kind_of,
    load_model,
)
from regard.cli.pairs import PAIR_LAYOUT, add_layout_options, read_given_pairs, read_given_texts, read_plain_texts
from regard.errors import RequestError
from regard.plurals import counted

if TYPE_CHECKING:
    from regard.evaluation.labelled import LabelledEvaluation
    from regard.tasks.classification.predictor import Classifier
    from regard.tasks.language.predictor import LanguageModel
    from regard.tasks.translation.predictor import Translator

_PICTURES = (".png", ".svg", ".pdf")


def main(arguments: Sequence[str]) -> None:
    """Print loss, perplexity, BLEU and chrF of a translator; accuracy and the like of a classifier; a language model's loss."""
    parser = Parser(
        "evaluate",
        "Compare a model's output with the right one.\n"
        "A translator translates the sources of some pairs: the loss (nats a target token), the perplexity, and BLEU and chrF\n"
        "with sacrebleu's signatures. A classifier labels labelled texts: accuracy, F1 of every label, confusions,\n"
        "calibration, and the most confident mistakes. A language model predicts texts: loss, perplexity, bits a character.",
        "  regard evaluate runs/mine test.tsv\n  regard evaluate runs/mine test.en,test.de --beam 5 --json\n"
        "  regard evaluate runs/mine dev.en,dev.de --length-penalty 1.4\n"
        "  regard evaluate runs/reviews test.tsv --confusion matrix.png --reliability bins.png\n"
        "  regard evaluate runs/stories test.txt",
    )
    parser.add_argument("dir", metavar="DIR", help="a trained model's folder")
    parser.add_argument(
        "files", metavar="FILE[,FILE]", help="one file of pairs, of labelled texts or of texts, or two parallel text files"
    )
    add_search_options(parser)
    add_length_options(parser)
    add_ensemble_option(parser)
    parser.add_argument(
        "--confusion", metavar="FILE", help=f"draw the confusion matrix of a classifier ({' '.join(_PICTURES)})"
    )
    parser.add_argument("--reliability", metavar="FILE", help=f"draw its reliability diagram ({' '.join(_PICTURES)})")
    add_caption_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_layout_options(parser, *PAIR_LAYOUT, "text", "label")
    add_machine_options(parser)
    options = parser.read(arguments)
    if not (options.caption or options.confusion or options.reliability):
        raise RequestError("evaluate: --no-caption is for pictures: add --confusion FILE or --reliability FILE")
    for name in ("confusion", "reliability"):
        if getattr(options, name):
            check_ending(getattr(options, name), _PICTURES, f"--{name}")
    model = load_model(options)

    from regard.tasks.classification.predictor import Classifier
    from regard.tasks.translation.predictor import Translator

    for name in ("confusion", "reliability"):
        if getattr(options, name) and not isinstance(model, Classifier):
            raise RequestError(f"evaluate: --{name} is for classifiers, and {options.dir} holds {kind_of(model)}")
    for name in ("beam", "length_penalty", "length_reward"):
        if getattr(options, name) is not None and not isinstance(model, Translator):
            raise RequestError(
                f"evaluate: --{name.replace('_', '-')} is for translators, and {options.dir} holds {kind_of(model)}"
            )
    if isinstance(model, Translator):
        _evaluate_translator(model, options)
    elif isinstance(model, Classifier):
        _evaluate_classifier(model, options)
    else:
        _evaluate_language_model(model, options)


def _evaluate_language_model(model: "LanguageModel", options: argparse.Namespace) -> None:
    texts, report = read_plain_texts(options, model.config)
    print(report.render(), file=sys.stderr)
    scores = model.evaluate(texts, progress=True)
    print(json.dumps(scores.to_dict(), ensure_ascii=False) if options.json else scores.render())


def _evaluate_translator(translator: "Translator", options: argparse.Namespace) -> None:
    chunks, report = read_given_pairs(options, translator.config)
    sources, references = [], []
    for chunk in chunks:
        sources += chunk.source
        references += chunk.target
    print(report.render(), file=sys.stderr)
    scores = translator.evaluate(
        sources,
        references,
        beam_size=options.beam,
        length_penalty=options.length_penalty,
        length_reward=options.length_reward,
        progress=True,
    )
    print(json.dumps(scores.to_dict(), ensure_ascii=False) if options.json else scores.render())


def _evaluate_classifier(classifier: "Classifier", options: argparse.Namespace) -> None:
    if options.confusion and classifier.labels.multiple:
        raise RequestError("evaluate: --confusion needs texts with one label each; this model gives texts several")
    texts, labels, report = read_given_texts(options, classifier)
    print(report.render(), file=sys.stderr)
    found = classifier.evaluate(texts, labels, progress=True)
    print(json.dumps(found.to_dict(), ensure_ascii=False) if options.json else found.render())
    if options.confusion:
        _draw_confusion(classifier, found, options.confusion, caption=options.caption)
    if options.reliability:
        _draw_reliability(classifier, found, len(texts), options.reliability, caption=options.caption)


def _draw_confusion(classifier: "Classifier", found: "LabelledEvaluation", path: str, *, caption: bool) -> None:
    import numpy as np

    from regard.evaluation.classification import Scores
    from regard.viz.confusion import draw

    assert isinstance(found.scores, Scores)
    draw(np.array(found.scores.confusion), classifier.labels.names, path, caption=caption)


def _draw_reliability(
    classifier: "Classifier", found: "LabelledEvaluation", num_texts: int, path: str, *, caption: bool
) -> None:
    import numpy as np

    from regard.viz.reliability import draw

    bins = found.calibration.bins
    num_labels = len(classifier.labels.names)
    several = classifier.labels.multiple  # each label is a decision of its own
    draw(
        np.array([bins[0].low, *(one.high for one in bins)]),
        np.array([one.confidence for one in bins]),
        np.array([one.accuracy for one in bins]),
        np.array([one.count for one in bins]),
        path,
        title=f"{counted(num_texts, 'text')} × {counted(num_labels, 'label')}" if several else None,
        counted="decision" if several else "text",
        lowest=0.5 if several else 1 / num_labels if num_labels > 1 else None,
        caption=caption,
    )
