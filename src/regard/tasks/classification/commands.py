"""The operations of classifiers: classify, look at attention, evaluate and compare. Nothing here imports torch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from regard.config.fields import Count, Natural
from regard.errors import RequestError
from regard.plurals import counted
from regard.rendering import PICTURES
from regard.task.operation import CompareOperation, FileOperation, Files, Sites, Text, TextOperation
from regard.tasks.reading import AttributingOperation, Measure, read_all, read_files

if TYPE_CHECKING:
    from regard.evaluation.comparison import Comparison
    from regard.evaluation.labelled import LabelledEvaluation
    from regard.tasks.classification.faithfulness import Faithfulness
    from regard.tasks.classification.predict import Classifier
    from regard.tasks.classification.results import Classification


FILES = "one file of labelled texts, or one text file per label"


@dataclass(frozen=True)
class ClassificationAnswer:
    """The label of a text, with probabilities, as data for JSON."""

    text: str
    """The text that was labelled."""
    label: str
    """The most probable label."""
    probability: float
    """Probability of `label`."""
    labels: list[str]
    """The label; if texts can have several, all labels with a probability above one half."""
    probabilities: dict[str, float]
    """Probability by label, the most probable first."""
    cut_at: int | None
    """Number of tokens that the model read of a text that was too long; null if it read the whole text."""
    words: list[str] = field(default_factory=list)
    """The words of the text, if attention was recorded."""
    weights: list[float] = field(default_factory=list)
    """The attention weight of each word, if attention was recorded."""


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
  regard classify runs/reviews --input reviews.csv --output labelled.csv
  cat reviews.txt | regard classify runs/reviews --json"""
    answers: ClassVar = "classifications"
    answer: ClassVar = ClassificationAnswer
    example: ClassVar = "a gripping , honest film"
    block: ClassVar = 4096
    service_only: ClassVar = frozenset({"top_k"})
    picture: ClassVar = "the words, coloured by their weights"
    columns: ClassVar = ("label", "probability")

    def run(
        self, predictor: Classifier, texts: Sequence[Text], *, record: Sites = (), progress: bool = False
    ) -> list[Classification]:
        return predictor.classify([one.text for one in texts], record=record, progress=progress)

    def plain(self, result: Classification, units: Any = "auto") -> dict[str, Any]:
        """Return the text, its labels, probabilities, and, if attention was recorded, its words with their weights."""
        plain: dict[str, Any] = {name: getattr(result, name) for name in ("text", "label", "probability", "labels", "cut_at")}
        plain["probabilities"] = dict(list(result.probabilities.items())[: self.top_k or None])
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

    def cells(self, result: Classification) -> tuple[str, float]:
        """Return the label, or all labels with a probability above one half, and the probability of the most probable."""
        return ", ".join(map(_in_line, result.labels)), round(result.probability, 4)

    def text_columns(self, config: Any) -> Any:
        from regard.text.column_rules import LabelledColumns

        return LabelledColumns(config.data)

    def headline(self, result: Classification) -> str:
        """Return the text; a picture of its attention shows the label."""
        return result.text

    def is_cut(self, result: Classification) -> bool:
        """Return whether the model read only the beginning of the text."""
        return result.cut_at is not None

    def remark(self, predictor: Classifier, results: int) -> str:
        limit = f"{predictor.config.data.max_tokens:,} tokens (data.max_tokens, set when the model was trained)"
        return f"texts truncated to their first {limit}: {results:,}"


def _in_line(label: str) -> str:
    """Replace each run of whitespace with one space, and strip the ends: labels from a table can contain tabs and line ends."""
    return " ".join(label.split())


def read_given_texts(files: Files, classifier: Classifier) -> tuple[list[str], list[tuple[str, ...]]]:
    """Read labelled texts as `read_files` does, write the report to standard error, and return the texts and their labels.

    Raises:
        DataError: If the texts cannot be read, or a label is unknown to the model.
    """
    from regard.text.columns import MissingColumnError
    from regard.text.labelled.readers import read_labelled

    columns = ("text", "label", "header")
    read = partial(read_files, read_labelled, files, classifier.config, columns)
    try:
        texts, labels, lines = read_all(*read(), "text", "labels", "line")
    except MissingColumnError:
        if {"text", "label"} & files.layout.keys():
            raise
        texts, labels, lines = read_all(*read(like_training=False), "text", "labels", "line")
    for names, line in zip(labels, lines, strict=True):
        for name in names:
            classifier.labels.number(name, f"{files.names}, line {line}")
    return texts, labels


@dataclass(frozen=True, kw_only=True)
class EvaluateClassifier(FileOperation):
    """Score a classifier on labelled texts: accuracy, F1 of every label, confusions, calibration, most confident mistakes."""

    confusion: str = ""
    """File for a picture of the confusion matrix."""
    reliability: str = ""
    """File for a picture of the reliability diagram."""

    name: ClassVar = "evaluate"
    files: ClassVar = FILES
    examples: ClassVar = "  regard evaluate runs/reviews test.tsv --confusion matrix.png --reliability bins.png"
    pictures: ClassVar = {"confusion": PICTURES, "reliability": PICTURES}

    def run(self, predictor: Classifier, files: Files) -> LabelledEvaluation:
        if self.confusion and predictor.labels.multiple:
            raise RequestError("evaluate: --confusion needs texts with one label each; this model can give a text several")
        return predictor.evaluate(*read_given_texts(files, predictor), progress=True)

    def draw(self, predictor: Classifier, result: LabelledEvaluation, *, caption: bool) -> None:
        """Draw the confusion matrix and the reliability diagram, if files are named for them."""
        import numpy as np

        from regard.viz import confusion, reliability

        labels, bins = predictor.labels, result.calibration.bins
        if self.confusion:
            confusion.draw(np.array(result.scores.confusion), labels.names, self.confusion, caption=caption)
        if self.reliability and labels.multiple:  # then each label of each text is a separate decision
            texts, size = sum(one.count for one in bins) // len(labels), counted(len(labels), "label")
            title = f"{counted(texts, 'text')} × {size}"
            reliability.draw(bins, self.reliability, title=title, counted="decision", lowest=0.5, caption=caption)
        elif self.reliability:
            lowest = 1 / len(labels) if len(labels) > 1 else None
            reliability.draw(bins, self.reliability, lowest=lowest, caption=caption)


@dataclass(frozen=True, kw_only=True)
class CompareClassifiers(CompareOperation):
    """Test which of two classifiers is better on labelled texts that neither was trained on.

    Accuracy and macro F1 are printed, with their differences, 95% intervals and p-values from a paired bootstrap, and
    McNemar's exact test.
    """

    resamples: Count = 10_000
    """Number of bootstrap samples (default: 10,000; for translators 1,000)."""

    name: ClassVar = "compare"
    files: ClassVar = FILES
    examples: ClassVar = "  regard compare runs/bilstm runs/bag test.tsv"

    def run(self, models: tuple[Classifier, Classifier], names: tuple[str, str], files: Files) -> Comparison:
        from regard.tasks.classification.comparison import compare_classifiers

        examples = read_given_texts(files, models[0])
        return compare_classifiers(*models, *examples, names=names, resamples=self.resamples, progress=True)


@dataclass(frozen=True, kw_only=True)
class MeasureClassifier(Measure):
    """Measure whether the words that a classifier attends to are those that its predictions depend on.

    A table and a few sentences on its meaning for this model are printed. Both are also saved in the model's folder as
    faithfulness.json, and the captions of its heatmaps contain the sentences.

    comprehensiveness   how much probability the predicted label loses when the most attended words are deleted
    sufficiency         how much probability it loses when only these words are left
                        both are means over 1, 5, 10, 20 and 50% of the words; the same is shown for random words and
                        for the best order tried, which begins with the words whose deletion alone costs most
    Kendall τ           similarity of the orders by attention and by leave-one-out or gradient × input, from −1 to 1
    permuted, uniform   change of the predictions when the weights are permuted, or all equal
    """

    seeds: tuple[str, ...] = ()
    """Folder of a model with the same settings but another seed, whose attention is compared; may be given several times."""

    files: ClassVar = FILES
    examples: ClassVar = """\
  regard faithfulness runs/reviews test.tsv
  regard faithfulness runs/reviews test.tsv --attribution all
  regard faithfulness runs/reviews test.tsv --seeds runs/reviews-2 --seeds runs/reviews-3"""

    def run(self, predictor: Classifier, files: Files) -> Faithfulness:
        from regard.tasks.classification.faithfulness import measure_faithfulness
        from regard.tasks.loading import load

        others = [load(folder, device=str(predictor.device)) for folder in self.seeds]
        for folder, other in zip(self.seeds, others, strict=True):
            if not isinstance(other, type(predictor)):
                raise RequestError(f"faithfulness: {folder} does not hold a classifier, expected one with another seed")
        return measure_faithfulness(predictor, *read_given_texts(files, predictor), others=others, **self.sizes)

    def keep(self, folder: str, predictor: Classifier, result: Faithfulness) -> None:
        """Save the result in the model's folder, for the captions of heatmaps."""
        from regard.bundle.bundle import WEIGHTS
        from regard.tasks.classification.data import save_faithfulness

        save_faithfulness(folder, result.to_dict(), weights=predictor.bundle.signature["files"][WEIGHTS])


OPERATIONS = (Classify, AttributingOperation, EvaluateClassifier, CompareClassifiers, MeasureClassifier)
