"""`regard train`: train a model of a task on examples from files."""

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.habits import find_habit
from regard.cli.options import Parser, model_folder
from regard.config.loading import Layer, lay_over, load_config, override_layer, read_layer, setting_names
from regard.config.plugins import KINDS, entry_names, is_task, task_names
from regard.config.run import RunConfig
from regard.errors import RequestError, nearest
from regard.processes.ranks import read_ranks
from regard.task import Files, all_tasks, find_task
from regard.terminal import show

if TYPE_CHECKING:
    from regard.config.describe import Setting

_NOTE = """\
Every setting can be an option (--training.max_epochs 5) or a line of a YAML file for --config. The command line
overrides the file, and the file overrides the preset. Without a preset, the settings of model, tokenizers, training and
search are chosen from the data, and the report shows them; the defaults shown here then apply only to the other settings.
Setting another `kind` for a part resets the other settings of that part."""


_HELP = {"-h", "--help", "--help-all"}
_FILES = ("data.train", "data.dev")
# Settings that are often set, of all tasks, in the order of the help text.
_OFTEN = (
    *("data.source", "data.target", "data.columns", "data.text", "data.label", "data.dev", "data.max_pairs", "data.max_texts"),
    *("tokenizers.source.kind", "tokenizer.kind", "model.kind", "training.max_epochs"),
    *("training.max_minutes", "training.batch_tokens", "training.learning_rate", "training.patience", "seed"),
)


def main(arguments: Sequence[str]) -> None:
    """Train a model or the models of a cross-validation, or print help."""
    if not arguments or arguments[0] in ("-h", "--help"):
        show("usage: regard train TASK --data.train FILE [...]\n")
        for name, known in all_tasks().items():
            summary = known.words.summary
            show(f"  regard train {name:<15} {summary[0].lower()}{summary[1:-1]} (`regard train {name} --help`)")
        return
    task, *rest = arguments
    if not is_task(task):
        raise _unknown_task(task)
    if not _HELP.isdisjoint(rest):
        show(_help(task, rest))
        return
    config = read_arguments(task, rest, choose=True)
    from regard.training import cross_validate, fit

    if find_task(task).training.folds(config) and "fold" not in _named(rest):
        show(cross_validate(config).render())
        return
    fit(config)
    say_what_next(config.out, config)


def read_arguments(task: str, arguments: Sequence[str], *, choose: bool = False) -> RunConfig:
    """Build the configuration that a command line, without the task, describes.

    Layers of settings take precedence in this order: options, file, teachers, preset or model to start from, task. With
    `choose`, and with neither a preset nor a model to start from, further settings are chosen from the data.
    """
    _check_habits(task, arguments)
    flags = {"--preset": True, "--config": True, "--from": True, "--distill": True, "--overwrite": False}
    overrides, rest = split_settings(f"train {task}", arguments, flags)
    if overrides.get("out") == "":
        raise RequestError(f"train {task}: --out is empty, expected the folder of the run, such as --out runs/mine")
    parser = _parser(task)
    parser.stray = "; files are named by --data.train FILE or FILE,FILE, in quotation marks if a name contains spaces"
    options = parser.read(rest)
    settings = read_settings(task, overrides)
    if options.start_from:
        settings["start_from"] = options.start_from
    if options.distill:
        settings["distillation.teachers"] = options.distill
    if options.overwrite:
        settings["overwrite"] = True
    file = Layer({}) if options.config is None else _checked(read_layer(options.config), options.config, task, default=task)
    given = lay_over(file, override_layer(settings)).values
    preset, start = options.preset, str(given.get("start_from") or "")
    # Later layers take precedence.
    layers = [Layer({"task": task}), *_model_layers(task, preset, start, given.get("distillation.teachers"))]
    layers += [file, override_layer(settings)]
    if not any(reduce(lay_over, layers).values.get("data.train") or ()):
        load_config(*layers)  # raises an error if `data.train` is misspelt
        raise RequestError(f"train {task}: nothing to train on; name {find_task(task).words.missing} with --data.train FILE")
    if choose and preset is None and not start:
        from regard.choose import choose_config

        config = choose_config(task, {}, *layers)
    else:
        config = load_config(*layers)
    if config.out:
        return config
    stem = Path(config.data.train[0]).name.partition(".")[0] or "run"
    origin = f"from-{Path(config.start_from).name}" if config.start_from else preset
    return replace(config, out=f"runs/{stem}-{origin}" if origin else f"runs/{stem}")


def _model_layers(task: str, preset: str | None, start: str, teachers: Any) -> Iterator[Layer]:
    """Yield the settings of the model to start from or of the preset, and those of the first teacher."""
    if start:
        if preset is not None:
            raise RequestError(
                f"train {task}: --from and --preset both define the model; remove --preset {preset}, and change settings of "
                "the model in --from with options such as --training.learning_rate"
            )
        from regard.training.starting import fine_tuning_layer

        yield _checked(fine_tuning_layer(start), f"the model in '{start}'", task)
    if preset is not None:
        from regard.presets import preset_layer

        yield _checked(preset_layer(preset), f"preset '{preset}'", task)
    teachers = teachers.split(",") if isinstance(teachers, str) else teachers
    if isinstance(teachers, list) and any(teachers):
        from regard.tasks.distillation import teaching_layer

        yield teaching_layer(str(teachers[0]), task)


def _unknown_task(task: str) -> RequestError:
    """Return the error for a first argument that is not a task, but an option, a file, or another name."""
    names = ", ".join(task_names())
    if task.startswith("-") or Path(task).suffix:
        file = "FILE" if task.startswith("-") else task
        return RequestError(
            f"train: the first argument is '{task}', expected the task ({names}): `regard train TASK --data.train {file}`"
        )
    other = find_habit("tasks", task)
    meant = f"; did you mean '{other}'?" if other else nearest(task, task_names())
    return RequestError(f"train: there is no task '{task}'{meant} (expected one of: {names}; `regard train --help` explains)")


def _check_habits(task: str, arguments: Sequence[str]) -> None:
    """Raise an error for an option of another tool, or an unknown option without a value; it names regard's own option."""
    own = {option for action in _parser(task)._actions for option in action.option_strings}
    known = own | {f"--{name}" for name in setting_names(find_task(task).config_class)}
    for argument, following in pairwise((*arguments, "--")):
        option, equals, _ = argument.partition("=")
        if not option.startswith("-") or not option.lstrip("-")[:1].isalpha():
            continue  # a value, perhaps a negative number
        if option not in known and f"--{option.lstrip('-').replace('-', '_')}" not in known:
            if answer := find_habit("training", option) or find_habit("training", option.rpartition(".")[2]):
                raise RequestError(f"train {task}: '{option}' is not an option here; in regard: {answer}")
            if not equals and following.startswith("--"):
                meant = nearest(option, known)
                raise RequestError(f"train {task}: there is no option '{option}'{meant} (see `regard train {task} --help`)")


def _checked(layer: Layer, name: str, task: str, *, default: str = "translation") -> Layer:
    """Return a layer whose settings, from the source `name`, are for a task; those that name no task are for `default`."""
    theirs = layer.values.get("task", default)
    if theirs != task:
        presets = "`regard presets` shows the task of each preset"
        advice = presets if name.startswith("preset") else f"use `regard train {theirs}`"
        raise RequestError(f"train {task}: {name} is for {theirs}; {advice}")
    return layer


def _parser(task: str) -> Parser:
    about = find_task(task).words
    parser = Parser(f"train {task}", about.summary, about.examples)
    parser.add_argument("--preset", metavar="NAME", help="use the settings of a preset (`regard presets` lists the presets)")
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings; they take precedence over the preset")
    parser.add_argument(
        "--from",
        dest="start_from",
        type=model_folder,
        metavar="DIR",
        help="fine-tune the trained model in DIR: start from its weights, vocabulary and settings, with a lower learning "
        "rate, a short warm-up, and 20 epochs",
    )
    if any(item.name == "distillation" for item in fields(find_task(task).config_class)):
        parser.add_argument(
            "--distill",
            nargs="+",
            action="extend",
            type=model_folder,
            metavar="DIR",
            help="also learn from the averaged word probabilities of the trained models in DIR …; the new model uses their "
            "vocabulary",
        )
    else:
        parser.set_defaults(distill=None)
    parser.add_argument("--overwrite", action="store_true", help="replace the run that --out already holds")
    shown = [
        ("data.train", about.data),
        ("out", "folder of the run (default: runs/ and the names of data and preset)"),
        ("device", "auto, cpu, cuda, cuda:N, or mps (default: auto)"),
        ("threads", "CPU threads (default: all cores that this process may use, at most OMP_NUM_THREADS)"),
        ("any.setting", "any of the settings that --help-all lists"),
    ]
    shown[1:1] = about.options
    parser.add_argument("--help-all", action="store_true", help="list all settings; --help SECTION lists those of a section")
    for name, words in shown:
        parser.add_argument(f"--{name}", metavar="VALUE", help=words)
    return parser


def read_settings(task: str, overrides: Mapping[str, str]) -> dict[str, object]:
    """Return settings of `split_settings` by their dotted names, with `data.train` and `data.dev` as lists of file names.

    Raises:
        RequestError: If a setting is given by its short name and by its dotted name.
    """
    short = find_task(task).words.short
    if twice := next((name for name, full in short.items() if name in overrides and full in overrides), ""):
        raise RequestError(f"--{twice} and --{short[twice]} are the same setting; give only one of them")
    settings: dict[str, object] = {short.get(name, name): value for name, value in overrides.items()}
    for name in _FILES:
        if name in settings:
            settings[name] = Files(str(settings[name])).paths
    return settings


def split_settings(command: str, arguments: Sequence[str], own: Mapping[str, bool]) -> tuple[dict[str, str], list[str]]:
    """Return the settings of a command line (`--name value`, `--name=value`), and the arguments that argparse reads.

    The latter include the options in `own`, whose value is True if the option needs an argument.

    Raises:
        RequestError: If a setting has no value, or files to train or validate on are given twice.
    """
    settings: dict[str, str] = {}
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        token = waiting.pop(0)
        name, equals, value = token.partition("=")
        if name in own or not token.startswith("--"):
            rest += [token] if equals or not own.get(name) else [token, *waiting[:1]]
            waiting = waiting if equals or not own.get(name) else waiting[1:]
            continue
        if not equals:
            if not waiting or waiting[0].startswith("--"):
                raise RequestError(f"{command}: {name} needs a value: {name} VALUE")
            value = waiting.pop(0)
        name = name.removeprefix("--").replace("-", "_")
        if name in settings and name in _FILES:  # of other settings, the last value counts, as in most commands
            raise RequestError(f"{command}: --{name} is given twice; name several files as --{name} FILE,FILE")
        settings[name] = value
    return settings, rest


def _named(arguments: Sequence[str]) -> set[str]:
    """Return the last part of the name of each setting on a command line, such as `fold` for `--data.fold`."""
    return {argument.partition("=")[0].rpartition(".")[2] for argument in arguments if argument.startswith("--")}


def say_what_next(folder: str, config: RunConfig) -> None:
    """Print where the model is, and commands to use it; only the first of several processes prints this."""
    if not read_ranks().first:
        return
    commands = "\n".join(f"  {command.replace('DIR', folder)}" for command in find_task(config.task).commands(config))
    show(f"\nThe model is in {folder}." + (f" Next:\n{commands}" if commands else ""))


def _help(task: str, arguments: Sequence[str]) -> str:
    """Return the help that arguments ask for: the settings that are often set, those of one section, or all."""
    from regard.config.describe import describe

    width = min(shutil.get_terminal_size((120, 40)).columns, 120)
    known = [one for one in describe(find_task(task).config_class) if one.name not in ("task", "chosen")]
    sections = list(dict.fromkeys(one.name.partition(".")[0] for one in known if "." in one.name))
    place = next(place for place, argument in enumerate(arguments) if argument in _HELP)
    section = next(iter(arguments[place + 1 :]), "").rstrip(".")
    if arguments[place] != "--help-all" and section and not section.startswith("-"):
        shown = [one for one in known if f"{one.name}.".startswith(f"{section}.")]
        if not shown:
            raise RequestError(
                f"train {task}: --help names '{section}', expected a section of settings ({', '.join(sections)}) or a part of "
                f"one, such as training.schedule{nearest(section, sections)}"
            )
        return "\n".join(_listed(shown, width)).strip("\n")
    lines = [_parser(task).format_help(), "settings:", textwrap.indent(_NOTE, "  ")]
    if installed := sorted(entry_names(KINDS)):
        lines += ["", *textwrap.wrap(f"kinds of installed packages: {', '.join(installed)}", width, initial_indent="  ")]
    if arguments[place] == "--help-all":
        return "\n".join([*lines, *_listed(known, width)])
    often = {one.name: one for one in reversed(known) if one.name in _OFTEN and not one.heading}
    listed = [line for line in _listed([often[name] for name in _OFTEN if name in often], width) if line]
    asks, count = f"regard train {task} --help", len({one.name for one in known if not one.heading})
    rest = f"All {count} settings: `{asks}-all`. Those of a section ({', '.join(sections)}): `{asks} SECTION`."
    more = textwrap.wrap(rest, width, initial_indent="  ", subsequent_indent="  ")
    return "\n".join([*lines, "", "  Settings that are often set:", *listed, "", *more])


def _listed(settings: Iterable["Setting"], width: int) -> Iterator[str]:
    """Yield the lines about settings, with the headings of their groups."""
    for setting in settings:
        if setting.heading:
            title = f"  with --{setting.name}.kind {setting.kind}" if setting.kind else f"  {setting.name}"
            yield ""
            yield from textwrap.wrap(f"{title}: {setting.doc}", width, initial_indent="", subsequent_indent=" " * 6)
            continue
        choices = f" {{{', '.join(setting.choices)}}}" if setting.choices else ""
        facts = filter(None, (setting.default and f"default: {setting.default}", setting.range))
        default = f"  ({shown})" if (shown := "; ".join(facts)) else ""
        if setting.name.endswith(".kind"):
            yield ""
        yield from textwrap.wrap(f"    --{setting.name}{choices}{default}", width, subsequent_indent=" " * 10)
        yield from textwrap.wrap(setting.doc, width, initial_indent=" " * 10, subsequent_indent=" " * 10)
