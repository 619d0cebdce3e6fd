"""Cross-validation: train several models, and hold out a different part of the data for each."""

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from regard import disk
from regard.config import RunConfig
from regard.errors import ConfigError, Interrupted
from regard.processes.ranks import read_ranks
from regard.task import FoldScore, find_task
from regard.training.folder import RunFolder
from regard.training.trainer import fit, resume


@dataclass(frozen=True)
class CrossValidation:
    """Scores of each fold's model on its held-out part."""

    folds: tuple[dict[str, float], ...]
    """Scores of each fold by name; for a classifier, `loss`, `accuracy`, `macro_f1`."""
    columns: tuple[FoldScore, ...] = field(repr=False)
    """The scores that are shown."""

    def mean(self, name: str) -> float:
        """Return the mean of a score over the folds."""
        return mean(fold[name] for fold in self.folds)

    def spread(self, name: str) -> float:
        """Return the standard deviation of a score over the folds."""
        return stdev(fold[name] for fold in self.folds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        names = [column.name for column in self.columns]
        return {
            "folds": [dict(fold) for fold in self.folds],
            "mean": {name: self.mean(name) for name in names},
            "spread": {name: self.spread(name) for name in names},
        }

    def render(self) -> str:
        """Return a line for each fold, and lines for the mean and the standard deviation over folds."""
        lines = ["fold  " + "".join(f"{column.heading:>{_width(number)}}" for number, column in enumerate(self.columns))]
        rows: list[tuple[str, Callable[[str], float]]] = [
            (str(number), fold.__getitem__) for number, fold in enumerate(self.folds, 1)
        ]
        for name, value in [*rows, ("mean", self.mean), ("sd", self.spread)]:
            cells = (f"{value(column.name):>{_width(number)}{column.format}}" for number, column in enumerate(self.columns))
            lines.append(f"{name:<6}{''.join(cells)}")
        return "\n".join(lines)


def _width(column: int) -> int:
    return 12 if column else 10


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
    _check_alone()
    num_folds = find_task(config.task).training.num_folds(config)
    if not num_folds:
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
    for fold in range(1, num_folds + 1):  # checked before the first fold is trained for hours
        RunFolder(_fold_folder(config.out, fold)).check_free(overwrite=config.overwrite)
    return _run(config, lambda own: fit(own, progress=progress))


def holds_folds(folder: str | Path) -> bool:
    """Return whether this folder contains an unfinished or finished cross-validation."""
    return not RunFolder(folder).holds_run() and RunFolder(_fold_folder(folder, 1)).holds_run()


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
    _check_alone()
    config, facts = RunFolder(_fold_folder(folder, 1)).read_start()
    if not find_task(config.task).training.num_folds(config):
        raise ConfigError(f"cannot resume '{folder}': it holds no folds of a cross-validation")

    def go_on(own: RunConfig) -> Any:
        # Later folds may be from an earlier cross-validation, which this one replaces.
        its_facts = _begun(own)
        if its_facts is not None and its_facts["fingerprint"] == facts["fingerprint"]:
            return resume(own.out, progress=progress)
        return fit(replace(own, overwrite=True), progress=progress)

    return _run(replace(config, out=str(folder)), go_on)


def _begun(own: RunConfig) -> dict[str, Any] | None:
    """Return the facts that a fold with the same settings recorded at its start; None if there is no such fold."""
    place = RunFolder(own.out)
    if not place.holds_run():
        return None
    begun, facts = place.read_start()
    return facts if replace(begun, out=own.out) == own else None


def _check_alone() -> None:
    ranks = read_ranks()
    if not ranks.alone:
        raise ConfigError(
            f"a cross-validation was started in {ranks.world_size} processes, but it trains one fold after the other in a "
            "single process; start it without torchrun or srun, or train each fold as a separate run (data.folds and data.fold)"
        )


def _run(config: RunConfig, train: Callable[[RunConfig], Any]) -> CrossValidation:
    """Train each fold, and save the scores."""
    training = find_task(config.task).training
    num_folds, found = training.num_folds(config), []
    for fold in range(1, num_folds + 1):
        own = replace(training.with_fold(config, fold), out=str(_fold_folder(config.out, fold)))
        try:
            predictor = train(own)
        except (Interrupted, KeyboardInterrupt) as error:
            if fold == 1 and _begun(own) is None:
                raise  # there is nothing to resume, except perhaps an older run
            number = error.exit_code - 128 if isinstance(error, Interrupted) else signal.SIGINT
            raise Interrupted(
                f"stopped in fold {fold} of {num_folds}; continue with: regard resume {config.out}", signal_number=number
            ) from error
        scores = predictor.bundle.signature["scores"]
        found.append({column.name: float(scores[column.name]) for column in training.fold_scores})
    result = CrossValidation(tuple(found), training.fold_scores)
    disk.write(Path(config.out, "folds.json"), json.dumps(result.to_dict(), indent=1) + "\n")
    return result


def _fold_folder(out: str | Path, fold: int) -> Path:
    return Path(out, f"fold-{fold}")
