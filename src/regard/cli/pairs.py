"""Sentence pairs, labelled texts, or texts, that a command is given to work on."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from regard.cli.options import Parser, split_files
from regard.config import LanguageConfig, TranslationConfig
from regard.config.loading import dump_config, load_config, override_layer
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.config import LabelledDataConfig
    from regard.tasks.classification.predictor import Classifier
    from regard.text.files.report import ReadingReport
    from regard.text.pairs.readers import PairChunk


AnyConfigT = TypeVar("AnyConfigT", bound=Any)

_LAYOUT = {
    "format": "tsv, csv, jsonl, parquet, fast_align or text",
    "columns": "columns of the source and the target, such as en,de or 1,3",
    "text": "column of the text",
    "label": "column of the label",
    "header": "yes or no: the first line names the columns",
    "encoding": "encoding of the file, such as cp1252",
    "allow_skipped": "largest share of the lines that may be unusable, from 0 to 1",
}
"""Settings that say how a file is laid out, with their help."""


def add_layout_options(parser: Parser, *names: str) -> None:
    """Add the settings of `data` that say how a file is laid out: `--data.columns` and so on.

    Args:
        parser: Of the command.
        names: Those that the command's files can have, without `data.`.
    """
    group = parser.add_argument_group(
        "layout of the file, where it is not found by itself (a file like the training data is read in the same way)"
    )
    for name in names:
        group.add_argument(f"--data.{name}", metavar="VALUE", help=_LAYOUT[name])


PAIR_LAYOUT = ("format", "columns", "header", "encoding", "allow_skipped")
"""Layout options of commands that read pairs."""
TEXT_LAYOUT = ("format", "text", "label", "header", "encoding", "allow_skipped")
"""Layout options of commands that read labelled texts."""


def _lay_out(config: AnyConfigT, options: argparse.Namespace) -> AnyConfigT:
    """Return a config whose `data` has the layout options that the user gave.

    Raises:
        RequestError: If one is not a setting of the model's data.
        ConfigError: If a value is of the wrong type or out of range.
    """
    given = {f"data.{name}": getattr(options, f"data.{name}", None) for name in _LAYOUT}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if not hasattr(config.data, name.removeprefix("data.")):
            raise RequestError(f"--{name} does not fit: the model's task is {config.task}, whose data has no such setting")
    return cast(AnyConfigT, load_config(dump_config(config), override_layer(given))) if given else config


def _is_given(options: argparse.Namespace, *names: str) -> bool:
    return any(getattr(options, f"data.{name}", None) is not None for name in names)


def read_given_pairs(options: argparse.Namespace, config: TranslationConfig) -> "tuple[Iterator[PairChunk], ReadingReport]":
    """Read pairs in the layout of the model's own, unless the files' names or the user's options say otherwise.

    Args:
        options: With `files` (`FILE` or `FILE,FILE`) and the layout options.
        config: The run's configuration.

    Returns:
        The pairs, and the report that reading fills.
    """
    from regard.text.files.report import ReadingReport
    from regard.text.pairs.readers import read_pairs

    report = ReadingReport()
    paths = split_files(options.files)
    # Columns and header belong to the file that was trained on; another file may be laid out in another way.
    same = len(paths) == len(config.data.train) == 1 and _ending(paths[0]) == _ending(config.data.train[0])
    data = replace(config.data, format="auto") if same else replace(config.data, format="auto", columns=(), header="auto")
    data = replace(data, encoding=_encoding(paths, data.encoding))
    return read_pairs(paths, _lay_out(replace(config, data=data), options).data, report), report


def read_given_texts(
    options: argparse.Namespace, classifier: "Classifier"
) -> "tuple[list[str], list[tuple[str, ...]], ReadingReport]":
    """Read labelled texts in the layout of the model's own, unless the files or the user's options say otherwise.

    Args:
        options: With `files` (`FILE`, a folder, or with one text file for each label `FILE,FILE`) and the layout options.
        classifier: The model.

    Returns:
        The texts, the labels of each, and the report.

    Raises:
        DataError: If they cannot be read, or a label is none that the model was trained on.
    """
    from regard.text.files.columns import MissingColumnError

    paths, trained = split_files(options.files), classifier.config.data.train
    same = len(paths) == len(trained) == 1 and _ending(paths[0]) == _ending(trained[0])
    plain = replace(classifier.config.data, format="auto")
    other = replace(plain, text="", label="", header="auto")
    try:
        return _read_texts(options, plain if same else other, classifier)
    except MissingColumnError:
        if _is_given(options, "text", "label"):
            raise
        return _read_texts(options, other, classifier)


def _read_texts(
    options: argparse.Namespace, data: "LabelledDataConfig", classifier: "Classifier"
) -> "tuple[list[str], list[tuple[str, ...]], ReadingReport]":
    from regard.text.files.report import ReadingReport
    from regard.text.labelled.readers import read_labelled

    report = ReadingReport()
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    paths = split_files(options.files)
    data = replace(data, encoding=_encoding(paths, data.encoding))
    data = _lay_out(replace(classifier.config, data=data), options).data
    for chunk in read_labelled(paths, data, report):
        for own, line in zip(chunk.labels, chunk.line, strict=True):
            for label in own:
                classifier.labels.number(label, f"{options.files}, line {line}")
        texts += chunk.text
        labels += chunk.labels
    return texts, labels, report


def read_plain_texts(options: argparse.Namespace, config: LanguageConfig) -> "tuple[list[str], ReadingReport]":
    """Read texts as those of the model's training were read.

    Args:
        options: With `files` (`FILE` or `FILE,FILE`) and the layout options.
        config: The run's configuration.

    Raises:
        DataError: If they cannot be read.
    """
    from regard.text.files.report import ReadingReport
    from regard.text.plain.readers import read_texts

    report = ReadingReport()
    paths = split_files(options.files)
    data = replace(config.data, encoding=_encoding(paths, config.data.encoding))
    data = _lay_out(replace(config, data=data), options).data
    texts = [text for chunk in read_texts(paths, data, report) for text in chunk.text]
    return texts, report


def _encoding(paths: Sequence[str], trained: str) -> str:
    """Return the encoding that the model's own files were in, unless these are UTF-8, as another program may have made them."""
    from regard.text.files.encoding import fits_utf8

    if trained == "auto":
        return trained
    return "auto" if all(Path(path).is_file() and fits_utf8(path) for path in paths) else trained


def _ending(path: str) -> str:
    return path.lower().removesuffix(".gz").rpartition(".")[2]
