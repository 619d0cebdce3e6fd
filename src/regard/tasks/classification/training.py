"""Training of classifiers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.pooling import Pooling
from regard.errors import ConfigError
from regard.evaluation.baseline import Share, most_frequent, warn_of_one_answer
from regard.machine import Machine, seed_step
from regard.models.build import check_pooling
from regard.models.text_classifier import Example, TextClassifier
from regard.task import Custom, FoldScore, Start, Trainable, Training
from regard.tasks.classification.bundle import ClassificationBundle, ClassificationFormat, ClassifierParts
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.validation import ClassificationValidator, label_loss
from regard.text.batching import BucketBatchSampler
from regard.text.corpora import LabelledBatch, LabelledCorpus
from regard.text.labelled.labels import Labels, show_names
from regard.text.labelled.prepare import LabelledData, prepare_labelled
from regard.text.labelled.vectors import Vectors, read_vectors
from regard.text.symbols import PAD, SPECIAL_TOKENS
from regard.training.contexts import evaluating, fitting_into_memory
from regard.training.starting import check_vocabulary, custom_part

_PRIMING = 512  # number of texts per batch when the model reads all training texts before training

OwnClassifier = TextClassifier | Callable[[int, int], TextClassifier]


class TrainableClassifier(Trainable[ClassificationConfig, TextClassifier, LabelledBatch, ClassificationBundle]):
    """A classifier and its data. The loss is −log p(label | text), summed over texts, and over labels if texts have several."""

    unit: ClassVar[str] = "texts"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "dev_nll", "accuracy", "macro_f1")
    data: LabelledData

    def __init__(self, config: ClassificationConfig, data: LabelledData, model: TextClassifier, custom: Custom) -> None:
        super().__init__(config, data, model, custom)
        self._label_weight = _label_weight(config, data)

    def sampler(self) -> BucketBatchSampler:
        """Return the sampler of batches of labelled texts with similar lengths."""
        return BucketBatchSampler.of_run(self.config, self.data.train.lengths)

    def count(self, indices: np.ndarray) -> int:
        """Return the number of texts."""
        return len(indices)

    def loss(self, batch: LabelledBatch, step: int, total_steps: int) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the loss to differentiate, and the loss to report.

        The first is the sum of the losses of the model's parts, with label smoothing and class weights. The second is the loss
        of the mean of the parts' scores, without smoothing and weights.
        """
        parts = [logits.float() for logits in self.model.parts(batch.tokens, batch.mask)]
        with torch.no_grad():
            plain = label_loss(torch.stack(parts).mean(dim=0), batch.label)
        weight = None if self._label_weight is None else self._label_weight.to(batch.tokens.device)
        smoothing = self.config.training.label_smoothing
        losses = [label_loss(logits, batch.label, weight=weight, label_smoothing=smoothing) for logits in parts]
        return torch.stack(losses).sum(), plain

    def validator(self, machine: Machine) -> "ClassificationValidator | None":
        """Return an object that computes the scores on all dev texts; None if there are no dev texts."""
        if not len(self.data.dev):
            return None
        training = self.config.training
        return ClassificationValidator(
            self.data.dev, self.data.labels, machine, batch_tokens=training.batch_tokens, calibrate=training.calibrate
        )

    def scoring_runs(self) -> Sequence[ClassificationConfig]:
        """Return the runs of a cross-validation with `training.score_folds` folds.

        The result is empty if this setting is 0, if texts are held out, if the run is itself a fold (`data.folds`), or if there
        are fewer texts than folds.
        """
        folds, data = self.config.training.score_folds, self.config.data
        if not folds or len(self.data.dev) or data.folds or len(self.data.train) < folds:
            return ()
        whole = replace(self.config, training=replace(self.config.training, score_folds=0))
        return [replace(whole, data=replace(data, folds=folds, fold=fold)) for fold in range(1, folds + 1)]

    def pool_scores(self, scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Combine the scores of all folds, in which each text was held out once.

        Loss and accuracy are means over texts, and macro F1 is the mean over folds. `accuracy_sd` is the standard deviation of
        the folds' accuracy.
        """
        sizes = np.array([fold["texts"] for fold in scores])
        answers: dict[str, float] = {}
        for fold in scores:
            given = fold["predicted_share"] * fold["texts"] / sizes.sum()
            answers[fold["predicted_label"]] = answers.get(fold["predicted_label"], 0) + given
        predicted = max(answers, key=answers.__getitem__)
        train = self.data.train
        majority = most_frequent(train.batch(np.arange(len(train))).label.numpy(), self.data.labels.names)
        return {
            "loss": float(np.average([fold["loss"] for fold in scores], weights=sizes)),
            "accuracy": float(np.average([fold["accuracy"] for fold in scores], weights=sizes)),
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
        baseline = ""
        if "majority_label" in scores:  # it is missing if the run began with an older version of regard
            baseline = f" (always answering '{scores['majority_label']:.60}' gives {scores['majority_share']:.1%})"
        spread = f" ± {100 * scores['accuracy_sd']:.1f} points" if "folds" in scores else ""
        shown = (
            f"loss {scores['loss']:.3f}, accuracy {scores['accuracy']:.1%}{spread}{baseline}, macro F1 {scores['macro_f1']:.3f}"
        )
        if "folds" not in scores:
            return shown
        return f"estimate by cross-validation in {scores['folds']} folds (± standard deviation of the folds): {shown}"

    def describe_start(self, start: Start[ClassifierParts]) -> list[str]:
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
        if "majority_label" not in scores:
            return ""
        return warn_of_one_answer(
            Share(scores["predicted_label"], scores["predicted_share"]),
            Share(scores["majority_label"], scores["majority_share"], scores.get("second_share", 0.0)),
            texts=scores["texts"],
            balanced=self.config.training.class_weights == "balanced",
            name="held-out texts" if "folds" in scores else "dev texts",
        )

    def bundle(self, signature: dict[str, Any]) -> ClassificationBundle:
        """Return the model, tokenizer, labels, settings and report."""
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


class ClassificationTraining(Training[ClassificationConfig, ClassifierParts, ClassificationBundle]):
    """The `Training` of classifiers."""

    fold_scores: ClassVar[tuple[FoldScore, ...]] = (
        FoldScore("loss", "loss", ".4f"),
        FoldScore("accuracy", "accuracy", ".2%"),
        FoldScore("macro_f1", "macro F1", ".4f"),
    )

    def check(self, config: ClassificationConfig, model: object, attention: object) -> None:
        """Check settings and objects; see `Training.check`."""
        if not config.data.train:
            raise ConfigError("data.train is empty; name a file of labelled texts to learn from")
        if config.data.vectors_size and not (config.data.vectors or config.start_from):
            raise ConfigError(
                f"data.vectors_size is {config.data.vectors_size}, but data.vectors names no word vectors; leave vectors_size "
                "out, and set the width of the embedding with model.embedding_size"
            )
        if attention is not None:
            check_pooling("attention", attention)

    def num_folds(self, config: ClassificationConfig) -> int:
        """Return `data.folds`."""
        return config.data.folds

    def with_fold(self, config: ClassificationConfig, fold: int) -> ClassificationConfig:
        """Return the settings with `data.fold` set to `fold`."""
        return replace(config, data=replace(config.data, fold=fold))

    def prepare(
        self,
        config: ClassificationConfig,
        *,
        model: OwnClassifier | None,
        attention: Pooling | None,
        start: Start[ClassifierParts] | None,
        progress: bool,
    ) -> TrainableClassifier:
        """Read the texts and build the model, with word vectors if there are any.

        If there is a `start`, the model gets its vocabulary and weights; labels that `start` does not have get random weights.
        """
        learned = (start.parts.tokenizer, start.parts.labels) if start else None
        data = prepare_labelled(config.data, config.tokenizer, seed=config.seed, progress=progress, learned=learned)
        config = replace(config, tokenizer=data.tokenizer_config)
        vectors = read_vectors(config.data.vectors, data.tokenizer.vocabulary()) if config.data.vectors else None
        if vectors is not None:
            config = replace(config, data=replace(config.data, vectors_size=vectors.matrix.shape[1]))
            note = f"word vectors of {config.data.vectors}: {_describe(vectors)}"
            data = replace(data, report=replace(data.report, notes=[*data.report.notes, note]))
        seed_step(config.seed, 0)
        parts = ClassifierParts(data.tokenizer, data.labels)
        built = _build_model(config, parts, model, attention)
        if vectors is not None:
            _put_in(vectors, built)
        check_vocabulary(built, ClassificationFormat().vocabulary(parts), given=model is not None)
        if start:
            build = partial(_build_model, config, model=model, pooling=attention)
            _load_start(start, built, data.labels, lambda labels: build(replace(parts, labels=labels)))
        look = built.refine if start else built.prime  # most models do nothing here
        look(_examples(data.train), label_weight=_label_weight(config, data))
        return TrainableClassifier(config, data, built, custom_part(model, attention))


def _label_weight(config: ClassificationConfig, data: LabelledData) -> Tensor | None:
    """Return the weight N / (C · n_c) of each label c in the loss; None if labels have equal weights.

    n_c is the number of training texts with label c (at least 1), N is the sum of these numbers, and C is the number of labels.
    So the mean weight over the labels of all training texts is 1.
    """
    if config.training.class_weights == "none":
        return None
    counts = torch.tensor(data.labels.counts, dtype=torch.float32).clamp(min=1)
    return counts.sum() / (len(counts) * counts)


def _build_model(
    config: ClassificationConfig, parts: ClassifierParts, model: OwnClassifier | None, pooling: Pooling | None
) -> TextClassifier:
    vocabulary_size, num_labels = parts.tokenizer.size, len(parts.labels.names)
    if model is None:
        with fitting_into_memory(f"a vocabulary of {vocabulary_size:,} symbols", "tokenizer.max_size"):
            return ClassificationFormat().build_model(config, parts, pooling)
    made = model if isinstance(model, TextClassifier) else model(vocabulary_size, num_labels)
    if not isinstance(made, TextClassifier):
        raise ConfigError(
            f"model is a {type(made).__name__}, expected a regard.models.text_classifier.TextClassifier, or a function that "
            "builds one from the vocabulary's size and the number of labels"
        )
    _check_own_sizes(made, vocabulary_size, num_labels)
    return made


def _check_own_sizes(model: TextClassifier, vocabulary_size: int, num_labels: int) -> None:
    """Check that the caller's own model reads each token of the vocabulary and gives a score to each label.

    Raises:
        ConfigError: If it does not.
    """
    remedy = "; give fit a function that builds the model from the vocabulary's size and the number of labels"
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    last = torch.full((1, 1), vocabulary_size - 1, device=device)
    try:
        with evaluating(model), torch.random.fork_rng(devices=[]):
            found = model(last, torch.ones_like(last, dtype=torch.bool)).logits.shape[-1]
    except IndexError as error:
        raise ConfigError(f"model cannot read a vocabulary of {vocabulary_size:,} tokens ({error}){remedy}") from error
    if found != num_labels:
        raise ConfigError(f"model gives scores to {found} labels, but the data has {num_labels}{remedy}")


def _load_start(
    start: Start[ClassifierParts], model: TextClassifier, labels: Labels, build: Callable[[Labels], TextClassifier]
) -> None:
    """Load the weights of a trained classifier; weights that belong to a label only if both models have this label."""
    old = start.parts.labels.names
    if old == labels.names:
        start.load_into(model)
        return
    if start.custom:
        raise ConfigError(
            f"the labels here are {show_names(labels.names)}, but those of the model in '{start.folder}' are "
            f"{show_names(old)}; a model of your own can only start from one with the same labels"
        )
    # To find the axes of labels, compare the model with one that has one more label: these axes are longer by one.
    more = Labels((*labels.names, *_another(labels.names)), labels.multiple, (*labels.counts, 0))
    with torch.device("meta"):
        shapes, wider = ({name: tensor.shape for name, tensor in build(one).state_dict().items()} for one in (labels, more))
    axes = {
        name: axis
        for name, shape in shapes.items()
        for axis, size in enumerate(shape)
        if wider[name][axis] == size + 1  # an axis of another kind may become shorter with one more label
    }
    start.load_into(model, lambda tensors: _match_labels(tensors, model, axes, old, labels.names))


def _match_labels(
    tensors: dict[str, Tensor], model: TextClassifier, axes: Mapping[str, int], old: Sequence[str], names: Sequence[str]
) -> None:
    """Convert the tensors of a trained classifier to the shapes of a new one with other labels, which are matched by name.

    Labels that the trained model does not have keep the weights of the new model.

    Args:
        tensors: Tensors of the trained model by name. Those with an axis of labels are replaced in this dictionary.
        model: The new model.
        axes: Names of the tensors that have an axis of labels, with the number of that axis.
        old: Labels of the trained model.
        names: Labels of the new model.
    """
    shared = [(number, old.index(name)) for number, name in enumerate(names) if name in old]
    here, there = (torch.tensor([pair[side] for pair in shared], dtype=torch.int64) for side in (0, 1))
    own = model.state_dict()
    for name, axis in axes.items():
        if name in tensors and name in own:
            known = tensors[name].index_select(axis, there).to(own[name].dtype)
            tensors[name] = own[name].detach().cpu().clone().index_copy_(axis, here, known)


def _another(names: Sequence[str]) -> tuple[str]:
    """Return a label that is not among `names`, in a tuple."""
    return ("_".join((*names, "another")),)


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
