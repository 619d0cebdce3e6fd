"""The preparation of data: read, drop duplicates, split, learn tokenizers, encode, cache and report.

The steps are the same for all kinds of data. A `DataSchema` describes the differences: the columns, the rows, and how rows are
split, encoded and counted. Files are read as a stream. Their texts are stored on disk; in memory, an example takes about 24
bytes, for its line number and the hashes of its texts. The result is saved in a cache, and reused if nothing has changed.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from rich.progress import Progress

from regard import disk
from regard.config import FixedTokenizerConfig, TokenizerConfig, WhitespaceConfig
from regard.config.data import FileSettings
from regard.errors import BundleError, DataError
from regard.plurals import counted
from regard.text.bars import late_bars
from regard.text.cache import (
    cache_folder,
    check_unchanged,
    endings,
    entry_name,
    find_or_make,
    fingerprint_of,
    hash_files,
    is_whole,
    prepared_settings,
)
from regard.text.files.report import ReadingReport
from regard.text.mapped import Ids, MappedWriter, Rows
from regard.text.report import PreparationReport
from regard.text.split import LARGEST_DEV_PART, Indices, first_occurrences, hash_pairs, mark, split_pairs
from regard.text.spool import Chosen, Chunk, Spool, Texts
from regard.text.tokenizers.counts import SymbolCounts, digests, unknown_notes
from regard.text.tokenizers.resolve import resolve_kinds
from regard.text.tokenizers.tokenizer import Tokenizer

CHUNK_ROWS = 4096


class Prepared(Protocol):
    """The result of a preparation. Each kind of data adds the fields that its training needs."""

    @property
    def report(self) -> PreparationReport:
        """Return the report on the data."""


C = TypeVar("C", bound=Chunk)
S = TypeVar("S", bound=Spool)
P = TypeVar("P", bound=Prepared)


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


class DataSchema(ABC, Generic[C, S, P]):
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
    columns: ClassVar[tuple[str, ...]]
    """Names of the columns of text, each of which has a tokenizer."""

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
    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[C]:
        """Read examples, chunk by chunk; the report is filled while reading."""

    @abstractmethod
    def spool(self, chunks: Iterator[C], path: Path) -> S:
        """Write the texts to a file while they are read, and keep the other parts of the examples in memory."""

    @abstractmethod
    def select(self, spool: S, report: ReadingReport, seed: int) -> Selection[S]:
        """Choose the training and the dev rows; the report counts all others among the skipped rows."""

    def match_dev(self, spool: S, selection: Selection[S], report: ReadingReport) -> S:
        """Convert the rows of dev files to match the training data; for example, number their labels as in training."""
        return spool

    @abstractmethod
    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizer of each column; columns that share a tokenizer get the same object."""

    @abstractmethod
    def arrow_schema(self, selection: Selection[S]) -> pa.Schema:
        """Return the columns of the encoded corpora."""

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

    def save(self, folder: Path, selection: Selection[S]) -> None:
        """Write further files that `load` needs."""

    @abstractmethod
    def load(self, folder: Path, tokenizers: Sequence[Tokenizer], fingerprint: str) -> P:
        """Load the prepared data from a folder of the cache.

        Args:
            folder: The folder, with `train.arrow`, `dev.arrow`, `report.json`, and the files from `save`.
            tokenizers: The tokenizer of each column.
            fingerprint: Hash of the bytes of the data files.
        """


def prepare_data(schema: DataSchema[C, S, P], *, seed: int, progress: bool) -> P:
    """Prepare data, or load it from the cache.

    Args:
        schema: The kind of data, with its settings.
        seed: Seed for choosing the held-out examples.
        progress: If True, show progress bars on standard error.

    Returns:
        The corpora, memory-mapped from the cache, with the tokenizers and the report. The same files and settings give the
        same bytes.

    Raises:
        DataError: If a file cannot be read or has no usable example, or the cache cannot be written.
        ConfigError: If the settings of the tokenizers contradict each other, need a package that is not installed or a language
            that spaCy does not have, or have a limit that is too small.
    """
    data = schema.files
    if not data.train:
        raise DataError(f"no training data: data.train names no file, expected {schema.example}")
    files = [schema.find_files(paths) if paths else [] for paths in (data.train, data.dev)]
    paths = [*files[0], *files[1]]
    hashes = hash_files(paths, schema.content)
    settings = {
        "content": schema.content,
        "data": prepared_settings(data),
        "endings": [endings(part) for part in files],
        "tokenizers": [asdict(config) for config in schema.tokenizers],
        "joint": schema.joint,
        "seed": seed,
        **digests(schema.learned),
        **schema.settings(),
    }
    entry = cache_folder(data) / entry_name(settings, [config.kind for config in schema.tokenizers], hashes)

    def make(work: Path) -> None:
        with late_bars(shown=progress) as bars:
            _Preparation(schema, seed, work, bars).run()
        check_unchanged(paths, hashes, schema.content)

    def load() -> P | None:
        if not is_whole(entry):
            return None
        try:
            prepared = schema.load(entry, load_tokenizers(entry, schema.columns), fingerprint_of(hashes))
        except (DataError, BundleError, OSError, ValueError, KeyError, TypeError):
            return None
        # The entry may have been made from the same bytes under other file names, so the reports get the current names.
        for report, given in zip((prepared.report.train, prepared.report.dev), (data.train, data.dev), strict=True):
            if report:
                report.files = schema.show_files(given)
        return prepared

    return find_or_make(entry, load, make)


class _Preparation(Generic[C, S, P]):
    """One run of all steps. It is a class, because the steps share the folder and the progress bars."""

    def __init__(self, schema: DataSchema[C, S, P], seed: int, work: Path, bars: Progress) -> None:
        self.schema, self.seed, self.work, self.bars = schema, seed, work, bars

    def run(self) -> None:
        """Run all steps, and write the corpora, the tokenizers, `report.json` and the files of `DataSchema.save`."""
        schema, data = self.schema, self.schema.files
        read = ReadingReport()
        selection = schema.select(self._read(data.train, read), read, self.seed)
        train = Part("train", selection.spool, selection.train, read)
        tokenizers = schema.learned or self._learn(train)
        dev = self._dev_files(selection) if data.dev else Part("dev", selection.spool, selection.dev, read)
        counts = [SymbolCounts(tokenizer) for tokenizer in tokenizers]
        for part in (train, dev):
            self._encode(part, tokenizers, schema.arrow_schema(selection), counts if part is train else ())
        report = schema.report(selection, train, dev, tokenizers)
        report.symbols = {name: count.summary() for name, count in zip(schema.columns, counts, strict=True)}
        report.notes = [
            *_tokenised_notes(schema.columns, schema.tokenizers),
            *report.notes,
            *_held_out_notes(report, schema.dev_size),
            *(unknown_notes(report.symbols) if schema.learned else ()),
        ]
        save_tokenizers(self.work, tokenizers, schema.columns)
        schema.save(self.work, selection)
        write_json(self.work / "report.json", report.to_dict())
        for path in {train.spool.path, dev.spool.path}:
            path.unlink()

    def _dev_files(self, selection: Selection[S]) -> Part[S]:
        report = ReadingReport()
        spool = self.schema.match_dev(self._read(self.schema.files.dev, report), selection, report)
        return Part("dev", spool, np.ones(len(spool), np.bool_), report)

    def _read(self, paths: tuple[str, ...], report: ReadingReport) -> S:
        chunks = self.schema.read(paths, report)
        task = self.bars.add_task("reading", total=None)

        def shown() -> Iterator[C]:
            for chunk in chunks:
                self.bars.advance(task, len(chunk.line))
                yield chunk

        spool = self.schema.spool(shown(), self.work / f"spool{task}.arrow")
        self.bars.update(task, total=len(spool))
        return spool

    def _chunks(self, part: Part[S], what: str) -> Iterator[tuple[Indices, Texts]]:
        """Yield the chosen rows of a part, and show progress."""
        task = self.bars.add_task(what, total=len(part))
        for positions, texts in part.spool.chunks(part.chosen, CHUNK_ROWS):
            self.bars.advance(task, len(positions))
            yield positions, texts

    def _learn(self, train: Part[S]) -> tuple[Tokenizer, ...]:
        texts = (texts for _, texts in self._chunks(train, "counting words"))
        return self.schema.learn(texts, not self.bars.disable)

    def _encode(
        self, part: Part[S], tokenizers: Sequence[Tokenizer], columns: pa.Schema, counts: Sequence[SymbolCounts]
    ) -> None:
        """Write the corpus of a part, and count its tokens and symbols."""
        part.tokens = [0] * len(tokenizers)
        with MappedWriter(self.work / f"{part.name}.arrow", columns) as writer:
            for positions, texts in self._chunks(part, f"encoding {part.name}"):
                encoded = [tokenizer.encode_batch(column) for tokenizer, column in zip(tokenizers, texts, strict=True)]
                rows = self.schema.encode(part, positions, encoded, texts)
                writer.append(rows.numbers, rows.texts)
                for count, ids in zip(counts, rows.symbols, strict=False):
                    count.add(ids)
                part.tokens = [total + new for total, new in zip(part.tokens, rows.tokens, strict=True)]
                part.num_long += rows.num_long


def select_rows(
    spool: S, report: ReadingReport, *, repeated: str, beyond: str, dev_size: int, max_rows: int, seed: int
) -> Selection[S]:
    """Drop duplicates and hold out rows that share no text with training.

    Args:
        spool: All rows, of one or two columns.
        report: Report, in which rows that are left out are counted among the skipped ones.
        repeated: Reason for leaving out duplicates, for the report; if empty, duplicates are kept.
        beyond: Reason for leaving out rows beyond `max_rows`, for the report.
        dev_size: Number of rows to hold out; fewer if `split_pairs` does not find enough.
        max_rows: Maximum number of rows to train on; 0 for no limit.
        seed: Seed for choosing the held-out rows.
    """
    first, last = spool.hashes[0], spool.hashes[-1]
    places = np.arange(len(spool))
    if repeated:
        new = first_occurrences(hash_pairs(first, last))
        report.withdraw(repeated, spool.lines[~new])
        places = places[new]
    split = split_pairs(first[places], last[places], dev_size=dev_size, max_pairs=max_rows, seed=seed)
    report.withdraw(beyond, spool.lines[places[split.rest]])
    return Selection(spool, mark(places[split.train], len(spool)), mark(places[split.dev], len(spool)))


def _tokenised_notes(columns: Sequence[str], tokenizers: Sequence[FixedTokenizerConfig]) -> list[str]:
    return [
        f"the {column} is tokenised already: tokens are split at spaces"
        for column, config in zip(columns, tokenizers, strict=True)
        if isinstance(config, WhitespaceConfig)
    ]


def _held_out_notes(report: PreparationReport, dev_size: int) -> list[str]:
    held_out = report.sizes[1]
    if held_out >= dev_size:
        return []
    if not held_out and report.sizes[0] < LARGEST_DEV_PART:
        return [
            "warning: nothing is held out to validate on, because the data have only "
            f"{counted(report.sizes[0], report.unit)} and {LARGEST_DEV_PART} are needed to hold one out; add more "
            f"(each line is one {report.unit}), or set data.dev to a file of your own"
        ]
    return [
        f"{counted(held_out, report.unit)} held out, not {dev_size:,} (data.dev_size), because at most one in "
        f"{LARGEST_DEV_PART} may be held out, and held-out {report.unit}s must share {report.apart} with training; to validate "
        "on a file of your own, set data.dev"
    ]


def save_tokenizers(folder: Path, tokenizers: Sequence[Tokenizer], columns: Sequence[str]) -> None:
    """Save the tokenizer of each column in a separate file, or in one file if all columns share one tokenizer."""
    if all(tokenizer is tokenizers[0] for tokenizer in tokenizers):
        tokenizers[0].save(folder / "tokenizer.json")
        return
    for tokenizer, column in zip(tokenizers, columns, strict=True):
        tokenizer.save(folder / f"tokenizer.{column}.json")


def load_tokenizers(folder: Path, columns: Sequence[str]) -> tuple[Tokenizer, ...]:
    """Load the tokenizer of each column from a folder that `save_tokenizers` wrote."""
    if (folder / "tokenizer.json").exists():
        return (Tokenizer.load(folder / "tokenizer.json"),) * len(columns)
    return tuple(Tokenizer.load(folder / f"tokenizer.{column}.json") for column in columns)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(disk.read(path))


def write_json(path: Path, plain: Mapping[str, Any]) -> None:
    """Write plain data to a JSON file."""
    disk.write(path, json.dumps(plain, ensure_ascii=False, indent=1))
