"""Messages of a run at its beginning, when it is resumed, and at its end."""

import platform
from importlib.metadata import version
from typing import Any

import numpy as np

from regard.bundle import StartFiles
from regard.config import PlateauConfig
from regard.machine import Machine
from regard.plurals import counted
from regard.task import Trainable
from regard.training.freezing import describe_frozen
from regard.training.run import Run
from regard.version import __version__


def describe_environment(machine: Machine) -> dict[str, str | int]:
    """Return versions and machine settings; if one of them changes, results may differ."""
    own = {"regard": __version__, "numpy": np.__version__, "python": platform.python_version()}
    return own | {"tokenizers": version("tokenizers")} | machine.to_dict()


def describe_beginning(task: Trainable, start: StartFiles | None) -> str:
    """Describe the data, the model that the run starts from, and how much of the model is frozen."""
    frozen = [describe_frozen(task.model, task.frozen)] if task.frozen else []
    lines = [task.data.report.render(), *task.notes]
    if start is not None:
        rate, updates = task.config.training.learning_rate, start.origin.get("updates", 0)
        head = f"starting from the model in {start.folder} ({updates:,} updates), at a learning rate of up to {rate:g}"
        frozen = ["\n  ".join([head, *task.describe_start(start), *frozen])]
    return "\n".join([*lines, *frozen])


def describe_resume(run: Run, before: dict[str, Any]) -> str:
    """Describe where a run continues, and what has changed in its environment since it began."""
    lines = [f"continuing {run.folder.path} after update {run.progress.step:,} of {run.total_steps:,}"]
    if run.progress.finished:
        lines = [f"the run in {run.folder.path} has ended; writing its model again"]
    now = describe_environment(run.machine)
    changes = [f"{name} was {before[name]} and is {now[name]}" for name in now if name in before and before[name] != now[name]]
    if changes:
        lines.append(f"results may differ from those of an uninterrupted run: {', '.join(changes)}")
    return "\n  ".join(lines)


def describe_missing_dev(run: Run) -> str:
    """Name the settings that have no effect because nothing is held out to validate on; return an empty text for none."""
    training = run.config.training
    idle = ["training.patience"] * bool(training.patience)
    idle += ["training.schedule plateau"] * isinstance(training.schedule, PlateauConfig)
    verb = "have" if len(idle) > 1 else "has"
    shown = f"nothing is held out to validate on (data.dev, data.dev_size), so {' and '.join(idle)} {verb} no effect"
    return shown if idle else ""


def describe_end(run: Run, scores: dict[str, Any]) -> str:
    """Describe how much was trained, how fast, why the run ended, and which model was kept."""
    progress, steps = run.progress, run.final_steps()
    epochs = progress.step / run.epoch_steps
    speed = progress.count / progress.seconds if progress.seconds else 0.0
    lines = [
        f"trained {epochs:,.4g} epoch{'s' * (epochs != 1)} ({counted(progress.step, 'update')}) in "
        f"{_seconds(progress.seconds)} s, "
        f"validation and writing {_seconds(progress.validation_seconds)} s more; {speed:,.0f} {run.task.unit}/s"
    ]
    which = f"best model by {run.config.training.monitor}" if scores and steps == [progress.best_step] else "last model"
    what = f"the {which}, after update"
    if len(steps) > 1:
        what = f"the mean of the last {len(steps)} validations' weights, after updates"
    # If there is no reason in this process, another one has reached the time limit by its own clock.
    minutes = run.config.training.max_minutes
    reasons = run.limits_reached() or [f"training.max_minutes {minutes:,g}" if minutes and not run.stopped else "a callback"]
    lines.append(f"ended because of {' and '.join(reasons)}; kept {what} {', '.join(f'{step:,}' for step in steps)}")
    if shown := scores or dict(run.task.estimated):
        lines.append("on dev: " * bool(scores) + run.task.describe_scores(shown))
        lines += filter(None, [run.task.warn(shown)])
    else:
        lines.append(
            "no scores, because nothing was held out; to score the model on other examples: "
            f"`regard evaluate {run.folder.path} FILE`"
        )
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
