"""`regard generate`: continue a text with a language model."""

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from regard.cli.lines import add_output_option, output_file, read_lines
from regard.cli.options import (
    Parser,
    add_machine_options,
    add_model_argument,
    add_repetition_options,
    any_number,
    load_language_model,
    positive_number,
    whole_number,
)
from regard.terminal import show

if TYPE_CHECKING:
    from regard.tasks.language.results import Generation

_AT_ONCE = 256
"""Number of prompts that are continued together."""


def main(arguments: Sequence[str]) -> None:
    """Generate texts, and print them."""
    parser = _parser()
    options = parser.read(arguments)
    if options.prompts and options.input:
        parser.error("prompts and --input are both given; give only one of the two")
    if not options.prompts and not options.input and _is_piped():
        show(
            "regard: no prompt is given, so texts begin without one; to read prompts from a pipe, add --input /dev/stdin",
            file=sys.stderr,
        )
    # A missing file is found before the model is loaded.
    lines = read_lines(options.input, "continue") if options.input else options.prompts or [""]
    with output_file(options.output, "generate") as file:
        _generate(options, file, lines)


def _generate(options: argparse.Namespace, file: TextIO, lines: Iterable[str]) -> None:
    model = load_language_model(options, "generate")
    from regard.tasks.requests import text_blocks

    first = 0
    for prompts in text_blocks(lines, _AT_ONCE):
        found = model.generate(
            prompts,
            samples=options.samples,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            max_length=options.max_length,
            no_repeat_ngrams=options.no_repeat_ngrams,
            repetition_penalty=options.repetition_penalty,
            seed=options.seed,
            first=first,
            progress=len(prompts) > 1,
        )
        first += len(prompts)
        for one in (generation for own in found for generation in own):
            show(_render(one, options), file=file)


def _parser() -> Parser:
    parser = Parser(
        "generate",
        "Continue the given prompts or each line of --input FILE, or generate texts without a prompt.\n"
        "Each sample is printed on one line. A text with line breaks is printed on several lines and an empty one.\n"
        "The same command gives the same texts; another --seed gives others.",
        '  regard generate runs/stories "once upon a time" --samples 3\n'
        '  regard generate runs/stories "once upon a time" --temperature 0\n'
        "  regard generate runs/stories --samples 10 --temperature 0.8 --top-k 50 --seed 7",
    )
    add_model_argument(parser)
    parser.add_argument("prompts", nargs="*", metavar="PROMPT", help="the beginning of a text (default: none)")
    parser.add_argument("--input", metavar="FILE", help="text file with one prompt per line; /dev/stdin for a pipe")
    add_output_option(parser)
    parser.add_argument("--samples", type=positive_number, default=1, metavar="N", help="texts per prompt (default: 1)")
    parser.add_argument(
        "--temperature",
        type=any_number,
        metavar="T",
        help="temperature of the sampling; below 1 favours probable words, 0 always takes the most probable word\n"
        "(default: the run's setting)",
    )
    parser.add_argument("--top-k", type=whole_number, metavar="K", help="sample from the K most probable words only; 0 for all")
    parser.add_argument(
        "--top-p", type=any_number, metavar="P", help="sample from the most probable words that together have probability P"
    )
    add_repetition_options(parser)
    parser.add_argument("--max-length", type=whole_number, metavar="N", help="maximum number of tokens added to a prompt")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="seed of the sampling (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per text: prompt, text, log probability")
    add_machine_options(parser)
    return parser


def _is_piped() -> bool:
    """Return whether standard input is a pipe or a file; the user may then expect that it is read."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)


def _render(found: "Generation", options: argparse.Namespace) -> str:
    if not options.json:
        return found.text + "\n" * ("\n" in found.text)  # an empty line separates texts of several lines
    plain = {
        "prompt": found.prompt,
        "text": found.text,
        "log_probability": found.log_probability,
        "tokens": found.num_tokens,
        "finished": found.finished,
    }
    return json.dumps(plain, ensure_ascii=False)
