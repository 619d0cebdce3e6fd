"""The commands that apply an operation of a task to texts, such as `regard translate`; for files, see `regard.cli.files`."""

import argparse
import json
import os
import stat
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from regard.cli import files
from regard.cli.lines import output_file, read_lines, typed_lines
from regard.cli.options import (
    ATTENTION_FILES,
    PICTURE_OPTIONS,
    Parser,
    add_ensemble_option,
    add_machine_options,
    add_model_argument,
    add_options,
    add_picture_options,
    check_ending,
    check_pictures,
    create,
    load_for,
    record_of,
)
from regard.cli.tables import Table, is_table, open_table
from regard.errors import RequestError
from regard.task import AttentionOperation, Operation, Text, TextOperation, all_tasks
from regard.terminal import show
from regard.text.opening import check_file
from regard.text.rows import name_format
from regard.viz.labels import label

_MOST_UNKNOWN = 8


def find_operations() -> dict[str, tuple[str, type[Operation]]]:
    """Return the operations that are commands, by name, each with its first task; attention has the command `regard look`."""
    found: dict[str, tuple[str, type[Operation]]] = {}
    for task in all_tasks().values():
        for operation in task.operations:
            if not issubclass(operation, AttentionOperation):
                found.setdefault(operation.name, (task.name, operation))
    return found


def main(name: str, arguments: Sequence[str]) -> None:
    """Apply the operation with this name to texts or to a file, and print its results."""
    task, kind = find_operations()[name]
    if issubclass(kind, TextOperation):
        _operate_per_text(task, kind, arguments)
    else:
        files.main(name, arguments)


def _operate_per_text(task: str, kind: type[TextOperation], arguments: Sequence[str]) -> None:
    """Apply an operation to texts, and print its results."""
    name, parser = kind.name, _parser(kind)
    options = parser.read(arguments)
    if options.texts and options.input:
        parser.error(f"{kind.text}s and --input are both given; give only one of the two")
    operation = create(kind, options, kind.options().keys() - kind.service_only)
    _check_picture(kind, options)
    if operation.reads_words:
        from regard.cli import live_words

        live_words.main(operation, load_for(task, options, name), options)
        return
    tabular = _is_tabular(operation, options)
    lines = () if tabular else _read(kind, options)  # a missing file is found before the model is loaded
    with output_file(options.output, name) as file:
        model, table = load_for(task, options, name), None
        if tabular:
            from regard.tasks.requests import text_blocks

            rules = operation.text_columns(model.config)
            rules.given = rules.given[0] or _column_read(model), rules.given[1]
            table = open_table(options.input, rules, options.column, operation.columns)
            lines = text_blocks(table.texts(keep=not options.json), kind.block)
        _operate(operation, model, lines, None if options.json else table, file, options)


def _is_tabular(operation: TextOperation, options: argparse.Namespace) -> bool:
    """Return whether the input is a table to which results are added; check the names of the files and the options."""
    path = options.input
    tabular = bool(operation.columns and path and is_table(path))
    if not tabular:
        if getattr(options, "column", ""):
            raise RequestError(f"{operation.name}: --column is for tables: name a .csv, .tsv or .jsonl file with --input")
        return False
    check_file(Path(path), "a table")
    if options.json:
        return True
    operation.check_cells()
    if (named := name_format(options.output or "")) not in ("", name_format(path)):
        raise RequestError(
            f"{operation.name}: --output names '{options.output}' ({named}), "
            f"expected the format of --input ({name_format(path)})"
        )
    return True


def _column_read(model: Any) -> str:
    """Return the name of the column of texts that training read, whose rules also judge the content; empty if unknown."""
    report = model.bundle.report.get("train")
    names = report.get("columns") if isinstance(report, dict) else None
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) and not names[0].isdigit() else ""


def _operate(
    operation: TextOperation,
    model: Any,
    lines: Iterable[list[str]],
    table: Table | None,
    file: TextIO,
    options: argparse.Namespace,
) -> None:
    """Apply an operation to texts in groups, and print the results, as rows of a table if one is given, and remarks on them."""
    kind = type(operation)
    number = cut = 0
    if table is not None and (header := table.header()):
        show(header, file=file)
    unknown: dict[str, None] = {}
    for block in lines:
        # The number of a text seeds its samples, so it counts over all blocks.
        texts = [Text(line, place) for place, line in enumerate(block, number)]
        if len(unknown) <= _MOST_UNKNOWN:  # no more are named, and a file may have any number
            unknown |= dict.fromkeys(model.unknown_words([one.text for one in texts]))
        recorded = None if kind.picture and (options.json or options.heatmap) else ()
        results = operation.run(model, texts, record=recorded, progress=kind.streams and len(texts) > 1)
        for text, result in zip(texts, results, strict=True):
            number += 1
            if table is not None:
                show(table.render(text.text, operation.cells(result)), file=file)
            else:
                show(_printed(operation, result, number, options), file=file, flush=not options.input)
            cut += operation.is_cut(result)
            _draw(result, number, kind, options)
        if not options.input:  # a person who types texts reads the remark below each
            say_unknown(unknown)
            unknown = {}
    say_unknown(unknown)
    if cut:
        show(f"regard: {operation.remark(model, cut)}", file=sys.stderr)


def _printed(operation: TextOperation, result: Any, number: int, options: argparse.Namespace) -> str:
    """Return a result as text, or as JSON with `--json`: one object, or one per line if the result is a list."""
    if options.json:
        plain = operation.plain(result, getattr(options, "units", "auto"))
        listed = plain if isinstance(plain, list) else [plain]
        if listed:
            return "\n".join(json.dumps(one, ensure_ascii=False) for one in listed)
    return operation.render(result, number)


def say_unknown(words: Collection[str]) -> None:
    """Name the words that are not in the model's vocabulary, on standard error."""
    if words:
        shown = ", ".join(label(word, 24) for word in list(words)[:_MOST_UNKNOWN])
        show(f"regard: not in the vocabulary: {shown}{' and others' * (len(words) > _MOST_UNKNOWN)}", file=sys.stderr)


def _check_picture(kind: type[TextOperation], options: argparse.Namespace) -> None:
    """Check `--heatmap` and the options for pictures, before a model is loaded."""
    if not kind.picture:
        return
    if not options.heatmap:
        check_pictures(kind.name, options, "name one with --heatmap, such as --heatmap map.png")
    if options.heatmap and Path(options.heatmap).suffix:
        check_ending(options.heatmap, ATTENTION_FILES, "--heatmap")
        if (count := len(options.texts)) > 1:
            raise RequestError(f"--heatmap names the file {options.heatmap}, but there are {count} {kind.text}s: name a folder")


def _draw(result: Any, number: int, kind: type[TextOperation], options: argparse.Namespace) -> None:
    """Draw the attention of the text with this number, from 1, into the file or the folder that `--heatmap` names."""
    if not kind.picture or not options.heatmap:
        return
    target = Path(options.heatmap)
    if not target.suffix:
        target.mkdir(parents=True, exist_ok=True)
        target /= f"{number}.png"
    elif number > 1:
        raise RequestError(f"--heatmap names the file {target}, but there are several {kind.text}s: name a folder")
    record = record_of(result.attention, "--heatmap")
    shown = {name: getattr(options, name) for name in PICTURE_OPTIONS}
    record.save(target, **shown)


def _parser(kind: type[TextOperation]) -> Parser:
    parser = Parser(kind.name, kind.help or str(kind.__doc__), kind.examples)
    add_model_argument(parser)
    parser.add_argument("texts", nargs="*", metavar=kind.text.upper(), help=f"{kind.text} to {kind.name}")
    tables = ", or a table (.csv .tsv .jsonl), to which the results are added as columns" if kind.columns else ""
    parser.add_argument(
        "--input", metavar="FILE", help=f"text file with one {kind.text} per line{tables}; /dev/stdin for a pipe"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file for the result, which is written completely or not at all (default: standard output)",
    )
    if kind.columns:
        parser.add_argument(
            "--column",
            metavar="NAME",
            default="",
            help=f"the table's column with the {kind.text}s, by name or number (default: that of the training data, or the "
            "column with a usual name)",
        )
    add_options(parser, kind, kind.options().keys() - kind.service_only)
    parser.add_argument("--json", action="store_true", help="print one JSON object per result")
    if kind.picture:
        parser.add_argument(
            "--heatmap",
            metavar="FILE",
            help=f"draw {kind.picture} ({' '.join(ATTENTION_FILES)}); with several {kind.text}s, name a folder, into which "
            "1.png, 2.png, … are written",
        )
        add_picture_options(parser)
    if kind.ensembles:
        add_ensemble_option(parser)
    add_machine_options(parser)
    return parser


def _read(kind: type[TextOperation], options: argparse.Namespace) -> Iterable[list[str]]:
    """Return the texts in groups that are processed together."""
    from regard.tasks.requests import text_blocks

    if options.texts:
        texts = [" ".join(text.split()) for text in options.texts] if kind.reads_stdin else options.texts
        kind.require_text(texts)
        return text_blocks(texts, kind.block)
    if options.input:
        return text_blocks(read_lines(options.input, kind.name, kept=kind.kept), kind.block)
    if kind.reads_stdin:
        return typed_lines(kind.name, kind.text, kept=kind.kept)
    if _is_piped():
        show(
            f"regard: no {kind.text} is given, so texts begin without one; to read {kind.text}s from a pipe, add "
            "--input /dev/stdin",
            file=sys.stderr,
        )
    return [[""]]


def _is_piped() -> bool:
    """Return whether standard input is a pipe or a file; the user may then expect that it is read."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)
