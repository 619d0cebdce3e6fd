"""`regard look`: show a prediction and its attention."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.cli.operate import say_unknown
from regard.cli.options import (
    ATTENTION_FILES,
    PICTURE_OPTIONS,
    Parser,
    add_machine_options,
    add_model_argument,
    add_picture_options,
    check_ending,
    check_pictures,
    load_model,
    record_of,
)
from regard.cli.task_options import TaskOptions
from regard.errors import RequestError, nearest
from regard.rendering import PICTURES
from regard.task import AttentionOperation, Text
from regard.terminal import show


def main(arguments: Sequence[str]) -> None:
    """Make a prediction for a sentence, and show the attention."""
    parser, own = _parser()
    options = parser.read(arguments)
    if not options.sentence.strip():
        raise RequestError("look: the sentence is empty")
    if options.to:
        check_ending(options.to, ATTENTION_FILES, "--to")
    else:
        check_pictures("look", options, "name one with --to, such as --to map.png", names=("theme", "scale"))
    model = load_model(options)

    operation: AttentionOperation = own.create(AttentionOperation, options, model.config.task)
    if options.attribution and options.heads:
        raise RequestError("look: --heads is for attention, and --attribution shows another site; leave one of them out")
    if sites := _heads(model.model.sites, options):
        operation = replace(operation, sites=tuple(dict.fromkeys([*model.main_sites, *sites])))
    [found] = operation.run(model, [Text(options.sentence)])
    record, site = record_of(found.record, "look"), found.site

    if options.to:
        family = options.heads or (site and site.partition(".")[0])
        pictured = family and Path(options.to).suffix.lower() in PICTURES
        # A picture shows the heads of one kind of attention; pages and data contain all sites.
        drawn = found.site if options.attribution else f"{family}.*" if pictured else None
        record.save(options.to, site=drawn, **{name: getattr(options, name) for name in PICTURE_OPTIONS})
        label = [record.target_text] if record.is_classification else []
        show(f"written to {options.to}: {' · '.join([*found.headline.splitlines(), *label])}")
        say_unknown(model.unknown_words([options.sentence]))
        return
    from regard.console import SafeConsole
    from regard.viz import terminal

    show(f"{found.headline}\n")
    shown = {"site": site, "special": options.special, "caption": options.caption}
    terminal.render(record.in_units(options.units), SafeConsole(), **shown)
    if site is not None and options.caption and not options.attribution:
        show("Add --to FILE to draw all layers and heads.")


def _parser() -> tuple[Parser, TaskOptions]:
    parser = Parser(
        "look",
        "Translate a sentence and show the attention of each output word. With a classifier, label the text and show\n"
        "which words got the attention. With a language model, show each word's attention to the earlier words.\n"
        "With a captioner, write a text about an image, and show where each word looked. With a tagger, tag each word, and\n"
        "show which words each tag attended to.",
        '  regard look runs/mine "The old man sang."\n'
        '  regard look runs/mine "The old man sang." --to map.png\n'
        '  regard look runs/mine "The old man sang." --target "Der alte Mann sang."\n'
        '  regard look runs/reviews "a gripping , honest film" --to words.html\n'
        '  regard look runs/reviews "a gripping , honest film" --attribution integrated\n'
        '  regard look runs/stories "once upon a time" --to heads.png\n'
        '  regard look runs/transformer "The old man sang." --heads cross --to heads.png\n'
        '  regard look runs/transformer "The old man sang." --heads all --to heads.html',
    )
    parser.stray = "; put the sentence in quotation marks"
    add_model_argument(parser)
    parser.add_argument(
        "sentence",
        metavar="SENTENCE",
        help="sentence to translate, to label, to tag, or to read; for a captioner the file of an image",
    )
    own = TaskOptions(parser, "look", "attention", without=("sites", "max_length"))
    parser.add_argument(
        "--to", metavar="FILE", help=f"write the attention to a file, instead of printing it ({' '.join(ATTENTION_FILES)})"
    )
    parser.add_argument(
        "--heads",
        metavar="NAME",
        help="draw all layers and heads of one kind of a Transformer's attention: encoder, decoder, cross, or norm (cross,\n"
        "weighted by the norms of the values); or all, to write every kind to a page or a data file",
    )
    add_picture_options(parser)
    add_machine_options(parser)
    return parser, own


def _heads(sites: Sequence[str], options: argparse.Namespace) -> list[str] | None:
    """Return the attention sites that `--heads` chooses; None if it is not given."""
    if options.heads is None:
        return None
    if not options.to:
        raise RequestError("look: --heads draws into a file; name it with --to, such as --to heads.png")
    families = list(dict.fromkeys(site.partition(".")[0] for site in sites if "." in site))
    if not families:
        raise RequestError(
            f"look: --heads is for models with several layers, but the model in {options.dir} has only one attention"
        )
    if options.heads == "all":
        if Path(options.to).suffix.lower() in PICTURES:
            raise RequestError(
                f"look: a picture shows one kind of heads: {', '.join(families)}; --to heads.html contains all of them"
            )
        return list(sites)
    if options.heads not in families:
        close = nearest(options.heads, families)
        raise RequestError(
            f"look: --heads is {options.heads!r}, expected {', '.join(families)}, or all for pages and data{close}"
        )
    return [site for site in sites if site.startswith(f"{options.heads}.")]
