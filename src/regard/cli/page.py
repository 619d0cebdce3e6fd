"""`regard page`: write an HTML page to use a trained model, inspect it, and change its attention."""

import sys
from collections.abc import Sequence

from regard.cli.options import Parser, model_folder
from regard.errors import RequestError, install_command
from regard.terminal import show

_MOST_EXAMPLES = 20


def main(arguments: Sequence[str]) -> None:
    """Write a page, and print its path, its size and its models."""
    parser = Parser(
        "page",
        "Write one HTML file that contains a trained translator, language model or classifier. It opens with a double click,\n"
        "without server, installation or network: type a sentence, and see the output and the attention; step through the\n"
        "decoding and choose other words; drag attention to other words, and see what changes. With several models of one\n"
        "task, the page compares them. The size of the file is about 5 MB plus 1.3 times the size of the model.\n"
        f"Requires: {install_command('onnx')}",
        "  regard page runs/mine --to playground.html\n"
        '  regard page runs/mine --to playground.html --example "The old man sang." --example "The children have seen a dog."\n'
        "  regard page runs/bahdanau runs/luong --to compare.html\n"
        "  regard page runs/reviews --to reviews.html --examples texts.txt",
    )
    parser.add_argument(
        "dirs", metavar="DIR", nargs="+", type=model_folder, help="folder of a trained model; up to four of one task"
    )
    parser.add_argument("--to", required=True, metavar="FILE", help="HTML file to write")
    parser.add_argument(
        "--example",
        action="append",
        default=[],
        metavar="TEXT",
        help="example text on the page; may be given several times, and the page opens with the first (default: held-out "
        "texts of the data, or training texts if none were held out; without the files of the data, built-in English texts "
        "with words that the model knows)",
    )
    parser.add_argument("--examples", metavar="FILE", help="text file with an example per line; the first 20 are used")
    parser.add_argument("--title", default="", help="title of the page (default: the names of the models)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    options = parser.read(arguments)

    from regard.cli.lines import read_lines
    from regard.cli.tables import is_table
    from regard.export.page import write_page
    from regard.text.bars import working

    if options.examples and is_table(options.examples):
        raise RequestError(
            f"{options.examples} is named like a table, but --examples reads a text file with one example per line; write the "
            "column of texts to a text file, such as examples.txt"
        )
    examples = list(options.example)
    if options.examples:
        examples += [line for line in read_lines(options.examples, "show") if line.strip()][:_MOST_EXAMPLES]
    with working("exporting the models"):
        page = write_page(options.dirs, options.to, examples=examples, title=options.title, overwrite=options.overwrite)
    if page.note:
        show(f"regard: {page.note}", file=sys.stderr)
    show(f"{page.path}: {page.size / 1e6:.1f} MB, with {', '.join(page.models)}; open it in a browser")
