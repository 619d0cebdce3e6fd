"""From files of labelled texts to encoded corpora: read, drop repeats, split, learn a vocabulary, encode, keep.

As for pairs (`pairs/prepare.py`): the file is read once, as a stream, its texts wait on disk, and the result lies in a cache.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from regard import disk
from regard.config import AutoConfig, FixedTokenizerConfig, LabelledDataConfig, TokenizerConfig, WhitespaceConfig
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
from regard.text.labelled.collect import Collection, collect
from regard.text.labelled.encoded import LabelledCorpus, LabelledWriter, cut_rows
from regard.text.labelled.files import find_files
from regard.text.labelled.labels import Labels
from regard.text.labelled.readers import WHAT, LabelledChunk, read_labelled
from regard.text.labelled.report import LabelledReport
from regard.text.labelled.selection import Selection, check_dev_labels, number_as, select
from regard.text.split import LARGEST_DEV_PART
from regard.text.tokenizers.counts import SymbolCounts
from regard.text.tokenizers.resolve import resolve_kind
from regard.text.tokenizers.reused import digests, unknown_notes
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

CHUNK_TEXTS = 4096
LABELLED_VERSION = 4
"""Grows whenever the same file and settings would give another entry than before."""


@dataclass(frozen=True)
class LabelledData:
    """All that training needs of the data."""

    train: LabelledCorpus
    dev: LabelledCorpus
    """May be empty."""
    tokenizer: Tokenizer
    tokenizer_config: FixedTokenizerConfig
    """The tokenizer's settings, with a fixed kind where they said `auto`."""
    labels: Labels
    report: LabelledReport
    fingerprint: str
    """Hash of the files' bytes."""


def prepare_labelled(
    data: LabelledDataConfig,
    tokenizer: TokenizerConfig,
    *,
    seed: int,
    progress: bool = True,
    learned: tuple[Tokenizer, Labels] | None = None,
) -> LabelledData:
    """Make encoded corpora and a tokenizer from files of labelled texts, or find them made.

    Args:
        data: The files, how to read them, and which texts count.
        tokenizer: How texts become symbols. They are learned from the training texts alone.
        seed: Governs which texts are held out.
        progress: Show bars on standard error.
        learned: Tokenizer and labels of a model that training starts from. The tokenizer is used as it is; so are the labels if
            they include all labels of these texts.

    Returns:
        The corpora, memory-mapped from the cache; the same files and settings give the same bytes.

    Raises:
        DataError: If a file cannot be read or holds no usable text; if there is a single label, a label with a single text, or
            one in the dev files that training does not have; or if the cache cannot be written.
        ConfigError: If the tokenizer needs what is not installed.
    """
    if not data.train:
        raise DataError("no training data: data.train names no file, expected one of labelled texts")
    train, form = find_files(data.train, data)
    dev, dev_form = find_files(data.dev, data) if data.dev else ([], form)
    hashes = hash_files([str(file.path) for file in (*train, *dev)], WHAT)
    fixed = resolve_kind(tokenizer, (chunk.text for chunk in read_labelled(data.train, data, ReadingReport())))
    settings = {
        "labelled": LABELLED_VERSION,
        "data": reading_settings(data),
        "endings": [[form, dev_form], endings([str(file.path) for file in train]), endings([str(file.path) for file in dev])],
        "labels": [[file.label for file in files] for files in (train, dev)],
        "tokenizer": asdict(fixed),
        "seed": seed,
        **(digests((learned[0],)) | {"known": [learned[1].names, learned[1].multiple]} if learned else {}),
    }
    cache = cache_folder(data)
    entry = cache / entry_name(settings, (fixed.kind,), hashes)
    found = [[str(file.path) for file in files] for files in (train, dev)]

    def make(work: Path) -> None:
        with late_bars(shown=progress) as bars:
            _Preparation(data, fixed, isinstance(tokenizer, AutoConfig), seed, work, bars, learned).run()
        check_unchanged([str(file.path) for file in (*train, *dev)], hashes, WHAT)

    return find_or_make(entry, lambda: _load(entry, found, fixed, fingerprint_of(hashes)), make)


class _Preparation:
    """One run through all the steps; a class, since they share the folder and the bars."""

    def __init__(
        self,
        data: LabelledDataConfig,
        tokenizer: FixedTokenizerConfig,
        chosen_by_text: bool,
        seed: int,
        work: Path,
        bars: Progress,
        learned: tuple[Tokenizer, Labels] | None,
    ) -> None:
        self.data, self.tokenizer, self.chosen_by_text = data, tokenizer, chosen_by_text
        self.seed, self.work, self.bars = seed, work, bars
        self.learned = learned

    def run(self) -> None:
        """Leave `train.arrow`, `dev.arrow`, `tokenizer.json`, `labels.json` and `report.json` in the folder."""
        data, train_report = self.data, ReadingReport()
        whole = self._read(data.train, train_report)
        selection = select(whole, data, self.seed, train_report)
        label_counts = selection.train_counts
        if self.learned:
            whole, label_counts = number_as(whole, label_counts, self.learned[1])
        labels = Labels(tuple(whole.names), whole.multiple, tuple(label_counts))
        dev_report, overlap = None, None
        dev, dev_chosen = whole, selection.dev
        if data.dev:
            dev_report = ReadingReport()
            dev = check_dev_labels(self._read(data.dev, dev_report), labels, dev_report)
            dev_chosen = np.ones(len(dev.spool), np.bool_)
            overlap = int(np.isin(dev.spool.hashes[0], whole.spool.hashes[0][selection.train]).sum())
        tokenizer = self.learned[0] if self.learned else self._learn(whole, selection)
        counts = SymbolCounts(tokenizer)
        train_tokens, train_cut = self._encode(whole, selection.train, tokenizer, labels, "train.arrow", counts)
        _, dev_cut = self._encode(dev, dev_chosen, tokenizer, labels, "dev.arrow")
        dev_counts = dev.labels.take(np.flatnonzero(dev_chosen)).counts(len(labels))
        report = LabelledReport(
            train=train_report,
            dev=dev_report,
            train_texts=int(selection.train.sum()),
            dev_texts=int(dev_chosen.sum()),
            vocabulary_size=tokenizer.size,
            train_tokens=train_tokens,
            train_counts=dict(zip(labels.names, labels.counts, strict=True)),
            dev_counts=dict(zip(labels.names, dev_counts.tolist(), strict=True)),
            truncated=train_cut + dev_cut,
            overlap=overlap,
            symbols={"text": counts.summary()},
        )
        report.notes = self._notes(report, selection)
        report.notes += unknown_notes(report.symbols) if self.learned else []
        self._finish(tokenizer, labels, report)
        for path in {whole.spool.path, dev.spool.path}:
            path.unlink()

    def _learn(self, whole: Collection, selection: Selection) -> Tokenizer:
        texts = (texts for _, (texts,) in whole.spool.chunks(selection.train, CHUNK_TEXTS))
        return build_tokenizer(
            self._show(texts, "counting words", int(selection.train.sum())),
            self.tokenizer,
            language=self.data.language,
            normalization=self.data.normalization,
            progress=not self.bars.disable,
        )

    def _read(self, paths: tuple[str, ...], report: ReadingReport) -> Collection:
        chunks = read_labelled(paths, self.data, report)
        task = self.bars.add_task("reading", total=None)

        def shown() -> Iterator[LabelledChunk]:
            for chunk in chunks:
                self.bars.advance(task, len(chunk.line))
                yield chunk

        found = collect(shown(), self.work / f"spool{task}.arrow")
        self.bars.update(task, total=len(found.spool))
        return found

    def _encode(
        self,
        texts: Collection,
        chosen: npt.NDArray[np.bool_],
        tokenizer: Tokenizer,
        labels: Labels,
        name: str,
        counts: SymbolCounts | None = None,
    ) -> tuple[int, int]:
        """Write the chosen texts, count their symbols, and return their number of tokens and the number of truncated texts."""
        tokens = num_cut = 0
        task = self.bars.add_task(f"encoding {name.split('.')[0]}", total=int(chosen.sum()))
        with LabelledWriter(self.work / name, num_labels=len(labels), multiple=labels.multiple) as writer:
            for positions, (part,) in texts.spool.chunks(chosen, CHUNK_TEXTS):
                rows, cut = cut_rows(*tokenizer.encode_batch(part), self.data.max_tokens)
                own = texts.labels.take(positions)
                writer.write(rows, (own.flat, own.offsets), part)
                tokens += len(rows[0])
                if counts is not None:
                    counts.add(rows[0])
                num_cut += int(cut.sum())
                self.bars.advance(task, len(positions))
        return tokens, num_cut

    def _notes(self, report: LabelledReport, selection: Selection) -> list[str]:
        data, notes = self.data, []
        if isinstance(self.tokenizer, WhitespaceConfig) and self.chosen_by_text:
            notes.append("the text is tokenised already: tokens are split at spaces")
        if report.truncated:
            notes.append(
                f"texts of which only the first {data.max_tokens:,} tokens are read (data.max_tokens): {report.truncated:,}"
            )
        if selection.contradictory:
            notes.append(f"texts that stand there again with another label, all kept: {selection.contradictory:,}")
        if not data.dev and not data.folds and report.dev_texts < data.dev_size:
            notes.append(
                f"{report.dev_texts:,} texts were held out and not {data.dev_size:,} (data.dev_size): never more than one in "
                f"{LARGEST_DEV_PART}. A file of their own can be given with data.dev."
            )
        return notes

    def _show(self, chunks: Iterable[Sequence[str]], what: str, total: int) -> Iterator[Sequence[str]]:
        task = self.bars.add_task(what, total=total)
        for chunk in chunks:
            self.bars.advance(task, len(chunk))
            yield chunk

    def _finish(self, tokenizer: Tokenizer, labels: Labels, report: LabelledReport) -> None:
        tokenizer.save(self.work / "tokenizer.json")
        for name, plain in (("labels", labels.to_dict()), ("report", report.to_dict())):
            disk.write(self.work / f"{name}.json", json.dumps(plain, ensure_ascii=False, indent=1))


def _load(entry: Path, files: list[list[str]], tokenizer: FixedTokenizerConfig, fingerprint: str) -> LabelledData | None:
    """The entry, or None where there is no whole one."""
    if not is_whole(entry):
        return None
    try:
        learned = Tokenizer.load(entry / "tokenizer.json")
        labels = Labels.from_dict(json.loads((entry / "labels.json").read_text(encoding="utf-8")))
        report = LabelledReport.from_dict(json.loads((entry / "report.json").read_text(encoding="utf-8")))
        train, dev = LabelledCorpus(entry / "train.arrow"), LabelledCorpus(entry / "dev.arrow")
    except (DataError, BundleError, OSError, ValueError, KeyError, TypeError):
        return None
    # The entry may have been made from the same bytes under another name.
    report.train.files = files[0]
    if report.dev:
        report.dev.files = files[1]
    return LabelledData(train, dev, learned, tokenizer, labels, report, fingerprint)
