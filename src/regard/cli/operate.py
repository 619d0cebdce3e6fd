"""The commands that apply an operation of a task to texts, such as `regard translate`; for files, see `regard.cli.files`."""

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard.cli import files
from regard.cli.lines import add_output_option, output_file, read_lines, typed_lines
from regard.cli.options import (
    PICTURE_OPTIONS,
    PICTURES,
    Parser,
    add_ensemble_option,
    add_machine_options,
    add_model_argument,
    add_options,
    add_picture_options,
    check_ending,
    create,
    load_for,
    record_of,
)
from regard.errors import RequestError
from regard.task import AttentionOperation, Operation, Text, TextOperation, all_tasks
from regard.terminal import show


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
    lines = _read(kind, options)  # a missing file is found before the model is loaded
    with output_file(options.output, name) as file:
        model = load_for(task, options, name)
        number = cut = 0
        for block in lines:
            # The number of a text seeds its samples, so it counts over all blocks.
            texts = [Text(line, place) for place, line in enumerate(block, number)]
            recorded = None if kind.picture and (options.json or options.heatmap) else ()
            for result in operation.run(model, texts, record=recorded, progress=kind.streams and len(texts) > 1):
                number += 1
                plain = operation.plain(result, getattr(options, "units", "auto")) if options.json else None
                listed = plain if isinstance(plain, list) else [plain]
                printed = [json.dumps(one, ensure_ascii=False) for one in listed] if options.json else []
                show("\n".join(printed) or operation.render(result, number), file=file, flush=not options.input)
                cut += operation.is_cut(result)
                _draw(result, number, kind, options)
    if cut:
        show(f"regard: {operation.remark(model, cut)}", file=sys.stderr)


def _check_picture(kind: type[TextOperation], options: argparse.Namespace) -> None:
    """Check `--heatmap` and the options for pictures, before a model is loaded."""
    if not kind.picture:
        return
    asked = {
        "special": options.special,
        "no-caption": not options.caption,
        "theme": options.theme != "light",
        "scale": options.scale is not None,
    }
    for option, given in asked.items():
        if given and not options.heatmap:
            raise RequestError(f"{kind.name}: --{option} is for pictures: name one with --heatmap, such as --heatmap map.png")
    if options.heatmap and Path(options.heatmap).suffix:
        check_ending(options.heatmap, PICTURES, "--heatmap")
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
    parser.add_argument("--input", metavar="FILE", help=f"text file with one {kind.text} per line; /dev/stdin for a pipe")
    add_output_option(parser)
    add_options(parser, kind, kind.options().keys() - kind.service_only)
    parser.add_argument("--json", action="store_true", help="print one JSON object per result")
    if kind.picture:
        parser.add_argument(
            "--heatmap",
            metavar="FILE",
            help=f"draw {kind.picture} ({' '.join(PICTURES)}); with several {kind.text}s, name a folder, into which 1.png, "
            "2.png, … are written",
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
