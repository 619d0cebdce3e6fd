"""From files of sentence pairs to encoded corpora: read, drop repeats, split, learn vocabularies, encode, keep.

The file is read once, as a stream; its texts wait on disk, and in memory stand 24 bytes a pair until the split is made and as
many for the encoded corpora. The result lies in a cache and is found there when nothing has changed.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from regard import disk
from regard.config import DataConfig, TokenizersConfig, WhitespaceConfig
from regard.errors import BundleError, DataError
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
    reading_settings,
)
from regard.text.files.report import ReadingReport
from regard.text.pairs.encoded import EncodedCorpus, EncodedWriter
from regard.text.pairs.readers import read_pairs
from regard.text.pairs.report import BEHIND_MAX_PAIRS, REPEAT, TOO_MANY_TOKENS, Overlap, PreparationReport
from regard.text.split import Split, first_occurrences, hash_pairs, split_pairs
from regard.text.spool import Spool, spool_texts
from regard.text.tokenizers.counts import SymbolCounts
from regard.text.tokenizers.resolve import resolve_kinds
from regard.text.tokenizers.reused import digests, unknown_notes
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizers

CHUNK_PAIRS = 4096
Chosen = npt.NDArray[np.bool_]
Pairs = tuple[list[str], list[str]]


@dataclass(frozen=True)
class PreparedData:
    """All that training needs of the data."""

    train: EncodedCorpus
    dev: EncodedCorpus
    """May be empty."""
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    """The same object as the source's when joint."""
    tokenizers: TokenizersConfig
    """The tokenizers' settings, with a fixed kind where they said `auto`."""
    report: PreparationReport
    fingerprint: str
    """Hash of the files' bytes."""


def prepare(
    data: DataConfig,
    tokenizers: TokenizersConfig,
    *,
    seed: int,
    progress: bool = True,
    learned: tuple[Tokenizer, Tokenizer] | None = None,
) -> PreparedData:
    """Make encoded corpora and tokenizers from files of pairs, or find them made.

    Args:
        data: The files, how to read them, and which pairs count.
        tokenizers: How texts become symbols. They are learned from the training pairs alone.
        seed: Governs which pairs are held out.
        progress: Show bars on standard error.
        learned: Tokenizers of a model that training starts from, which are used as they are instead of new ones.

    Returns:
        The corpora, memory-mapped from the cache; the same files and settings give the same bytes.

    Raises:
        DataError: If a file cannot be read or holds no usable pair, or the cache cannot be written.
        ConfigError: If the tokenizers' settings contradict each other or need what is not installed.
    """
    if not data.train:
        raise DataError("no training data: data.train names no file, expected one file of pairs or two parallel files")
    hashes = hash_files(data.train + data.dev)
    fingerprint = fingerprint_of(hashes)
    cache = cache_folder(data)
    tokenizers = _resolve(data, tokenizers)
    entry = cache / _entry_name(data, tokenizers, seed, hashes, learned)

    def make(work: Path) -> None:
        with late_bars(shown=progress) as bars:
            _Preparation(data, tokenizers, seed, work, bars, learned).run()
        check_unchanged(data.train + data.dev, hashes)

    return find_or_make(entry, lambda: _load(entry, data, tokenizers, fingerprint), make)


class _Preparation:
    """One run through all the steps; a class, since they share the folder and the bars."""

    def __init__(
        self,
        data: DataConfig,
        tokenizers: TokenizersConfig,
        seed: int,
        work: Path,
        bars: Progress,
        learned: tuple[Tokenizer, Tokenizer] | None,
    ) -> None:
        self.data, self.tokenizers, self.seed, self.work, self.bars = data, tokenizers, seed, work, bars
        self.learned = learned

    def run(self) -> None:
        """Leave `train.arrow`, `dev.arrow`, the tokenizers and `report.json` in the folder."""
        train_report = ReadingReport()
        spool = self._read(self.data.train, train_report)
        split = self._split(spool, train_report)
        chosen = _mask(split.train, len(spool))
        source, target = self.learned or self._learn(spool, chosen, len(split.train))
        dev_report, overlap = None, None
        dev_spool, dev_chosen = spool, _mask(split.dev, len(spool))
        if self.data.dev:
            dev_report = ReadingReport()
            dev_spool = self._read(self.data.dev, dev_report)
            dev_chosen = np.ones(len(dev_spool), np.bool_)
            overlap = _find_overlap(spool, split, dev_spool)
        counts = (SymbolCounts(source), SymbolCounts(target))
        train_tokens = self._encode(spool, chosen, (source, target), "train.arrow", train_report, counts)
        self._encode(dev_spool, dev_chosen, (source, target), "dev.arrow", dev_report or train_report)
        train, dev = EncodedCorpus(self.work / "train.arrow"), EncodedCorpus(self.work / "dev.arrow")
        if not len(train):
            raise DataError(
                f"no pair is left to train on:\n{train_report.render()}\nIs data.max_tokens ({self.data.max_tokens}) too low?"
            )
        report = PreparationReport(
            train=train_report,
            dev=dev_report,
            train_pairs=len(train),
            dev_pairs=len(dev),
            source_size=source.size,
            target_size=target.size,
            train_tokens=train_tokens,
            overlap=overlap,
            notes=self._notes(len(dev)),
            symbols={"source": counts[0].summary(), "target": counts[1].summary()},
        )
        report.notes += unknown_notes(report.symbols) if self.learned else []
        self._finish(source, target, report)
        for path in {spool.path, dev_spool.path}:
            path.unlink()

    def _learn(self, spool: Spool, chosen: Chosen, total: int) -> tuple[Tokenizer, Tokenizer]:
        texts = ((sources, targets) for _, (sources, targets) in spool.chunks(chosen, CHUNK_PAIRS))
        shown = self._show(texts, "counting words", total)
        return build_tokenizers(shown, self.tokenizers, self.data, progress=not self.bars.disable)

    def _read(self, paths: tuple[str, ...], report: ReadingReport) -> Spool:
        chunks = read_pairs(paths, self.data, report)
        task = self.bars.add_task("reading", total=None)

        def shown() -> Iterator[tuple[Pairs, list[int]]]:
            for chunk in chunks:
                self.bars.advance(task, len(chunk.line))
                yield (chunk.source, chunk.target), chunk.line

        spool = spool_texts(shown(), ("source", "target"), self.work / f"spool{task}.arrow")
        self.bars.update(task, total=len(spool))
        return spool

    def _split(self, spool: Spool, report: ReadingReport) -> Split:
        """The split in positions of the spool; what it leaves out is in the report."""
        places = np.arange(len(spool))
        if self.data.drop_repeats:
            first = first_occurrences(hash_pairs(*spool.hashes))
            report.withdraw(REPEAT, spool.lines[~first], int((~first).sum()))
            places = places[first]
        dev_size = 0 if self.data.dev else self.data.dev_size
        split = split_pairs(
            spool.hashes[0][places],
            spool.hashes[1][places],
            dev_size=dev_size,
            max_pairs=self.data.max_pairs,
            seed=self.seed,
        )
        split = Split(places[split.train], places[split.dev], places[split.rest])
        report.withdraw(BEHIND_MAX_PAIRS, spool.lines[split.rest], len(split.rest))
        return split

    def _encode(
        self,
        spool: Spool,
        chosen: Chosen,
        pair: tuple[Tokenizer, Tokenizer],
        name: str,
        report: ReadingReport,
        counts: Sequence[SymbolCounts] = (),
    ) -> tuple[int, int]:
        """Write the chosen pairs that are not too long, count their symbols, and return their numbers of tokens."""
        source_tokens = target_tokens = 0
        with EncodedWriter(self.work / name) as writer:
            chunks = spool.chunks(chosen, CHUNK_PAIRS)
            task = self.bars.add_task(f"encoding {name.split('.')[0]}", total=int(chosen.sum()))
            for positions, (sources, targets) in chunks:
                encoded = [tokenizer.encode_batch(texts) for tokenizer, texts in zip(pair, (sources, targets), strict=True)]
                lengths = np.stack([np.diff(offsets) for _, offsets in encoded])
                fits = lengths.max(axis=0) <= self.data.max_tokens
                if not fits.all():
                    report.withdraw(TOO_MANY_TOKENS, spool.lines[positions[~fits]], int((~fits).sum()))
                    encoded = [_keep(ids, offsets, fits) for ids, offsets in encoded]
                    sources, targets = _filter(sources, fits), _filter(targets, fits)
                writer.write(encoded[0], encoded[1], sources, targets)
                for count, (ids, _) in zip(counts, encoded, strict=False):
                    count.add(ids)
                source_tokens += len(encoded[0][0]) + len(sources)
                target_tokens += len(encoded[1][0]) + len(targets)
                self.bars.advance(task, len(positions))
        return source_tokens, target_tokens

    def _notes(self, dev_pairs: int) -> list[str]:
        notes = [
            f"the {side} is tokenised already: tokens are split at spaces"
            for side, config in (("source", self.tokenizers.source), ("target", self.tokenizers.target))
            if isinstance(config, WhitespaceConfig)
        ]
        wanted = self.data.dev_size
        if self.data.dev or dev_pairs >= wanted:
            return notes
        return [
            *notes,
            f"{dev_pairs:,} pairs were held out and not {wanted:,} (data.dev_size): never more than a tenth, and none that "
            "share a source or a target with training. A file of their own can be given with data.dev.",
        ]

    def _show(self, chunks: Iterable[Pairs], what: str, total: int) -> Iterator[Pairs]:
        task = self.bars.add_task(what, total=total)
        for chunk in chunks:
            self.bars.advance(task, len(chunk[0]))
            yield chunk

    def _finish(self, source: Tokenizer, target: Tokenizer, report: PreparationReport) -> None:
        if source is target:
            source.save(self.work / "tokenizer.json")
        else:
            source.save(self.work / "tokenizer.source.json")
            target.save(self.work / "tokenizer.target.json")
        plain = json.dumps(report.to_dict(), ensure_ascii=False, indent=1)
        disk.write(self.work / "report.json", plain)


def _resolve(data: DataConfig, tokenizers: TokenizersConfig) -> TokenizersConfig:
    """The settings with fixed kinds, by the first pairs of the file: before it is read whole, since the cache goes by them."""

    def head() -> Iterator[Pairs]:
        for chunk in read_pairs(data.train, data, ReadingReport()):
            yield chunk.source, chunk.target

    source, target = resolve_kinds(tokenizers, head())
    return replace(tokenizers, source=source, target=target)


def _entry_name(
    data: DataConfig,
    tokenizers: TokenizersConfig,
    seed: int,
    hashes: Sequence[str],
    learned: tuple[Tokenizer, Tokenizer] | None,
) -> str:
    settings = {
        "data": reading_settings(data),
        "endings": [endings(data.train), endings(data.dev)],
        "tokenizers": asdict(tokenizers),
        "seed": seed,
        **digests(learned),
    }
    return entry_name(settings, (tokenizers.source.kind, tokenizers.target.kind), hashes)


def _load(entry: Path, data: DataConfig, tokenizers: TokenizersConfig, fingerprint: str) -> PreparedData | None:
    """The entry, or None where there is no whole one."""
    if not is_whole(entry):
        return None
    try:
        if (entry / "tokenizer.json").exists():
            source = target = Tokenizer.load(entry / "tokenizer.json")
        else:
            source, target = (Tokenizer.load(entry / f"tokenizer.{side}.json") for side in ("source", "target"))
        report = PreparationReport.from_dict(json.loads((entry / "report.json").read_text(encoding="utf-8")))
        train, dev = EncodedCorpus(entry / "train.arrow"), EncodedCorpus(entry / "dev.arrow")
    except (DataError, BundleError, OSError, ValueError, KeyError, TypeError):
        return None
    # The entry may have been made from the same bytes under another name.
    report.train.files = list(data.train)
    if report.dev:
        report.dev.files = list(data.dev)
    return PreparedData(train, dev, source, target, tokenizers, report, fingerprint)


def _find_overlap(spool: Spool, split: Split, dev: Spool) -> Overlap:
    source, target = (hashes[split.train] for hashes in spool.hashes)
    pairs = np.isin(hash_pairs(*dev.hashes), hash_pairs(source, target))
    return Overlap(
        pairs=int(pairs.sum()),
        sources=int(np.isin(dev.hashes[0], source).sum()),
        targets=int(np.isin(dev.hashes[1], target).sum()),
    )


def _mask(positions: npt.NDArray[np.int64], size: int) -> Chosen:
    mask = np.zeros(size, np.bool_)
    mask[positions] = True
    return mask


def _keep(
    ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], fits: Chosen
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The rows that fit, in the same flat form."""
    lengths = np.diff(offsets)
    return ids[np.repeat(fits, lengths)], np.r_[0, np.cumsum(lengths[fits])]


def _filter(texts: list[str], fits: Chosen) -> list[str]:
    return [text for text, fit in zip(texts, fits.tolist(), strict=True) if fit]
