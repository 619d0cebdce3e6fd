"""Read the sentence pairs that are given to a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.task.operation import Files
from regard.tasks.arguments import lay_out, split_files, trained_encoding
from regard.tasks.translation.config import TranslationConfig
from regard.terminal import show
from regard.text.opening import ending

if TYPE_CHECKING:
    from regard.text.clean import Chunk
    from regard.text.report import ReadingReport

PAIR_LAYOUT = ("format", "columns", "header", "encoding", "allow_skipped")
"""Settings under `data` that are options of the commands that read pairs."""


def read_all_pairs(files: Files, config: TranslationConfig) -> tuple[list[str], list[str]]:
    """Read all pairs into memory as `read_given_pairs` does, and write the report to standard error.

    Returns:
        Sources and targets.
    """
    chunks, report = read_given_pairs(files, config)
    sources, targets = [], []
    for chunk in chunks:
        sources += chunk.source
        targets += chunk.target
    show(report.render(), file=sys.stderr)
    return sources, targets


def read_given_pairs(files: Files, config: TranslationConfig) -> tuple[Iterator[Chunk], ReadingReport]:
    """Read pairs in the layout of the training data, unless the files' names or the user's options define another.

    Args:
        files: The files.
        config: The run's configuration.

    Returns:
        An iterator of the pairs, and the report, which is complete once all pairs have been read.
    """
    from regard.text.pairs.readers import read_pairs
    from regard.text.report import ReadingReport

    report = ReadingReport()
    paths = split_files(files.names)
    # The settings of columns and header describe the training file; a file of another kind may have another layout.
    same = len(paths) == len(config.data.train) == 1 and ending(paths[0]) == ending(config.data.train[0])
    data = replace(config.data, format="auto") if same else replace(config.data, format="auto", columns=(), header="auto")
    data = replace(data, encoding=trained_encoding(paths, data.encoding))
    return read_pairs(paths, lay_out(replace(config, data=data), files).data, report), report
