"""The preparation of labelled texts: labels are numbered, splits are stratified by label, and long texts are truncated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from regard.config import LabelledDataConfig, TokenizerConfig
from regard.text.clean import Chunk
from regard.text.corpora import LabelledCorpus, cut_rows
from regard.text.data_report import LabelledReport
from regard.text.labelled.files import WHAT, find_files
from regard.text.labelled.labels import Labels
from regard.text.labelled.readers import read_labelled
from regard.text.labelled.selection import LabelledSpool, match_labels, select, spool_labelled
from regard.text.mapped import Rows
from regard.text.preparation import prepare_data, read_json, write_json
from regard.text.report import ReadingReport
from regard.text.schema import DataSchema, EncodedRows, Part, Prepared, Selection
from regard.text.split import Indices
from regard.text.spool import Texts
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelledData(Prepared[LabelledCorpus, LabelledReport]):
    """Labelled texts, ready for training."""

    labels: Labels


def prepare_labelled(
    data: LabelledDataConfig,
    tokenizer: TokenizerConfig,
    *,
    seed: int,
    progress: bool = True,
    learned: tuple[Tokenizer, Labels] | None = None,
) -> LabelledData:
    """Make encoded corpora and a tokenizer from files of labelled texts, or load them from the cache.

    Args:
        data: The files, how to read them, and which texts to use.
        tokenizer: Settings of the tokenizer, which is learned from the training texts only.
        seed: Seed for choosing the held-out texts.
        progress: If True, show progress bars on standard error.
        learned: The tokenizer and the labels of a model that training starts from. The tokenizer is used instead of a new one,
            and so are the labels if they include all labels of these texts.

    Returns:
        The corpora, memory-mapped from the cache, with the tokenizer, the labels and the report. The same files and settings
        give the same bytes.

    Raises:
        DataError: If a file cannot be read or has no usable text; if texts have one label each, and there is a single label or
            a label with a single text; if there are more folds than texts; if dev files have a label that training does not
            have; if training files, dev files and `learned` differ in whether a text may have several labels; or if the cache
            cannot be written.
        ConfigError: If the tokenizer needs a package that is not installed or a language that spaCy does not have, or one of
            its limits is too small.
    """
    return prepare_data(_LabelledSchema(data, tokenizer, learned), seed=seed, progress=progress)


class _LabelledSchema(DataSchema[LabelledSpool]):
    """Texts with one label each, or with several."""

    content = WHAT
    example = "a file of labelled texts"
    corpus = LabelledCorpus
    prepared = LabelledData
    report_class = LabelledReport

    def __init__(self, data: LabelledDataConfig, tokenizer: TokenizerConfig, learned: tuple[Tokenizer, Labels] | None) -> None:
        super().__init__(data, (tokenizer,), learned[:1] if learned else None)
        self.data = data
        self._labels = learned[1] if learned else None

    @property
    def dev_size(self) -> int:
        """Number of texts to hold out; 0 if there are dev files or folds."""
        return 0 if self.data.folds else super().dev_size

    def find_files(self, paths: Sequence[str]) -> list[str]:
        """Return the table, the text file of each label, or the non-empty files in the folder of each label."""
        return [str(text) for file in find_files(paths, self.data).files for text in file.texts_with_content]

    def show_files(self, paths: Sequence[str]) -> list[str]:
        """Return the table, or the text file or the folder of each label."""
        return [str(file.path) for file in find_files(paths, self.data).files]

    def settings(self) -> dict[str, Any]:
        """Return the format of the files, the labels from their names, and the labels of the starting model.

        Each label comes with its number of non-empty files, so that the cache notices if a file moves to the folder of another
        label. Empty files don't count, because `find_files` leaves them out.
        """
        found = [find_files(paths, self.data) for paths in (self.data.train, self.data.dev) if paths]
        known = [self._labels.names, self._labels.multiple] if self._labels else None
        files_of = [[each.form, [[file.label, len(file.texts_with_content)] for file in each.files]] for each in found]
        return {"files_of": files_of, "known": known}

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        """Read labelled texts."""
        return read_labelled(paths, self.data, report)

    def spool(self, chunks: Iterator[Chunk], path: Path) -> LabelledSpool:
        """Write the texts to a file, and collect their labels."""
        return spool_labelled(chunks, path)

    def select(self, spool: LabelledSpool, report: ReadingReport, seed: int) -> Selection[LabelledSpool]:
        """Drop duplicates, check the labels, and hold out texts of every label."""
        return select(spool, self.data, seed, report, self._labels)

    def match_dev(self, spool: LabelledSpool, selection: Selection[LabelledSpool], report: ReadingReport) -> LabelledSpool:
        """Number the labels of dev files as in training."""
        return match_labels(spool, selection.spool.known, report)

    def arrow_schema(self, selection: Selection[LabelledSpool]) -> pa.Schema:
        """Return the columns of a `LabelledCorpus`."""
        return LabelledCorpus.schema_for(num_labels=len(selection.spool.names), multiple=selection.spool.multiple)

    def encode(self, part: Part[LabelledSpool], positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Truncate long texts, and add the labels."""
        rows, cut = cut_rows(*encoded[0], self.data.max_tokens)
        labels = part.spool.labels.take(positions)
        return EncodedRows([rows, (labels.flat, labels.offsets)], texts, [rows[0]], [len(rows[0])], int(cut.sum()))

    def report(
        self,
        selection: Selection[LabelledSpool],
        train: Part[LabelledSpool],
        dev: Part[LabelledSpool],
        tokenizers: Sequence[Tokenizer],
    ) -> LabelledReport:
        """Return the report, with notes on truncated texts and duplicates."""
        names, truncated = selection.spool.names, train.num_long + dev.num_long
        dev_counts = dev.spool.labels.take(np.flatnonzero(dev.chosen)).counts(len(names))
        notes = [f"texts truncated to {self.data.max_tokens:,} tokens (data.max_tokens): {truncated:,}"] if truncated else []
        return LabelledReport(
            **self.count_texts(train, dev, tokenizers),
            train_counts=dict(zip(names, selection.spool.counts, strict=True)),
            dev_counts=dict(zip(names, dev_counts.tolist(), strict=True)),
            truncated=truncated,
            notes=[*notes, *selection.notes],
        )

    def save(self, folder: Path, selection: Selection[LabelledSpool]) -> None:
        """Write `labels.json`."""
        write_json(folder / "labels.json", selection.spool.known.to_dict())

    def load(self, folder: Path) -> dict[str, Any]:
        """Return the labels."""
        return {"labels": Labels.from_dict(read_json(folder / "labels.json"))}
