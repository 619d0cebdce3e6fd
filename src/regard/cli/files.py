"""The commands that apply an operation to files, with one model or two: `regard evaluate`, `compare`, `align`, …."""

import argparse
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.cli.options import (
    Parser,
    add_caption_option,
    add_machine_options,
    add_model_argument,
    check_ending,
    check_pictures,
    given_files,
    kind_of,
    load_model,
    model_folder,
    print_result,
    set_threads,
)
from regard.cli.task_options import TaskOptions
from regard.errors import RequestError
from regard.rendering import themed
from regard.task import CompareOperation, FileOperation, LineOperation, Lines, find_task
from regard.terminal import show


def main(name: str, arguments: Sequence[str]) -> None:
    """Apply the operation with this name to files, and print, draw and keep its result."""
    parser = Parser(name, "")
    own = TaskOptions(parser, name, name)
    kinds: Any = own.operations.values()
    compares = all(issubclass(kind, CompareOperation) for kind in kinds)
    parser.description = "\n\n".join(dict.fromkeys(inspect.cleandoc(kind.__doc__ or "") for kind in kinds))
    parser.epilog = "examples:\n" + "\n".join(kind.examples for kind in kinds if kind.examples)
    if compares:
        parser.add_argument("dir", metavar="DIR", type=model_folder, help="a trained model's folder")
        parser.add_argument("second", metavar="DIR", type=model_folder, help="the folder of another model of the same kind")
    else:
        add_model_argument(parser)
    parser.add_argument("files", metavar="FILE[,FILE]", help="; or ".join(dict.fromkeys(kind.files for kind in kinds)))
    if own.pictures:
        add_caption_option(parser)
    if not all(issubclass(kind, LineOperation) for kind in kinds):
        parser.add_argument("--json", action="store_true", help="print one JSON object")
    own.add_layout()
    add_machine_options(parser)
    options = parser.read(arguments)
    (_compare if compares else _apply)(name, own, options)


def _apply(name: str, own: TaskOptions, options: argparse.Namespace) -> None:
    """Apply an operation to one model."""
    drawn = {picture: path for picture in own.pictures if (path := getattr(options, picture))}
    if own.pictures and not drawn:
        check_pictures(name, options, "add " + " or ".join(f"--{picture} FILE" for picture in own.pictures))
    for picture, path in drawn.items():
        check_ending(path, own.pictures[picture], f"--{picture}")
    if len({Path(path).resolve() for path in drawn.values()}) < len(drawn):
        raise RequestError(f"{name}: {' and '.join(f'--{picture}' for picture in drawn)} name the same file; name one for each")
    model = load_model(options)
    operation = own.create(FileOperation, options, model.config.task)
    result = operation.run(model, given_files(options))
    if isinstance(result, Lines):
        _print_lines(result)
        return
    print_result(result, as_json=options.json)  # first, because saving fails if the model's folder is read-only
    if own.pictures:
        with themed(options.theme):
            operation.draw(model, result, caption=options.caption)
    operation.keep(options.dir, model, result)


def _print_lines(found: Lines) -> None:
    """Print one result per line of a file, and the report on the file if lines were skipped."""
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


def _compare(name: str, own: TaskOptions, options: argparse.Namespace) -> None:
    from regard.tasks.loading import load

    set_threads(options.threads)
    first, second = (load(folder, device=options.device) for folder in (options.dir, options.second))
    task = first.config.task
    if task != second.config.task or task not in own.operations:
        kinds = f"{options.dir} holds {kind_of(first)} and {options.second} {kind_of(second)}"
        able = " or ".join(find_task(each).words.predictors for each in own.operations)
        raise RequestError(f"{name}: {kinds}; expected two models of one kind, {able}")
    operation = own.create(CompareOperation, options, task)
    found = operation.run((first, second), (options.dir, options.second), given_files(options))
    print_result(found, as_json=options.json)
