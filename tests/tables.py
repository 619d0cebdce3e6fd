"""Read whole tables of pairs and of labelled texts."""

from pathlib import Path

from regard.config import DataConfig, LabelledDataConfig
from regard.text.labelled.readers import read_labelled
from regard.text.pairs.readers import read_pairs
from regard.text.report import ReadingReport


def pairs(path: Path, **settings: object) -> tuple[list[tuple[str, str]], ReadingReport]:
    """Read all pairs of a file with some settings of `data`."""
    report = ReadingReport()
    chunks = list(read_pairs([path], DataConfig(**settings), report))
    return [pair for chunk in chunks for pair in zip(chunk.source, chunk.target, strict=True)], report


def labelled(path: Path, **settings: object) -> tuple[list[tuple[str, str]], ReadingReport]:
    """Read all texts of a file, each with its one label, with some settings of `data`."""
    report = ReadingReport()
    chunks = list(read_labelled([path], LabelledDataConfig(**settings), report))
    return [(text, label) for chunk in chunks for text, (label,) in zip(chunk.text, chunk.labels, strict=True)], report
