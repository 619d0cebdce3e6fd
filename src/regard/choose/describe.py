"""Descriptions of chosen settings for the report, shared by all tasks."""

from typing import Any

from regard.config import RunConfig, TokenizerConfig
from regard.plurals import counted


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
