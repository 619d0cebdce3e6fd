"""The commands that apply an operation to each line of a file: `regard score`, `align`, and those of other tasks."""

import inspect
import sys
from collections.abc import Sequence

from regard.cli.options import (
    Parser,
    add_ensemble_option,
    add_machine_options,
    add_model_argument,
    add_options,
    create,
    load_for,
)
from regard.task import LineOperation
from regard.tasks.arguments import add_layout_options, given_files
from regard.terminal import show


def run(task: str, kind: type[LineOperation], arguments: Sequence[str]) -> None:
    """Apply an operation to files, and print one result per line of the file.

    Args:
        task: Task of the operation.
        kind: The operation.
        arguments: Arguments of the command line.
    """
    first, _, rest = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    parser = Parser(kind.name, f"{first}\n{rest}".rstrip(), kind.examples)
    add_options(parser, kind)
    if kind.ensembles:
        add_ensemble_option(parser)
    add_model_argument(parser)
    parser.add_argument("files", metavar="FILE[,FILE]", help=kind.files)
    add_layout_options(parser, *kind.layout)
    add_machine_options(parser)
    options = parser.read(arguments)
    operation = create(kind, options)
    found = operation.run(load_for(task, options, kind.name), given_files(options))
    printed = 0
    for line, text in found.rows:
        show("\n" * (line - printed - 1) * found.padded + text)
        printed = line
    if found.padded and found.report.unit == "lines":
        show("\n" * (found.report.read - printed), end="")
    if found.report.skipped:
        show(found.report.render(), file=sys.stderr)
    if remark := found.remark():
        show(remark, file=sys.stderr)
