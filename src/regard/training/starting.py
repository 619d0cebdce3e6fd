"""Settings of runs that start from a trained model, and of runs that are resumed with other settings."""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from regard.bundle import StartFiles, read_start
from regard.config import RunConfig
from regard.config.fields import Role, settings_with
from regard.config.loading import Layer, changed_names, dump_config, flatten, lay_over, load_config, override_layer
from regard.errors import ConfigError
from regard.training.run import Run

RATE_PART = 0.25
"""Learning rate of fine-tuning, as a fraction of the rate that the model was trained with."""
WARMUP_STEPS = 20
MAX_EPOCHS = 20


def fine_tuning_layer(folder: str | Path) -> Layer:
    """Return the default settings of a run that starts from a trained model.

    The settings of model, tokenizers, decoding, batches, optimizer and regularization are those of the trained model's
    run, except that nothing is frozen. The learning rate is a quarter of the old one; it rises over 20 updates and then
    falls linearly to zero over 20 epochs.
    """
    start = read_start(folder)
    plain = flatten(dump_config(start.config))
    of_every_run = {item.name for item in fields(RunConfig)} - {"training"} | {"data"}
    kept = {name: value for name, value in plain.items() if name.partition(".")[0] not in of_every_run}  # such as decoding
    changes = {
        "task": plain["task"],
        "start_from": str(folder),
        "model.freeze": [],
        **settings_with(Role.READING, start.config),
        "training.max_epochs": MAX_EPOCHS,
        "training.max_steps": 0,
        "training.max_minutes": 0,
        "training.validate_every": 0,
        "training.learning_rate": float(f"{plain['training.learning_rate'] * RATE_PART:.3g}"),
        "training.schedule.kind": "linear_decay",
        "training.schedule.warmup_steps": WARMUP_STEPS,
        "training.schedule.final": 0.0,
    }
    if "training.teacher_forcing.end" in plain:
        changes["training.teacher_forcing.start"] = plain["training.teacher_forcing.end"]
    return lay_over(Layer(kept), Layer(changes))


def load_fine_tuning(folder: str | Path, overrides: Mapping[str, Any]) -> RunConfig:
    """Build the configuration of a run that starts from a trained model; `overrides` must have `data.train`."""
    return load_config(fine_tuning_layer(folder), override_layer(overrides))


def check_start(config: RunConfig, start: StartFiles, model: object, attention: object) -> None:
    """Check that a run can start from a trained model.

    Raises:
        ConfigError: If the trained model is for another task, has other settings of model or tokenizers than the run, or is in
            the folder `out`; or if the user's own `model` or `attention` is missing, or is given although the trained model
            has none.
    """
    name, made = config.start_from, start.config
    if made.task != config.task:
        raise ConfigError(f"start_from is '{name}', a model for {made.task}; this run is for {config.task}")
    for what, given in (("model", model), ("attention", attention)):
        if (start.custom == what) != (given is not None):
            needed = f"was trained with your own {what}: give {what}=… to regard.fit, made in the same way as for training"
            raise ConfigError(
                f"the model in '{name}' {needed}"
                if given is None
                else f"fit was given your own {what}, but the model in '{name}' was trained without one; give one of the two"
            )
    if Path(config.out).absolute() == Path(name).absolute():
        raise ConfigError(f"out is '{config.out}', the folder of the model that the run starts from; name another folder")
    theirs, ours = _compared(made), _compared(config)
    wrong = next((key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)), None)
    if wrong is not None:
        raise ConfigError(
            f"{wrong} is {ours.get(wrong, 'missing')}, but {theirs.get(wrong, 'missing')} in the model of '{name}', which the "
            "run starts from; its weights fit only its own sizes and vocabulary. Do not change model and tokenizers: "
            f"regard.fit({{'data.train': …}}, start_from='{name}'), or `regard train {config.task} --from {name}`"
        )


def _compared(config: RunConfig) -> dict[str, Any]:
    """Return the settings that must be the same in both runs: those that shape the model, and that decide the vocabulary."""
    free = {"model.freeze", *settings_with(Role.ADJUSTABLE, config)}
    model = flatten({"model": dump_config(config.model)})
    return {name: value for name, value in model.items() if name not in free} | settings_with(Role.VOCABULARY, config)


def check_is_config(caller: str, config: object) -> None:
    """Raise a `ConfigError` if `config`, an argument of the function `caller`, is not a configuration."""
    if not isinstance(config, RunConfig):
        raise ConfigError(
            f"{caller}: got {type(config).__name__!r}, expected a configuration, such as the result of "
            "regard.choose_config('classification', {'data.train': ['reviews.tsv']}). Data are read from files that it names"
        )


def with_start(config: RunConfig | Mapping[str, Any], start_from: str | Path) -> RunConfig:
    """Return the whole configuration for `fit`; if `config` is a mapping, the trained model's settings complete it."""
    if isinstance(config, Mapping):
        folder = str(start_from) or str(config.get("start_from", ""))
        if not folder:
            raise ConfigError(
                "fit was given a mapping of settings without start_from. Build a configuration first: regard.choose_config "
                "chooses the other settings from the data, regard.load_preset takes them from a preset, and regard.load_config "
                "uses the defaults. To fine-tune a trained model, give its folder as start_from"
            )
        return load_fine_tuning(folder, {name: value for name, value in config.items() if name != "start_from"})
    check_is_config("fit", config)
    if start_from and config.start_from not in ("", str(start_from)):
        raise ConfigError(
            f"fit was given start_from '{start_from}', but its configuration has '{config.start_from}'; give only one of them"
        )
    return replace(config, start_from=str(start_from) or config.start_from)


def change_config(config: RunConfig, overrides: Mapping[str, Any], folder: Path) -> tuple[RunConfig, list[str]]:
    """Change settings of a run that is resumed, and return its new settings and the names of those that differ.

    Raises:
        ConfigError: If a setting is unknown or out of range, or must not change because the run so far depends on it; or if the
            run is a fold of a cross-validation.
    """
    if re.fullmatch(r"fold-\d+", folder.name) and (folder.parent / "fold-1").is_dir():
        raise ConfigError(
            f"'{folder}' is a fold of a cross-validation, whose settings cannot change, because all folds must be trained with "
            "the same settings; start a new cross-validation with other settings"
        )
    changed = load_config(dump_config(config), override_layer(overrides))
    names = changed_names(flatten(dump_config(config)), flatten(dump_config(changed)))
    adjustable = {*settings_with(Role.ADJUSTABLE, config), *settings_with(Role.ADJUSTABLE, changed)}
    wrong = next((name for name in names if name not in adjustable), None)
    if wrong is not None:
        raise ConfigError(
            f"cannot resume '{folder}' with another {wrong}: a run keeps its data, its batches and its model; the length, the "
            "learning rate, regularization, decoding and the device may change. To train its model in another way, start a new "
            f"run from it: regard train {config.task} --from {folder} --data.train FILE"
        )
    return changed, names


def check_change(run: Run, names: list[str]) -> None:
    """Check that a run with changed settings, at its last checkpoint, would not end at once.

    A run that had already ended may end at once again if no setting of training changes, but only those of decoding, say.

    Raises:
        ConfigError: If it would.
    """
    limits = run.limits_reached()
    if limits and any(name.startswith("training.") for name in names):
        raise ConfigError(
            f"cannot train longer in '{run.folder.path}': {run.progress.epoch:,} epochs and {run.progress.step:,} updates are "
            f"done, so the run would end at once because of {' and '.join(limits)}; set higher limits, or 0 for no limit where "
            "that is allowed"
        )


def describe_change(old: RunConfig, new: RunConfig, names: list[str]) -> str:
    """Describe what was changed."""
    before, now = flatten(dump_config(old)), flatten(dump_config(new))
    return "settings changed: " + ", ".join(f"{name} {before.get(name, '–')} → {now.get(name, '–')}" for name in names)
