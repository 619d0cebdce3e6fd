"""Messages of a run at its beginning, when it is resumed, and at its end."""

from typing import Any

from regard.bundle import StartFiles
from regard.config import PlateauConfig, RunConfig
from regard.plurals import counted
from regard.task import Trainable
from regard.training.facts import describe_changes, versions
from regard.training.freezing import describe_frozen
from regard.training.run import Run
from regard.training.starting import describe_start


def describe_beginning(task: Trainable, start: StartFiles | None) -> list[str]:
    """Return the task's notes, a description of the model that the run starts from, and how much of the model is frozen."""
    frozen = [describe_frozen(task.model, task.frozen)] if task.frozen else []
    if start is None:
        return [*task.notes, *frozen]
    return [*task.notes, describe_start(start, task.config, [*task.describe_start(start), *frozen])]


def describe_resume(run: Run, facts: dict[str, Any]) -> str:
    """Describe where a run continues, and what has changed since it began."""
    head = f"continuing {run.folder.path} after update {run.progress.step:,} of {run.total_steps:,}"
    if run.progress.finished:
        head = f"the run in {run.folder.path} has ended; writing its model again"
    here = run.machine.to_dict()
    before, now = facts.get("processes", 1), here.pop("processes")
    if before != now:
        others = f"{before} process{'es' * (before != 1)} trained before, and {now} do{'es' * (now == 1)} now"
        head += f"\n  {others}: the batches are the same; dropout and rounding are not"
    changed = describe_changes(facts, {**versions(), **here})
    return "\n  ".join([head, *(["results may differ from those of an uninterrupted run:", *changed] if changed else [])])


def idle_without_dev(config: RunConfig) -> list[str]:
    """Return the names of settings that were set but have no effect, because there are no dev examples to validate on."""
    idle = ["training.patience"] if config.training.patience else []
    return idle + ["training.schedule plateau"] * isinstance(config.training.schedule, PlateauConfig)


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
    if found := scores or dict(run.task.estimated):
        lines.append("on dev: " * bool(scores) + run.task.describe_scores(found))
        if warning := run.task.warn(found):
            lines.append(warning)
    else:
        lines.append(
            "no scores, because nothing was held out; to score the model on other examples: "
            f"`regard evaluate {run.folder.path} FILE`"
        )
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
