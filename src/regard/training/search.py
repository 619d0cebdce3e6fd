"""Search for settings with Optuna: each trial is an ordinary run, and its score is the monitored score of its best validation.

The study is a file in a folder, to which every trial is added, so that a search can be interrupted and continued. A trial whose
score so far is worse than the median of earlier trials at the same validation is pruned.
"""

import csv
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from regard import disk
from regard.config.fields import walk
from regard.config.loading import changed_names, dump_config, flatten
from regard.config.run import RunConfig
from regard.errors import ConfigError, DataError, Interrupted, RegardError, RequestError, install_command, one_line
from regard.training.run import Callback, Run
from regard.training.trainer import fit

# Number of random trials at the beginning, none of which is pruned; later trials use the scores of earlier ones. As many
# failures in a row end the search.
_RANDOM = 5
_NO_DEV = (
    "search: there are no dev examples to compare the trials with; hold some out, as with --data.dev_size 500, or name a file "
    "with --data.dev"
)


@dataclass(frozen=True)
class Range:
    """Values that a search may give to a setting: `choices`, or numbers from `low` to `high`."""

    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    """Whether numbers are drawn uniformly on a logarithmic scale."""
    whole: bool = False
    """Whether the setting is a whole number."""

    @classmethod
    def parse(cls, name: str, text: str) -> "Range":
        """Return the range that a text such as `1,2,3`, `0.1:0.5` or `1e-4:1e-2:log` describes.

        Raises:
            RequestError: If the text has another form.
        """
        low, *others = text.split(":")
        if not others:
            choices = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
            if len(choices) > 1 and all(choices):
                return cls(choices)
        elif len(others) == 1 or others[1:] == ["log"]:
            try:
                found = cls((), float(low), float(others[0]), len(others) == 2)
            except ValueError:
                found = cls()
            finite = math.isfinite(found.low) and math.isfinite(found.high)
            if finite and found.low < found.high and (found.low > 0 or not found.log):
                return found
        raise RequestError(
            f"search: --{name} is '{text}', expected at least two values (1,2,3), or two numbers, the lower one first "
            "(0.1:0.5, or 0.0001:0.01:log with numbers above 0)"
        )

    def ends(self) -> tuple[str, str]:
        """Return the first and the last value, as text."""
        return (self.choices[0], self.choices[-1]) if self.choices else (_spell(self.low), _spell(self.high))

    def suggest(self, trial: Any, name: str) -> str:
        """Return the value of a trial, as text."""
        if self.choices:
            return str(trial.suggest_categorical(name, self.choices))
        if self.whole:
            return str(trial.suggest_int(name, int(self.low), int(self.high), log=self.log))
        return self.spell(trial.suggest_float(name, self.low, self.high, log=self.log))

    def spell(self, value: float | str) -> str:
        """Return the value of a trial as text, a number with four digits, or more if the range is narrow."""
        if not isinstance(value, float):
            return str(value)
        digits = 4 + max(0, math.floor(math.log10(max(abs(self.low), abs(self.high)) / (self.high - self.low))))
        return _spell(min(max(float(f"{value:.{digits}g}"), self.low), self.high))


def _spell(number: float) -> str:
    """Return a number as text that gives exactly this number; a setting that is a whole number accepts no point."""
    return str(int(number)) if number.is_integer() else repr(number)


@dataclass(frozen=True)
class Found:
    """A trial of a search."""

    number: int
    settings: dict[str, str]
    score: float | None
    """The monitored score of the best validation; None if the trial failed before it."""
    monitor: str
    """Name of this score."""
    state: str
    """`complete`, `pruned` or `failed`."""
    folder: str

    @property
    def value(self) -> float:
        """The score, in which higher is better."""
        return -math.inf if self.score is None else -self.score if self.monitor == "loss" else self.score


class _Watch(Callback):
    """A callback that reports validations to a trial, and stops a pruned one."""

    def __init__(self, trial: Any) -> None:
        self.trial = trial
        self.best: float | None = None

    def start(self, run: Run) -> None:
        if not len(run.task.data.dev):
            raise DataError(_NO_DEV)
        study, found = self.trial.study, run.task.data.fingerprint
        searched = {name: value for name, value in self.trial.params.items() if name.startswith(("data.", "distillation."))}
        if study.user_attrs.get(f"data {searched}", found) != found:  # if files are searched, each choice has its own data
            raise DataError(
                "search: the data have changed since the search began; put the old files back, or name another --out"
            )
        study.set_user_attr(f"data {searched}", found)

    def after_validation(self, run: Run, scores: dict[str, Any]) -> None:
        import optuna

        self.best = run.progress.best
        self.trial.set_user_attr("monitor", run.config.training.monitor)
        self.trial.set_user_attr("best", self.best)
        self.trial.report(self.best, run.progress.validations)
        if self.trial.should_prune() and not run.progress.finished:
            raise optuna.TrialPruned


def search(
    build: Callable[[Mapping[str, str], str], RunConfig],
    ranges: Mapping[str, Range],
    folder: Path,
    *,
    trials: int,
    seed: int = 1,
    after_trial: Callable[[list[Found]], object] = lambda found: None,
    say: Callable[[str], object] = lambda text: None,
) -> list[Found]:
    """Search for the settings with the best score, and return all trials of the study, the best first.

    Args:
        build: Function that builds the configuration of a run from the searched settings, as text, and the folder of the run.
        ranges: Range of each searched setting, by dotted name.
        folder: Folder of the study, which a further call continues.
        trials: Number of trials that the study has at the end, without those that failed.
        seed: Seed of the search.
        after_trial: Function that is called with all trials, the best first, after each.
        say: Function that prints a message.

    Raises:
        ConfigError: If a range does not suit its setting, no dev examples are held out, the study has other settings, another
            process searches in the folder, several trials in a row fail, or Optuna is not installed.
        DataError: If the data cannot be read, have changed since the search began, or have no dev examples.
        Interrupted: If a signal stopped a trial. Its settings are tried again when the search continues.
    """
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise ConfigError(f"search needs the package optuna: {install_command('search')}") from error
    ends = [build({name: one.ends()[place] for name, one in ranges.items()}, str(folder / "0")) for place in (0, 1)]
    types = {name: facts.type for name, facts, _ in walk(ends[0])}
    ranges = {name: _typed(name, one, types.get(name)) for name, one in ranges.items()}
    for data in (one.data for one in ends):
        if not any((getattr(data, "dev", ()), getattr(data, "dev_size", 1), getattr(data, "folds", 0))):
            raise ConfigError(_NO_DEV)  # before any training, such as that of the models of `training.score_folds`
    own = flatten(dump_config(ends[0])) | {name: repr(one) for name, one in ranges.items()} | {"out": "", "chosen": []}
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / "lock") as holder:
        if holder:
            raise ConfigError(f"{holder} searches in '{folder}'; wait until that search has ended, or name another --out")
        study, failures = _open_study(folder, own), 0
        while True:
            found = _found(study, folder, ranges)
            if sum(one.state != "failed" for one in found) >= trials:
                return found
            if failures == _RANDOM:
                raise ConfigError(f"search: {failures} trials in a row failed; the messages above say why")
            study.sampler = optuna.samplers.TPESampler(seed=seed + len(found), n_startup_trials=_RANDOM)
            trial = study.ask()
            settings = {name: one.suggest(trial, name) for name, one in ranges.items()}
            say(f"trial {trial.number}: " + ", ".join(f"{name} {value}" for name, value in settings.items()))
            succeeded = _run(study, trial, partial(build, settings, str(folder / str(trial.number))), say)
            failures = 0 if succeeded else failures + 1
            after_trial(_found(study, folder, ranges))


def _open_study(folder: Path, own: dict[str, Any]) -> Any:
    """Return the study of a locked folder, which must have been made with the same settings and ranges `own`."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    log = folder / "study.log"
    if log.exists() and (half := log.read_bytes().rpartition(b"\n")[2]):  # the disk was full, or the process was killed
        os.truncate(log, log.stat().st_size - len(half))
    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(log))),
            study_name="search",
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_RANDOM),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{log} is damaged ({error!s:.200}); remove it and its folder, or name another --out") from error
    if changed := changed_names(study.user_attrs.get("settings", own), own):
        raise ConfigError(
            f"the search in '{folder}' has other settings or ranges ({', '.join(changed[:5])}); repeat its command with "
            "the same --config to continue it, or name another --out"
        )
    study.set_user_attr("settings", own)
    for one in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):  # of a search that was interrupted
        study.tell(one.number, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(one.params)
    return study


def _run(study: Any, trial: Any, build: Callable[[], RunConfig], say: Callable[[str], object]) -> bool:
    """Run a trial, tell the study how it ended, and return False if it failed."""
    import optuna

    watch = _Watch(trial)
    try:
        fit(build(), callbacks=[watch])
        study.tell(trial, watch.best)
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        score = -(watch.best or 0.0) if trial.user_attrs["monitor"] == "loss" else watch.best
        say(f"trial {trial.number} is pruned: its score {score:.4g} is worse than the median of earlier trials")
    except Interrupted as error:
        raise Interrupted(
            f"stopped during trial {trial.number}; repeat the command to continue, which tries its settings again",
            signal_number=error.exit_code - 128,
        ) from error
    except DataError:
        raise
    except RegardError as error:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        say(f"trial {trial.number} failed: {one_line(str(error))}")
        return False
    return True


def _typed(name: str, found: Range, type_: Any) -> Range:
    """Return a range with its numbers as the setting needs them."""
    if found.choices or type_ is float:
        return found
    if type_ is not int or found.low % 1 or found.high % 1:
        needs = "whole numbers" if type_ is int else "values with commas between them"
        raise ConfigError(f"search: --search.{name} is a range of numbers, but this setting needs {needs}")
    return Range((), found.low, found.high, found.log, whole=True)


def _found(study: Any, folder: Path, ranges: Mapping[str, Range]) -> list[Found]:
    """Return the trials that have ended, the best first."""
    found = [
        Found(
            one.number,
            {name: ranges[name].spell(value) for name, value in one.params.items()},
            score=None if (best := one.user_attrs.get("best")) is None else -best if monitor == "loss" else best,
            monitor=monitor,
            state={"COMPLETE": "complete", "PRUNED": "pruned"}.get(one.state.name, "failed"),
            folder=str(folder / str(one.number)),
        )
        for one in study.get_trials(deepcopy=False)
        if one.state.is_finished()
        for monitor in [str(one.user_attrs.get("monitor", ""))]
    ]
    return sorted(found, key=lambda one: (one.state == "complete", one.value), reverse=True)


def write_table(found: list[Found], path: Path) -> None:
    """Write the trials, with the name of the score of each, as a CSV file."""
    names = list(dict.fromkeys(name for one in found for name in one.settings))
    text = StringIO()
    rows = csv.writer(text)
    rows.writerow(["trial", "state", "monitor", "score", *names, "folder"])
    for one in found:
        values = (one.settings.get(name, "") for name in names)
        rows.writerow([one.number, one.state, one.monitor, "" if one.score is None else one.score, *values, one.folder])
    disk.save(path, text.getvalue())
