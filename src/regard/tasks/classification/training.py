"""Learning to label texts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.pooling import Pooling
from regard.bundle import ClassificationBundle, Start
from regard.bundle.bundle import Custom, fingerprint_vocabulary
from regard.config import ClassificationConfig
from regard.errors import ConfigError, RequestError
from regard.evaluation.baseline import Share, most_frequent, warn_of_one_answer
from regard.evaluation.calibration import calibration, fit_temperature, softmax
from regard.evaluation.classification import score_labels, score_several
from regard.models.build import build_classifier
from regard.models.text_classifier import Example, TextClassifier
from regard.text.batching import BucketBatchSampler, length_batches
from regard.text.labelled.encoded import LabelledBatch, LabelledCorpus
from regard.text.labelled.labels import Labels, show_names
from regard.text.labelled.prepare import LabelledData, prepare_labelled
from regard.text.labelled.sentences import sentence_ends
from regard.text.labelled.vectors import Vectors, read_vectors
from regard.text.symbols import PAD, SPECIAL_TOKENS
from regard.training.data import to_device
from regard.training.machine import Machine, seed_step
from regard.training.starting import check_vocabulary
from regard.training.task import Scores, Task, Validator, evaluating, fitting_into_memory

_PRIMING = 512  # texts at once that a model looks at before training

ClassifierModel = TextClassifier | Callable[[int, int], TextClassifier]


class ClassificationTask(Task):
    """−log p(label | text), summed over texts; with several labels, over labels too."""

    unit: ClassVar[str] = "texts"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "dev_nll", "accuracy", "macro_f1")
    config: ClassificationConfig
    data: LabelledData
    model: TextClassifier

    @classmethod
    def prepare(
        cls,
        config: ClassificationConfig,
        *,
        model: ClassifierModel | None,
        pooling: Pooling | None,
        progress: bool,
        start: Start | None = None,
    ) -> "ClassificationTask":
        """Read the data, and word vectors if there are any, and build the model, from the weights of `start` if it is given."""
        learned = (start.tokenizers[0], start.labels) if start else None
        data = prepare_labelled(config.data, config.tokenizer, seed=config.seed, progress=progress, learned=learned)
        config = replace(config, tokenizer=data.tokenizer_config)
        vectors = read_vectors(config.data.vectors, data.tokenizer.vocabulary()) if config.data.vectors else None
        if vectors is not None:
            config = replace(config, data=replace(config.data, vectors_size=vectors.matrix.shape[1]))
            note = f"word vectors of {config.data.vectors}: {_describe(vectors)}"
            data = replace(data, report=replace(data.report, notes=[*data.report.notes, note]))
        seed_step(config.seed, 0)
        built = _build_model(config, data, model, pooling)
        if vectors is not None:
            _put_in(vectors, built)
        vocabulary = fingerprint_vocabulary((data.tokenizer,), data.labels)
        check_vocabulary(built, vocabulary, given=model is not None)
        if start:
            _load_start(start, built, data, lambda labels: _build_model(config, labels, model, pooling))
        look = built.refine if start else built.prime  # most models do not look
        look(_examples(data.train), label_weight=_label_weight(config, data))
        custom: Custom = "model" if model is not None else "attention" if pooling is not None else ""
        return cls(config, data, built, custom)

    def __init__(self, config: ClassificationConfig, data: LabelledData, model: TextClassifier, custom: Custom) -> None:
        super().__init__(config, data, model, custom)
        self._label_weight = _label_weight(config, data)

    def sampler(self) -> BucketBatchSampler:
        """Batches by length."""
        training, lengths = self.config.training, self.data.train.lengths
        return BucketBatchSampler(
            lengths,
            lengths,
            batch_tokens=training.batch_tokens,
            batch_sentences=training.batch_sentences,
            seed=self.config.seed,
        )

    def count(self, indices: np.ndarray) -> int:
        """Texts."""
        return len(indices)

    def loss(self, batch: LabelledBatch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """With label smoothing and class weights, and without."""
        parts = [logits.float() for logits in self.model.parts(batch.tokens, batch.mask)]
        with torch.no_grad():
            plain = label_loss(torch.stack(parts).mean(dim=0), batch.label)
        weight = None if self._label_weight is None else self._label_weight.to(batch.tokens.device)
        smoothing = self.config.training.label_smoothing
        losses = [label_loss(logits, batch.label, weight=weight, label_smoothing=smoothing) for logits in parts]
        return torch.stack(losses).sum(), plain

    def validator(self, machine: Machine) -> "ClassificationValidator | None":
        """Loss, accuracy, macro F1 and calibration of all dev texts."""
        if not len(self.data.dev):
            return None
        training = self.config.training
        return ClassificationValidator(
            self.data.dev, self.data.labels, machine, batch_tokens=training.batch_tokens, calibrate=training.calibrate
        )

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe loss, accuracy beside that of the most frequent label, and macro F1."""
        baseline = ""
        if "majority_label" in scores:  # a run that began with an older regard has none
            baseline = f" (always answering '{scores['majority_label']:.60}' gives {scores['majority_share']:.1%})"
        return f"loss {scores['loss']:.3f}, accuracy {scores['accuracy']:.1%}{baseline}, macro F1 {scores['macro_f1']:.3f}"

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning if the model gives (almost) all texts the same label; else an empty string."""
        if "majority_label" not in scores:
            return ""
        return warn_of_one_answer(
            Share(scores["predicted_label"], scores["predicted_share"]),
            Share(scores["majority_label"], scores["majority_share"]),
            texts=scores["texts"],
            num_labels=len(self.data.labels.names),
            balanced=self.config.training.class_weights == "balanced",
            name="dev texts",
        )

    def bundle(self, signature: dict[str, Any]) -> ClassificationBundle:
        """Model, tokenizer, labels, settings and report."""
        return ClassificationBundle(
            config=self.config,
            model=self.model,
            tokenizer=self.data.tokenizer,
            labels=self.data.labels,
            temperature=signature["scores"].get("temperature", 1.0),
            signature=signature,
            report=self.data.report.to_dict(),
            custom=self.custom,
        )

    def predictor(self, bundle: Any) -> Any:
        """A `Classifier`."""
        from regard.tasks.classification.predictor import Classifier

        return Classifier(bundle)


def label_loss(
    logits: Float[Tensor, "B C"], label: Tensor, *, weight: Tensor | None = None, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Σ −log p(label), by a softmax where a text has one label (B,), by a sigmoid each where it has several (B,C).

    Args:
        logits: Scores of the labels.
        label: Numbers of the labels, or ones and zeros.
        weight: (C,), what each label's loss is multiplied by.
        label_smoothing: ε of the smoothed target (1 − ε)·gold + ε/C; for several labels, (1 − ε)·gold + ε/2.
    """
    if label.ndim == 1:
        return functional.cross_entropy(logits, label, weight=weight, label_smoothing=label_smoothing, reduction="sum")
    target = label * (1 - label_smoothing) + label_smoothing / 2
    return functional.binary_cross_entropy_with_logits(logits, target, weight=weight, reduction="sum")


@dataclass(frozen=True)
class ClassificationScores(Scores):
    """What one validation found."""

    nll: float
    """−log p of a text's label or labels, in nats, over all dev texts, before the temperature."""
    accuracy: float
    """From 0 to 1; of texts with several labels, the part that has exactly the right ones."""
    macro_f1: float
    """From 0 to 1: the mean over labels."""
    majority: Share
    """The most frequent label; its share is the accuracy of always giving it."""
    predicted: Share
    """The label that the model gives most often."""
    num_texts: int
    temperature: float
    """That minimizes the loss of the dev texts; 1 where it was not asked for."""
    calibration_error: float
    """Expected calibration error of the probabilities at this temperature, over 15 bins."""

    @property
    def loss(self) -> float:
        """`nll`."""
        return self.nll

    def monitored(self, name: str) -> float:
        """The figure that picks the best model, the higher the better."""
        return {"loss": -self.nll, "accuracy": self.accuracy, "macro_f1": self.macro_f1}[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a bundle's signature."""
        return {
            "loss": self.nll,
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "majority_label": self.majority.label,
            "majority_share": self.majority.share,
            "predicted_label": self.predicted.label,
            "predicted_share": self.predicted.share,
            "texts": self.num_texts,
            "temperature": self.temperature,
            "calibration_error": self.calibration_error,
        }

    def to_row(self) -> dict[str, float]:
        """Columns of the logs."""
        return {"dev_nll": self.nll, "accuracy": self.accuracy, "macro_f1": self.macro_f1}

    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """The figures."""
        return f"dev loss {self.nll:.3f}, accuracy {self.accuracy:.1%}, macro F1 {self.macro_f1:.3f}", []


class ClassificationValidator(Validator):
    """Scores models on the dev texts."""

    def __init__(self, corpus: LabelledCorpus, labels: Labels, machine: Machine, *, batch_tokens: int, calibrate: bool) -> None:
        self._names = labels.names
        self._corpus, self._machine, self._calibrate = corpus, machine, calibrate
        self._batches = length_batches(corpus.lengths, batch_tokens)

    @property
    def num_batches(self) -> int:
        """Batches of one validation, for progress bars."""
        return len(self._batches)

    def validate(self, model: TextClassifier, *, after_batch: Callable[[], None] = lambda: None) -> ClassificationScores:
        """Score a model on all dev texts; it is left in the mode it came in."""
        logits, labels = [], []
        with evaluating(model):
            for indices in self._batches:
                batch = to_device(self._corpus.batch(indices), self._machine.device)
                with self._machine.autocast():
                    logits.append(model(batch.tokens, batch.mask).logits.float().cpu())
                labels.append(batch.label.cpu())
                after_batch()
        scores, gold = torch.cat(logits), torch.cat(labels)
        nll = float(label_loss(scores.double(), gold)) / len(gold)
        if not np.isfinite(nll):
            raise RequestError("the scores of a dev text are not finite")
        temperature = fit_temperature(scores.numpy(), gold.numpy()) if self._calibrate else 1.0
        array, right = scores.numpy(), gold.numpy()
        if right.ndim == 2:
            probabilities = torch.sigmoid(scores / temperature).numpy()
            predicted = probabilities > 0.5
            found: Any = score_several(predicted, right, self._names)
        else:
            probabilities = softmax(array / temperature)
            predicted = array.argmax(axis=-1)
            found = score_labels(predicted, right, self._names)
        return ClassificationScores(
            nll=nll,
            accuracy=found.accuracy,
            macro_f1=found.macro_f1,
            majority=most_frequent(right, self._names),
            predicted=most_frequent(predicted, self._names),
            num_texts=len(gold),
            temperature=temperature,
            calibration_error=calibration(probabilities, right).error,
        )


def check_classification(config: ClassificationConfig, model: object, pooling: object) -> None:
    """Refuse what cannot be trained, before any work is done.

    Raises:
        ConfigError: If a setting or an object is wrong.
    """
    if not config.data.train:
        raise ConfigError("data.train is empty; name a file of labelled texts to learn from")
    if pooling is not None and not isinstance(pooling, Pooling):
        raise ConfigError(f"attention is {pooling!r:.80}, expected an object of a regard.attention.Pooling class")


def _label_weight(config: ClassificationConfig, data: LabelledData) -> Tensor | None:
    """N / (C · n_c), so that the mean over texts is 1; None where all labels count alike."""
    if config.training.class_weights == "none":
        return None
    counts = torch.tensor(data.labels.counts, dtype=torch.float32).clamp(min=1)
    return counts.sum() / (len(counts) * counts)


def _build_model(
    config: ClassificationConfig, data: LabelledData, model: ClassifierModel | None, pooling: Pooling | None
) -> TextClassifier:
    vocabulary_size, num_labels = data.tokenizer.size, len(data.labels.names)
    if model is None:
        with fitting_into_memory(f"a vocabulary of {vocabulary_size:,} symbols", "tokenizer.max_size"):
            return build_classifier(
                config.model,
                vocabulary_size=vocabulary_size,
                num_labels=num_labels,
                sentence_ends=sentence_ends(data.tokenizer),
                embedding_size=config.data.vectors_size,
                pooling=pooling,
            )
    made = model if isinstance(model, TextClassifier) else model(vocabulary_size, num_labels)
    if not isinstance(made, TextClassifier):
        raise ConfigError(
            f"model is a {type(made).__name__}, expected a regard.models.text_classifier.TextClassifier, or a function of the "
            "vocabulary's size and the number of labels that makes one"
        )
    return made


def _load_start(
    start: Start, model: TextClassifier, data: LabelledData, build: Callable[[LabelledData], TextClassifier]
) -> None:
    """Load the weights of a trained classifier; in its output layer, only those of the labels that both models have."""
    if start.labels.names == data.labels.names:
        start.load_into(model)
        return
    if start.custom:
        raise ConfigError(
            f"the labels here are {show_names(data.labels.names)}, but those of the model in '{start.folder}' are "
            f"{show_names(start.labels.names)}; a model of your own can only start from one with the same labels"
        )
    # The axes of labels are those whose size differs in a model with one more label.
    more = Labels((*data.labels.names, *_another(data.labels.names)), data.labels.multiple, (*data.labels.counts, 0))
    with torch.device("meta"):
        shapes, wider = (
            {name: tensor.shape for name, tensor in build(replace(data, labels=labels)).state_dict().items()}
            for labels in (data.labels, more)
        )
    axes = {
        name: axis
        for name, shape in shapes.items()
        for axis, size in enumerate(shape)
        if wider[name][axis] == size + 1  # other axes may be cut to the memory that many labels need
    }
    start.load_into_with_labels(model, axes, data.labels.names)


def _another(names: Sequence[str]) -> tuple[str]:
    """Return a label that does not exist yet."""
    return ("_".join((*names, "another")),)


def _examples(corpus: LabelledCorpus) -> Iterator[Example]:
    for start in range(0, len(corpus), _PRIMING):
        batch = corpus.batch(np.arange(start, min(start + _PRIMING, len(corpus))))
        yield batch.tokens, batch.mask, batch.label


def _describe(vectors: Vectors) -> str:
    found, words = int(vectors.found.sum()), len(vectors.found) - len(SPECIAL_TOKENS)
    part = f"{found:,} of the {words:,} words of the vocabulary ({found / max(words, 1):.1%})"
    return f"for {part}, of width {vectors.matrix.shape[1]:,}"


def _put_in(vectors: Vectors, model: TextClassifier) -> None:
    """Start the embedding from word vectors; words without one keep their random start, scaled alike."""
    width = vectors.matrix.shape[1]
    words = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.padding_idx == PAD]
    if not words or any(embedding.embedding_dim != width for embedding in words):
        raise ConfigError(f"data.vectors is for models with an embedding of width {width}; this one has none")
    found = torch.from_numpy(vectors.found)
    if not found.any():
        raise ConfigError("data.vectors has no vector for any word of the vocabulary; is it for another language?")
    known = torch.from_numpy(vectors.matrix)[found]
    with torch.no_grad():
        for embedding in words:
            embedding.weight.mul_(known.std() / embedding.weight.std().clamp(min=1e-12))
            embedding.weight[found] = known.to(embedding.weight.dtype)
            embedding.weight[PAD] = 0
