"""Settings of a classification run."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from regard.config.classifier import (
    ClassifierConfig,
    CombinedClassifierConfig,
    PretrainedClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from regard.config.data import AutoConfig, LabelledDataConfig, TokenizerConfig
from regard.config.fields import Natural, Role
from regard.config.run import RunConfig
from regard.config.training import TrainingConfig
from regard.tasks.encoders import encoder_conflicts


class ClassificationTrainingConfig(TrainingConfig):
    """Settings for training a classifier: duration, batches, optimizer and checkpoints."""

    class_weights: Literal["none", "balanced"] = "none"
    """Weights of the labels in the loss; `balanced` makes a label's weight inversely proportional to its frequency, so that
    rare labels are learned too.
    """
    score_folds: Natural = 0
    """Number of folds of a cross-validation that estimates the scores before training, if no texts are held out; 0 for no
    estimate. The model itself is trained on all texts.
    """
    monitor: Literal["accuracy", "macro_f1", "loss"] = "accuracy"
    """Score that decides which checkpoint is the best."""
    calibrate: Annotated[bool, Role.ADJUSTABLE] = True
    """Whether to fit a temperature on the dev texts, so that probabilities match the accuracy (Guo et al. 2017). Predicted
    labels do not change.
    """


class ClassificationConfig(RunConfig):
    """A classification run: data, tokenizer, model, training."""

    task: Literal["classification"] = "classification"
    data: LabelledDataConfig = field(default_factory=LabelledDataConfig)
    """Training data."""
    tokenizer: Annotated[TokenizerConfig, Role.VOCABULARY] = field(default_factory=lambda: AutoConfig(lowercase=True))
    """Tokenizer of the texts."""
    model: ClassifierConfig = field(default_factory=RecurrentClassifierConfig)
    """Architecture of the model."""
    training: ClassificationTrainingConfig = field(default_factory=ClassificationTrainingConfig)
    """Settings of the training."""

    @property
    def fits_page(self) -> bool:
        """Whether `regard page` can write the model."""
        return self.tokenizer.kind not in ("pretrained", "spacy")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield the conflicts between settings of the run; see `RunConfig.conflicts`."""
        yield from super().conflicts()
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
                "data.folds holds out a part of data.train, and data.dev names other texts to validate on; set only one",
            )
        if isinstance(model, TransformerClassifierConfig):
            yield from model.width_conflicts(model.embedding_size, "model.embedding_size")
        if isinstance(model, CombinedClassifierConfig) and model.recurrent.freeze:
            yield (
                "model.recurrent.freeze",
                "model.recurrent.freeze has no effect; set model.freeze, such as model.freeze members.1",
            )
        if isinstance(model, PretrainedClassifierConfig):
            yield from encoder_conflicts(self, model.encoder, self.tokenizer, "tokenizer")
            if data.vectors:
                yield (
                    "data.vectors",
                    "data.vectors is set, but a pretrained encoder has its own embeddings; leave data.vectors out",
                )
        if self.start_from and data.vectors:
            yield (
                "data.vectors",
                f"data.vectors is set, but a run that starts from '{self.start_from}' uses the embeddings of that model; leave "
                "data.vectors out",
            )
