"""The preparation of data: read, drop duplicates, split, learn tokenizers, encode, cache and report.

The steps are the same for all kinds of data. A `DataSchema` describes the differences: the columns, the rows, and how rows are
split, encoded and counted. Each file is read once, as a stream, and hashed on the way. Texts are stored on disk; in memory, an
example takes about 24 bytes, for its line number and the hashes of its texts. The result is saved in a cache, under a name that
depends on the settings and on the hashes of the files, and reused if nothing has changed.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

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
    entry_name,
    fingerprint_of,
    hash_files,
    is_whole,
    prepared_settings,
    publish,
    workspace,
)
from regard.text.clean import Chunk
from regard.text.data_report import PreparationReport
from regard.text.mapped import Ids, MappedCorpus, MappedWriter, Rows
from regard.text.opening import check_file
from regard.text.report import ReadingReport
from regard.text.split import LARGEST_DEV_PART, Indices, first_occurrences, hash_pairs, mark, split_pairs
from regard.text.spool import Chosen, Spool, Texts, spool_texts
from regard.text.tokenizers.counts import SymbolCounts, unknown_notes
from regard.text.tokenizers.resolve import resolve_kinds
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

CHUNK_ROWS = 4096
M = TypeVar("M", bound=MappedCorpus)
R = TypeVar("R", bound=PreparationReport)


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
class Selection:
    """The rows to train on and to validate on."""

    spool: Spool
    train: Chosen
    dev: Chosen
    """Mask of the rows held out of the training files; all False if there are dev files."""
    counts: tuple[int, ...] = ()
    """Number of training rows with each label of the spool."""
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
class Part:
    """The training or the dev corpus during the preparation."""

    name: str
    spool: Spool
    chosen: Chosen
    report: ReadingReport
    tokens: list[int] = field(default_factory=list)
    """The number of tokens in each column, once the part is encoded."""
    num_long: int = 0
    """Number of rows with too many tokens, once the part is encoded."""

    def __len__(self) -> int:
        return int(self.chosen.sum())


class DataSchema(ABC):
    """One kind of data: how it is read, split, encoded, counted and loaded. It is made for one preparation.

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
    max_rows: int = 0
    """Maximum number of rows to train on; 0 for no limit."""

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
        self.dev_size = 0 if data.dev else data.dev_size

    @cached_property
    def tokenizers(self) -> tuple[FixedTokenizerConfig, ...]:
        """The settings of the tokenizer of each column. For `auto`, the first rows of the training files decide the kind."""
        head = (chunk.columns for chunk in self.read(self.files.train, ReadingReport()))
        return resolve_kinds(self._given, head, joint=self.joint)

    def find_files(self, paths: Sequence[str]) -> dict[str, list[str]]:
        """Return the files to read of each of the given files or folders, as reports name them."""
        return {path: [path] for path in paths}

    def settings(self) -> dict[str, Any]:
        """Return further settings that affect the prepared data, as plain data."""
        return {}

    @abstractmethod
    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        """Read examples, chunk by chunk; the report is filled while reading."""

    def select(self, spool: Spool, report: ReadingReport, seed: int) -> Selection:
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

    def match_dev(self, spool: Spool, selection: Selection, report: ReadingReport) -> Spool:
        """Convert the rows of dev files to match the training data; for example, number their labels as in training."""
        return spool

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizer of each column; columns that share a tokenizer get the same object."""
        language, form = getattr(self.files, "language", ""), self.files.normalization
        column = (chunk[0] for chunk in texts)
        return (build_tokenizer(column, self.tokenizers[0], language=language, normalization=form, progress=progress),)

    def arrow_schema(self, selection: Selection) -> pa.Schema:
        """Return the columns of the encoded corpora."""
        return self.corpus.schema

    @abstractmethod
    def encode(self, part: Part, positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Convert the rows at some positions of a part, given as ids and as raw texts of each column, to rows of the corpus."""

    @abstractmethod
    def report(self, selection: Selection, train: Part, dev: Part, tokenizers: Sequence[Tokenizer]) -> PreparationReport:
        """Return the report, with notes for this kind of data; raise an error if there is nothing to train on."""

    def count_texts(self, train: Part, dev: Part, tokenizers: Sequence[Tokenizer]) -> dict[str, Any]:
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

    def further_files(self, selection: Selection) -> dict[str, Any]:
        """Return the content of further JSON files, by their names."""
        return {}

    def load(self, folder: Path) -> dict[str, Any]:
        """Return the further fields of the result, read from `further_files`."""
        return {}


def prepare_data(schema: DataSchema, *, seed: int, progress: bool) -> Any:
    """Prepare data, or load it from the cache: return an object of the schema's class `prepared`.

    The corpora are memory-mapped from the cache. The same files and settings give the same bytes.
    """
    data = schema.files
    if not data.train:
        raise DataError(f"no training data: data.train names no file, expected {schema.example}")
    found = [schema.find_files(paths) if paths else {} for paths in (data.train, data.dev)]
    files = [[path for part in parts.values() for path in part] for parts in found]
    paths = [*files[0], *files[1]]
    settings = {
        "content": schema.content,
        "sizes": [check_file(path, schema.content).stat().st_size for path in paths],
        "data": prepared_settings(data),
        "endings": [["".join(Path(path).suffixes).lower() for path in part] for part in files],  # they decide the format
        "tokenizers": [asdict(config) for config in schema.tokenizers],
        "joint": schema.joint,
        "seed": seed,
        **({"learned": [tokenizer.digest() for tokenizer in schema.learned]} if schema.learned else {}),
        **schema.settings(),
    }
    cache, name = cache_folder(data), entry_name(settings, [config.kind for config in schema.tokenizers])
    # Only if there is an entry with these settings and sizes, the files are hashed before they are read.
    known = hash_files(paths, schema.content) if any(cache.glob(f"{name}-*")) else None
    prepared = _load(schema, cache / f"{name}-{fingerprint_of(known)[:16]}", known) if known else None
    if prepared is None:
        with workspace(cache) as work:
            with late_bars(shown=progress) as bars:
                read = _prepare(schema, seed, work, bars)
            hashes = [read[path] if path in read else hash_files([path], schema.content)[0] for path in paths]
            if changed := next((path for path, old, new in zip(paths, known or hashes, hashes, strict=True) if old != new), ""):
                raise DataError(f"{changed} changed while it was read; start again when no program writes to it")
            entry = cache / f"{name}-{fingerprint_of(hashes)[:16]}"
            prepared = publish(work, entry, lambda: _load(schema, entry, hashes))
    # The entry may have been made from the same bytes under other file names, so the reports get the current names.
    for report, parts in zip((prepared.report.train, prepared.report.dev), found, strict=True):
        if report:
            report.files = list(parts)
    return prepared


def _load(schema: DataSchema, entry: Path, hashes: Sequence[str]) -> Prepared[Any, Any] | None:
    """Load the prepared data from an entry of the cache; None for a missing or damaged entry."""
    if not is_whole(entry):
        return None
    try:
        return schema.prepared(
            train=schema.corpus(entry / "train.arrow"),
            dev=schema.corpus(entry / "dev.arrow"),
            column_tokenizers=_load_tokenizers(entry, schema.columns),
            column_configs=schema.tokenizers,
            report=schema.report_class.from_dict(read_json(entry / "report.json")),
            fingerprint=fingerprint_of(hashes),
            **schema.load(entry),
        )
    except (DataError, BundleError, OSError, ValueError, KeyError, TypeError):
        return None


def _prepare(schema: DataSchema, seed: int, work: Path, bars: Progress) -> dict[str, str]:
    """Run all steps, write the files of an entry, and return the hashes of the files that were read, by their paths."""
    data, read, read_dev = schema.files, ReadingReport(), ReadingReport()
    selection = schema.select(_read(schema, data.train, read, work, bars), read, seed)
    train = Part("train", selection.spool, selection.train, read)
    dev = Part("dev", selection.spool, selection.dev, read)
    tokenizers = schema.learned or schema.learn(
        (texts for _, texts in _chunks(train, "counting words", bars)), not bars.disable
    )
    if data.dev:
        spool = schema.match_dev(_read(schema, data.dev, read_dev, work, bars), selection, read_dev)
        dev = Part("dev", spool, np.ones(len(spool), np.bool_), read_dev)
    counts = [SymbolCounts(tokenizer) for tokenizer in tokenizers]
    for part in (train, dev):
        part.tokens = [0] * len(tokenizers)
        with MappedWriter(work / f"{part.name}.arrow", schema.arrow_schema(selection)) as writer:
            for positions, texts in _chunks(part, f"encoding {part.name}", bars):
                encoded = [tokenizer.encode_batch(column) for tokenizer, column in zip(tokenizers, texts, strict=True)]
                rows = schema.encode(part, positions, encoded, texts)
                writer.append(rows.numbers, rows.texts)
                for count, ids in zip(counts if part is train else (), rows.symbols, strict=False):
                    count.add(ids)
                part.tokens = [total + new for total, new in zip(part.tokens, rows.tokens, strict=True)]
                part.num_long += rows.num_long
    report = schema.report(selection, train, dev, tokenizers)
    report.symbols = {name: count.summary() for name, count in zip(schema.columns, counts, strict=True)}
    tokenised = zip(schema.columns, schema.tokenizers, strict=True)
    report.notes = [
        *(
            f"the {column} is tokenised already: tokens are split at spaces"
            for column, config in tokenised
            if isinstance(config, WhitespaceConfig)
        ),
        *report.notes,
        *_held_out_notes(report, schema.dev_size),
        *(unknown_notes(report.symbols) if schema.learned else ()),
    ]
    _save_tokenizers(work, tokenizers, schema.columns)
    for name, plain in {"report.json": report.to_dict(), **schema.further_files(selection)}.items():
        disk.write(work / name, json.dumps(plain, ensure_ascii=False, indent=1))
    for path in {train.spool.path, dev.spool.path}:
        path.unlink()
    return read.hashes | read_dev.hashes


def _read(schema: DataSchema, paths: tuple[str, ...], report: ReadingReport, work: Path, bars: Progress) -> Spool:
    """Read files, write their texts to a temporary file, and show progress."""
    task = bars.add_task("reading", total=None)

    def shown() -> Iterator[Chunk]:
        for chunk in schema.read(paths, report):
            bars.advance(task, len(chunk.line))
            yield chunk

    spool = spool_texts(shown(), schema.columns, work / f"spool{task}.arrow")
    bars.update(task, total=len(spool))
    return spool


def _chunks(part: Part, what: str, bars: Progress) -> Iterator[tuple[Indices, Texts]]:
    """Yield the chosen rows of a part, and show progress."""
    task = bars.add_task(what, total=len(part))
    for positions, texts in part.spool.chunks(part.chosen, CHUNK_ROWS):
        bars.advance(task, len(positions))
        yield positions, texts


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


def _save_tokenizers(folder: Path, tokenizers: Sequence[Tokenizer], columns: Sequence[str]) -> None:
    """Save the tokenizer of each column in a separate file, or in one file if all columns share one tokenizer."""
    shared = all(tokenizer is tokenizers[0] for tokenizer in tokenizers)
    for tokenizer, column in zip(tokenizers[:1] if shared else tokenizers, columns, strict=False):
        tokenizer.save(folder / ("tokenizer.json" if shared else f"tokenizer.{column}.json"))


def _load_tokenizers(folder: Path, columns: Sequence[str]) -> tuple[Tokenizer, ...]:
    """Load the tokenizer of each column from a folder that `_save_tokenizers` wrote."""
    if (folder / "tokenizer.json").exists():
        return (Tokenizer.load(folder / "tokenizer.json"),) * len(columns)
    return tuple(Tokenizer.load(folder / f"tokenizer.{column}.json") for column in columns)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(disk.read(path))
