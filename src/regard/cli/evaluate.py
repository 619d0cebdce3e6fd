"""`regard evaluate`: score a trained model on a file."""

from collections.abc import Sequence

from regard.cli.options import (
    Parser,
    add_caption_option,
    add_machine_options,
    add_model_argument,
    check_ending,
    given_files,
    load_model,
    print_result,
)
from regard.cli.task_options import TaskOptions
from regard.errors import RequestError
from regard.rendering import themed
from regard.task import FileOperation


def main(arguments: Sequence[str]) -> None:
    """Print the scores of a translator, a classifier or a language model."""
    parser = Parser(
        "evaluate",
        "Compare a model's output with the reference.\n"
        "For a translator and sentence pairs: loss (nats per target token), perplexity, BLEU and chrF with sacrebleu's\n"
        "signatures, exact match and error rates. For a classifier and labelled texts: accuracy, F1 of every label,\n"
        "confusions, calibration, and the most confident mistakes. For a language model and texts: loss, perplexity, bits\n"
        "per character.",
        "  regard evaluate runs/mine test.tsv\n  regard evaluate runs/mine test.en,test.de --beam 5 --json\n"
        "  regard evaluate runs/mine dev.en,dev.de --length-penalty 1.4\n"
        "  regard evaluate runs/reviews test.tsv --confusion matrix.png --reliability bins.png\n"
        "  regard evaluate runs/stories test.txt",
    )
    run_on_files(
        parser, "evaluate", arguments, files="one file of pairs, of labelled texts or of texts, or two parallel text files"
    )


def run_on_files(parser: Parser, command: str, arguments: Sequence[str], *, files: str) -> None:
    """Apply the operation with the name of a command to files, and print, draw and keep its result."""
    add_model_argument(parser)
    parser.add_argument("files", metavar="FILE[,FILE]", help=files)
    own = TaskOptions(parser, command, command)
    add_caption_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    own.add_layout()
    add_machine_options(parser)
    options = parser.read(arguments)
    if not options.caption and not any(getattr(options, name) for name in own.pictures):
        named = " or ".join(f"--{name} FILE" for name in own.pictures)
        raise RequestError(f"{command}: --no-caption is for pictures: add {named}")
    for name, endings in own.pictures.items():
        if getattr(options, name):
            check_ending(getattr(options, name), endings, f"--{name}")
    model = load_model(options)
    operation = own.create(FileOperation, options, model.config.task)
    result = operation.run(model, given_files(options))
    print_result(result, as_json=options.json)  # first, because saving fails if the model's folder is read-only
    with themed(options.theme):
        operation.draw(model, result, caption=options.caption)
    operation.keep(options.dir, model, result)
