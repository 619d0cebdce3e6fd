"""`regard classify`: label texts from the command line, a file, or standard input."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from regard.cli.lines import add_output_option, output_file, read_lines, typed_lines
from regard.cli.options import (
    Parser,
    add_heatmap_option,
    add_machine_options,
    add_model_argument,
    check_heatmap,
    load_classifier,
    save_heatmap,
)
from regard.terminal import show

if TYPE_CHECKING:
    from regard.tasks.classification.predictor import Classifier
    from regard.tasks.classification.results import Classification


def main(arguments: Sequence[str]) -> None:
    """Label texts, and print one line for each."""
    parser = _parser()
    options = parser.read(arguments)
    if options.texts and options.input:
        parser.error("texts and --input are both given; give only one of the two")
    check_heatmap(options, "classify", len(options.texts), "texts")
    lines = _lines_of(options)  # a missing file is found before the model is loaded
    with output_file(options.output, "classify") as file:
        classifier = load_classifier(options, "classify")
        num_cut = 0
        for number, found in enumerate(_classifications(classifier, lines, options), 1):
            show(_render(found, options, classifier.labels.multiple), file=file, flush=lines is None)
            if options.heatmap:
                save_heatmap(found.attention, number, options, "texts")
            num_cut += found.cut_at is not None
        if num_cut:
            show(
                f"regard: texts truncated to their first {classifier.config.data.max_tokens:,} tokens "
                f"(data.max_tokens, set when the model was trained): {num_cut:,}",
                file=sys.stderr,
            )


def _parser() -> Parser:
    parser = Parser(
        "classify",
        "Label the given texts, the lines of --input FILE, or the lines of standard input.\n"
        "For each text, one line is printed, in order: the label, a tab, its probability. If texts can have several\n"
        "labels, the line lists all labels with a probability above one half (film 0.9800, positive 0.9100), or else\n"
        "(none), a tab, and the most probable label with its probability.",
        '  regard classify runs/reviews "a gripping , honest film" --heatmap words.png\n'
        "  regard classify runs/reviews --input reviews.txt > labels.tsv\n"
        "  cat reviews.txt | regard classify runs/reviews --json",
    )
    add_model_argument(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="text to label")
    parser.add_argument("--input", metavar="FILE", help="text file with one text per line")
    add_output_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per text: label, probabilities, words and weights")
    add_heatmap_option(parser, "the words, coloured by their weights", "texts")
    add_machine_options(parser)
    return parser


def _lines_of(options: argparse.Namespace) -> Iterable[str] | None:
    """Return the texts to label; None to read them from standard input."""
    if options.texts:
        return [" ".join(text.split()) for text in options.texts]
    return read_lines(options.input, "classify") if options.input else None


def _classifications(
    classifier: "Classifier", lines: Iterable[str] | None, options: argparse.Namespace
) -> Iterator["Classification"]:
    record = None if options.json or options.heatmap else ()  # faster without records
    if lines is not None:
        yield from classifier.classify_stream(lines, record=record)
        return
    for group in typed_lines("classify", "text"):
        yield from classifier.classify(group, record=record)


def _render(found: "Classification", options: argparse.Namespace, several: bool) -> str:
    if not options.json:
        if not several:
            return f"{_in_line(found.label)}\t{found.probability:.4f}"
        said = [f"{_in_line(label)} {found.probabilities[label]:.4f}" for label in found.labels]
        return ", ".join(said) or f"(none)\t{_in_line(found.label)} {found.probability:.4f}"
    plain: dict[str, Any] = {
        "text": found.text,
        "label": found.label,
        "labels": list(found.labels),
        "probability": found.probability,
        "probabilities": found.probabilities,
    }
    record = found.attention
    if record is not None:
        record = record.in_units(options.units)
        plain |= {"words": list(record.source_words), "weights": [float(weight) for weight in record.word_weights()]}
    return json.dumps(plain, ensure_ascii=False)


def _in_line(label: str) -> str:
    """Replace each run of whitespace with one space, and strip the ends: labels from a table can contain tabs and line ends."""
    return " ".join(label.split())
