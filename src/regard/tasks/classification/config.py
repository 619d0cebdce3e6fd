"""Settings of a classification run."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from regard.config.checks import transformer_misfits
from regard.config.classifier import (
    ClassifierConfig,
    CombinedClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from regard.config.data import AutoConfig, LabelledDataConfig, TokenizerConfig
from regard.config.run import RunConfig
from regard.config.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class ClassificationTrainingConfig(TrainingConfig):
    """How a classifier is trained: length, batches, optimizer and what is kept."""

    class_weights: Literal["none", "balanced"] = "none"
    """`balanced`: each label counts in the loss by the inverse of how often it comes, so that rare ones are not drowned."""
    score_folds: int = 0
    """Folds of the cross-validation that estimates the scores before training, if no text is held out; 0 for no estimate. The
    model itself is trained on all texts."""
    monitor: Literal["accuracy", "macro_f1", "loss"] = "accuracy"
    """Score that the best checkpoint is chosen by."""
    calibrate: bool = True
    """At the end, choose the temperature of the probabilities on the dev texts (Guo et al. 2017); labels do not change."""


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(RunConfig):
    """A classification run: data, tokenizer, model, training."""

    task: Literal["classification"] = "classification"
    data: LabelledDataConfig = field(default_factory=LabelledDataConfig)
    """Data to learn from."""
    tokenizer: TokenizerConfig = field(default_factory=lambda: AutoConfig(lowercase=True))
    """How texts become symbols."""
    model: ClassifierConfig = field(default_factory=RecurrentClassifierConfig)
    """Architecture of the model."""
    training: ClassificationTrainingConfig = field(default_factory=ClassificationTrainingConfig)
    """How the model is trained."""

    def misfits(self) -> Iterator[tuple[str, str]]:
        """As `RunConfig.misfits`, for this task's own settings too."""
        yield from super().misfits()
        data, model = self.data, self.model
        if self.training.score_folds == 1:
            yield "training.score_folds", "training.score_folds is 1, expected 0 (no estimate) or 2 and more"
        if data.folds == 1:
            yield "data.folds", "data.folds is 1, expected 0 (no folds) or 2 and more"
        if data.folds and data.fold > data.folds:
            yield "data.fold", f"data.fold is {data.fold}, expected from 1 to data.folds ({data.folds})"
        if data.folds and data.dev:
            yield (
                "data.folds",
                "data.folds holds out a part of data.train, and data.dev names other texts to validate on; give one",
            )
        if isinstance(model, TransformerClassifierConfig):
            yield from transformer_misfits(model, model.embedding_size, "model.embedding_size")
        if isinstance(model, CombinedClassifierConfig) and model.recurrent.freeze:
            yield (
                "model.recurrent.freeze",
                "model.recurrent.freeze has no effect; set model.freeze, such as model.freeze members.1",
            )
        if self.start_from and data.vectors:
            yield (
                "data.vectors",
                f"data.vectors is set, but a run that starts from '{self.start_from}' uses the embeddings of that model; leave "
                "data.vectors out",
            )
