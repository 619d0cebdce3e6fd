"""Training several times, each time with another part of the data held out."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from regard.config import ClassificationConfig
from regard.errors import ConfigError
from regard.training.fit import fit

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
        ConfigError: If `data.folds` is 0 or `out` is empty, and as `fit`.
    """
    if not config.data.folds or not config.out:
        raise ConfigError("cross_validate needs data.folds of 2 or more, and a folder in out")
    found = []
    for fold in range(1, config.data.folds + 1):
        out = Path(config.out, f"fold-{fold}")
        classifier = fit(replace(config, data=replace(config.data, fold=fold), out=str(out)), progress=progress)
        scores = classifier.bundle.signature["scores"]
        found.append({name: float(scores[name]) for name in _FIGURES})
    result = CrossValidation(tuple(found))
    Path(config.out, "folds.json").write_text(json.dumps(result.to_dict(), indent=1) + "\n", encoding="utf-8")
    return result
