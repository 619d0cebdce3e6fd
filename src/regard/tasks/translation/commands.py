"""`regard look`, `evaluate` and `compare` for a translator, and functions that read the pairs given to a command."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, get_args

from regard.config.training import SearchPrecision
from regard.task import Commands, Look, Option
from regard.tasks.arguments import any_number, lay_out, positive_number, split_files, trained_encoding
from regard.tasks.translation.config import TranslationConfig
from regard.terminal import show
from regard.text.opening import ending

if TYPE_CHECKING:
    from regard.evaluation.words import Evaluation
    from regard.tasks.translation.comparison import TranslatorComparison
    from regard.tasks.translation.predictor import Translator
    from regard.text.clean import Chunk
    from regard.text.report import ReadingReport

PAIR_LAYOUT = ("format", "columns", "header", "encoding", "allow_skipped")
"""Settings under `data` that are options of the commands that read pairs."""
BEAM = Option("--beam", "beam size; 1 is greedy (default: the run's setting)", "N", {"type": positive_number})
LENGTH_PENALTY = Option(
    "--length-penalty",
    "length penalty of finished translations; higher values favour longer ones, 0 for none (default: the run's setting)",
    "X",
    {"type": any_number},
)
LENGTH_REWARD = Option(
    "--length-reward",
    "reward added to the score for each target token, also during the search; 0 for none (default: the run's setting)",
    "X",
    {"type": any_number},
)
PRECISION = Option(
    "--precision",
    "number format of matrix products; for many sentences, bfloat16 is faster on processors with AMX or AVX-512 BF16, and int8 "
    "on CPUs with VNNI; both change some words (default: the run's setting)",
    f"{{{','.join(get_args(SearchPrecision))}}}",
    {"choices": get_args(SearchPrecision)},
)
ENSEMBLE = Option(
    "--ensemble",
    "another model with the same vocabularies, whose probabilities are averaged with DIR's; may be given several times",
    "DIR",
    {"action": "append"},
)


class TranslationCommands(Commands["Translator"]):
    """The `Commands` of translators."""

    look_options: ClassVar[Sequence[Option]] = (
        Option("--target", "look at this translation of the sentence instead of the model's own", "TEXT"),
        BEAM,
    )
    evaluate_options: ClassVar[Sequence[Option]] = (BEAM, LENGTH_PENALTY, LENGTH_REWARD, PRECISION, ENSEMBLE)
    compares: ClassVar[bool] = True
    compare_options: ClassVar[Sequence[Option]] = (BEAM,)
    layout: ClassVar[Sequence[str]] = PAIR_LAYOUT

    def look(self, predictor: Translator, options: Namespace, sites: list[str] | None) -> Look:
        """Translate a sentence, or score a given translation, with attention."""
        record = None if sites is None else list(dict.fromkeys(["cross", *sites]))
        if options.target is None:
            [result] = predictor.translate([options.sentence], beam_size=options.beam, record=record)
        else:
            [result] = predictor.force([options.sentence], [options.target], record=record)
        headline = f"{result.source}\n{result.text}   (log probability {result.log_probability:.2f})"
        return Look(headline, result.attention)

    def evaluate(self, predictor: Translator, options: Namespace) -> Evaluation:
        """Score the translator on sentence pairs."""
        sources, references = read_all_pairs(options, predictor.config)
        return predictor.evaluate(
            sources,
            references,
            beam_size=options.beam,
            length_penalty=options.length_penalty,
            length_reward=options.length_reward,
            precision=options.precision,
            progress=True,
        )

    def compare(self, first: Translator, second: Translator, options: Namespace) -> TranslatorComparison:
        """Compare the BLEU and chrF of two translators on the same pairs."""
        from regard.tasks.translation.comparison import compare_translators

        sources, targets = read_all_pairs(options, first.config)
        return compare_translators(
            first,
            second,
            sources,
            targets,
            names=(options.first, options.second),
            beam_size=options.beam,
            resamples=options.resamples or 1000,
            progress=True,
        )


def read_all_pairs(options: Namespace, config: TranslationConfig) -> tuple[list[str], list[str]]:
    """Read all pairs into memory as `read_given_pairs` does, and write the report to standard error.

    Returns:
        Sources and targets.
    """
    chunks, report = read_given_pairs(options, config)
    sources, targets = [], []
    for chunk in chunks:
        sources += chunk.source
        targets += chunk.target
    show(report.render(), file=sys.stderr)
    return sources, targets


def read_given_pairs(options: Namespace, config: TranslationConfig) -> tuple[Iterator[Chunk], ReadingReport]:
    """Read pairs in the layout of the training data, unless the files' names or the user's options define another.

    Args:
        options: Options with `files` (`FILE` or `FILE,FILE`) and the layout options.
        config: The run's configuration.

    Returns:
        An iterator of the pairs, and the report, which is complete once all pairs have been read.
    """
    from regard.text.pairs.readers import read_pairs
    from regard.text.report import ReadingReport

    report = ReadingReport()
    paths = split_files(options.files)
    # The settings of columns and header describe the training file; a file of another kind may have another layout.
    same = len(paths) == len(config.data.train) == 1 and ending(paths[0]) == ending(config.data.train[0])
    data = replace(config.data, format="auto") if same else replace(config.data, format="auto", columns=(), header="auto")
    data = replace(data, encoding=trained_encoding(paths, data.encoding))
    return read_pairs(paths, lay_out(replace(config, data=data), options).data, report), report
