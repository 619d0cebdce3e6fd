"""Read the labelled texts that are given to a command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regard.task.operation import Files
from regard.tasks.arguments import lay_out, split_files, trained_encoding
from regard.text.opening import ending

if TYPE_CHECKING:
    from regard.config import LabelledDataConfig
    from regard.tasks.classification.predictor import Classifier
    from regard.text.report import ReadingReport

TEXT_LAYOUT = ("format", "text", "label", "label_separator", "header", "encoding", "allow_skipped")
"""Settings under `data` that are options of the commands that read labelled texts."""


def read_given_texts(files: Files, classifier: Classifier) -> tuple[list[str], list[tuple[str, ...]], ReadingReport]:
    """Read labelled texts in the layout of the training data, unless the files or the user's options define another.

    Args:
        files: A file, a folder, or one text file per label.
        classifier: The model.

    Returns:
        The texts, a tuple of labels for each text, and the report on the files.

    Raises:
        DataError: If the texts cannot be read, or a label is unknown to the model.
    """
    from regard.text.columns import MissingColumnError

    paths, trained = split_files(files.names), classifier.config.data.train
    same = len(paths) == len(trained) == 1 and ending(paths[0]) == ending(trained[0])
    plain = replace(classifier.config.data, format="auto")
    other = replace(plain, text="", label="", header="auto")
    try:
        return _read_texts(files, plain if same else other, classifier)
    except MissingColumnError:
        if {"text", "label"} & files.layout.keys():
            raise
        return _read_texts(files, other, classifier)


def _read_texts(
    files: Files, data: LabelledDataConfig, classifier: Classifier
) -> tuple[list[str], list[tuple[str, ...]], ReadingReport]:
    from regard.text.labelled.readers import read_labelled
    from regard.text.report import ReadingReport

    report = ReadingReport()
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    paths = split_files(files.names)
    data = replace(data, encoding=trained_encoding(paths, data.encoding))
    data = lay_out(replace(classifier.config, data=data), files).data
    for chunk in read_labelled(paths, data, report):
        for own, line in zip(chunk.labels, chunk.line, strict=True):
            for label in own:
                classifier.labels.number(label, f"{files.names}, line {line}")
        texts += chunk.text
        labels += chunk.labels
    return texts, labels, report
