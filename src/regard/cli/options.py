"""Options that several commands share."""

import argparse
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args, get_origin

from regard.config.fields import FieldFacts, Role, facts_of
from regard.errors import RequestError, nearest
from regard.processes.cores import count_cores
from regard.processes.ranks import read_ranks
from regard.rendering import PAGE, PICTURES, Theme, Units
from regard.task import Files, Operation, TextOperation, find_task
from regard.terminal import show

if TYPE_CHECKING:
    from regard.records import AttentionRecord
    from regard.task import Result
    from regard.tasks.predictor import Predictor

PICTURE_OPTIONS = ("units", "special", "caption", "theme", "scale")
"""Options of `add_picture_options`, as `AttentionRecord.save` names them."""
ATTENTION_FILES = (*PICTURES, PAGE, ".json", ".npz")
"""Endings of the files to which a command can write attention: pictures, web pages and data."""

OperationT = TypeVar("OperationT", bound=Operation)
Number = TypeVar("Number", int, float)


class _Operand(str):
    """An argument after `--`, which is never an option, even if it begins with `-`."""


class Parser(argparse.ArgumentParser):
    """An argparse parser that accepts no abbreviated options. Wrong arguments raise a `RequestError`."""

    def __init__(self, command: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=f"regard {command}",
            description=description,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.register("type", None, str)

    stray = ""
    """Advice at the end of the error for an unexpected argument that is not an option; empty for no advice."""

    def error(self, message: str) -> NoReturn:
        """Raise an error with the message and the name of the command; argparse calls this instead of ending the process."""
        raise RequestError(f"{self.prog.removeprefix('regard ')}: {message} (`{self.prog} --help` explains)")

    def _parse_optional(self, arg_string: str) -> Any:
        return None if isinstance(arg_string, _Operand) else super()._parse_optional(arg_string)

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a command line, in which options and other arguments may be mixed in any order; `--` ends the options.

        The error for an unknown option gives regard's name for another tool's option, or the most similar option.
        """
        if "--" in arguments:
            end = arguments.index("--")
            arguments = [*arguments[:end], *map(_Operand, arguments[end + 1 :])]
        parsed, unknown = self.parse_known_intermixed_args(arguments)
        for action in self._actions:
            if action.metavar in _NAMES and action.option_strings and getattr(parsed, action.dest) == "":
                self.error(f"{action.option_strings[0]} is empty, expected the name of {_NAMES[action.metavar]}")
        if unknown:
            options = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
            name = unknown[0].partition("=")[0]
            if name.startswith("-"):
                from regard.cli.habits import find_habit

                known = find_habit("using", name)
                known = known if not known.startswith("--") or known.split()[0] in options else ""
                self.error(f"unexpected argument '{unknown[0]}'{f'; in regard: {known}' if known else nearest(name, options)}")
            self.error(f"unexpected argument '{unknown[0]}'{self.stray}")
        return parsed


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """Add the folder of a trained model."""
    parser.add_argument("dir", metavar="DIR", type=model_folder, help="a trained model's folder, or hf://USER/NAME")


def model_folder(name: str) -> str:
    """Return the folder that an argument names; a model on the hub (`hf://…`) is first downloaded into the cache."""
    if not name.startswith("hf://"):
        return name
    from regard.hub.download import local_folder

    return str(local_folder(name))


def at_least(low: Number) -> Callable[[str], Number]:
    """Return a function with which argparse parses a finite number of `low` or more; if `low` is whole, so is the number."""
    kind = "whole" if isinstance(low, int) else "finite"

    def parse(text: str) -> Number:
        try:
            number = type(low)(text)
        except ValueError:
            number = None
        if number is None or not low <= number < math.inf:
            raise argparse.ArgumentTypeError(f"'{text}' is not a {kind} number of {low:g} or more")
        return number

    return parse


def add_machine_options(parser: argparse.ArgumentParser, *, threads: str = "all cores that this process may use") -> None:
    """Add `--device` and `--threads`; `threads` is the default number of threads in words, for the help text."""
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N, or mps (default: auto)")
    parser.add_argument("--threads", type=at_least(0), default=0, metavar="N", help=f"CPU threads (default: {threads})")


def add_ensemble_option(parser: argparse.ArgumentParser) -> None:
    """Add `--ensemble`."""
    parser.add_argument(
        "--ensemble",
        action="append",
        type=model_folder,
        metavar="DIR",
        help="another model with the same vocabularies, whose probabilities are averaged with DIR's; may be given several "
        "times",
    )


_NAMES: dict[Any, str] = {"FILE": "a file", "DIR": "a folder", "FOLDER": "a folder"}
_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}


def add_options(parser: "argparse._ActionsContainer", operation: type[Operation], names: Iterable[str] | None = None) -> None:
    """Add options of an operation, or those of them in `names`: types, ranges and help texts are those of its fields."""
    run = operation.run_options()
    for name, facts in operation.options().items():
        if names is not None and name not in names:
            continue
        settings: dict[str, Any] = {"default": None, "dest": name}
        kind: Any = facts.type
        default = f" (default: {facts.default})" if isinstance(facts.default, int | float) else ""
        if get_origin(kind) is tuple:
            kind, default = str, ""
            settings["action"] = "append"
        if kind is bool:
            settings |= {"action": "store_const", "const": True}
            default = ""
        elif facts.choices:
            settings["choices"] = [choice for choice in facts.choices if choice]
        else:
            endings = getattr(operation, "pictures", {}).get(name)
            settings |= {"type": parser_of(facts) if kind in (int, float) else str}
            settings["metavar"] = "FILE" if endings else _METAVARS.get(kind, "TEXT")
            default = f" ({' '.join(endings)})" if endings else default
        default = " (default: the run's setting)" if name in run else "" if "default" in facts.help else default
        flag = operation.flags.get(name, f"--{name.replace('_', '-')}")
        parser.add_argument(flag, help=_as_help(facts.help, default), **settings)


def add_layout_options(parser: argparse.ArgumentParser, tasks: Iterable[str]) -> None:
    """Add options for the settings of tasks that describe the layout of a file, such as `--data.columns`."""
    group = parser.add_argument_group(
        "layout of the file, if regard does not detect it (by default, the file is read like the training data)"
    )
    helps: dict[str, str] = {}
    for task in tasks:
        settings = facts_of(facts_of(find_task(task).config_class)["data"].type)
        helps = {name: facts.help for name, facts in settings.items() if Role.LAYOUT in facts.roles} | helps
    for name, words in helps.items():
        group.add_argument(f"--data.{name}", metavar="VALUE", help=_as_help(words))


def given_files(options: argparse.Namespace) -> Files:
    """Return the files of a command line, with the layout options that the user gave."""
    given = {name: value for name, value in vars(options).items() if value is not None}
    return Files(options.files, {name[5:]: value for name, value in given.items() if name.startswith("data.")})


def _as_help(words: str, default: str = "") -> str:
    """Return the help text of a field, with its default, as that of an option."""
    return f"{words[:1].lower()}{words[1:].rstrip('.')}{default}".replace("%", "%%")


def parser_of(facts: FieldFacts) -> Callable[[str], Any]:
    """Return a function with which argparse parses an option, and checks its range."""

    def parse(text: str) -> Any:
        try:
            return facts.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def create(operation: type[OperationT], options: argparse.Namespace, names: Iterable[str] | None = None) -> OperationT:
    """Build an operation from the options of a command line; those that are not in `names` get their defaults."""
    given = {name: getattr(options, name, None) for name in operation.options() if names is None or name in names}
    return operation.create(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def add_theme_option(parser: argparse.ArgumentParser) -> None:
    """Add `--theme`."""
    parser.add_argument(
        "--theme",
        choices=get_args(Theme),
        default="light",
        help="colours of pictures: on white, on a dark background, or dark letters without a background (default: light)",
    )


def add_caption_option(parser: argparse.ArgumentParser) -> None:
    """Add `--no-caption` and `--theme`."""
    parser.add_argument(
        "--no-caption",
        action="store_false",
        dest="caption",
        help="leave out the text below pictures, for example for a paper with its own captions",
    )
    add_theme_option(parser)


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Add `--units`, `--special`, `--scale`, `--no-caption` and `--theme`, for pictures of attention."""
    parser.add_argument(
        "--units",
        choices=get_args(Units),
        default="auto",
        help="show tokens, characters (if the model's tokens are characters) or words; auto shows characters for a side\n"
        "whose tokens are characters, and words for other sides (default: auto)",
    )
    parser.add_argument(
        "--special",
        action="store_true",
        help="also draw special tokens, such as the end of the sentence (default: leave them out)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        metavar="X",
        help="weight with the darkest colour of a picture, so that pictures can be compared (default: the largest weight,\n"
        "rounded up to a number such as 0.1, 0.12, 0.16, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8 or 1)",
    )
    add_caption_option(parser)


# The options that only pictures have, by their names on the command line, with their defaults.
_PICTURES_ONLY: Mapping[str, Any] = {"special": False, "no-caption": True, "theme": "light", "scale": None}


def check_pictures(command: str, options: argparse.Namespace, advice: str, *, names: Iterable[str] = _PICTURES_ONLY) -> None:
    """Raise an error if one of the options for pictures is given, because no picture is drawn; the advice names one."""
    for name in names:
        default = _PICTURES_ONLY[name]
        if getattr(options, name.removeprefix("no-"), default) != default:
            raise RequestError(f"{command}: --{name} is for pictures: {advice}")


def print_result(found: "Result", *, as_json: bool) -> None:
    """Print a result as text, or as one JSON object."""
    show(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else found.render(), flush=True)


def load_model(arguments: argparse.Namespace) -> Any:
    """Load the trained model that a command line names, or an ensemble of several, and set the device and the threads."""
    from regard.tasks.loading import load

    set_threads(arguments.threads)
    others = getattr(arguments, "ensemble", None) or []
    return load([arguments.dir, *others] if others else arguments.dir, device=arguments.device)


def kind_of(model: "Predictor") -> str:
    """Return the kind of a model, with an article, such as `a translator`."""
    return find_task(model.config.task).words.predictor


def load_for(task: str, arguments: argparse.Namespace, command: str) -> Any:
    """Load a model that must be for a task."""
    found = load_model(arguments)
    if found.config.task != task:
        use = next((one.name for one in find_task(found.config.task).operations if issubclass(one, TextOperation)), "")
        advice = f"; `regard {use}` uses it" if use else ""
        raise RequestError(
            f"{command}: {arguments.dir} holds {kind_of(found)}, expected {find_task(task).words.predictor}{advice}"
        )
    return found


def record_of(record: "AttentionRecord | None", caller: str) -> "AttentionRecord":
    """Return the attention of a prediction; raise an error, which names the caller, if it has none over the source."""
    if record is None:
        raise RequestError(f"{caller}: this model has no attention over the source, so there is nothing to show")
    return record


def set_threads(threads: int, *, spare: int = 0) -> None:
    """Set the number of CPU threads that PyTorch uses; 0 for this process's share of the cores, except `spare` of them."""
    import torch

    ranks = read_ranks()
    share = max(1, count_cores(ranks.local_size) - spare)
    # One process never gets more than PyTorch's current number. For several, it is ignored, because torchrun sets it to 1.
    torch.set_num_threads(threads or (min(torch.get_num_threads(), share) if ranks.alone else share))


def check_ending(path: str, endings: Iterable[str], option: str) -> None:
    """Raise an error if a file name, given by `option`, has none of the endings; commands call this before they do any work."""
    known = list(endings)
    if Path(path).suffix.lower() not in known:
        raise RequestError(f"{option} names '{path}', expected a file that ends in {', '.join(known)}")
