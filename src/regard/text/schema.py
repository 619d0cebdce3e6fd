"""A kind of data: how it is read, split, encoded, counted and loaded."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from regard.config import FixedTokenizerConfig, TokenizerConfig
from regard.config.data import FileSettings
from regard.text.clean import Chunk
from regard.text.data_report import PreparationReport
from regard.text.mapped import Ids, MappedCorpus, Rows
from regard.text.report import ReadingReport
from regard.text.split import Indices, first_occurrences, hash_pairs, mark, split_pairs
from regard.text.spool import Chosen, Spool, Texts, spool_texts
from regard.text.tokenizers.resolve import resolve_kinds
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

M = TypeVar("M", bound=MappedCorpus)
R = TypeVar("R", bound=PreparationReport)
S = TypeVar("S", bound=Spool)


@dataclass(frozen=True, kw_only=True)
class Prepared(Generic[M, R]):
    """Data that are ready for training. Each kind of data adds the fields that its training needs."""

    train: M
    dev: M
    """Examples to validate on; may be empty."""
    column_tokenizers: tuple[Tokenizer, ...]
    """The tokenizer of each column; the same object if columns share a tokenizer."""
    column_configs: tuple[FixedTokenizerConfig, ...]
    """The settings of these tokenizers, with a fixed kind instead of `auto`."""
    report: R
    fingerprint: str
    """Hash of the files' bytes."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of data with one column."""
        return self.column_tokenizers[0]

    @property
    def tokenizer_config(self) -> FixedTokenizerConfig:
        """The settings of this tokenizer."""
        return self.column_configs[0]


@dataclass(frozen=True)
class Selection(Generic[S]):
    """The rows to train on and to validate on."""

    spool: S
    train: Chosen
    dev: Chosen
    """Mask of the rows held out of the training files; all False if there are dev files."""
    notes: Sequence[str] = ()
    """Remarks for the report."""


@dataclass(frozen=True)
class EncodedRows:
    """Encoded rows, ready to write."""

    numbers: Sequence[Rows]
    """Columns of numbers, in the order of the corpus."""
    texts: Sequence[Sequence[str]]
    """Columns of text, in the order of the corpus."""
    symbols: Sequence[Ids]
    """Ids of each tokenised column, such as source and target, which are counted for the report."""
    tokens: Sequence[int]
    """Number of tokens in each tokenised column, including the end symbols that the kind of data adds."""
    num_long: int
    """Number of rows with too many tokens, which are left out, truncated or split into blocks."""


@dataclass
class Part(Generic[S]):
    """The training or the dev corpus during the preparation."""

    name: str
    spool: S
    chosen: Chosen
    report: ReadingReport
    tokens: list[int] = field(default_factory=list)
    """The number of tokens in each column, once the part is encoded."""
    num_long: int = 0
    """Number of rows with too many tokens, once the part is encoded."""

    def __len__(self) -> int:
        return int(self.chosen.sum())


class DataSchema(ABC, Generic[S]):
    """One kind of data: how it is read, split, encoded, counted and loaded.

    A schema is made for one preparation, with its settings.

    Args:
        data: The settings of the data.
        tokenizers: The settings of the tokenizer of each column.
        learned: The tokenizers of a model that training starts from, which are used instead of new ones.
        joint: If True, the columns share one tokenizer.
    """

    content: ClassVar[str]
    """Content of the files, for messages."""
    example: ClassVar[str]
    """Expected value of `data.train`, for messages."""
    columns: ClassVar[tuple[str, ...]] = ("text",)
    """Names of the columns of text, each of which has a tokenizer."""
    corpus: ClassVar[type[MappedCorpus]]
    """Class of the encoded corpora."""
    prepared: ClassVar[type[Prepared[Any, Any]]] = Prepared
    """Class of the result."""
    report_class: ClassVar[type[PreparationReport]]
    """Class of the report."""
    repeated: ClassVar[str] = "exact repeat of an earlier text"
    """Reason for leaving out duplicates, for the report."""
    beyond: ClassVar[str] = "beyond max_texts"
    """Reason for leaving out rows beyond the maximum, for the report."""

    def __init__(
        self,
        data: FileSettings,
        tokenizers: Sequence[TokenizerConfig],
        learned: tuple[Tokenizer, ...] | None,
        *,
        joint: bool = False,
    ) -> None:
        self.files, self.learned, self.joint = data, learned, joint
        self._given = tuple(tokenizers)

    @cached_property
    def tokenizers(self) -> tuple[FixedTokenizerConfig, ...]:
        """The settings of the tokenizer of each column. For `auto`, the first rows of the training files decide the kind."""

        def head() -> Iterator[Texts]:
            for chunk in self.read(self.files.train, ReadingReport()):
                yield chunk.columns

        return resolve_kinds(self._given, head(), joint=self.joint)

    @property
    def dev_size(self) -> int:
        """Number of examples to hold out; 0 if there are dev files."""
        return 0 if self.files.dev else self.files.dev_size

    @property
    def max_rows(self) -> int:
        """Maximum number of rows to train on; 0 for no limit."""
        return 0

    def find_files(self, paths: Sequence[str]) -> list[str]:
        """Return the files to read: the given paths; a subclass can replace a folder with the files in it."""
        return list(paths)

    def show_files(self, paths: Sequence[str]) -> list[str]:
        """Return the files that reports name: folders instead of files if there is one example per file."""
        return self.find_files(paths)

    def settings(self) -> dict[str, Any]:
        """Return further settings that affect the prepared data, as plain data."""
        return {}

    @abstractmethod
    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        """Read examples, chunk by chunk; the report is filled while reading."""

    def spool(self, chunks: Iterator[Chunk], path: Path) -> S:
        """Write the texts to a file while they are read, and keep the other parts of the examples in memory."""
        return spool_texts(chunks, self.columns, path)  # type: ignore[return-value]

    def select(self, spool: S, report: ReadingReport, seed: int) -> Selection[S]:
        """Drop duplicates, and hold out rows that share no text with training; the report counts what is left out."""
        first, last = spool.hashes[0], spool.hashes[-1]
        places = np.arange(len(spool))
        if self.files.drop_repeats:
            new = first_occurrences(hash_pairs(first, last))
            report.withdraw(self.repeated, spool.lines[~new])
            places = places[new]
        split = split_pairs(first[places], last[places], dev_size=self.dev_size, max_pairs=self.max_rows, seed=seed)
        report.withdraw(self.beyond, spool.lines[places[split.rest]])
        return Selection(spool, mark(places[split.train], len(spool)), mark(places[split.dev], len(spool)))

    def match_dev(self, spool: S, selection: Selection[S], report: ReadingReport) -> S:
        """Convert the rows of dev files to match the training data; for example, number their labels as in training."""
        return spool

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizer of each column; columns that share a tokenizer get the same object."""
        language, form = getattr(self.files, "language", ""), self.files.normalization
        column = (chunk[0] for chunk in texts)
        return (build_tokenizer(column, self.tokenizers[0], language=language, normalization=form, progress=progress),)

    def arrow_schema(self, selection: Selection[S]) -> pa.Schema:
        """Return the columns of the encoded corpora."""
        return self.corpus.schema

    @abstractmethod
    def encode(self, part: Part[S], positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Convert some rows of a part to rows of the corpus.

        Args:
            part: The part that the rows belong to.
            positions: The positions of the rows in the spool.
            encoded: The ids of each column, without special symbols.
            texts: The raw texts of each column.
        """

    @abstractmethod
    def report(
        self, selection: Selection[S], train: Part[S], dev: Part[S], tokenizers: Sequence[Tokenizer]
    ) -> PreparationReport:
        """Return the report on the training and the dev data, with notes for this kind of data.

        Raises:
            DataError: If there is nothing to train on.
        """

    def count_texts(self, train: Part[S], dev: Part[S], tokenizers: Sequence[Tokenizer]) -> dict[str, Any]:
        """Return the fields of a `TextsReport`, except `notes` and `symbols`."""
        known = train.spool.hashes[0][train.chosen]
        return {
            "train": train.report,
            "dev": dev.report if self.files.dev else None,
            "train_texts": len(train),
            "dev_texts": len(dev),
            "vocabulary_size": tokenizers[0].size,
            "train_tokens": train.tokens[0],
            "overlap": int(np.isin(dev.spool.hashes[0], known).sum()) if self.files.dev else None,
        }

    def save(self, folder: Path, selection: Selection[S]) -> None:
        """Write further files that `load` needs."""

    def load(self, folder: Path) -> dict[str, Any]:
        """Return the further fields of the result, read from the files that `save` wrote."""
        return {}
