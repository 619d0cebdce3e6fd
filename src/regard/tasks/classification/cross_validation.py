"""Training several times, each time with another part of the data held out."""

import json
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from regard import disk
from regard.config import ClassificationConfig
from regard.errors import ConfigError, Interrupted
from regard.processes.ranks import read_ranks
from regard.training.fit import fit, resume
from regard.training.folder import RunFolder

_FIGURES = ("loss", "accuracy", "macro_f1")


@dataclass(frozen=True)
class CrossValidation:
    """What each fold's model scored on the part that was held out of its training."""

    folds: tuple[dict[str, float], ...]
    """By figure: `loss`, `accuracy`, `macro_f1`."""

    def mean(self, name: str) -> float:
        """Over the folds."""
        return mean(fold[name] for fold in self.folds)

    def spread(self, name: str) -> float:
        """Standard deviation over the folds."""
        return stdev(fold[name] for fold in self.folds)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "mean": {name: self.mean(name) for name in _FIGURES}} | {
            "spread": {name: self.spread(name) for name in _FIGURES}
        }

    def render(self) -> str:
        """A line for each fold, and the mean and standard deviation of them."""
        lines = [f"{'fold':<6}{'loss':>10}{'accuracy':>12}{'macro F1':>12}"]
        for number, fold in enumerate(self.folds, 1):
            lines.append(f"{number:<6}{fold['loss']:>10.4f}{fold['accuracy']:>12.2%}{fold['macro_f1']:>12.4f}")
        lines.append(f"{'mean':<6}{self.mean('loss'):>10.4f}{self.mean('accuracy'):>12.2%}{self.mean('macro_f1'):>12.4f}")
        lines.append(f"{'sd':<6}{self.spread('loss'):>10.4f}{self.spread('accuracy'):>12.2%}{self.spread('macro_f1'):>12.4f}")
        return "\n".join(lines)


def cross_validate(config: ClassificationConfig, *, progress: bool = True) -> CrossValidation:
    """Train a classifier for each of `data.folds` folds, into `out/fold-1`, `out/fold-2`, …

    The best checkpoint of each fold, or the temperature, is chosen on the held-out part too; for figures without that
    optimism, set `training.average_last` to 1 or more.

    Args:
        config: The run.
        progress: Whether to report on standard error.

    Returns:
        The scores, which are also in `out/folds.json`.

    Raises:
        ConfigError: If `data.folds` is 0 or `out` is empty or holds folds already, and as `fit`.
        Interrupted: As `fit`; `resume_folds` goes on.
    """
    _check_alone()
    if not config.data.folds or not config.out:
        raise ConfigError("cross_validate needs data.folds of 2 or more, and a folder in out")
    if holds_folds(config.out) and not config.overwrite:
        raise ConfigError(
            f"out is '{config.out}', which already holds folds; name another folder, go on with `regard resume {config.out}`, "
            "or set overwrite to true to replace them"
        )
    for fold in range(1, config.data.folds + 1):  # before hours are spent on the first
        RunFolder(_fold_folder(config.out, fold)).check_free(overwrite=config.overwrite)
    return _run(config, lambda own: fit(own, progress=progress))


def holds_folds(folder: str | Path) -> bool:
    """Whether a cross-validation has begun in this folder."""
    return not RunFolder(folder).holds_run() and RunFolder(_fold_folder(folder, 1)).holds_run()


def resume_folds(folder: str | Path, *, progress: bool = True) -> CrossValidation:
    """Go on with a cross-validation that was stopped: finish the fold that was begun, and train those that were not.

    Args:
        folder: What `out` was.
        progress: Whether to report on standard error.

    Returns:
        The scores, as `cross_validate`.

    Raises:
        ConfigError: If the folder holds no folds.
        DataError: If the data have changed.
        Interrupted: As `fit`.
    """
    _check_alone()
    config, facts = RunFolder(_fold_folder(folder, 1)).read_start()
    if not isinstance(config, ClassificationConfig) or not config.data.folds:
        raise ConfigError(f"cannot resume '{folder}': it holds no folds of a cross-validation")

    def go_on(own: ClassificationConfig) -> Any:
        # An earlier cross-validation, which this one was to replace, may have left its later folds behind.
        its_facts = _begun(own)
        if its_facts is not None and its_facts["fingerprint"] == facts["fingerprint"]:
            return resume(own.out, progress=progress)
        return fit(replace(own, overwrite=True), progress=progress)

    return _run(replace(config, out=str(folder)), go_on)


def _begun(own: ClassificationConfig) -> dict[str, Any] | None:
    """What a fold that has begun with these very settings began with."""
    place = RunFolder(own.out)
    if not place.holds_run():
        return None
    begun, facts = place.read_start()
    return facts if replace(begun, out=own.out) == own else None


def _check_alone() -> None:
    ranks = read_ranks()
    if not ranks.alone:
        raise ConfigError(
            f"a cross-validation was started in {ranks.world_size} processes; it runs in one, fold after fold: start it "
            "without torchrun or srun, or train each fold by itself (data.folds and data.fold)"
        )


def _run(config: ClassificationConfig, train: Callable[[ClassificationConfig], Any]) -> CrossValidation:
    """Train each fold, and keep the scores."""
    found = []
    for fold in range(1, config.data.folds + 1):
        own = replace(config, data=replace(config.data, fold=fold), out=str(_fold_folder(config.out, fold)))
        try:
            classifier = train(own)
        except (Interrupted, KeyboardInterrupt) as error:
            if fold == 1 and _begun(own) is None:
                raise  # there is nothing to go on with, but perhaps what was to be replaced
            number = error.exit_code - 128 if isinstance(error, Interrupted) else signal.SIGINT
            raise Interrupted(
                f"stopped in fold {fold} of {config.data.folds}; go on with: regard resume {config.out}", signal_number=number
            ) from error
        scores = classifier.bundle.signature["scores"]
        found.append({name: float(scores[name]) for name in _FIGURES})
    result = CrossValidation(tuple(found))
    disk.write(Path(config.out, "folds.json"), json.dumps(result.to_dict(), indent=1) + "\n")
    return result


def _fold_folder(out: str | Path, fold: int) -> Path:
    return Path(out, f"fold-{fold}")
