"""The page about commands: a section for each, made from its parser."""

import argparse
import contextlib
import io
import re
from collections.abc import Iterable, Iterator

from docs.site.folding import folded, search_field
from regard.cli.options import Parser
from regard.config.plugins import BUILT_IN

_CODE = re.compile(r"(`[^`]+`)")
_OPTION = re.compile(r"(?<![\w-])(--[a-z](?:[\w.-]*\w)?)")
_MARKUP = re.compile(r"([\\*_<>\[\]{}$|~#])")
_SETTINGS = "settings:\n"  # begins the part of `regard train TASK --help` that the pages about settings have
_ANY = "--any.setting"  # stands for all settings in the help of a command
_FEW = 8
"""More options than this are folded."""


def page() -> str:
    """Return the page in Markdown."""
    from regard.cli.main import command_names

    names = [
        name
        for command in command_names()
        for name in ([f"train {task}" for task in BUILT_IN] if command == "train" else [command])
    ]
    parsers = {name: parser_of(name.split()) for name in names}
    rows = [
        f"| [`{name}`](#regard-{name.replace(' ', '-')}) | {_prose(_summary(parser))} |" for name, parser in parsers.items()
    ]
    parts = [
        "# Commands",
        "`regard COMMAND --help` says the same in the terminal.",
        "\n".join(["| command | what it does |", "|---|---|", *rows]),
        search_field("Search the options:"),
        *("\n\n".join(_section(name, parser)) for name, parser in parsers.items()),
    ]
    return "\n\n".join(parts) + "\n"


def parser_of(arguments: list[str]) -> argparse.ArgumentParser:
    """Return the parser of a command: that which prints its help."""
    found: list[argparse.ArgumentParser] = []
    formatted = Parser.format_help

    def format_help(parser: Parser) -> str:
        found.append(parser)
        return formatted(parser)

    Parser.format_help = format_help  # type: ignore[method-assign]
    try:
        help_of(arguments)
    finally:
        Parser.format_help = formatted  # type: ignore[method-assign]
    return found[0]


def help_of(arguments: list[str]) -> str:
    """Return what `regard ARGUMENTS --help` prints."""
    from regard.cli.main import main

    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([*arguments, "--help"])
    return text.getvalue()


def _summary(parser: argparse.ArgumentParser) -> str:
    """Return the first sentence of a command's description."""
    return re.split(r"(?<=\.)\s|:\s|:$", " ".join((parser.description or "").split()), maxsplit=1)[0].rstrip(".") + "."


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [
        action
        for action in parser._actions
        if action.help is not argparse.SUPPRESS and not {"--help", _ANY} & set(action.option_strings)
    ]
    places = [action for action in actions if not action.option_strings]
    options = [action for action in actions if action.option_strings]
    yield f"## regard {name}"
    yield f"```shell\n{' '.join(['regard', name, *map(_place, places), *(['[OPTIONS]'] if options else [])])}\n```"
    for paragraph in re.split(r"\n\s*\n", parser.description or ""):
        yield _prose(" ".join(paragraph.split()))
    formatter = parser._get_formatter()
    for group in (places, options):
        if group:
            entries = "\n\n".join(
                f"`{_term(action)}`\n: {_prose(' '.join(formatter._expand_help(action).split()))}" for action in group
            )
            yield folded(f"{len(group)} options", entries) if len(group) > _FEW else entries
    if any(_ANY in action.option_strings for action in parser._actions):
        task = name.removeprefix("train ")
        link = f"[settings of {task}](settings-{task}.md)" if task in BUILT_IN else "[settings](settings.md)"
        yield f"Every one of the {link} is an option too, such as `--training.max_epochs 5`."
    examples = (parser.epilog or "").partition(_SETTINGS)[0].removeprefix("examples:\n")
    if examples.strip():
        yield f"```shell\n{_dedent(examples.splitlines())}\n```"


def _dedent(lines: Iterable[str]) -> str:
    return "\n".join(line.removeprefix("  ") for line in lines if line.strip())


def _place(action: argparse.Action) -> str:
    """Return an argument without an option as the usage shows it."""
    name = str(action.metavar or action.dest)
    return {None: name, "?": f"[{name}]", "*": f"[{name} …]", "+": f"{name} …"}.get(action.nargs, name)  # type: ignore[arg-type]


def _term(action: argparse.Action) -> str:
    """Return an argument, or an option and its value, such as `--units {auto,words}`."""
    if not action.option_strings:
        return _place(action)
    options = ", ".join(action.option_strings)
    if action.nargs == 0:
        return options
    if action.choices is not None and action.metavar is None:
        return f"{options} {'|'.join(map(str, action.choices))}"
    value = action.metavar or action.dest.upper()
    return f"{options} {' '.join(value) if isinstance(value, tuple) else value}{' …' if action.nargs in ('+', '*') else ''}"


def _prose(text: str) -> str:
    """Return text of a help as Markdown: code and options are code, and everything else is plain."""
    parts = _CODE.split(text)
    return "".join(part if place % 2 else _plain(part) for place, part in enumerate(parts))


def _plain(text: str) -> str:
    parts = _OPTION.split(text)
    return "".join(f"`{part}`" if place % 2 else _MARKUP.sub(r"\\\1", part) for place, part in enumerate(parts))
