"""`regard align`: align the words of given sentence pairs."""

from collections.abc import Sequence

from regard.cli.options import Parser, add_units_option, load_for, record_of
from regard.cli.pair_lines import add_pair_options, print_lines
from regard.tasks.arguments import given_files, whole_number
from regard.tasks.translation.reading import read_given_pairs


def main(arguments: Sequence[str]) -> None:
    """Print the alignment of each pair in Pharaoh format."""
    parser = Parser(
        "align",
        "Align the words of sentence pairs by the attention of a trained model.\n"
        "For each line of the file, one line of links is printed, such as `0-0 1-2` (source word-target word, from 0).\n"
        "On a side whose tokens are characters, the numbers count characters and spaces, unless --units words is given.\n"
        "The line is empty if the file's line contains no pair.",
        "  regard align runs/mine pairs.tsv > pairs.align\n  regard align runs/mine test.en,test.de\n"
        "  regard align runs/mine pairs.tsv --site norm.1 --step consume",
    )
    parser.add_argument("--site", metavar="NAME", help="attention site to use, such as cross.2 or norm.2 (default: cross)")
    parser.add_argument("--head", type=whole_number, metavar="N", help="head of that site, from 0 (default: mean of all heads)")
    parser.add_argument(
        "--step",
        choices=("produce", "consume"),
        help="use the attention of the step that produces a word, or of the next step, which consumes it (default: the\n"
        "model's choice, produce for every model of regard; choose consume if it aligns pairs with known links better)",
    )
    add_units_option(parser)
    add_pair_options(parser)
    options = parser.read(arguments)
    translator = load_for("translation", options, "align")
    chunks, report = read_given_pairs(given_files(options), translator.config)
    step = options.step or translator.model.alignment_step
    sites = None if options.site is None else (options.site,)
    rows = (
        (line, record_of(result.attention, "align").pharaoh(options.site, options.head, step=step, units=options.units))
        for chunk in chunks
        for line, result in zip(chunk.line, translator.force(chunk.source, chunk.target, record=sites), strict=True)
    )
    print_lines(rows, report)
