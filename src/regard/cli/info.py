"""`regard info`: describe a run or a trained model."""

from collections.abc import Sequence

from regard.cli.options import Parser, model_folder, print_result


def main(arguments: Sequence[str]) -> None:
    """Print what a folder holds."""
    parser = Parser(
        "info",
        "Describe a run or a trained model: size and attention of the model, data, scores on the dev set, vocabulary, and\n"
        "how it was trained. For a run that has not finished, the state so far is shown. The model itself is not run.",
        "  regard info runs/mine\n  regard info runs/mine --json",
    )
    parser.add_argument("dir", metavar="DIR", type=model_folder, help="folder of a run or of a trained model")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.read(arguments)

    from regard.analysis.run_info import info

    found = info(options.dir)
    print_result(found, as_json=options.json)
