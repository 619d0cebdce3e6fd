"""The operations of classifiers: classify, look at attention, evaluate and compare. Nothing here imports torch at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from regard.config.fields import Count, Natural
from regard.errors import RequestError
from regard.plurals import counted
from regard.rendering import PICTURES
from regard.task.operation import AttentionOperation, FileOperation, Files, Look, Text, TextOperation
from regard.tasks.reading import find_layout
from regard.terminal import show

if TYPE_CHECKING:
    from regard.evaluation.labelled import LabelledEvaluation
    from regard.tasks.classification.comparison import ClassifierComparison
    from regard.tasks.classification.faithfulness import Faithfulness
    from regard.tasks.classification.predict import Classifier
    from regard.tasks.classification.results import Classification
    from regard.text.report import ReadingReport

TEXT_LAYOUT = ("format", "text", "label", "label_separator", "header", "encoding", "allow_skipped")
"""Settings under `data` that are options of the commands that read labelled texts."""


@dataclass(frozen=True)
class ClassificationAnswer:
    """The label of a text, with probabilities, in an answer of the service."""

    label: str
    probability: float
    labels: list[str]
    probabilities: dict[str, float]
    cut_at: int | None


@dataclass(frozen=True, kw_only=True)
class Classify(TextOperation):
    """Label texts."""

    top_k: Natural = 0
    """Number of labels in `probabilities`; 0 for all."""

    name: ClassVar = "classify"
    help: ClassVar = """\
Label the given texts, the lines of --input FILE, or the lines of standard input.
For each text, one line is printed, in order: the label, a tab, its probability. If texts can have several
labels, the line lists all labels with a probability above one half (film 0.9800, positive 0.9100), or else
(none), a tab, and the most probable label with its probability."""
    examples: ClassVar = """\
  regard classify runs/reviews "a gripping , honest film" --heatmap words.png
  regard classify runs/reviews --input reviews.txt > labels.tsv
  cat reviews.txt | regard classify runs/reviews --json"""
    answers: ClassVar = "classifications"
    answer: ClassVar = ClassificationAnswer
    example: ClassVar = "a gripping , honest film"
    block: ClassVar = 4096
    service_only: ClassVar = frozenset({"top_k"})
    picture: ClassVar = "the words, coloured by their weights"

    def run(
        self, predictor: Classifier, texts: Sequence[Text], *, record: bool = False, progress: bool = False
    ) -> list[Classification]:
        """Label texts."""
        return predictor.classify([one.text for one in texts], record=None if record else (), progress=progress)

    def plain(self, result: Classification) -> dict[str, Any]:
        """Return the labels and probabilities as data for JSON."""
        probabilities = dict(list(result.probabilities.items())[: self.top_k or None])
        return {name: getattr(result, name) for name in ClassificationAnswer.__dataclass_fields__} | {
            "probabilities": probabilities
        }

    def to_json(self, result: Classification, units: Any) -> dict[str, Any]:
        """Return the text, its labels, probabilities, and words with weights."""
        plain: dict[str, Any] = {
            "text": result.text,
            "label": result.label,
            "labels": list(result.labels),
            "probability": result.probability,
            "probabilities": result.probabilities,
        }
        if result.attention is not None:
            record = result.attention.in_units(units)
            plain |= {"words": list(record.source_words), "weights": [float(weight) for weight in record.word_weights()]}
        return plain

    def render(self, result: Classification, number: int) -> str:
        """Return the label and its probability, or all labels with a probability above one half."""
        if not result.several:
            return f"{_in_line(result.label)}\t{result.probability:.4f}"
        named = [f"{_in_line(label)} {result.probabilities[label]:.4f}" for label in result.labels]
        return ", ".join(named) or f"(none)\t{_in_line(result.label)} {result.probability:.4f}"

    def is_cut(self, result: Classification) -> bool:
        """Return whether the model read only the beginning of the text."""
        return result.cut_at is not None

    def remark(self, predictor: Classifier, results: int) -> str:
        """Return how many texts were truncated."""
        limit = f"{predictor.config.data.max_tokens:,} tokens (data.max_tokens, set when the model was trained)"
        return f"texts truncated to their first {limit}: {results:,}"


def _in_line(label: str) -> str:
    """Replace each run of whitespace with one space, and strip the ends: labels from a table can contain tabs and line ends."""
    return " ".join(label.split())


@dataclass(frozen=True, kw_only=True)
class LookAtClassification(AttentionOperation):
    """Return the attention of classifications."""

    main_sites: ClassVar = ("pool",)

    def run(self, predictor: Classifier, texts: Sequence[Text], *, record: bool = True, progress: bool = False) -> list[Look]:
        """Classify texts, with attention; the probabilities are in the records."""
        results = predictor.classify([one.text for one in texts], record=self.sites or None)
        return [Look(one.text, one.attention) for one in results]


def read_given_texts(files: Files, classifier: Classifier) -> tuple[list[str], list[tuple[str, ...]], ReadingReport]:
    """Read labelled texts; see `find_layout`.

    Args:
        files: A file, a folder, or one text file per label.
        classifier: The model.

    Returns:
        The texts, a tuple of labels for each text, and the report on the files.

    Raises:
        DataError: If the texts cannot be read, or a label is unknown to the model.
    """
    from regard.text.columns import MissingColumnError

    try:
        return _read_texts(files, classifier, like_training=True)
    except MissingColumnError:
        if {"text", "label"} & files.layout.keys():
            raise
        return _read_texts(files, classifier, like_training=False)


def _read_texts(
    files: Files, classifier: Classifier, *, like_training: bool
) -> tuple[list[str], list[tuple[str, ...]], ReadingReport]:
    from regard.text.labelled.readers import read_labelled
    from regard.text.report import ReadingReport

    report = ReadingReport()
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    paths, data = find_layout(files, classifier.config, ("text", "label", "header"), like_training=like_training)
    for chunk in read_labelled(paths, data, report):
        for own, line in zip(chunk.labels, chunk.line, strict=True):
            for label in own:
                classifier.labels.number(label, f"{files.names}, line {line}")
        texts += chunk.text
        labels += chunk.labels
    return texts, labels, report


@dataclass(frozen=True, kw_only=True)
class EvaluateClassifier(FileOperation):
    """Score a classifier on labelled texts."""

    confusion: str = ""
    """File for a picture of the confusion matrix."""
    reliability: str = ""
    """File for a picture of the reliability diagram."""

    name: ClassVar = "evaluate"
    layout: ClassVar = TEXT_LAYOUT
    pictures: ClassVar = {"confusion": PICTURES, "reliability": PICTURES}

    def run(self, predictor: Classifier, files: Files) -> LabelledEvaluation:
        """Score the classifier on labelled texts."""
        if self.confusion and predictor.labels.multiple:
            raise RequestError("evaluate: --confusion needs texts with one label each; this model can give a text several")
        texts, labels, report = read_given_texts(files, predictor)
        show(report.render(), file=sys.stderr)
        return predictor.evaluate(texts, labels, progress=True)

    def draw(self, predictor: Classifier, result: LabelledEvaluation, *, caption: bool) -> None:
        """Draw the confusion matrix and the reliability diagram, if files are named for them."""
        if self.confusion:
            _draw_confusion(predictor, result, self.confusion, caption=caption)
        if self.reliability:
            _draw_reliability(predictor, result, self.reliability, caption=caption)


@dataclass(frozen=True, kw_only=True)
class CompareClassifiers(FileOperation):
    """Compare two classifiers on the same texts."""

    resamples: Count = 10_000
    """Number of bootstrap samples (default: 10,000; for translators 1,000)."""

    name: ClassVar = "compare"
    layout: ClassVar = TEXT_LAYOUT

    def compare(self, models: tuple[Classifier, Classifier], names: tuple[str, str], files: Files) -> ClassifierComparison:
        """Compare the accuracy and macro F1 of two classifiers."""
        from regard.tasks.classification.comparison import compare_classifiers

        texts, labels, report = read_given_texts(files, models[0])
        show(report.render(), file=sys.stderr)
        return compare_classifiers(*models, texts, labels, names=names, resamples=self.resamples, progress=True)


@dataclass(frozen=True, kw_only=True)
class MeasureClassifier(FileOperation):
    """Measure whether the words that a classifier attends to are those that its predictions depend on."""

    texts: Count = 500
    """Maximum number of texts or sentences; if there are more, a random sample is measured."""
    seeds: tuple[str, ...] = ()
    """Folder of a model with the same settings but another seed, whose attention is compared; may be given several times."""
    permutations: Count = 100
    """Number of permutations of the weights of each text or sentence."""
    picture: str = ""
    """File for a picture of the decreases in probability, as bars."""

    name: ClassVar = "faithfulness"
    layout: ClassVar = TEXT_LAYOUT
    pictures: ClassVar = {"picture": PICTURES}

    def run(self, predictor: Classifier, files: Files) -> Faithfulness:
        """Measure the faithfulness of the classifier's attention on labelled texts."""
        from regard.tasks.classification.faithfulness import measure_faithfulness
        from regard.tasks.loading import load

        others = [load(folder, device=str(predictor.device)) for folder in self.seeds]
        for folder, other in zip(self.seeds, others, strict=True):
            if not isinstance(other, type(predictor)):
                raise RequestError(f"faithfulness: {folder} does not hold a classifier, expected one with another seed")
        texts, labels, report = read_given_texts(files, predictor)
        show(report.render(), file=sys.stderr)
        settings: dict[str, Any] = {"max_texts": self.texts, "permutations": self.permutations, "progress": True}
        return measure_faithfulness(predictor, texts, labels, others=others, **settings)

    def draw(self, predictor: Classifier, result: Faithfulness, *, caption: bool) -> None:
        """Draw the bars, if a file is named for them."""
        if self.picture:
            result.draw(self.picture, caption=caption)

    def keep(self, folder: str, predictor: Classifier, result: Faithfulness) -> None:
        """Save the result in the model's folder, for the captions of heatmaps."""
        from regard.bundle.bundle import WEIGHTS
        from regard.tasks.classification.data import save_faithfulness

        save_faithfulness(folder, result.to_dict(), weights=predictor.bundle.signature["files"][WEIGHTS])


def _draw_confusion(classifier: Classifier, found: LabelledEvaluation, path: str, *, caption: bool) -> None:
    import numpy as np

    from regard.viz.confusion import draw

    draw(np.array(found.scores.confusion), classifier.labels.names, path, caption=caption)


def _draw_reliability(classifier: Classifier, found: LabelledEvaluation, path: str, *, caption: bool) -> None:
    from regard.viz.reliability import draw

    bins = found.calibration.bins
    num_labels = len(classifier.labels.names)
    several = classifier.labels.multiple  # then each label of each text is a separate decision
    num_texts = sum(one.count for one in bins) // (num_labels if several else 1)
    draw(
        bins,
        path,
        title=f"{counted(num_texts, 'text')} × {counted(num_labels, 'label')}" if several else None,
        counted="decision" if several else "text",
        lowest=0.5 if several else 1 / num_labels if num_labels > 1 else None,
        caption=caption,
    )


OPERATIONS = (Classify, LookAtClassification, EvaluateClassifier, CompareClassifiers, MeasureClassifier)
