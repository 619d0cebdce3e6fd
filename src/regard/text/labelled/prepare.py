"""The preparation of labelled texts: labels are numbered, splits are stratified by label, and long texts are truncated."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from regard.config import LabelledDataConfig, TokenizerConfig
from regard.errors import DataError
from regard.plurals import counted
from regard.text import reasons, split
from regard.text.clean import Chunk
from regard.text.corpora import LabelledCorpus, cut_rows
from regard.text.labelled.files import WHAT, find_files
from regard.text.labelled.labels import Labels, find_separator, show_names
from regard.text.labelled.readers import read_labelled
from regard.text.mapped import Rows
from regard.text.preparation import DataSchema, EncodedRows, Part, Selection
from regard.text.report import ReadingReport
from regard.text.split import Groups, Hashes, Indices, LabelRows
from regard.text.spool import Chosen, Spool, Texts
from regard.text.tokenizers.tokenizer import Tokenizer


class LabelledSchema(DataSchema):
    """Texts with one label each, or with several.

    `learned` are the tokenizer and the labels of a model that training starts from. The labels are used if they include all
    labels of these texts.
    """

    content = WHAT
    example = "a file of labelled texts"
    corpus = LabelledCorpus
    repeated = reasons.REPEATED_TEXT
    data: LabelledDataConfig

    def __init__(
        self, data: LabelledDataConfig, tokenizer: TokenizerConfig, learned: tuple[Tokenizer, Labels] | None = None
    ) -> None:
        super().__init__(data, (tokenizer,), learned[:1] if learned else None)
        self.dev_size = 0 if data.folds else self.dev_size
        self.max_rows = data.max_texts
        self._labels = learned[1] if learned else None

    def find_files(self, paths: Sequence[str]) -> dict[str, list[str]]:
        """Return the table, the text file of each label, or the non-empty files in the folder of each label."""
        return {str(file.path): list(map(str, file.texts_with_content)) for file in find_files(paths, self.data).files}

    def settings(self) -> dict[str, Any]:
        """Return the format of the files, the labels from their names, and the labels of the starting model."""
        found = [find_files(paths, self.data) for paths in (self.data.train, self.data.dev) if paths]
        known = [self._labels.names, self._labels.multiple] if self._labels else None
        # The cache must notice if a file moves to the folder of another label, which changes neither the bytes nor their order.
        files_of = [[each.form, [[file.label, len(file.texts_with_content)] for file in each.files]] for each in found]
        return {"files_of": files_of, "known": known}

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        return read_labelled(paths, self.data, report)

    def identify(self, spool: Spool) -> Hashes:
        """Return a hash of each text and its set of labels."""
        return split.hash_pairs(spool.hashes[0], _label_sets(spool.labels))

    def select(self, spool: Spool, report: ReadingReport, seed: int) -> Selection:
        """Select as for all data, and number the labels as in the model that training starts from, if it has all of them."""
        if (known := self._labels) and spool.multiple != known.multiple:
            here, there = ("several labels", "one label") if spool.multiple else ("one label", "several labels")
            raise DataError(
                f"the texts have {here} each, but the training texts of the model had {there}; set "
                "data.label_separator as it was for that model, or train a new model"
            )
        selection = super().select(spool, report, seed)
        fits = known and set(spool.names) <= set(known.names)
        return replace(selection, spool=renumber(spool, known, report)) if known and fits else selection

    def describe_repeats(self, spool: Spool, whole: Hashes) -> list[str]:
        differing = len(np.unique(whole)) - len(np.unique(spool.hashes[0]))
        return [f"duplicates with different labels, all kept: {differing:,}"] if differing else []

    def hold_out(
        self, spool: Spool, labels: LabelRows, groups: Groups, places: Indices, report: ReadingReport, seed: int
    ) -> Chosen:
        """Check the labels, and hold out texts of every label, the same ones for all values of `max_texts`."""
        data = self.data
        _check_labels(spool, labels, groups, places, report)
        if not data.folds:
            return split.draw_dev(groups, labels, dev_size=self.dev_size, seed=seed)
        if data.folds > len(groups.sizes):
            raise DataError(
                f"{' + '.join(report.files)}: holds {len(groups.sizes):,} different texts, too few for {data.folds:,} folds "
                "(data.folds); each fold needs a text to hold out"
            )
        return split.draw_fold(groups, folds=data.folds, fold=data.fold, seed=seed)

    def match_dev(self, spool: Spool, selection: Selection, report: ReadingReport) -> Spool:
        """Number the labels of dev files as in training, which must have all of them."""
        labels = labels_of(selection.spool)
        if spool.multiple != labels.multiple:
            one, many = ("data.train", "data.dev") if spool.multiple else ("data.dev", "data.train")
            raise DataError(f"texts have several labels in {many} and one in {one}; write the labels of both in the same form")
        return renumber(spool, labels, report)

    def arrow_schema(self, spool: Spool) -> pa.Schema:
        return LabelledCorpus.schema_for(num_labels=len(spool.names), multiple=spool.multiple)

    def encode(self, part: Part, positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Truncate long texts, and add the labels."""
        rows, cut = cut_rows(*encoded[0], self.data.max_tokens)
        labels = part.spool.labels.take(positions)
        return EncodedRows([rows, (labels.flat, labels.offsets)], texts, [rows[0]], [len(rows[0])], int(cut.sum()))

    def notes(self, too_long: int) -> list[str]:
        return [f"texts truncated to {self.data.max_tokens:,} tokens (data.max_tokens): {too_long:,}"] if too_long else []


def labels_of(spool: Spool) -> Labels:
    """Return the labels of texts, without their counts."""
    return Labels(tuple(spool.names), spool.multiple, (0,) * len(spool.names))


def renumber(spool: Spool, known: Labels, report: ReadingReport) -> Spool:
    """Return texts whose labels have the numbers of known labels, which must have all of them."""
    for name in spool.names:
        if name not in known.names:
            first = np.flatnonzero(spool.labels.flat == spool.names.index(name))[0]
            known.number(name, f"{' + '.join(report.files)}, line {spool.lines[spool.labels.owners()[first]]}")
    numbers = np.array([known.number(name) for name in spool.names], np.int32)
    return replace(spool, names=list(known.names), labels=LabelRows(numbers[spool.labels.flat], spool.labels.offsets))


def _check_labels(spool: Spool, labels: LabelRows, groups: Groups, places: Indices, report: ReadingReport) -> None:
    """Raise an error if no text has a label, or, with one label per text, there is one label or a label with a single text."""
    names, files = spool.names, " + ".join(report.files)
    column = f"column '{report.columns[1]}'" if len(report.columns) > 1 else "data"
    if not names:
        raise DataError(f"{files}: no text has a label; the {column} holds no label: name another with data.label")
    if spool.multiple:
        return
    if len(names) == 1:
        raise DataError(
            f"{files}: every text has the label '{names[0]}' ({counted(len(labels), 'text')}), expected at least two labels; "
            f"they were taken from the {column}: name another with data.label, or add texts with other labels"
        )
    separator = find_separator(names)
    advice = f" If '{separator}' separates several labels of a text, set data.label_separator to it." if separator else ""
    report.advice = (report.advice + advice).lstrip()
    different = np.unique(groups.of * len(names) + labels.flat) % len(names)
    single = np.flatnonzero(np.bincount(different, minlength=len(names)) < 2).tolist()
    if single:
        line = int(spool.lines[places[np.flatnonzero(labels.flat == single[0])[0]]])
        where = f" (line {line})" if report.locates and len(single) == 1 else ""
        headless = report.locates and report.columns and all(map(str.isdigit, report.columns)) and line == 1
        header = "if line 1 is a header, set data.header to yes; otherwise " if headless else ""
        raise DataError(
            f"{files}: {len(single):,} of {len(names):,} labels have one text each, expected at least two different texts, for "
            f"training and validation: {show_names([names[number] for number in single])}{where}. They were taken from the "
            f"{column}; {header}add texts, merge or remove labels, or name another column with data.label"
            f"{'.' if advice else ''}{advice}"
        )


def _label_sets(labels: LabelRows) -> Hashes:
    """Return a hash of each text's set of labels, independent of their order."""
    mixed = split.hash_pairs(labels.flat.astype(np.int64), np.zeros(len(labels.flat), np.int64)).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return (sums[labels.offsets[1:]] - sums[labels.offsets[:-1]]).astype(np.int64)
