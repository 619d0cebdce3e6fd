"""Rules and descriptions that the settings tables of all tasks share."""

from itertools import pairwise
from typing import Any

from regard.config import RunConfig, TokenizerConfig
from regard.plurals import counted
from regard.task.settings import UserSettings


def interpolate(value: float, rows: tuple[tuple[float, float], ...]) -> float:
    """Return y at x = `value`, by linear interpolation in a table of (x, y); outside the table, y is constant."""
    if value <= rows[0][0]:
        return rows[0][1]
    for (x0, y0), (x1, y1) in pairwise(rows):
        if value <= x1:
            return y0 + (y1 - y0) * (value - x0) / (x1 - x0)
    return rows[-1][1]


MOST_WARMUP = 200
"""Maximum number of warm-up updates, during which the learning rate rises."""
UNBOUNDED = 100_000
"""Value of `training.max_epochs` if the user limits only the number of updates: so high that it limits nothing."""
VALIDATIONS = 10
"""Number of validations in a run of more than 15 epochs; shorter runs have one validation after each epoch."""


def length_settings(
    given: UserSettings, *, epochs: int, epoch_updates: float, most_warmup: int = MOST_WARMUP
) -> dict[str, Any]:
    """Choose how long to train, how long the learning rate rises, and how often to validate.

    `epochs` is the maximum number of epochs if the user limits neither epochs nor updates. `epoch_updates` is about the number
    of updates per epoch, and `most_warmup` the maximum number of updates during which the learning rate rises.
    """
    own_epochs, own_steps = (to_number(given.find(f"training.max_{unit}")) for unit in ("epochs", "steps"))
    settings: dict[str, Any] = {}
    if own_steps is None:
        settings["training.max_steps"] = 0
    if own_epochs is None:
        settings["training.max_epochs"] = UNBOUNDED if own_steps else epochs
    updates = epoch_updates * (own_epochs or epochs)
    updates = min(updates, own_steps) if own_epochs and own_steps else own_steps or updates
    settings["training.schedule.warmup_steps"] = min(max(round(updates / 10), 1), most_warmup)
    many = updates > 1.5 * VALIDATIONS * epoch_updates
    settings["training.validate_every"] = max(round(updates / VALIDATIONS), 1) if many else 0
    return settings


def transformer_settings(width: int, dropout: float, *, feed_forward: int) -> dict[str, Any]:
    """Choose the sizes of a Transformer; `feed_forward` is a multiple of its width, and `dropout` is that of all layers."""
    return {
        "model.hidden_size": width,
        "model.num_heads": max(4, width // 64),
        "model.feed_forward_size": feed_forward * width,
        "model.embedding_dropout": dropout,
        "model.layer_dropout": dropout,
    }


def to_number(value: Any) -> int | None:
    """Return a setting as a positive integer; None if it is missing, 0, or invalid, which is reported when it is loaded."""
    try:
        return max(int(value), 0) or None
    except (TypeError, ValueError, OverflowError):
        return None


def describe_tokenizer(config: TokenizerConfig) -> str:
    """Describe the units of a tokenizer in a few words."""
    size: Any = getattr(config, "size", None)
    if size is not None:
        return f"{size:,} subwords ({config.kind})"
    return {"characters": "characters", "auto": "words", "whitespace": "tokens between spaces"}.get(config.kind, config.kind)


def describe_training(config: RunConfig) -> str:
    """Describe the length of a run, its batches and its optimizer in one line."""
    training = config.training
    bounds = [
        counted(training.max_epochs, "epoch") if training.max_epochs < 100_000 else "",
        counted(training.max_steps, "update") if training.max_steps else "",
        f"{training.max_minutes:g} minutes" if training.max_minutes else "",
    ]
    return (
        f"training: at most {', '.join(filter(None, bounds))}; batches of {training.batch_tokens:,} tokens; "
        f"{training.optimizer}, learning rate {training.learning_rate:g}, label smoothing {training.label_smoothing:g}"
    )
