"""Training of classifiers, and their validation on texts that they are not trained on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from regard.bundle import StartFiles
from regard.config import PretrainedClassifierConfig
from regard.errors import ConfigError, RequestError
from regard.evaluation.baseline import Share, most_frequent, warn_of_one_answer
from regard.evaluation.calibration import fit_temperature
from regard.evaluation.labelled import evaluate_labels
from regard.layers.consistency import Consistency, reading_twice
from regard.machine import device_of, evaluating
from regard.models.build import check_pooling
from regard.models.text_classifier import Example, TextClassifier
from regard.task import Bundle, Scores, Trainable, Training, Validator
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.data import ClassificationFormat, ClassifierParts
from regard.tasks.encoders import with_encoder
from regard.text.corpora import LabelledBatch, LabelledCorpus
from regard.text.labelled.labels import Labels, show_names
from regard.text.labelled.prepare import LabelledSchema
from regard.text.labelled.vectors import Vectors, read_vectors
from regard.text.preparation import Prepared, prepare_data
from regard.text.split import spread
from regard.text.symbols import PAD, SPECIAL_TOKENS
from regard.text.tokenizers.dropout import redraw_subwords

_PRIMING = 512  # number of texts per batch when the model reads all training texts before training


def label_loss(
    logits: Float[Tensor, "B C"], label: Tensor, *, weight: Tensor | None = None, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return Σ −log p(label): from a softmax if each text has one label, or from a sigmoid per label if texts have several.

    `label` has the number of each text's label (B,), or, for several labels, ones and zeros (B,C); `weight` (C,) has a weight
    of each label's loss. The smoothed target is (1 − ε)·gold + ε/C; for several labels, (1 − ε)·gold + ε/2.
    """
    if label.ndim == 1:
        return functional.cross_entropy(logits, label, weight=weight, label_smoothing=label_smoothing, reduction="sum")
    target = label * (1 - label_smoothing) + label_smoothing / 2
    return functional.binary_cross_entropy_with_logits(logits, target, weight=weight, reduction="sum")


def label_log_probability(logits: Float[Tensor, "*any C"], label: Tensor) -> Tensor:
    """Return the logarithms of the probabilities of all labels; if texts have several labels, of each label's yes and no."""
    if label.ndim == 1:
        return logits.log_softmax(dim=-1)
    return torch.stack((functional.logsigmoid(logits), functional.logsigmoid(-logits)), dim=-1)


@dataclass(frozen=True)
class ClassificationScores(Scores):
    """Scores of one validation; `nll` is the mean loss per text, at temperature 1."""

    accuracy: float
    """Accuracy from 0 to 1; if texts have several labels, the share of texts whose labels are all predicted correctly."""
    macro_f1: float
    """Mean F1 over the labels, from 0 to 1."""
    majority_label: str
    """The most frequent label, or set of labels, of the dev texts."""
    majority_share: float
    """Share of the dev texts with this label: the accuracy of always predicting it."""
    second_share: float
    """Share of the dev texts with the second most frequent label."""
    predicted_label: str
    """The label, or set of labels, that the model predicts most often."""
    predicted_share: float
    """Its share of the predictions."""
    texts: int
    temperature: float
    """Temperature that was fitted on the dev texts (`fit_temperature`); 1 if none was fitted."""
    calibration_error: float
    """Expected calibration error of the probabilities at this temperature, over 15 bins."""


class ClassificationValidator(Validator):
    """Validation of models on the dev texts."""

    def validate(self, *, after_batch: Callable[[], None] = lambda: None) -> Scores:
        self._logits: list[Tensor] = []
        self._labels: list[Tensor] = []
        return super().validate(after_batch=after_batch)

    def nll(self, batch: LabelledBatch) -> float:
        """Return the sum of the losses of a batch, and keep the model's scores."""
        logits = self.task.model(batch.tokens, batch.mask).logits.float().cpu()
        self._logits.append(logits)
        self._labels.append(batch.label.cpu())
        return label_loss(logits.double(), self._labels[-1]).item()

    def score(self, nll: float, after_batch: Callable[[], None]) -> ClassificationScores:
        """Return the scores, with the temperature that minimises the loss if the run calibrates.

        Raises:
            RequestError: If the loss is not finite.
        """
        if not np.isfinite(nll):
            raise RequestError("the scores of a dev text are not finite")
        logits, gold = torch.cat(self._logits).numpy(), torch.cat(self._labels).numpy()
        temperature = fit_temperature(logits, gold) if self.task.config.training.calibrate else 1.0
        found = evaluate_labels(logits, gold, (), self.task.parts.labels.names, temperature=temperature)
        return ClassificationScores(
            nll=nll,
            accuracy=found.accuracy,
            macro_f1=found.macro_f1,
            majority_label=found.majority.label,
            majority_share=found.majority.share,
            second_share=found.majority.second,
            predicted_label=found.answer.label,
            predicted_share=found.answer.share,
            texts=len(gold),
            temperature=temperature,
            calibration_error=found.calibration.error,
        )


class TrainableClassifier(Trainable):
    """A classifier and its data. The loss is −log p(label | text), summed over texts, and over labels if texts have several."""

    unit: ClassVar[str] = "texts"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "dev_nll", "accuracy", "macro_f1")
    follows = ("consistency", "bpe_dropout")
    validator_class = ClassificationValidator
    data: Prepared[LabelledCorpus]
    model: TextClassifier
    parts: ClassifierParts

    def sizes(self, corpus: Any) -> np.ndarray:
        """Return 1 for each text."""
        return np.ones(len(corpus), dtype=np.int64)

    @cached_property
    def label_weight(self) -> Tensor | None:
        """Weight N / (C · n_c) of each label c in the loss; None if labels have equal weights.

        n_c is the number of training texts with label c (at least 1), N the sum of these numbers, and C the number of labels.
        """
        if self.config.training.class_weights == "none":
            return None
        counts = torch.tensor(self.data.labels.counts, dtype=torch.float32).clamp(min=1)
        return counts.sum() / (len(counts) * counts)  # the mean weight over the labels of all training texts is 1

    @cached_property
    def redrawing(self) -> dict[str, Any]:
        """Further arguments of the corpus's `batch`, for BPE-dropout."""
        return redraw_subwords(self.config, self.data.tokenizers)

    def batch(self, indices: np.ndarray) -> LabelledBatch:
        """Return a batch, with BPE-dropout if the settings ask for it."""
        return self.data.train.batch(indices, **self.redrawing)

    def loss(self, batch: LabelledBatch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the loss to differentiate, with label smoothing and class weights, and the plain loss to report."""
        consistency = Consistency.of(self.config.training.consistency)
        passes = 1 if consistency is None else 2
        with reading_twice(self.model, consistency) if consistency else nullcontext():
            # The parts of a combined model are trained side by side, and their mean predicts.
            tokens, mask = (each.repeat(passes, 1) for each in (batch.tokens, batch.mask))
            read, further = self.model.read_for_training(tokens, mask, torch.cat([batch.label] * passes))
        parts = [logits.float().unflatten(0, (passes, len(batch))) for logits in read]
        with torch.no_grad():
            plain = label_loss(torch.stack([part[0] for part in parts]).mean(dim=0), batch.label)
        weight = None if self.label_weight is None else self.label_weight.to(batch.tokens.device)
        smoothing = self.config.training.label_smoothing
        losses = []
        for part in parts:
            each = [label_loss(logits, batch.label, weight=weight, label_smoothing=smoothing) for logits in part]
            if consistency is None:
                losses += each
            else:
                losses.append(consistency.loss(*each, *label_log_probability(part, batch.label)))
        if further is not None:
            losses.append(further / passes)
        return torch.stack(losses).sum(), plain

    def scoring_runs(self) -> Sequence[ClassificationConfig]:
        """Return the runs of a cross-validation with `training.score_folds` folds; none if texts are held out already."""
        folds, data = self.config.training.score_folds, self.config.data
        if not folds or len(self.data.dev) or data.folds or len(self.data.train) < folds:
            return ()
        return _split(replace(self.config, training=replace(self.config.training, score_folds=0)), folds)

    def pool_scores(self, scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Combine the scores of all folds: means over texts, for macro F1 over folds, and the deviation of the accuracy."""
        sizes = np.array([fold["texts"] for fold in scores])
        answers: dict[str, float] = {}
        for fold in scores:
            share = fold["predicted_share"] * fold["texts"] / sizes.sum()
            answers[fold["predicted_label"]] = answers.get(fold["predicted_label"], 0) + share
        predicted = max(answers, key=answers.__getitem__)
        majority = most_frequent(self.data.train.labels, self.data.labels.names)
        means = {name: float(np.average([fold[name] for fold in scores], weights=sizes)) for name in ("loss", "accuracy")}
        return {
            **means,
            "accuracy_sd": float(np.std([fold["accuracy"] for fold in scores], ddof=1)),
            "macro_f1": float(np.mean([fold["macro_f1"] for fold in scores])),
            "majority_label": majority.label,
            "majority_share": majority.share,
            "second_share": majority.second,
            "predicted_label": predicted,
            "predicted_share": answers[predicted],
            "texts": int(sizes.sum()),
            "folds": len(scores),
        }

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe loss, accuracy (and the accuracy of always answering the most frequent label), and macro F1."""
        spread = f" ± {100 * scores['accuracy_sd']:.1f} points" if "folds" in scores else ""
        shown = (
            f"loss {scores['loss']:.3f}, accuracy {scores['accuracy']:.1%}{spread} (always answering "
            f"'{scores['majority_label']:.60}' gives {scores['majority_share']:.1%}), macro F1 {scores['macro_f1']:.3f}"
        )
        if "folds" not in scores:
            return shown
        return f"estimate by cross-validation in {scores['folds']} folds (± standard deviation of the folds): {shown}"

    def describe_start(self, start: StartFiles) -> list[str]:
        """Describe which labels the trained model does not have, and which of its labels are missing in the new data."""
        labels, old = self.data.labels, start.parts.labels.names
        if labels.names == old:
            return []
        new, gone = [name for name in labels.names if name not in old], [name for name in old if name not in labels.names]
        shown = [("new, with random weights in the output layer", new), ("removed", gone)]
        parts = [f"{what}: {show_names(some)}" for what, some in shown if some]
        return [f"labels: {len(labels) - len(new):,} kept (matched by name); {'; '.join(parts)}"]

    def warn(self, scores: dict[str, Any]) -> str:
        """Return a warning if the model gives (almost) all held-out texts the same label; else an empty text."""
        return warn_of_one_answer(
            Share(scores["predicted_label"], scores["predicted_share"]),
            Share(scores["majority_label"], scores["majority_share"], scores["second_share"]),
            texts=scores["texts"],
            balanced=self.config.training.class_weights == "balanced",
            name="held-out texts" if "folds" in scores else "dev texts",
        )

    def bundle(self, signature: dict[str, Any]) -> Bundle:
        """Return the model as a bundle, with the temperature that was fitted at its validation."""
        bundle, temperature = super().bundle(signature), signature["scores"].get("temperature", 1.0)
        return replace(bundle, parts=replace(self.parts, temperature=temperature))


def _split(config: ClassificationConfig, folds: int) -> list[ClassificationConfig]:
    return [replace(config, data=replace(config.data, folds=folds, fold=fold)) for fold in range(1, folds + 1)]


class ClassificationTraining(Training):
    """The `Training` of classifiers."""

    trainable = TrainableClassifier
    model_class = TextClassifier
    sizes_name = "the vocabulary's size and the number of labels"
    fold_scores: ClassVar[Mapping[str, str]] = MappingProxyType({"loss": ".4f", "accuracy": ".2%", "macro_f1": ".4f"})

    def __init__(self) -> None:
        self._vectors: Vectors | None = None

    def check(self, config: ClassificationConfig, model: object, attention: object) -> None:
        super().check(config, model, attention)
        if config.data.vectors_size and not (config.data.vectors or config.start_from):
            raise ConfigError(
                f"data.vectors_size is {config.data.vectors_size}, but data.vectors names no word vectors; leave vectors_size "
                "out, and set the width of the embedding with model.embedding_size"
            )
        if attention is not None:
            check_pooling("attention", attention)

    def folds(self, config: ClassificationConfig) -> list[ClassificationConfig]:
        """Return the settings of a run for each of `data.folds` folds."""
        return _split(config, config.data.folds)

    def read(
        self, config: ClassificationConfig, learned: ClassifierParts | None, *, progress: bool
    ) -> tuple[ClassificationConfig, Prepared[LabelledCorpus], ClassifierParts]:
        """Read the texts, and the word vectors if there are any."""
        known = (learned.tokenizer, learned.labels) if learned else None
        if isinstance(config.model, PretrainedClassifierConfig):
            config = with_encoder(config)
        schema = LabelledSchema(config.data, config.tokenizer, known)
        data = prepare_data(schema, seed=config.seed, progress=progress)
        config = replace(config, tokenizer=data.configs[0])
        if config.data.vectors:
            vectors = self._vectors = read_vectors(config.data.vectors, data.tokenizers[0].vocabulary())
            config = replace(config, data=replace(config.data, vectors_size=vectors.matrix.shape[1]))
            note = f"word vectors of {config.data.vectors}: {_describe(vectors)}"
            data = replace(data, report=replace(data.report, notes=[*data.report.notes, note]))
        return config, data, ClassifierParts(data.tokenizers[0], data.labels)

    def held_out(self, config: ClassificationConfig, parts: ClassifierParts) -> tuple[list[str], bool]:
        schema = LabelledSchema(config.data, config.tokenizer, (parts.tokenizer, parts.labels))
        data = prepare_data(schema, seed=config.seed)
        corpus = data.dev if len(data.dev) else data.train
        return corpus.texts(spread(len(corpus))), corpus is data.dev

    def sizes(self, parts: ClassifierParts) -> tuple[int, ...]:
        """Return the size of the vocabulary and the number of labels."""
        return parts.tokenizer.size, len(parts.labels.names)

    def check_sizes(self, model: TextClassifier, sizes: tuple[int, ...]) -> str:
        """Return a message if the model cannot read a token, or scores another number of labels; else an empty text."""
        return check_scores(model, sizes, "labels")

    def begin(self, task: Trainable, start: StartFiles | None, *, progress: bool) -> None:
        """Put in the word vectors and the weights of a trained model, and show the model the training texts."""
        assert isinstance(task, TrainableClassifier)
        if self._vectors is not None:
            _put_in(self._vectors, task.model)
        if start:
            _load_start(start, task)
        look = task.model.refine if start else task.model.prime  # most models do nothing here
        look(_examples(task.data.train), label_weight=task.label_weight)


def check_scores(model: nn.Module, sizes: tuple[int, ...], noun: str, *places: Tensor) -> str:
    """Return a message if a model cannot read the last token of a vocabulary, or scores another number of labels; else "".

    `sizes` are the vocabulary's size and the number of labels, and `places` further arguments of the model.
    """
    vocabulary_size, expected = sizes
    device = device_of(model)
    last = torch.full((1, 1), vocabulary_size - 1, device=device)
    try:
        with evaluating(model), torch.random.fork_rng(devices=[]):
            found = model(last, torch.ones_like(last, dtype=torch.bool), *(each.to(device) for each in places)).logits.shape[-1]
    except IndexError as error:
        return f"model cannot read a vocabulary of {vocabulary_size:,} tokens ({error})"
    return f"model gives scores to {found} {noun}, but the data has {expected}" if found != expected else ""


def _load_start(start: StartFiles, task: TrainableClassifier) -> None:
    """Load the weights of a trained classifier; weights that belong to a label only if both models have this label."""
    old, labels, model = start.parts.labels.names, task.parts.labels, task.model
    if old == labels.names:
        start.load_into(model)
        return
    if start.custom:
        raise ConfigError(
            f"the labels here are {show_names(labels.names)}, but those of the model in '{start.folder}' are "
            f"{show_names(old)}; a model of your own can only start from one with the same labels"
        )
    # To find the axes of labels, compare the model with one that has one more label: these axes are longer by one.
    another = "_".join((*labels.names, "another"))
    more = replace(task.parts, labels=Labels((*labels.names, another), labels.multiple, (*labels.counts, 0)))
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        wider = ClassificationFormat().build_model(task.config, more).state_dict()
    weights = model.state_dict()
    axes = {
        name: axis
        for name, tensor in weights.items()
        for axis, size in enumerate(tensor.shape)
        if wider[name].shape[axis] == size + 1  # an axis of another kind may become shorter with one more label
    }
    shared = [(number, old.index(name)) for number, name in enumerate(labels.names) if name in old]
    here, there = (torch.tensor([pair[side] for pair in shared], dtype=torch.int64) for side in (0, 1))

    def match(tensors: dict[str, Tensor]) -> None:
        """Give the tensors the axes of the new labels; labels that the trained model does not have keep the new weights."""
        for name, axis in axes.items():
            if name in tensors:
                sizes = [[*shape[:axis], *shape[axis + 1 :]] for shape in (tensors[name].shape, weights[name].shape)]
                if sizes[0] != sizes[1]:  # a table of n-grams has fewer rows if there are many labels
                    raise ConfigError(
                        f"the model in '{start.folder}' has {len(old)} labels, but the run has {len(labels.names)}. The size "
                        f"of '{name}' depends on the number of labels, so the weights do not fit. Train a new model, or start "
                        "from a model of another kind, such as one trained with --preset bag"
                    )
                known = tensors[name].index_select(axis, there).to(weights[name].dtype)
                tensors[name] = weights[name].detach().cpu().clone().index_copy_(axis, here, known)

    start.load_into(model, match)


def _examples(corpus: LabelledCorpus) -> Iterator[Example]:
    for start in range(0, len(corpus), _PRIMING):
        batch = corpus.batch(np.arange(start, min(start + _PRIMING, len(corpus))))
        yield batch.tokens, batch.mask, batch.label


def _describe(vectors: Vectors) -> str:
    found, words = int(vectors.found.sum()), len(vectors.found) - len(SPECIAL_TOKENS)
    part = f"{found:,} of the {words:,} words of the vocabulary ({found / max(words, 1):.1%})"
    few = "; if words are split into subwords, set tokenizer.kind to words" if found < words / 2 else ""
    return f"for {part}, of width {vectors.matrix.shape[1]:,}{few}"


def _put_in(vectors: Vectors, model: TextClassifier) -> None:
    """Initialise the embeddings of words with word vectors.

    Words without a vector keep their random values, rescaled to the standard deviation of the vectors.
    """
    width = vectors.matrix.shape[1]
    words = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.padding_idx == PAD]
    widths = sorted({embedding.embedding_dim for embedding in words})
    if widths != [width]:
        shown = ", ".join(map(str, widths)) or "no embedding"
        raise ConfigError(f"data.vectors: expected all word embeddings of the model to have width {width}, found {shown}")
    found = torch.from_numpy(vectors.found)
    if not found.any():
        raise ConfigError("data.vectors has no vector for any word of the vocabulary; is it for another language?")
    known = torch.from_numpy(vectors.matrix)[found]
    with torch.no_grad():
        for embedding in words:
            embedding.weight.mul_(known.std() / embedding.weight.std().clamp(min=1e-12))
            embedding.weight[found] = known.to(embedding.weight.dtype)
            embedding.weight[PAD] = 0
