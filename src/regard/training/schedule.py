"""Numbers that change over a run: the learning rate, and the probability of teacher forcing.

All except the plateau are pure functions of the update's number, so that a resumed run needs no stored state.
"""

import math
from dataclasses import dataclass

from regard.config import (
    CosineConfig,
    InverseSquareRootConfig,
    LinearDecayConfig,
    PlateauConfig,
    ScheduleConfig,
    TeacherForcingConfig,
    TrainingConfig,
)


def learning_rate_factor(config: ScheduleConfig, step: int, total: int) -> float:
    """Return the learning rate of an update, numbered from 1, as a share of the peak (Vaswani et al. 2017, eq. 3).

    With w = `warmup_steps` and n = `step`: n/w while n ≤ w, and then, with p = (n − w)/(total − w),

        constant, plateau      1
        inverse square root    √(max(w, 1)/n)
        cosine                 final + (1 − final)·(1 + cos πp)/2
        linear decay           1 − (1 − final)·p

    Beyond the `total` updates of the run, p stays 1.
    """
    warmup = config.warmup_steps
    if step < warmup:
        return step / warmup
    part = min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)
    match config:
        case InverseSquareRootConfig():
            return math.sqrt(max(warmup, 1) / step)
        case CosineConfig(final=final):
            return final + (1 - final) * (1 + math.cos(math.pi * part)) / 2
        case LinearDecayConfig(final=final):
            return 1 - (1 - final) * part
    return 1.0


def planned_steps(training: TrainingConfig, epoch_batches: int) -> int:
    """Return the number of updates of a whole run, unless time or patience ends it earlier."""
    updates = training.max_epochs * -(-epoch_batches // training.accumulate)
    return min(updates, training.max_steps) if training.max_steps else updates


@dataclass
class Plateau:
    """A schedule that lowers the learning rate when validations no longer improve."""

    scale: float = 1.0
    """Factor of the learning rate."""
    bad: int = 0
    """Number of validations since the last improvement or the last reduction."""

    def update(self, config: PlateauConfig, better: bool, peak: float) -> None:
        """Count a validation; after more than `patience` ones without improvement, lower the factor, if `peak` allows it."""
        self.bad = 0 if better else self.bad + 1
        if self.bad > config.patience:
            self.scale = min(self.scale, max(self.scale * config.factor, config.minimum / peak))
            self.bad = 0


_STEEPNESS = 12.0
_LAST_PART = 0.01


def gold_probability(config: TeacherForcingConfig, step: int, total: int) -> float:
    """Return the probability that the gold word is fed to the decoder at an update (Bengio et al. 2015, section 2.4).

    end + (start − end)·d(p) with p = (step − 1)/(total − 1), where d decreases from 1 to 0:

        linear         1 − p
        exponential    (kᵖ − k)/(1 − k), k = 0.01
        sigmoid        (σ(p) − σ(1))/(σ(0) − σ(1)), σ(p) = 1/(1 + exp(12·(p − ½)))

    The paper's curves have no end; these are scaled to begin at `start` and to end at `end`.
    """
    if config.start == config.end:
        return config.start
    part = min((step - 1) / max(total - 1, 1), 1.0)
    match config.decay:
        case "linear":
            fall = 1 - part
        case "exponential":
            fall = (_LAST_PART**part - _LAST_PART) / (1 - _LAST_PART)
        case "sigmoid":
            low, here, high = (1 / (1 + math.exp(_STEEPNESS * (x - 0.5))) for x in (1.0, part, 0.0))
            fall = (here - low) / (high - low)
    return config.end + (config.start - config.end) * fall
