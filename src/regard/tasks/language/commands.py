"""`regard look` and `regard evaluate` for a language model, and a function that reads the texts given to a command."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from regard.task import Commands, Look
from regard.tasks.arguments import lay_out, split_files, trained_encoding
from regard.tasks.language.config import LanguageConfig
from regard.terminal import show

if TYPE_CHECKING:
    from regard.evaluation.words import LanguageEvaluation
    from regard.tasks.language.predictor import LanguageModel
    from regard.text.report import ReadingReport


class LanguageCommands(Commands["LanguageModel"]):
    """The `Commands` of language models."""

    layout: ClassVar[Sequence[str]] = ("encoding", "allow_skipped")

    def look(self, predictor: LanguageModel, options: Namespace, sites: list[str] | None) -> Look:
        """Score a text, and record its attention at all sites; `regard look` shows the last layer."""
        [result] = predictor.score([options.sentence], record=predictor.model.sites)
        headline = f"{result.text}   (log probability {result.log_probability:.2f}, perplexity {result.perplexity:,.2f})"
        site = result.attention.sites[-1] if result.attention is not None else None
        return Look(headline, result.attention, site)

    def evaluate(self, predictor: LanguageModel, options: Namespace) -> LanguageEvaluation:
        """Score how well the model predicts texts."""
        texts, report = read_plain_texts(options, predictor.config)
        show(report.render(), file=sys.stderr)
        return predictor.evaluate(texts, progress=True)


def read_plain_texts(options: Namespace, config: LanguageConfig) -> tuple[list[str], ReadingReport]:
    """Read texts in the layout of the training data, unless the user's options define another.

    Args:
        options: Options with `files` (`FILE` or `FILE,FILE`) and the layout options.
        config: The run's configuration.

    Returns:
        The texts, and the report on the files.

    Raises:
        DataError: If the texts cannot be read.
    """
    from regard.text.plain import read_texts
    from regard.text.report import ReadingReport

    report = ReadingReport()
    paths = split_files(options.files)
    data = replace(config.data, encoding=trained_encoding(paths, config.data.encoding))
    data = lay_out(replace(config, data=data), options).data
    texts = [text for chunk in read_texts(paths, data, report) for text in chunk.text]
    return texts, report
