"""Changes of the settings of a run that is resumed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import RunConfig
from regard.config.fields import Role, has_role
from regard.config.loading import dump_config, flatten, load_config, override_layer
from regard.errors import ConfigError
from regard.plurals import counted
from regard.training.run import Run
from regard.training.schedule import Change, learning_rate_factor, planned_steps

_MISSING = object()


def change_config(config: RunConfig, overrides: Mapping[str, Any], folder: Path) -> tuple[RunConfig, list[str]]:
    """Change settings of a run that is resumed.

    Args:
        config: The run's settings.
        overrides: Settings by dotted names.
        folder: Folder of the run. A fold of a cross-validation is recognised by its folder.

    Returns:
        The new settings, and the names of those that differ.

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
    adjustable = {name for made in (config, changed) for name in names if has_role(Role.ADJUSTABLE, name, made)}
    wrong = next((name for name in names if name not in adjustable), None)
    if wrong is not None:
        raise ConfigError(
            f"cannot resume '{folder}' with another {wrong}: a run keeps its data, its batches and its model; the length, the "
            "learning rate, regularization, decoding and the device may change. To train its model in another way, start a new "
            f"run from it: regard train {config.task} --from {folder} --data.train FILE"
        )
    return changed, names


def make_change(run: Run, old: RunConfig, change: Change | None, names: list[str]) -> Change:
    """Return the `Change` that describes how a run's settings change at its last checkpoint.

    Args:
        run: The run at its last checkpoint, with its new settings.
        old: The run's old settings.
        change: The run's previous change of settings, if any.
        names: Names of the settings that differ.
    """
    step, training = run.progress.step, old.training
    rate = None
    if step:
        total = planned_steps(training, len(run.sampler))
        rate = training.learning_rate * learning_rate_factor(training.schedule, step, total) * run.plateau.scale
        rate = rate if change is None else change.soften(rate, training.schedule, step, total)
    resets = any(name == "training.learning_rate" or name.startswith("training.schedule") for name in names)
    return Change(step, rate, resets)


def check_goes_on(run: Run, was_finished: bool, names: list[str], folder: Path) -> None:
    """Check that a run can continue with its changed settings.

    Raises:
        ConfigError: If the run would end at once. A run that had already ended may end at once again if no
            setting of training changes, for example if only settings of decoding change.
    """
    limits = run.limits_reached()
    if limits and (not was_finished or any(name.startswith("training.") for name in names)):
        done = f"{run.progress.epoch:,} epochs and {run.progress.step:,} updates are done"
        if any("patience" in limit for limit in limits):
            done += f", the last {run.progress.bad_validations:,} validations brought no improvement"
        raise ConfigError(
            f"cannot train longer in '{folder}': {done}, so the run would end at once because of {' and '.join(limits)}; set "
            f"{'it' if len(limits) == 1 else 'them'} higher, or to 0 for no limit where that is allowed"
        )


def describe_change(run: Run, change: Change, old: RunConfig, names: list[str]) -> str:
    """Describe what was changed, and how this affects the learning rate."""
    before, now = flatten(dump_config(old)), flatten(dump_config(run.config))
    lines = ["settings changed: " + ", ".join(f"{name} {before.get(name, '–')} → {now.get(name, '–')}" for name in names)]
    step, schedule = run.progress.step, run.config.training.schedule
    if not run.progress.finished and change.rate is not None:
        ramp = change.ramp_steps(schedule, run.total_steps)
        reached = run.learning_rate(min(step + ramp, run.total_steps))
        over = f" over {counted(ramp, 'update')}" if reached > change.rate else ""
        lines.append(
            f"the learning rate was {change.rate:.3g}; it becomes {reached:.3g}{over}, and then follows the schedule "
            f"{schedule.kind} of a run of {counted(run.total_steps, 'update')}"
        )
    return "\n  ".join(lines)
