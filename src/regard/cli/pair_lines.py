"""Options and output of commands that print one line for each line of a file of pairs."""

import sys
from collections.abc import Iterable

from regard.cli.options import Parser, add_machine_options, add_model_argument
from regard.tasks.arguments import add_layout_options
from regard.tasks.translation.reading import PAIR_LAYOUT
from regard.terminal import show
from regard.text.report import ReadingReport


def add_pair_options(parser: Parser) -> None:
    """Add the options that name a model, the files of pairs, their layout, and the machine."""
    add_model_argument(parser)
    parser.add_argument("files", metavar="FILE[,FILE]", help="one file of pairs, or two parallel text files")
    add_layout_options(parser, *PAIR_LAYOUT)
    add_machine_options(parser)


def print_lines(rows: Iterable[tuple[int, str]], report: ReadingReport) -> None:
    """Print the text of each line of the file, given with its number from 1 on, and an empty line if a line contains no pair.

    The report on the file, which is complete only after the last row, is printed on standard error if lines were skipped.
    """
    printed = 0
    for line, text in rows:
        show("\n" * (line - printed - 1) + text)
        printed = line
    if report.unit == "lines":
        show("\n" * (report.read - printed), end="")
    print_skipped(report)


def print_skipped(report: ReadingReport) -> None:
    """Print the report on a file on standard error, if lines of the file were skipped."""
    if report.skipped:
        show(report.render(), file=sys.stderr)
