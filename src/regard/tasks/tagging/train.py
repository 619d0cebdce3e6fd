"""Training of taggers, and their validation on sentences that they are not trained on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.config import PretrainedTaggerConfig
from regard.evaluation.spans import are_spans, score_tags
from regard.models.taggers import TextTagger
from regard.task import Scores, Trainable, Training, Validator
from regard.tasks.classification.train import check_scores
from regard.tasks.encoders import with_encoder
from regard.tasks.tagging.config import TaggingConfig
from regard.tasks.tagging.data import TaggerParts
from regard.text.labelled.labels import Labels
from regard.text.preparation import Prepared, prepare_data
from regard.text.split import spread
from regard.text.tagged.prepare import NO_TAG, TaggedBatch, TaggedCorpus, TaggedSchema


@dataclass(frozen=True)
class TaggingScores(Scores):
    """Scores of one validation, as `regard.evaluation.spans.TagScores` defines them; `nll` is the mean loss per word."""

    accuracy: float
    f1: float
    precision: float
    recall: float
    spans: bool
    words: int


class TaggingValidator(Validator):
    """Validation of models on the dev sentences."""

    def validate(self, *, after_batch: Callable[[], None] = lambda: None) -> Scores:
        self._rows: list[tuple[list[str], list[str]]] = []
        return super().validate(after_batch=after_batch)

    def nll(self, batch: TaggedBatch) -> float:
        """Return the sum of the losses of a batch, and keep the true and the predicted tags."""
        logits = self.task.model(batch.tokens, batch.mask, batch.places).logits.float()
        names = np.array(self.task.parts.tags.names, dtype=object)
        for gold, predicted in zip(batch.tags.cpu().numpy(), logits.argmax(-1).cpu().numpy(), strict=True):
            known = gold != NO_TAG
            self._rows.append((names[gold[known]].tolist(), names[predicted[known]].tolist()))
        return tag_loss(logits, batch.tags).item()

    def score(self, nll: float, after_batch: Callable[[], None]) -> TaggingScores:
        found = score_tags(*zip(*self._rows, strict=True), spans=are_spans(self.task.parts.tags.names))
        names = ("accuracy", "f1", "precision", "recall", "spans", "words")
        return TaggingScores(nll, **{name: getattr(found, name) for name in names})


def tag_loss(logits: Float[Tensor, "B W C"], tags: Tensor, *, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
    """Return Σ −log p(tag) over the words of a batch."""
    flat = logits.flatten(0, 1), tags.flatten()
    return functional.cross_entropy(*flat, ignore_index=NO_TAG, label_smoothing=label_smoothing, reduction="sum")


class TrainableTagger(Trainable):
    """A tagger and its data. The loss is −log p(tag | sentence), summed over words."""

    unit: ClassVar[str] = "words"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "dev_nll", "f1", "accuracy")
    validator_class = TaggingValidator
    data: Prepared[TaggedCorpus]
    model: TextTagger
    parts: TaggerParts

    def sizes(self, corpus: TaggedCorpus) -> np.ndarray:
        """Return the number of words of each sentence."""
        return corpus.num_words

    def loss(self, batch: TaggedBatch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the loss to differentiate, with label smoothing, and the plain loss to report."""
        logits = self.model(batch.tokens, batch.mask, batch.places).logits.float()
        loss = partial(tag_loss, logits, batch.tags)
        return loss(label_smoothing=self.config.training.label_smoothing), loss().detach()

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe loss, F1 of the spans, and accuracy."""
        f1 = f"span F1 {scores['f1']:.1%}, " if scores["spans"] else ""
        return f"loss {scores['loss']:.3f}, {f1}accuracy {scores['accuracy']:.1%}"

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning if the model finds no right span; else an empty text."""
        if not scores["spans"] or scores["f1"]:
            return ""
        return "warning: no predicted span is right; train for more epochs (--training.max_epochs), or on more sentences"


class TaggingTraining(Training):
    """The `Training` of taggers."""

    trainable = TrainableTagger
    model_class = TextTagger
    sizes_name = "the vocabulary's size and the number of tags"
    fold_scores: ClassVar[Mapping[str, str]] = MappingProxyType({"loss": ".4f", "f1": ".4f", "accuracy": ".2%"})

    def read(
        self, config: TaggingConfig, learned: TaggerParts | None, *, progress: bool
    ) -> tuple[TaggingConfig, Prepared[TaggedCorpus], TaggerParts]:
        if isinstance(config.model, PretrainedTaggerConfig):
            config = with_encoder(config)
        data = prepare_data(_schema(config, learned), seed=config.seed, progress=progress)
        tags = Labels(data.labels.names, False, data.labels.counts)
        return replace(config, tokenizer=data.configs[0]), data, TaggerParts(data.tokenizers[0], tags)

    def held_out(self, config: TaggingConfig, parts: TaggerParts) -> tuple[list[str], bool]:
        data = prepare_data(_schema(config, parts), seed=config.seed)
        corpus = data.dev if len(data.dev) else data.train
        return corpus.texts(spread(len(corpus))), corpus is data.dev

    def sizes(self, parts: TaggerParts) -> tuple[int, ...]:
        """Return the size of the vocabulary and the number of tags."""
        return parts.tokenizer.size, len(parts.tags)

    def check_sizes(self, model: TextTagger, sizes: tuple[int, ...]) -> str:
        """Return a message if the model cannot read a token, or scores another number of tags; else an empty text."""
        return check_scores(model, sizes, "tags", torch.zeros(1, 1, dtype=torch.long))


def _schema(config: TaggingConfig, learned: TaggerParts | None) -> TaggedSchema:
    return TaggedSchema(config.data, config.tokenizer, (learned.tokenizer, learned.tags.names) if learned else None)
