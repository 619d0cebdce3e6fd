"""`regard look`, `evaluate` and `compare` for a classifier, and a function that reads the texts given to a command."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from regard.errors import RequestError
from regard.plurals import counted
from regard.task import Commands, Look, Option
from regard.tasks.arguments import is_given, lay_out, split_files, trained_encoding
from regard.terminal import show
from regard.text.opening import ending

if TYPE_CHECKING:
    from regard.config import LabelledDataConfig
    from regard.evaluation.labelled import LabelledEvaluation
    from regard.tasks.classification.comparison import ClassifierComparison
    from regard.tasks.classification.predictor import Classifier
    from regard.text.report import ReadingReport

TEXT_LAYOUT = ("format", "text", "label", "label_separator", "header", "encoding", "allow_skipped")
"""Settings under `data` that are options of the commands that read labelled texts."""
_PICTURES = (".png", ".svg", ".pdf")


class ClassificationCommands(Commands["Classifier"]):
    """The `Commands` of classifiers."""

    evaluate_options: ClassVar[Sequence[Option]] = (
        Option("--confusion", f"draw the confusion matrix ({' '.join(_PICTURES)})", "FILE", endings=_PICTURES),
        Option("--reliability", f"draw the reliability diagram ({' '.join(_PICTURES)})", "FILE", endings=_PICTURES),
    )
    compares: ClassVar[bool] = True
    layout: ClassVar[Sequence[str]] = TEXT_LAYOUT

    def look(self, predictor: Classifier, options: Namespace, sites: list[str] | None) -> Look:
        """Classify a text, and return its label with the attention of the model."""
        record = None if sites is None else list(dict.fromkeys(["pool", *sites]))
        [result] = predictor.classify([options.sentence], record=record)
        return Look(result.text, result.attention)  # the probabilities are printed below the words

    def evaluate(self, predictor: Classifier, options: Namespace) -> LabelledEvaluation:
        """Score the classifier on labelled texts."""
        if options.confusion and predictor.labels.multiple:
            raise RequestError("evaluate: --confusion needs texts with one label each; this model can give a text several")
        texts, labels, report = read_given_texts(options, predictor)
        show(report.render(), file=sys.stderr)
        return predictor.evaluate(texts, labels, progress=True)

    def after_evaluation(self, predictor: Classifier, result: LabelledEvaluation, options: Namespace) -> None:
        """Draw the confusion matrix and the reliability diagram, if the user named files for them."""
        if options.confusion:
            _draw_confusion(predictor, result, options.confusion, caption=options.caption)
        if options.reliability:
            _draw_reliability(predictor, result, options.reliability, caption=options.caption)

    def compare(self, first: Classifier, second: Classifier, options: Namespace) -> ClassifierComparison:
        """Compare the accuracy and macro F1 of two classifiers on the same texts."""
        from regard.tasks.classification.comparison import compare_classifiers

        texts, labels, report = read_given_texts(options, first)
        show(report.render(), file=sys.stderr)
        return compare_classifiers(
            first,
            second,
            texts,
            labels,
            names=(options.first, options.second),
            resamples=options.resamples or 10_000,
            progress=True,
        )


def _draw_confusion(classifier: Classifier, found: LabelledEvaluation, path: str, *, caption: bool) -> None:
    import numpy as np

    from regard.evaluation.classification import Scores
    from regard.viz.confusion import draw

    assert isinstance(found.scores, Scores)
    draw(np.array(found.scores.confusion), classifier.labels.names, path, caption=caption)


def _draw_reliability(classifier: Classifier, found: LabelledEvaluation, path: str, *, caption: bool) -> None:
    import numpy as np

    from regard.viz.reliability import draw

    bins = found.calibration.bins
    num_labels = len(classifier.labels.names)
    several = classifier.labels.multiple  # then each label of each text is a separate decision
    num_texts = sum(one.count for one in bins) // (num_labels if several else 1)
    draw(
        np.array([bins[0].low, *(one.high for one in bins)]),
        np.array([one.confidence for one in bins]),
        np.array([one.accuracy for one in bins]),
        np.array([one.count for one in bins]),
        path,
        title=f"{counted(num_texts, 'text')} × {counted(num_labels, 'label')}" if several else None,
        counted="decision" if several else "text",
        lowest=0.5 if several else 1 / num_labels if num_labels > 1 else None,
        caption=caption,
    )


def read_given_texts(options: Namespace, classifier: Classifier) -> tuple[list[str], list[tuple[str, ...]], ReadingReport]:
    """Read labelled texts in the layout of the training data, unless the files or the user's options define another.

    Args:
        options: Options with `files` (`FILE`, a folder, or `FILE,FILE` with one text file per label) and the layout options.
        classifier: The model.

    Returns:
        The texts, a tuple of labels for each text, and the report on the files.

    Raises:
        DataError: If the texts cannot be read, or a label is unknown to the model.
    """
    from regard.text.columns import MissingColumnError

    paths, trained = split_files(options.files), classifier.config.data.train
    same = len(paths) == len(trained) == 1 and ending(paths[0]) == ending(trained[0])
    plain = replace(classifier.config.data, format="auto")
    other = replace(plain, text="", label="", header="auto")
    try:
        return _read_texts(options, plain if same else other, classifier)
    except MissingColumnError:
        if is_given(options, "text", "label"):
            raise
        return _read_texts(options, other, classifier)


def _read_texts(
    options: Namespace, data: LabelledDataConfig, classifier: Classifier
) -> tuple[list[str], list[tuple[str, ...]], ReadingReport]:
    from regard.text.labelled.readers import read_labelled
    from regard.text.report import ReadingReport

    report = ReadingReport()
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    paths = split_files(options.files)
    data = replace(data, encoding=trained_encoding(paths, data.encoding))
    data = lay_out(replace(classifier.config, data=data), options).data
    for chunk in read_labelled(paths, data, report):
        for own, line in zip(chunk.labels, chunk.line, strict=True):
            for label in own:
                classifier.labels.number(label, f"{options.files}, line {line}")
        texts += chunk.text
        labels += chunk.labels
    return texts, labels, report
