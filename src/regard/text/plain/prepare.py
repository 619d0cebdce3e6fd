"""From text files to encoded corpora: read, drop repeats, split, learn a vocabulary, encode, keep.

As for pairs (`pairs/prepare.py`): files are read once, as a stream, their texts wait on disk, and the result lies in a cache.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from regard import disk
from regard.config import AutoConfig, FixedTokenizerConfig, TextDataConfig, TokenizerConfig, WhitespaceConfig
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
from regard.text.files.report import BEYOND_MAX_TEXTS, ReadingReport
from regard.text.plain.encoded import TextCorpus, TextWriter, cut_blocks
from regard.text.plain.readers import WHAT, read_texts
from regard.text.plain.report import REPEATED, TextReport
from regard.text.split import LARGEST_DEV_PART, first_occurrences, split_pairs
from regard.text.spool import Spool, spool_texts
from regard.text.tokenizers.counts import SymbolCounts
from regard.text.tokenizers.resolve import resolve_kind
from regard.text.tokenizers.reused import digests, unknown_notes
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

CHUNK_TEXTS = 4096
TEXT_VERSION = 2
"""Grows whenever the same file and settings would give another entry than before."""

Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TextData:
    """All that training needs of the data."""

    train: TextCorpus
    dev: TextCorpus
    """May be empty."""
    tokenizer: Tokenizer
    tokenizer_config: FixedTokenizerConfig
    """The tokenizer's settings, with a fixed kind where they said `auto`."""
    report: TextReport
    fingerprint: str
    """Hash of the files' bytes."""


def prepare_texts(
    data: TextDataConfig,
    tokenizer: TokenizerConfig,
    *,
    seed: int,
    progress: bool = True,
    learned: Tokenizer | None = None,
) -> TextData:
    """Make encoded corpora and a tokenizer from text files, or find them made.

    Args:
        data: The files, how to read them, and which texts count.
        tokenizer: How texts become symbols. They are learned from the training texts alone.
        seed: Governs which texts are held out.
        progress: Show bars on standard error.
        learned: Tokenizer of a model that training starts from, which is used as it is instead of a new one.

    Returns:
        The corpora, memory-mapped from the cache; the same files and settings give the same bytes.

    Raises:
        DataError: If a file cannot be read or holds no usable text, or the cache cannot be written.
        ConfigError: If the tokenizer needs what is not installed.
    """
    if not data.train:
        raise DataError("no training data: data.train names no file, expected a text file")
    hashes = hash_files(data.train + data.dev, WHAT)
    fixed = resolve_kind(tokenizer, (chunk.text for chunk in read_texts(data.train, data, ReadingReport())))
    settings = {
        "texts": TEXT_VERSION,
        "data": reading_settings(data),
        "files_of": [len(data.train), len(data.dev)],
        "endings": [endings(data.train), endings(data.dev)],
        "tokenizer": asdict(fixed),
        "seed": seed,
        **digests(None if learned is None else (learned,)),
    }
    cache = cache_folder(data)
    entry = cache / entry_name(settings, (fixed.kind,), hashes)

    def make(work: Path) -> None:
        with late_bars(shown=progress) as bars:
            _Preparation(data, fixed, isinstance(tokenizer, AutoConfig), seed, work, bars, learned).run()
        check_unchanged(data.train + data.dev, hashes, WHAT)

    return find_or_make(entry, lambda: _load(entry, data, fixed, fingerprint_of(hashes)), make)


class _Preparation:
    """One run through all the steps; a class, since they share the folder and the bars."""

    def __init__(
        self,
        data: TextDataConfig,
        tokenizer: FixedTokenizerConfig,
        chosen_by_text: bool,
        seed: int,
        work: Path,
        bars: Progress,
        learned: Tokenizer | None,
    ) -> None:
        self.data, self.tokenizer, self.chosen_by_text = data, tokenizer, chosen_by_text
        self.seed, self.work, self.bars = seed, work, bars
        self.learned = learned

    def run(self) -> None:
        """Leave `train.arrow`, `dev.arrow`, `tokenizer.json` and `report.json` in the folder."""
        data, train_report = self.data, ReadingReport()
        spool = self._read(data.train, train_report)
        train, held_out = self._select(spool, train_report)
        dev_report, overlap = None, None
        dev_spool, dev = spool, held_out
        if data.dev:
            dev_report = ReadingReport()
            dev_spool = self._read(data.dev, dev_report)
            dev = np.ones(len(dev_spool), np.bool_)
            overlap = int(np.isin(dev_spool.hashes[0], spool.hashes[0][train]).sum())
        tokenizer = self.learned or self._learn(spool, train)
        counts = SymbolCounts(tokenizer)
        train_tokens, train_cut = self._encode(spool, train, tokenizer, "train.arrow", counts)
        dev_tokens, dev_cut = self._encode(dev_spool, dev, tokenizer, "dev.arrow")
        report = TextReport(
            train=train_report,
            dev=dev_report,
            train_texts=int(train.sum()),
            dev_texts=int(dev.sum()),
            vocabulary_size=tokenizer.size,
            train_tokens=train_tokens,
            dev_tokens=dev_tokens,
            overlap=overlap,
            symbols={"text": counts.summary()},
        )
        report.notes = self._notes(report.dev_texts, train_cut + dev_cut)
        report.notes += unknown_notes(report.symbols) if self.learned else []
        tokenizer.save(self.work / "tokenizer.json")
        plain = json.dumps(report.to_dict(), ensure_ascii=False, indent=1)
        disk.write(self.work / "report.json", plain)
        for path in {spool.path, dev_spool.path}:
            path.unlink()

    def _learn(self, spool: Spool, chosen: Chosen) -> Tokenizer:
        texts = (texts for _, (texts,) in spool.chunks(chosen, CHUNK_TEXTS))
        return build_tokenizer(
            self._show(texts, "counting words", int(chosen.sum())),
            self.tokenizer,
            language=self.data.language,
            normalization=self.data.normalization,
            progress=not self.bars.disable,
        )

    def _read(self, paths: tuple[str, ...], report: ReadingReport) -> Spool:
        chunks = read_texts(paths, self.data, report)
        task = self.bars.add_task("reading", total=None)

        def shown() -> Iterator[tuple[list[list[str]], list[int]]]:
            for chunk in chunks:
                self.bars.advance(task, len(chunk.line))
                yield [chunk.text], chunk.line

        spool = spool_texts(shown(), ("text",), self.work / f"spool{task}.arrow")
        self.bars.update(task, total=len(spool))
        return spool

    def _select(self, spool: Spool, report: ReadingReport) -> tuple[Chosen, Chosen]:
        """Which texts train and which are held out; what is left out of both is in the report."""
        # Of several files, a line's number would not say where it stands.
        lines = spool.lines if len(report.files) == 1 else np.zeros(0, np.int64)
        places = np.arange(len(spool))
        if self.data.drop_repeats:
            first = first_occurrences(spool.hashes[0])
            report.withdraw(REPEATED, lines[~first] if len(lines) else lines, int((~first).sum()))
            places = places[first]
        hashes = spool.hashes[0][places]
        dev_size = 0 if self.data.dev else self.data.dev_size
        split = split_pairs(hashes, hashes, dev_size=dev_size, max_pairs=self.data.max_texts, seed=self.seed)
        rest = places[split.rest]
        report.withdraw(BEYOND_MAX_TEXTS, lines[rest] if len(lines) else lines, len(rest))
        return _mask(places[split.train], len(spool)), _mask(places[split.dev], len(spool))

    def _encode(
        self, spool: Spool, chosen: Chosen, tokenizer: Tokenizer, name: str, counts: SymbolCounts | None = None
    ) -> tuple[int, int]:
        """Write the chosen texts, count their symbols, and return the numbers of predicted tokens and of truncated texts."""
        tokens = num_cut = 0
        task = self.bars.add_task(f"encoding {name.split('.')[0]}", total=int(chosen.sum()))
        with TextWriter(self.work / name) as writer:
            for positions, (part,) in spool.chunks(chosen, CHUNK_TEXTS):
                ids, offsets = tokenizer.encode_batch(part)
                blocks, _ = cut_blocks(ids, offsets, self.data.max_tokens)
                writer.write(blocks)
                tokens += len(ids) + len(part)
                if counts is not None:
                    counts.add(ids)
                num_cut += int((np.diff(offsets) >= self.data.max_tokens).sum())
                self.bars.advance(task, len(positions))
        return tokens, num_cut

    def _notes(self, dev_texts: int, num_cut: int) -> list[str]:
        data, notes = self.data, []
        if isinstance(self.tokenizer, WhitespaceConfig) and self.chosen_by_text:
            notes.append("the text is tokenised already: tokens are split at spaces")
        if num_cut:
            notes.append(f"texts that were cut into blocks of {data.max_tokens:,} tokens (data.max_tokens): {num_cut:,}")
        if not data.dev and dev_texts < data.dev_size:
            notes.append(
                f"{dev_texts:,} texts were held out and not {data.dev_size:,} (data.dev_size): never more than one in "
                f"{LARGEST_DEV_PART}. A file of their own can be given with data.dev."
            )
        return notes

    def _show(self, chunks: Iterable[Sequence[str]], what: str, total: int) -> Iterator[Sequence[str]]:
        task = self.bars.add_task(what, total=total)
        for chunk in chunks:
            self.bars.advance(task, len(chunk))
            yield chunk


def _load(entry: Path, data: TextDataConfig, tokenizer: FixedTokenizerConfig, fingerprint: str) -> TextData | None:
    """The entry, or None where there is no whole one."""
    if not is_whole(entry):
        return None
    try:
        learned = Tokenizer.load(entry / "tokenizer.json")
        report = TextReport.from_dict(json.loads((entry / "report.json").read_text(encoding="utf-8")))
        train, dev = TextCorpus(entry / "train.arrow"), TextCorpus(entry / "dev.arrow")
    except (DataError, BundleError, OSError, ValueError, KeyError, TypeError):
        return None
    # The entry may have been made from the same bytes under another name.
    report.train.files = list(data.train)
    if report.dev:
        report.dev.files = list(data.dev)
    return TextData(train, dev, learned, tokenizer, report, fingerprint)


def _mask(positions: npt.NDArray[np.int64], size: int) -> Chosen:
    mask = np.zeros(size, np.bool_)
    mask[positions] = True
    return mask
