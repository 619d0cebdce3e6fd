"""Sentence pairs, labelled texts, or texts, that a command is given to work on."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.options import split_files
from regard.config import LanguageConfig, TranslationConfig

if TYPE_CHECKING:
    from regard.config import LabelledDataConfig
    from regard.predict import Classifier
    from regard.text.readers import PairChunk
    from regard.text.report import ReadingReport


def read_given_pairs(files: str, config: TranslationConfig) -> "tuple[Iterator[PairChunk], ReadingReport]":
    """Read pairs in the form that the model's own were in, as far as the files' names do not say otherwise.

    Args:
        files: `FILE` or `FILE,FILE`.
        config: The run's configuration.

    Returns:
        The pairs, and the report that reading fills.
    """
    from regard.text.readers import read_pairs
    from regard.text.report import ReadingReport

    report = ReadingReport()
    paths = split_files(files)
    # Columns and header belong to the file that was trained on; another file may be laid out in another way.
    same = len(paths) == len(config.data.train) == 1 and _ending(paths[0]) == _ending(config.data.train[0])
    data = replace(config.data, format="auto") if same else replace(config.data, format="auto", columns=(), header="auto")
    return read_pairs(paths, replace(data, encoding=_encoding(paths, data.encoding)), report), report


def read_given_texts(files: str, classifier: "Classifier") -> "tuple[list[str], list[tuple[str, ...]], ReadingReport]":
    """Read labelled texts in the form that the model's own were in, as far as the files' names and columns allow.

    Args:
        files: `FILE`, a folder, or for one text file a label `FILE,FILE`.
        classifier: The model.

    Returns:
        The texts, the labels of each, and the report.

    Raises:
        DataError: If they cannot be read, or a label is none that the model was trained on.
    """
    from regard.text.files.columns import MissingColumnError

    paths, trained = split_files(files), classifier.config.data.train
    same = len(paths) == len(trained) == 1 and _ending(paths[0]) == _ending(trained[0])
    plain = replace(classifier.config.data, format="auto")
    other = replace(plain, text="", label="", header="auto")
    try:
        return _read_texts(files, plain if same else other, classifier)
    except MissingColumnError:
        return _read_texts(files, other, classifier)


def _read_texts(
    files: str, data: "LabelledDataConfig", classifier: "Classifier"
) -> "tuple[list[str], list[tuple[str, ...]], ReadingReport]":
    from regard.text.labelled.readers import read_labelled
    from regard.text.report import ReadingReport

    report = ReadingReport()
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    data = replace(data, encoding=_encoding(split_files(files), data.encoding))
    for chunk in read_labelled(split_files(files), data, report):
        for own, line in zip(chunk.labels, chunk.line, strict=True):
            for label in own:
                classifier.labels.number(label, f"{files}, line {line}")
        texts += chunk.text
        labels += chunk.labels
    return texts, labels, report


def read_plain_texts(files: str, config: LanguageConfig) -> "tuple[list[str], ReadingReport]":
    """Read texts as those of the model's training were read.

    Args:
        files: `FILE` or `FILE,FILE`.
        config: The run's configuration.

    Raises:
        DataError: If they cannot be read.
    """
    from regard.text.plain.readers import read_texts
    from regard.text.report import ReadingReport

    report = ReadingReport()
    data = replace(config.data, encoding=_encoding(split_files(files), config.data.encoding))
    texts = [text for chunk in read_texts(split_files(files), data, report) for text in chunk.text]
    return texts, report


def _encoding(paths: Sequence[str], trained: str) -> str:
    """Return the encoding that the model's own files were in, unless these are UTF-8, as another program may have made them."""
    from regard.text.files.encoding import fits_utf8

    if trained == "auto":
        return trained
    return "auto" if all(Path(path).is_file() and fits_utf8(path) for path in paths) else trained


def _ending(path: str) -> str:
    return path.lower().removesuffix(".gz").rpartition(".")[2]
