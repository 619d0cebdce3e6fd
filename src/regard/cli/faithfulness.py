"""`regard faithfulness`: measure how well attention shows what a classifier's or a translator's predictions depend on."""

import argparse
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from regard.cli.options import (
    Parser,
    add_caption_option,
    add_machine_options,
    check_ending,
    kind_of,
    load_model,
    model_folder,
    print_result,
)
from regard.errors import RequestError
from regard.rendering import PICTURES
from regard.task import find_task
from regard.tasks.arguments import add_layout_options, given_files, positive_number
from regard.tasks.classification.reading import TEXT_LAYOUT, read_given_texts
from regard.tasks.translation.reading import read_all_pairs
from regard.terminal import show

if TYPE_CHECKING:
    from regard.task import Predictor
    from regard.tasks.classification.predictor import Classifier

_DESCRIPTION = (
    "Measure whether the words that a classifier or a translator attends to are those that its predictions depend on.\n"
    "A table and a few sentences on its meaning for this model are printed. For a classifier, both are also saved in its\n"
    "folder as faithfulness.json, and the captions of its heatmaps contain the sentences.\n\n"
    "For a translator, each source token is deleted, or the attention to it is erased, to measure how much probability\n"
    "the next token of the model's own translation loses. For a classifier:\n"
    "comprehensiveness   how much probability the predicted label loses when the most attended words are deleted\n"
    "sufficiency         how much probability it loses when only these words are left\n"
    "                    both are means over 1, 5, 10, 20 and 50% of the words; the same is shown for random words and\n"
    "                    for the best order tried, which begins with the words whose deletion alone costs most\n"
    "Kendall τ           similarity of the orders by attention and by leave-one-out or gradient × input, from −1 to 1\n"
    "permuted, uniform   change of the predictions when the weights are permuted, or all equal"
)


def main(arguments: Sequence[str]) -> None:
    """Print the measures, with their meaning. For a classifier, they are also saved in its folder."""
    options = _parser().read(arguments)
    if options.picture:
        check_ending(options.picture, PICTURES, "--picture")
    elif not options.caption:
        raise RequestError("faithfulness: --no-caption is for pictures: add --picture FILE")
    model = load_model(options)
    is_classifier = _reads(model, "classify")
    if not is_classifier and not _reads(model, "translate"):
        raise RequestError(f"faithfulness: {options.dir} holds {kind_of(model)}, expected a classifier or a translator")
    if options.seeds and not is_classifier:
        raise RequestError(f"faithfulness: --seeds is for classifiers, and {options.dir} holds a translator; leave it out")
    others = _load_others(options)

    from regard.analysis.faithfulness import measure_faithfulness
    from regard.bundle.bundle import WEIGHTS
    from regard.tasks.classification.bundle import save_faithfulness

    texts: Sequence[str]
    labels: Sequence[str | Collection[str]] = ()
    if is_classifier:
        texts, labels, report = read_given_texts(given_files(options), model)
        show(report.render(), file=sys.stderr)
    else:
        texts, _ = read_all_pairs(given_files(options), model.config)
    settings = {"max_texts": options.texts, "permutations": options.permutations, "progress": True}
    measured = measure_faithfulness(model, texts, labels, others=others, **settings)
    # Print first, because saving fails if the model's folder is read-only.
    print_result(measured, as_json=options.json)
    if options.picture:
        measured.draw(options.picture, caption=options.caption)
    if is_classifier:
        save_faithfulness(options.dir, measured.to_dict(), weights=model.bundle.signature["files"][WEIGHTS])


def _reads(model: "Predictor", operation: str) -> bool:
    """Return whether the task of a model has this operation on texts."""
    return find_task(model.config.task).text_operation(operation) is not None


def _parser() -> Parser:
    parser = Parser(
        "faithfulness",
        _DESCRIPTION,
        "  regard faithfulness runs/reviews test.tsv\n  regard faithfulness runs/deu test.tsv --texts 100 --picture bars.png\n"
        "  regard faithfulness runs/reviews test.tsv --seeds runs/reviews-2 runs/reviews-3",
    )
    parser.add_argument("dir", metavar="DIR", type=model_folder, help="folder of a trained classifier or translator")
    parser.add_argument(
        "files",
        metavar="FILE[,FILE]",
        help="labelled texts or sentence pairs, preferably not from the training data; or one text file per label",
    )
    parser.add_argument(
        "--texts",
        type=positive_number,
        default=500,
        metavar="N",
        help="maximum number of texts or sentences; if there are more, a random sample is measured (default: 500)",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        default=[],
        metavar="DIR",
        type=model_folder,
        help="models with the same settings but other seeds; the attention of all models is compared",
    )
    parser.add_argument(
        "--permutations",
        type=positive_number,
        default=100,
        metavar="N",
        help="number of permutations of each text's weights (default: 100)",
    )
    parser.add_argument(
        "--picture", default="", metavar="FILE", help=f"draw the decreases in probability as bars ({' '.join(PICTURES)})"
    )
    add_caption_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_layout_options(parser, *TEXT_LAYOUT)
    add_machine_options(parser)
    return parser


def _load_others(options: argparse.Namespace) -> "list[Classifier]":
    from regard.tasks.loading import load

    others = []
    for folder in options.seeds:
        other = load(folder, device=options.device)
        if not _reads(other, "classify"):
            raise RequestError(f"faithfulness: {folder} holds {kind_of(other)}, expected a classifier like {options.dir}")
        others.append(other)
    return others
