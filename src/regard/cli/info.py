"""`regard info`: describe a run or a trained model."""

from collections.abc import Sequence

from regard.cli.options import Parser, model_folder, print_result
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Print what a folder holds."""
    parser = Parser(
        "info",
        "Describe a run or a trained model: size and attention of the model, data, scores on the dev set, vocabulary, and\n"
        "how it was trained. For a run that has not finished, the state so far is shown. The model itself is not run.",
        "  regard info runs/mine\n  regard info runs/mine --json\n  regard info runs/mine --words",
    )
    parser.add_argument("dir", metavar="DIR", type=model_folder, help="folder of a run or of a trained model")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--words",
        action="store_true",
        help="print only the words (or parts of words) in the vocabulary of the model's input, one per line",
    )
    options = parser.read(arguments)
    if options.words and options.json:
        parser.error("--words and --json are both given; give only one of the two")

    from regard.analysis.run_info import info, known_words

    if options.words:
        for word in known_words(options.dir):
            show(word)
        return
    found = info(options.dir)
    print_result(found, as_json=options.json)
