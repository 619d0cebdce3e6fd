"""The preparation of data: read, drop duplicates, split, learn tokenizers, encode, cache and report.

The steps are the same for all kinds of data. A `DataSchema` describes the differences: the columns, the rows, and how rows are
split, encoded and counted. Each file is read once, as a stream, and hashed on the way. Texts are stored on disk; in memory, an
example takes about 24 bytes, for its line number and the hashes of its texts. The result is saved in a cache, under a name that
depends on the settings and on the hashes of the files, and reused if nothing has changed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic

import numpy as np
import pyarrow as pa
from rich.progress import Progress

from regard import disk
from regard.config import FixedTokenizerConfig, WhitespaceConfig
from regard.errors import BundleError, DataError
from regard.plurals import counted
from regard.text.bars import late_bars
from regard.text.cache import (
    cache_folder,
    endings,
    entry_name,
    file_sizes,
    fingerprint_of,
    hash_files,
    is_whole,
    prepared_settings,
    publish,
    workspace,
)
from regard.text.clean import Chunk
from regard.text.data_report import PreparationReport
from regard.text.mapped import MappedWriter
from regard.text.report import ReadingReport
from regard.text.schema import DataSchema, Part, Prepared, S
from regard.text.split import LARGEST_DEV_PART, Indices
from regard.text.spool import Texts
from regard.text.tokenizers.counts import SymbolCounts, digests, unknown_notes
from regard.text.tokenizers.tokenizer import Tokenizer

CHUNK_ROWS = 4096


def prepare_data(schema: DataSchema[Any], *, seed: int, progress: bool) -> Any:
    """Prepare data, or load it from the cache.

    Args:
        schema: The kind of data, with its settings.
        seed: Seed for choosing the held-out examples.
        progress: If True, show progress bars on standard error.

    Returns:
        An object of the schema's class `prepared`: the corpora, memory-mapped from the cache, with the tokenizers and the
        report. The same files and settings give the same bytes.

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
    settings = {
        "content": schema.content,
        "sizes": file_sizes(paths, schema.content),
        "data": prepared_settings(data),
        "endings": [endings(part) for part in files],
        "tokenizers": [asdict(config) for config in schema.tokenizers],
        "joint": schema.joint,
        "seed": seed,
        **digests(schema.learned),
        **schema.settings(),
    }
    cache, name = cache_folder(data), entry_name(settings, [config.kind for config in schema.tokenizers])
    # Only if there is an entry with these settings and sizes, the files are hashed before they are read.
    known = hash_files(paths, schema.content) if any(cache.glob(f"{name}-*")) else None
    if known and (found := _load(schema, cache / f"{name}-{fingerprint_of(known)[:16]}", known)):
        return found
    with workspace(cache) as work:
        with late_bars(shown=progress) as bars:
            read = _Preparation(schema, seed, work, bars).run()
        hashes = [read[path] if path in read else hash_files([path], schema.content)[0] for path in paths]
        if changed := next((path for path, old, new in zip(paths, known or hashes, hashes, strict=True) if old != new), ""):
            raise DataError(f"{changed} changed while it was read; start again when no program writes to it")
        entry = cache / f"{name}-{fingerprint_of(hashes)[:16]}"
        publish(work, entry)
    found = _load(schema, entry, hashes)
    if found is None:
        raise DataError(
            f"{entry}: prepared data was written but cannot be read back; check the disk, or set data.cache to another folder"
        )
    return found


def _load(schema: DataSchema[Any], entry: Path, hashes: Sequence[str]) -> Prepared[Any, Any] | None:
    """Load the prepared data from an entry of the cache; None for a missing or damaged entry."""
    if not is_whole(entry):
        return None
    try:
        prepared = schema.prepared(
            train=schema.corpus(entry / "train.arrow"),
            dev=schema.corpus(entry / "dev.arrow"),
            column_tokenizers=load_tokenizers(entry, schema.columns),
            column_configs=schema.tokenizers,
            report=schema.report_class.from_dict(read_json(entry / "report.json")),
            fingerprint=fingerprint_of(hashes),
            **schema.load(entry),
        )
    except (DataError, BundleError, OSError, ValueError, KeyError, TypeError):
        return None
    # The entry may have been made from the same bytes under other file names, so the reports get the current names.
    for report, given in zip((prepared.report.train, prepared.report.dev), (schema.files.train, schema.files.dev), strict=True):
        if report:
            report.files = schema.show_files(given)
    return prepared


class _Preparation(Generic[S]):
    """One run of all steps. It is a class, because the steps share the folder and the progress bars."""

    def __init__(self, schema: DataSchema[S], seed: int, work: Path, bars: Progress) -> None:
        self.schema, self.seed, self.work, self.bars = schema, seed, work, bars

    def run(self) -> dict[str, str]:
        """Run all steps, and write the corpora, the tokenizers, `report.json` and the files of `DataSchema.save`.

        Returns:
            The hashes of the files that were read, by their paths.
        """
        schema, data = self.schema, self.schema.files
        read, read_dev = ReadingReport(), ReadingReport()
        selection = schema.select(self._read(data.train, read), read, self.seed)
        train = Part("train", selection.spool, selection.train, read)
        tokenizers = schema.learned or self._learn(train)
        dev = Part("dev", selection.spool, selection.dev, read)
        if data.dev:
            spool = schema.match_dev(self._read(data.dev, read_dev), selection, read_dev)
            dev = Part("dev", spool, np.ones(len(spool), np.bool_), read_dev)
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
        return read.hashes | read_dev.hashes

    def _read(self, paths: tuple[str, ...], report: ReadingReport) -> S:
        chunks = self.schema.read(paths, report)
        task = self.bars.add_task("reading", total=None)

        def shown() -> Iterator[Chunk]:
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
