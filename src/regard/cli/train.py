"""`regard train`: train a translator on sentence pairs, a classifier on labelled texts, or a language model on texts."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from pathlib import Path

from regard.cli.habits import find_habit
from regard.cli.options import Parser, model_folder
from regard.config.loading import Layer, lay_over, load_config, override_layer, read_layer, setting_names
from regard.config.plugins import KINDS, entry_names
from regard.config.run import RunConfig
from regard.config.tasks import is_task, task_names
from regard.errors import RequestError, nearest
from regard.processes.ranks import read_ranks
from regard.task import all_tasks, find_task
from regard.tasks.arguments import split_files
from regard.terminal import show

_NOTE = """\
Every setting below can be an option (--training.max_epochs 5) or a line of a YAML file for --config. The command line
overrides the file, and the file overrides the preset. Without a preset, the settings of model, tokenizers, training and
search are chosen from the data, and the report shows them; the defaults below then apply only to the other settings.
Setting another `kind` for a part resets the other settings of that part."""


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
    if "-h" in rest or "--help" in rest:
        show(_help(task))
        return
    config = complete_arguments(task, rest)
    from regard.training import cross_validate, fit

    if find_task(task).training.num_folds(config) and "fold" not in _named(rest):
        show(cross_validate(config).render())
        return
    fit(config)
    say_what_next(config.out, task)


def read_arguments(task: str, arguments: Sequence[str]) -> RunConfig:
    """Build the configuration that a command line describes; settings that are not given have their default values.

    Raises:
        ConfigError: If a setting is unknown or has an invalid value, or a teacher is for another task.
        RequestError: If an argument is not an option; if an option belongs to another tool or has no value; if `--from` and
            `--preset` are both given; if the model, the preset or the file of settings is for another task; or if there is
            nothing to train on.
        BundleError: If the folder of a model to start from, or of a teacher, contains no trained model.
    """
    layers, preset = _read_layers(task, arguments)
    return _with_folder(load_config(*layers), preset)


def complete_arguments(task: str, arguments: Sequence[str]) -> RunConfig:
    """Build the configuration that a command line describes.

    With neither a preset nor a model to start from, settings that are not given are chosen from the data.

    Raises:
        ConfigError: As for `read_arguments`.
        RequestError: As for `read_arguments`.
        BundleError: As for `read_arguments`.
        DataError: If the data cannot be read.
    """
    layers, preset = _read_layers(task, arguments)
    if preset is not None or _start_of(layers):
        return _with_folder(load_config(*layers), preset)
    from regard.choose import choose_config

    return _with_folder(choose_config(task, {}, *layers), None)


def _with_folder(config: RunConfig, preset: str | None) -> RunConfig:
    if config.out:
        return config
    stem = Path(config.data.train[0]).name.partition(".")[0] or "run"
    if config.start_from:
        preset = f"from-{Path(config.start_from).name}"
    return replace(config, out=f"runs/{stem}-{preset}" if preset else f"runs/{stem}")


def _read_layers(task: str, arguments: Sequence[str]) -> tuple[list[Layer], str | None]:
    """Return the settings of a command line as layers, and the name of the preset, if any.

    The layers are: task, model to start from, preset, teachers, file, options. Each takes precedence over those before it.
    """
    _check_habits(task, arguments)
    own = {"--preset": True, "--config": True, "--from": True, "--distill": True, "--overwrite": False}
    overrides, rest = split_settings(f"train {task}", arguments, own)
    parser = _parser(task)
    parser.stray = "; files are named by --data.train FILE or FILE,FILE, in quotation marks if a name contains spaces"
    options = parser.read(rest)
    layers = [Layer({"task": task})]
    file = _checked(read_layer(options.config), options.config, task, stated=False) if options.config is not None else Layer({})
    start = options.start_from or overrides.get("start_from") or _start_of([file])
    if start:
        overrides["start_from"] = start
        layers.append(_starting_layer(start, task, options.preset))
    if options.preset is not None:
        from regard.presets import preset_layer

        layers.append(_checked(preset_layer(options.preset), f"preset '{options.preset}'", task))
    settings = read_settings(task, overrides)
    if options.distill:
        settings["distillation.teachers"] = options.distill
    if teachers := _teachers_of([file, override_layer(settings)]):
        from regard.tasks.distillation import teaching_layer

        layers.append(teaching_layer(teachers[0], task))
    layers.append(file)
    if options.overwrite:
        settings["overwrite"] = True
    layers.append(override_layer(settings))
    data = reduce(lay_over, layers).values.get("data")
    if not isinstance(data, dict) or not any(data.get("train") or ()):
        load_config(*layers)  # raises an error if `data.train` is misspelt
        raise RequestError(f"train {task}: nothing to train on; name {find_task(task).words.missing} with --data.train FILE")
    return layers, options.preset


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
    """Check that no option is one of another tool, and that options without a value are known.

    Raises:
        RequestError: If an option is one of another tool, or is unknown and has no value. The message gives regard's name for
            it, or the most similar name.
    """
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


def _start_of(layers: Sequence[Layer]) -> str:
    """Return the setting `start_from`, the folder of a trained model to start from; empty if no layer sets it."""
    return next((str(layer.values["start_from"]) for layer in reversed(layers) if layer.values.get("start_from")), "")


def _teachers_of(layers: Sequence[Layer]) -> Sequence[str]:
    """Return the setting `distillation.teachers`, the folders of the teachers; empty if no layer sets it."""
    named = reduce(lay_over, layers).values.get("distillation")
    found = named.get("teachers") if isinstance(named, dict) else None
    if isinstance(found, str):
        return found.split(",")
    return [str(one) for one in found] if isinstance(found, list) else []  # `load_config` raises an error for other types


def _starting_layer(folder: str, task: str, preset: str | None) -> Layer:
    """Return the settings that a run takes from the trained model that it starts from.

    Raises:
        RequestError: If there is a preset too, or the model is for another task.
    """
    if preset is not None:
        raise RequestError(
            f"train {task}: --from and --preset both define the model; remove --preset {preset}, and change settings of the "
            "model in --from with options such as --training.learning_rate"
        )
    from regard.training.starting import fine_tuning_layer

    return _checked(fine_tuning_layer(folder), f"the model in '{folder}'", task)


def _checked(layer: Layer, name: str, task: str, *, stated: bool = True) -> Layer:
    """Return a layer, after a check that it is for the task.

    Args:
        layer: The settings.
        name: Source of the settings, for the message.
        task: Task of the command.
        stated: Whether settings without a task are for translation, as in presets; if False, they are for any task.

    Raises:
        RequestError: If the settings are for another task.
    """
    theirs = layer.values.get("task", "translation" if stated else task)
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
    if "distillation.teachers" in setting_names(find_task(task).config_class):
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
        ("device", "auto, cpu, cuda, or cuda:N (default: auto)"),
        ("threads", "CPU threads (default: all cores that this process may use, at most OMP_NUM_THREADS)"),
        ("any.setting", "any of the settings below"),
    ]
    shown[1:1] = about.options
    for name, words in shown:
        parser.add_argument(f"--{name}", metavar="VALUE", help=words)
    return parser


def read_settings(task: str, overrides: Mapping[str, str]) -> dict[str, object]:
    """Return settings by their dotted names, with `data.train` and `data.dev` as lists of file names.

    Args:
        task: Task of the run.
        overrides: Settings as `split_settings` returns them.
    """
    short = find_task(task).words.short
    settings: dict[str, object] = {short.get(name, name): value for name, value in overrides.items()}
    for name in ("data.train", "data.dev"):
        if name in settings:
            settings[name] = split_files(str(settings[name]))
    return settings


def split_settings(command: str, arguments: Sequence[str], own: Mapping[str, bool]) -> tuple[dict[str, str], list[str]]:
    """Return the settings of a command line (`--name value`, `--name=value`), and the arguments that argparse reads.

    Args:
        command: Name of the command, for messages.
        arguments: Arguments of the command.
        own: Options that are not settings, for argparse; the value is True if the option needs an argument.

    Raises:
        RequestError: If a setting has no value.
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
        settings[name.removeprefix("--").replace("-", "_")] = value
    return settings, rest


def _named(arguments: Sequence[str]) -> set[str]:
    """Return the last part of the name of each setting on a command line, such as `fold` for `--data.fold`."""
    return {argument.partition("=")[0].rpartition(".")[2] for argument in arguments if argument.startswith("--")}


def say_what_next(folder: str, task: str) -> None:
    """Print where the model is, and commands to use it; only the first of several processes prints this."""
    if not read_ranks().first:
        return
    commands = "\n".join(f"  {command.replace('DIR', folder)}" for command in find_task(task).words.use)
    show(f"\nThe model is in {folder}." + (f" Next:\n{commands}" if commands else ""))


def _help(task: str) -> str:
    from regard.config.describe import describe

    width = min(shutil.get_terminal_size((120, 40)).columns, 120)
    lines = [_parser(task).format_help(), "settings:", textwrap.indent(_NOTE, "  ")]
    if installed := sorted(entry_names(KINDS)):
        lines += ["", *textwrap.wrap(f"kinds of installed packages: {', '.join(installed)}", width, initial_indent="  ")]
    for setting in describe(find_task(task).config_class):
        if setting.name in ("task", "chosen"):
            continue
        if setting.heading:
            title = f"  with --{setting.name}.kind {setting.kind}" if setting.kind else f"  {setting.name}"
            lines += ["", *textwrap.wrap(f"{title}: {setting.doc}", width, initial_indent="", subsequent_indent=" " * 6)]
            continue
        choices = f" {{{', '.join(setting.choices)}}}" if setting.choices else ""
        default = f"  (default: {setting.default})" if setting.default else ""
        lines += [""] * setting.name.endswith(".kind")
        lines += textwrap.wrap(
            f"    --{setting.name}{choices}{default}", width, subsequent_indent=" " * 10, drop_whitespace=True
        )
        lines += textwrap.wrap(setting.doc, width, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return "\n".join(lines)
