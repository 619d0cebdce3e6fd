"""Changes of the settings of a run that is resumed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import RunConfig
from regard.config.fields import Role, settings_with
from regard.config.loading import dump_config, flatten, load_config, override_layer
from regard.errors import ConfigError
from regard.plurals import counted
from regard.training.run import Run
from regard.training.schedule import Change

_MISSING = object()


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
    before, now = flatten(dump_config(config)), flatten(dump_config(changed))
    names = [name for name in {**before, **now} if before.get(name, _MISSING) != now.get(name, _MISSING)]
    adjustable = {*settings_with(Role.ADJUSTABLE, config), *settings_with(Role.ADJUSTABLE, changed)}
    wrong = next((name for name in names if name not in adjustable), None)
    if wrong is not None:
        raise ConfigError(
            f"cannot resume '{folder}' with another {wrong}: a run keeps its data, its batches and its model; the length, the "
            "learning rate, regularization, decoding and the device may change. To train its model in another way, start a new "
            f"run from it: regard train {config.task} --from {folder} --data.train FILE"
        )
    return changed, names


def apply_change(run: Run, names: list[str], last_rate: float | None) -> Change:
    """Apply changed settings to a run at its last checkpoint, and return the change, with which later resumes continue.

    `last_rate` is the learning rate of the last update with the old settings; None if there was no update.

    Raises:
        ConfigError: If the run would end at once. A run that had already ended may end at once again if no
            setting of training changes, for example if only settings of decoding change.
    """
    was_finished = run.progress.finished
    resets = any(name == "training.learning_rate" or name.startswith("training.schedule") for name in names)
    change = Change(run.progress.step, last_rate, resets)
    run.apply(change)
    limits = run.limits_reached()
    if limits and (not was_finished or any(name.startswith("training.") for name in names)):
        raise ConfigError(
            f"cannot train longer in '{run.folder.path}': {run.progress.epoch:,} epochs and {run.progress.step:,} updates are "
            f"done, so the run would end at once because of {' and '.join(limits)}; set higher limits, or 0 for no limit where "
            "that is allowed"
        )
    return change


def describe_change(run: Run, old: RunConfig, names: list[str]) -> str:
    """Describe what was changed, and how this affects the learning rate."""
    before, now = flatten(dump_config(old)), flatten(dump_config(run.config))
    lines = ["settings changed: " + ", ".join(f"{name} {before.get(name, '–')} → {now.get(name, '–')}" for name in names)]
    step, schedule, change = run.progress.step, run.config.training.schedule, run.change
    if change is not None and change.rate is not None and not run.progress.finished:
        ramp = change.ramp_steps(schedule, run.total_steps)
        reached = run.learning_rate(min(step + ramp, run.total_steps))
        over = f" over {counted(ramp, 'update')}" if reached > change.rate else ""
        lines.append(
            f"the learning rate was {change.rate:.3g}; it becomes {reached:.3g}{over}, and then follows the schedule "
            f"{schedule.kind} of a run of {counted(run.total_steps, 'update')}"
        )
    return "\n  ".join(lines)
