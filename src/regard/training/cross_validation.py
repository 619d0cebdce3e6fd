"""Cross-validation: train several models, and hold out a different part of the data for each."""

import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from regard import disk
from regard.config import RunConfig
from regard.config.loading import check_config
from regard.errors import ConfigError, Interrupted
from regard.processes.ranks import read_ranks
from regard.task import find_task
from regard.training.folder import RunFolder
from regard.training.progress import Reporter, build_reporter, describe_duration
from regard.training.starting import check_is_config
from regard.training.trainer import fit, resume


@dataclass(frozen=True)
class CrossValidation:
    """Scores of each fold's model on its held-out part."""

    folds: tuple[dict[str, float], ...]
    """Scores of each fold by name; for a classifier, `loss`, `accuracy`, `macro_f1`."""
    formats: Mapping[str, str] = field(repr=False)
    """The scores that are shown, with the formats of their values."""

    def mean(self, name: str) -> float:
        """Return the mean of a score over the folds."""
        return mean(fold[name] for fold in self.folds)

    def spread(self, name: str) -> float:
        """Return the standard deviation of a score over the folds."""
        return stdev(fold[name] for fold in self.folds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "folds": [dict(fold) for fold in self.folds],
            "mean": {name: self.mean(name) for name in self.formats},
            "spread": {name: self.spread(name) for name in self.formats},
        }

    def render(self) -> str:
        """Return a line for each fold, and lines for the mean and the standard deviation over folds."""
        rows = [(str(number), fold) for number, fold in enumerate(self.folds, 1)]
        for name, value in (("mean", self.mean), ("sd", self.spread)):
            rows.append((name, {score: value(score) for score in self.formats}))
        lines = ["fold  " + "".join(f"{score.replace('_', ' '):>12}" for score in self.formats)]
        for name, row in rows:
            lines.append(f"{name:<6}" + "".join(f"{row[score]:>12{how}}" for score, how in self.formats.items()))
        return "\n".join(lines)


def cross_validate(config: RunConfig, *, progress: bool = True) -> CrossValidation:
    """Train a model for each of `data.folds` folds, into `out/fold-1`, `out/fold-2`, …

    The held-out part of a fold also selects the fold's best checkpoint, and the temperature of a classifier's probabilities,
    which makes scores slightly too high. To use no held-out examples for the checkpoint, set `training.average_last` to 1 or
    more, and `training.patience` to 0.

    Args:
        config: Configuration of the run.
        progress: Whether to report progress, on standard error or, in a notebook, on standard output.

    Returns:
        The scores, which are also in `out/folds.json`.

    Raises:
        ConfigError: If `data.folds` is 0, `out` is empty or already contains folds, or there are several processes; also as for
            `fit`.
        Interrupted: As for `fit`; `resume_folds` continues the cross-validation.
    """
    check_is_config("cross_validate", config)
    check_config(config)
    folds = _folds(config)
    if not folds:
        raise ConfigError(
            f"cross_validate: this {config.task} run has no folds; for classification, set data.folds to 2 or more"
        )
    if not config.out:
        raise ConfigError("cross_validate: `out` is empty; set it to the folder for the models and scores of the folds")
    if holds_folds(config.out) and not config.overwrite:
        raise ConfigError(
            f"out is '{config.out}', which already holds folds; name another folder, continue with "
            f"`regard resume {config.out}`, or replace them with --overwrite (in Python: overwrite=True)"
        )
    for fold in folds:  # checked before the first fold is trained for hours
        RunFolder(fold.out).check_free(overwrite=config.overwrite)
    return _run(config, folds, lambda fold: fit(fold, progress=progress), build_reporter(progress=progress))


def holds_folds(folder: str | Path) -> bool:
    """Return whether this folder contains an unfinished or finished cross-validation."""
    return not RunFolder(folder).holds_run() and RunFolder(Path(folder, "fold-1")).holds_run()


def resume_folds(folder: str | Path, *, progress: bool = True) -> CrossValidation:
    """Resume a cross-validation: finish the fold that was interrupted, and train the remaining ones.

    Args:
        folder: The folder `out` of the cross-validation.
        progress: Whether to report progress, on standard error or, in a notebook, on standard output.

    Returns:
        The scores, as from `cross_validate`.

    Raises:
        ConfigError: If the folder contains no folds, or there are several processes.
        DataError: If the data have changed.
        Interrupted: As for `fit`.
    """
    config, facts = RunFolder(Path(folder, "fold-1")).read_start()
    config = replace(config, out=str(folder))
    folds = _folds(config)
    if not folds:
        raise ConfigError(f"cannot resume '{folder}': it holds no folds of a cross-validation")

    def train(fold: RunConfig) -> Any:
        # Later folds may be from an earlier cross-validation, which this one replaces.
        its_facts = _begun(fold)
        if its_facts is not None and its_facts["fingerprint"] == facts["fingerprint"]:
            return resume(fold.out, progress=progress)
        return fit(replace(fold, overwrite=True), progress=progress)

    return _run(config, folds, train, build_reporter(progress=progress))


def _folds(config: RunConfig) -> list[RunConfig]:
    """Return the settings of each fold, into its own folder; raise an error if there are several processes."""
    if not (ranks := read_ranks()).alone:
        raise ConfigError(
            f"a cross-validation was started in {ranks.world_size} processes, but it trains one fold after the other in a "
            "single process; start it without torchrun, or train each fold as a separate run (data.folds and data.fold)"
        )
    folds = find_task(config.task).training.folds(config)
    return [replace(fold, out=str(Path(config.out, f"fold-{number}"))) for number, fold in enumerate(folds, 1)]


def _begun(fold: RunConfig) -> dict[str, Any] | None:
    """Return the facts that a fold with the same settings recorded at its start; None if there is no such fold."""
    place = RunFolder(fold.out)
    if not place.holds_run():
        return None
    config, facts = place.read_start()
    return facts if replace(config, out=fold.out) == fold else None


def _run(config: RunConfig, folds: list[RunConfig], train: Callable[[RunConfig], Any], reporter: Reporter) -> CrossValidation:
    """Train each fold, and save the scores."""
    reporter.say(f"cross-validation: {len(folds)} models, which take about {len(folds)} times as long as one")
    began = time.monotonic()
    formats, scores = find_task(config.task).training.fold_scores, []
    for number, fold in enumerate(folds, 1):
        try:
            found = train(fold).bundle.signature["scores"]
        except (Interrupted, KeyboardInterrupt) as error:
            # A run that raises `Interrupted` has saved a checkpoint; Ctrl-C while its data are prepared does not.
            if number == 1 and not isinstance(error, Interrupted) and _begun(fold) is None:
                raise  # there is nothing to resume, except perhaps an older run
            code = error.exit_code - 128 if isinstance(error, Interrupted) else signal.SIGINT
            raise Interrupted(
                f"stopped in fold {number} of {len(folds)}; continue with: regard resume {config.out}", signal_number=code
            ) from error
        scores.append({name: float(found[name]) for name in formats})
        if number < len(folds):
            left = (time.monotonic() - began) / number * (len(folds) - number)
            reporter.say(f"fold {number} of {len(folds)} has ended; the others take {describe_duration(left)}")
    result = CrossValidation(tuple(scores), formats)
    disk.write(Path(config.out, "folds.json"), json.dumps(result.to_dict(), indent=1) + "\n")
    return result
