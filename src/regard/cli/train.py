"""`regard train translation`: train a translator on a file of sentence pairs."""

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path

from regard.cli.options import Parser, split_files
from regard.config.loading import Layer, load_config, override_layer, read_layer
from regard.config.run import TranslationConfig
from regard.errors import RequestError, nearest

_EXAMPLES = """\
  regard train translation --data.train deu.txt --data.source en --data.target de
  regard train translation --preset tutorial-luong-concat --data.train deu.txt --data.max_pairs 10000
  regard train translation --preset luong --data.train train.en,train.de --data.dev val.en,val.de --out runs/multi30k
  regard train translation --config mine.yaml --data.train pairs.csv --data.columns english,german --training.max_epochs 5
"""

_NOTE = """\
Every setting below is an option (--training.max_epochs 5) and a line of a YAML file for --config. The command line
goes over the file, the file over the preset, the preset over the defaults shown here. Choosing another `kind` for a
part resets the rest of that part."""


def main(arguments: Sequence[str]) -> None:
    """Train, or explain how."""
    tasks = ("translation",)
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: regard train translation --data.train FILE[,FILE] [...]\n\n`regard train translation --help` explains.")
        return
    task, *rest = arguments
    if task not in tasks:
        raise RequestError(f"train: nothing is named '{task}'{nearest(task, tasks)} (`regard train translation --help`)")
    if "-h" in rest or "--help" in rest:
        print(_help())
        return
    config = read_arguments(rest)

    from regard.training import fit

    fit(config)
    say_what_next(config.out)


def read_arguments(arguments: Sequence[str]) -> TranslationConfig:
    """Make the configuration of a command line.

    Raises:
        ConfigError: If a setting is unknown or has a value it cannot have.
        RequestError: If an option has no value, or there is nothing to train on.
    """
    overrides, rest = _split(arguments)
    options = _parser().read(rest)
    layers: list[Layer] = []
    if options.preset is not None:
        from regard.presets import preset_layer

        layers.append(preset_layer(options.preset))
    if options.config is not None:
        layers.append(read_layer(options.config))
    settings: dict[str, object] = dict(overrides)
    for name in ("data.train", "data.dev"):
        if name in overrides:
            settings[name] = split_files(overrides[name])
    if options.overwrite:
        settings["overwrite"] = True
    config = load_config(*layers, override_layer(settings))
    if not config.data.train:
        raise RequestError("train translation: nothing to train on; name a file of sentence pairs with --data.train FILE")
    if not config.out:
        config = load_config(*layers, override_layer(settings | {"out": _default_folder(config, options.preset)}))
    return config


def _parser() -> Parser:
    parser = Parser("train translation", "Train a translator on sentence pairs.", _EXAMPLES)
    parser.add_argument("--preset", metavar="NAME", help="start from a ready-made run (`regard presets` lists them)")
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings, over those of the preset")
    parser.add_argument("--overwrite", action="store_true", help="replace the run that --out already holds")
    for name, words in (
        ("data.train", "one file of pairs (.tsv .txt .csv .jsonl .parquet, each also .gz), or two parallel text files"),
        ("out", "folder of the run (default: runs/ and the names of data and preset)"),
        ("device", "auto, cpu, cuda, or cuda:N (default: auto)"),
        ("threads", "CPU threads (default: all cores)"),
        ("any.setting", "any of the settings below"),
    ):
        parser.add_argument(f"--{name}", metavar="VALUE", help=words)
    return parser


def _split(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The settings (`--name value`, `--name=value`), and what argparse is to read."""
    own = {"--preset": True, "--config": True, "--overwrite": False}
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
                raise RequestError(f"train translation: {name} needs a value: {name} VALUE")
            value = waiting.pop(0)
        settings[name.removeprefix("--").replace("-", "_")] = value
    return settings, rest


def _default_folder(config: TranslationConfig, preset: str | None) -> str:
    stem = Path(config.data.train[0]).name.partition(".")[0] or "run"
    return f"runs/{stem}-{preset}" if preset else f"runs/{stem}"


def say_what_next(folder: str) -> None:
    """Tell the reader how to use the model."""
    print(f'\nThe model is in {folder}. Next:\n  regard translate {folder} "a sentence"\n  regard look {folder} "a sentence"')


def _help() -> str:
    from regard.config.describe import describe

    width = min(shutil.get_terminal_size((120, 40)).columns, 120)
    lines = [_parser().format_help(), "settings:", textwrap.indent(_NOTE, "  ")]
    for setting in describe():
        if setting.heading:
            title = f"  with --{setting.name}.kind {setting.kind}" if setting.kind else f"  {setting.name}"
            lines += ["", *textwrap.wrap(f"{title}: {setting.doc}", width, initial_indent="", subsequent_indent=" " * 6)]
            continue
        choices = f" {{{','.join(setting.choices)}}}" if setting.choices else ""
        default = f"  (default: {setting.default})" if setting.default else ""
        lines += [""] * setting.name.endswith(".kind") + [f"    --{setting.name}{choices}{default}"]
        lines += textwrap.wrap(setting.doc, width, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return "\n".join(lines)
