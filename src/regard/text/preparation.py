"""The preparation of data: read, drop duplicates, split, learn tokenizers, encode, cache and report.

The steps are the same for all kinds of data. A `DataSchema` describes the differences: the columns, the rows, and how rows are
split and encoded. Each file is parsed once, as a stream, and hashed on the way; before that, its first rows for a
tokenizer `auto`, and all of it for the hash if the cache may have the result. Texts are stored on disk; in memory, an
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
from regard.text import cache, split
from regard.text.bars import late_bars
from regard.text.clean import Chunk
from regard.text.data_report import DataReport, count_symbols, describe_unknown_tokens
from regard.text.labelled.labels import Labels
from regard.text.mapped import Ids, MappedCorpus, MappedWriter, Rows
from regard.text.opening import CHUNK_ROWS, check_file
from regard.text.reasons import BEYOND_MAX
from regard.text.report import ReadingReport
from regard.text.split import LARGEST_DEV_PART, Groups, Hashes, Indices, LabelRows, hash_pairs, mark
from regard.text.spool import Chosen, Spool, Texts, spool_texts
from regard.text.tokenizers.resolve import resolve_kinds
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

M = TypeVar("M", bound=MappedCorpus)


@dataclass(frozen=True, kw_only=True)
class Prepared(Generic[M]):
    """Data that are ready for training."""

    train: M
    dev: M
    """Examples to validate on; may be empty."""
    tokenizers: tuple[Tokenizer, ...]
    """The tokenizer of each column; the same object if columns share a tokenizer."""
    configs: tuple[FixedTokenizerConfig, ...]
    """The settings of these tokenizers, with a fixed kind instead of `auto`."""
    report: DataReport
    fingerprint: str
    """Hash of the files' bytes."""

    @property
    def labels(self) -> Labels:
        """The labels of a corpus of labelled texts, with the number of training texts of each."""
        counts = self.report.train_counts
        return Labels(tuple(counts), self.train.multiple, tuple(counts.values()))


@dataclass(frozen=True)
class Selection:
    """The rows to train on and to validate on."""

    spool: Spool
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
    too_long: int
    """Number of rows with too many tokens, which are left out, truncated or split into blocks."""


@dataclass
class Part:
    """The training or the dev corpus during the preparation."""

    spool: Spool
    chosen: Chosen
    report: ReadingReport
    counts: list[np.ndarray] = field(default_factory=list)
    """Number of occurrences of each symbol of each column's vocabulary; counted while the part is encoded, like the others."""
    tokens: list[int] = field(default_factory=list)
    too_long: int = 0

    def __len__(self) -> int:
        return int(self.chosen.sum())


class DataSchema(ABC):
    """One kind of data: how it is read, split and encoded. It is made for one preparation.

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
    unit: ClassVar[str] = "text"
    """Name of an example in the report, in the singular."""
    columns: ClassVar[tuple[str, ...]] = ("text",)
    """Names of the columns of text, each of which has a tokenizer."""
    untokenised: ClassVar[tuple[str, ...]] = ()
    """Names of columns before these, which `encode` turns into numbers itself, such as the files of images."""
    grouped: ClassVar[tuple[int, int]] = (0, -1)
    """Columns, by number, of which held-out rows share no value with training."""
    chunk_rows: ClassVar[int] = CHUNK_ROWS
    """Maximum number of rows that are encoded at once."""
    corpus: ClassVar[type[MappedCorpus]]
    """Class of the encoded corpora."""
    repeated: ClassVar[str] = "exact repeat of an earlier text"
    """Reason for leaving out duplicates, for the report."""
    drops_long: ClassVar[bool] = False
    """Whether `encode` leaves out rows with too many tokens."""
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
        self.data, self.learned = data, learned
        self.joint = len(learned) > 1 and learned[0] is learned[1] if learned else joint
        self._given = tuple(tokenizers)
        self.dev_size = 0 if data.dev else data.dev_size

    @cached_property
    def tokenizers(self) -> tuple[FixedTokenizerConfig, ...]:
        """The settings of the tokenizer of each column. For `auto`, the first rows of the training files decide the kind."""
        head = (chunk.columns[len(self.untokenised) :] for chunk in self.read(self.data.train, ReadingReport()))
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

    def identify(self, spool: Spool) -> Hashes:
        """Return a hash of each row; rows with equal hashes are duplicates."""
        return hash_pairs(spool.hashes[0], spool.hashes[-1])

    def select(self, spool: Spool, report: ReadingReport, seed: int) -> Selection:
        """Drop duplicates, and hold out rows that share no text with training; the report counts what is left out."""
        whole = self.identify(spool)
        new = split.first_occurrences(whole) if self.data.drop_repeats else np.ones(len(spool), np.bool_)
        report.withdraw(self.repeated, spool.lines[~new])
        places = np.flatnonzero(new)
        labels = spool.labels.take(places) if spool.names else spool.labels
        first, second = (spool.hashes[column][places] for column in self.grouped)
        groups = split.find_groups(first, second, labels, len(spool.names))
        dev = self.hold_out(spool, labels, groups, places, report, seed)
        left = np.flatnonzero(~dev)
        taken = left[split.take_first(groups.stratum[groups.of[left]], self.max_rows or len(left))]
        report.withdraw(BEYOND_MAX.format(self.unit), spool.lines[places[np.setdiff1d(left, taken, assume_unique=True)]])
        return Selection(
            spool, mark(places[taken], len(spool)), mark(places[dev], len(spool)), self.describe_repeats(spool, whole)
        )

    def describe_repeats(self, spool: Spool, whole: Hashes) -> list[str]:
        """Return remarks on rows that share a text but are no duplicates; `whole` is the result of `identify`."""
        return []

    def hold_out(
        self, spool: Spool, labels: LabelRows, groups: Groups, places: Indices, report: ReadingReport, seed: int
    ) -> Chosen:
        """Return a mask of the rows at `places` to validate on. The first `max_rows` are all for training."""
        after = self.max_rows if self.max_rows < len(places) else 0
        most = min(self.dev_size, after // LARGEST_DEV_PART) if after else self.dev_size
        return split.draw_dev(groups, labels, dev_size=most, seed=seed, after=after)

    def match_dev(self, spool: Spool, selection: Selection, report: ReadingReport) -> Spool:
        """Convert the rows of dev files to match the training data; for example, number their labels as in training."""
        return spool

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizer of each column; columns that share a tokenizer get the same object."""
        language, form = getattr(self.data, "language", ""), self.data.normalization
        column = (chunk[-1] for chunk in texts)
        return (build_tokenizer(column, self.tokenizers[0], language=language, normalization=form, progress=progress),)

    def arrow_schema(self, spool: Spool) -> pa.Schema:
        """Return the columns of the encoded corpora."""
        return self.corpus.schema

    @abstractmethod
    def encode(self, part: Part, positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Convert the rows at some positions of a part, given as ids and as raw texts of each column, to rows of the corpus."""

    def notes(self, too_long: int) -> list[str]:
        """Return notes for the report, given the number of rows with too many tokens."""
        return []


def prepare_data(schema: DataSchema, *, seed: int, progress: bool = True) -> Prepared[Any]:
    """Prepare data, or load it from the cache.

    The corpora are memory-mapped from the cache. The same files and settings give the same bytes.
    """
    data = schema.data
    if not data.train:
        raise DataError(f"no training data: data.train names no file, expected {schema.example}")
    found = [schema.find_files(paths) if paths else {} for paths in (data.train, data.dev)]
    files = [[path for part in parts.values() for path in part] for parts in found]
    paths = [*files[0], *files[1]]
    settings = {
        "content": schema.content,
        "sizes": [check_file(path, schema.content).stat().st_size for path in paths],
        "data": cache.prepared_settings(data),
        "endings": [["".join(Path(path).suffixes).lower() for path in part] for part in files],  # they decide the format
        "tokenizers": [asdict(config) for config in schema.tokenizers],
        "joint": schema.joint,
        "seed": seed,
        **({"learned": [tokenizer.digest() for tokenizer in schema.learned]} if schema.learned else {}),
        **schema.settings(),
    }
    folder, name = cache.cache_folder(data), cache.entry_name(settings, [config.kind for config in schema.tokenizers])
    # Only if there is an entry with these settings and sizes, the files are hashed before they are read.
    known = cache.hash_files(paths, schema.content) if any(folder.glob(f"{name}-*")) else None
    prepared = _load(schema, folder / f"{name}-{cache.fingerprint_of(known)[:16]}", known) if known else None
    if prepared is None:
        with cache.workspace(folder) as work:
            with late_bars(shown=progress) as bars:
                read = _prepare(schema, seed, work, bars)
            hashes = [read[path] if path in read else cache.hash_files([path], schema.content)[0] for path in paths]
            if changed := next((path for path, old, new in zip(paths, known or hashes, hashes, strict=True) if old != new), ""):
                raise DataError(f"{changed} changed while it was read; start again when no program writes to it")
            entry = folder / f"{name}-{cache.fingerprint_of(hashes)[:16]}"
            prepared = cache.publish(work, entry, lambda: _load(schema, entry, hashes))
    # The entry may have been made from the same bytes under other file names, so the reports get the current names.
    for report, parts in zip((prepared.report.train, prepared.report.dev), found, strict=True):
        if report:
            report.files = list(parts)
    return prepared


def _load(schema: DataSchema, entry: Path, hashes: Sequence[str]) -> Prepared[Any] | None:
    """Load the prepared data from an entry of the cache; None for a missing or damaged entry."""
    if not cache.is_whole(entry):
        return None
    try:
        tokenizers = [Tokenizer.load(entry / name) for name in _tokenizer_files(schema)]
        return Prepared(
            train=schema.corpus(entry / "train.arrow"),
            dev=schema.corpus(entry / "dev.arrow"),
            tokenizers=tuple(tokenizers * len(schema.columns) if schema.joint else tokenizers),
            configs=schema.tokenizers,
            report=DataReport.from_dict(json.loads(disk.read(entry / "report.json"))),
            fingerprint=cache.fingerprint_of(hashes),
        )
    except (DataError, BundleError, OSError, ValueError, KeyError, TypeError):
        return None


def _tokenizer_files(schema: DataSchema) -> list[str]:
    return ["tokenizer.json"] if schema.joint else [f"tokenizer.{column}.json" for column in schema.columns]


def _prepare(schema: DataSchema, seed: int, work: Path, bars: Progress) -> dict[str, str]:
    """Run all steps, write the files of an entry, and return the hashes of the files that were read, by their paths."""
    data, read, read_dev = schema.data, ReadingReport(), ReadingReport()
    selection = schema.select(_read(schema, data.train, read, work, bars), read, seed)
    spool, dev_spool, dev_rows, columns = selection.spool, selection.spool, selection.dev, range(len(schema.columns))
    chunks = (texts for _, texts in _chunks(spool, selection.train, "counting words", bars, CHUNK_ROWS))
    # Dev files are read after the tokenizers are learned, so that no word of theirs can enter a vocabulary.
    tokenizers = schema.learned or schema.learn(chunks, not bars.disable)
    if data.dev:
        dev_spool = schema.match_dev(_read(schema, data.dev, read_dev, work, bars), selection, read_dev)
        dev_rows = np.ones(len(dev_spool), np.bool_)

    train, dev = Part(spool, selection.train, read), Part(dev_spool, dev_rows, read_dev if data.dev else read)
    for part, name in ((train, "train"), (dev, "dev")):
        part.counts = [np.zeros(tokenizer.size, np.int64) for tokenizer in tokenizers]
        part.tokens = [0] * len(tokenizers)
        with MappedWriter(work / f"{name}.arrow", schema.arrow_schema(spool)) as writer:
            for positions, texts in _chunks(part.spool, part.chosen, f"encoding {name}", bars, schema.chunk_rows):
                tokenised = zip(tokenizers, texts[len(schema.untokenised) :], strict=True)
                encoded = [tokenizer.encode_batch(column) for tokenizer, column in tokenised]
                rows = schema.encode(part, positions, encoded, texts)
                writer.append(rows.numbers, rows.texts)
                for column in columns:
                    # Only counts are kept, so memory grows with the vocabulary and not with the data.
                    part.counts[column] += np.bincount(rows.symbols[column], minlength=tokenizers[column].size)
                    part.tokens[column] += rows.tokens[column]
                part.too_long += rows.too_long
    report = _build_report(schema, train, dev, tokenizers)
    report.notes += [
        *schema.notes(report.too_long),
        *selection.notes,
        *_describe_shortage(report, schema.dev_size),
        *(describe_unknown_tokens(report.symbols) if schema.learned else ()),
    ]
    for tokenizer, name in zip(tokenizers, _tokenizer_files(schema), strict=False):
        tokenizer.save(work / name)
    disk.write(work / "report.json", json.dumps(report.to_dict(), ensure_ascii=False, indent=1))
    for path in {spool.path, dev_spool.path}:
        path.unlink()
    return read.hashes | read_dev.hashes


def _read(schema: DataSchema, paths: tuple[str, ...], report: ReadingReport, work: Path, bars: Progress) -> Spool:
    """Read files, write their texts to a temporary file, and show progress."""
    task = bars.add_task("reading", total=None)

    def shown() -> Iterator[Chunk]:
        for chunk in schema.read(paths, report):
            bars.advance(task, len(chunk.line))
            yield chunk

    spool = spool_texts(shown(), (*schema.untokenised, *schema.columns), work / f"spool{task}.arrow")
    bars.update(task, total=len(spool))
    return spool


def _chunks(spool: Spool, chosen: Chosen, what: str, bars: Progress, size: int) -> Iterator[tuple[Indices, Texts]]:
    """Yield the chosen rows, at most `size` at a time, and show progress."""
    task = bars.add_task(what, total=int(chosen.sum()))
    for positions, texts in spool.chunks(chosen, size):
        bars.advance(task, len(positions))
        yield positions, texts


def _build_report(schema: DataSchema, train: Part, dev: Part, tokenizers: Sequence[Tokenizer]) -> DataReport:
    """Build the report, with the notes on texts that are tokenised already; raise an error if nothing is left to train on."""
    columns, own_files = schema.columns, bool(schema.data.dev)
    num_train, num_dev = (len(part) - schema.drops_long * part.too_long for part in (train, dev))
    if not num_train:
        raise DataError(
            f"no {schema.unit} is left to train on; is data.max_tokens too low? The report:\n  {train.report.render()}"
        )
    overlap = {}
    if own_files:
        known, new = [hashes[train.chosen] for hashes in train.spool.hashes], dev.spool.hashes
        named = (*schema.untokenised, *columns)
        if len(named) > 1:
            overlap[f"{schema.unit}s"] = int(np.isin(hash_pairs(*new), hash_pairs(*known)).sum())
        for column in dict.fromkeys(place % len(named) for place in schema.grouped):
            overlap[f"{named[column]}s"] = int(np.isin(new[column], known[column]).sum())
    return DataReport(
        unit=schema.unit,
        train=train.report,
        dev=dev.report if own_files else None,
        num_train=num_train,
        num_dev=num_dev,
        too_long=train.too_long + dev.too_long,
        vocabulary={name: tokenizer.size for name, tokenizer in zip(columns, tokenizers, strict=True)},
        joint=schema.joint,
        apart_by=list(dict.fromkeys((*schema.untokenised, *columns)[column] for column in schema.grouped)),
        train_tokens=dict(zip(columns, train.tokens, strict=True)),
        dev_tokens=dict(zip(columns, dev.tokens, strict=True)),
        overlap=overlap,
        train_counts=train.spool.count_labels(train.chosen),
        dev_counts=dev.spool.count_labels(dev.chosen),
        symbols={
            name: count_symbols(tokenizer.vocabulary(), counts)
            for name, tokenizer, counts in zip(columns, tokenizers, train.counts, strict=True)
        },
        notes=[
            f"the {column} is tokenised already: tokens are split at spaces"
            for column, config in zip(columns, schema.tokenizers, strict=True)
            if isinstance(config, WhitespaceConfig)
        ],
    )


def _describe_shortage(report: DataReport, dev_size: int) -> list[str]:
    """Return a note if fewer examples were held out than the settings ask for."""
    held_out, unit = report.num_dev, report.unit
    if held_out >= dev_size:
        return []
    if not held_out and report.num_train < LARGEST_DEV_PART:
        return [
            f"warning: nothing is held out to validate on, because the data have only {counted(report.num_train, unit)} and "
            f"{LARGEST_DEV_PART} are needed to hold one out; add more (each line is one {unit}), or set data.dev to a file of "
            "your own"
        ]
    return [
        f"{counted(held_out, unit)} held out, not {dev_size:,} (data.dev_size), because at most one in {LARGEST_DEV_PART} may "
        f"be held out, and held-out {unit}s must share {report.apart} with training; to validate on a file of your own, set "
        "data.dev"
    ]
