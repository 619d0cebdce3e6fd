"""Write files, and read whole tables of pairs and of labelled texts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.config import DataConfig, LabelledDataConfig
from regard.errors import DataError
from regard.text.labelled.readers import read_labelled
from regard.text.pairs.readers import read_pairs
from regard.text.report import ReadingReport

Pairs = list[tuple[str, str]]
Labelled = list[tuple[str, tuple[str, ...]]]


def write(folder: Path, content: str | bytes, name: str = "x.tsv") -> Path:
    """Write a file, and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_all_pairs(*paths: Path, **settings: object) -> tuple[Pairs, ReadingReport, list[int]]:
    """Read all pairs of a file, or of two, with some settings of `data`; return them, the report and the line numbers."""
    report = ReadingReport()
    chunks = list(read_pairs(paths, DataConfig(**settings), report))
    found = [pair for chunk in chunks for pair in zip(chunk.source, chunk.target, strict=True)]
    assert report.kept == len(found)
    assert report.read == report.kept + report.num_skipped
    return found, report, [number for chunk in chunks for number in chunk.line]


def read_all_labelled(*paths: Path, **settings: object) -> tuple[Labelled, ReadingReport, list[int]]:
    """Read all labelled texts of files or folders; return texts with their labels, the report and the line numbers."""
    report = ReadingReport()
    chunks = list(read_labelled(paths, LabelledDataConfig(**settings), report))
    found = [pair for chunk in chunks for pair in zip(chunk.text, chunk.labels, strict=True)]
    assert report.kept == len(found)
    assert report.read == report.kept + report.num_skipped
    return found, report, [number for chunk in chunks for number in chunk.line]


def pairs(*paths: Path, **settings: object) -> tuple[Pairs, ReadingReport]:
    """Read all pairs of a file, or of two, with some settings of `data`."""
    return read_all_pairs(*paths, **settings)[:2]


def labelled(*paths: Path, **settings: object) -> tuple[Pairs, ReadingReport]:
    """Read all texts of a file, each with its one label, with some settings of `data`."""
    found, report, _ = read_all_labelled(*paths, **settings)
    return [(text, label) for text, (label,) in found], report


def refused(read: Callable[..., object], *paths: Path, **settings: object) -> str:
    """Return the message of the error that reading gives."""
    with pytest.raises(DataError) as caught:
        read(*paths, **settings)
    return str(caught.value)


def skipped(report: ReadingReport) -> dict[str, list[int]]:
    """Return the first lines that were skipped for each reason."""
    return {reason: entry.lines for reason, entry in report.skipped.items()}
