"""Texts out of text files, with a report on every one that is none."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import TextDataConfig
from regard.errors import DataError
from regard.text.files.clean import is_unicode, normalise
from regard.text.files.encoding import show_encoding
from regard.text.files.lines import OVER_LONG_LINE, line_blocks
from regard.text.files.opening import check_file
from regard.text.files.report import EMPTY_LINE, NOT_UNICODE, NUL, OVER_LONG, ReadingReport
from regard.text.files.show import quoted
from regard.text.files.usable import SkipLimit

WHAT = "text"
_LONGEST_PARAGRAPH = 1 << 20
"""Characters of a paragraph; a longer one is taken in parts, so that a file without empty lines cannot fill the memory."""


@dataclass(frozen=True)
class TextChunk:
    """Some texts, in the file's order; lists of one length."""

    text: list[str]
    line: list[int]
    """Number of the line each text begins on in its file, from 1."""

    @property
    def columns(self) -> tuple[list[str]]:
        """The texts."""
        return (self.text,)


def read_texts(paths: Sequence[str | Path], data: TextDataConfig, report: ReadingReport) -> Iterator[TextChunk]:
    """Read texts, chunk by chunk, so that memory does not grow with the file.

    Texts come stripped and in the Unicode normal form that `data.normalization` asks for; nothing else about them is changed.

    Args:
        paths: Text files, one after the other.
        data: `unit`, `encoding`, `allow_skipped`, `normalization`.
        report: Filled while reading: every text is either kept or skipped with a reason.

    Raises:
        DataError: If a file is missing, empty or damaged; or, at the end, if no usable text was found, or a larger share of a
            file than `data.allow_skipped` is unusable. The message names the file.
    """
    files = [check_file(path, WHAT) for path in paths]
    report.files, report.form, report.kind = [str(file) for file in files], "text", "texts"
    paragraphs = data.unit == "paragraph"
    report.unit = "paragraphs" if paragraphs else "lines"
    report.encoding = show_encoding(files[0], data.encoding)
    limit = SkipLimit(data.allow_skipped, data.encoding, report)
    for file in files:
        blocks = ((lines, range(first, first + len(lines))) for first, lines in line_blocks(file, data.encoding))
        for texts, numbers in _paragraphs(blocks) if paragraphs else blocks:
            chunk = _clean(texts, numbers, data.normalization, report)
            if chunk.text:
                report.first = report.first or quoted(chunk.text[0], mark='"')
                yield chunk
        limit.check([file], whole=len(files) == 1)
    if not report.kept:
        raise DataError(f"no usable text in {' + '.join(report.files)}; what became of its {report.unit}:\n{report.render()}")


def _paragraphs(blocks: Iterable[tuple[list[str], range]]) -> Iterator[tuple[list[str], list[int]]]:
    """The lines up to an empty one, joined; where each began. An over-long line ends a paragraph, and stands alone."""
    waiting: list[str] = []
    size = begin = 0
    for lines, numbers in blocks:
        texts, begins = [], []
        for line, number in zip(lines, numbers, strict=True):
            stripped, alone = line.strip(), line is OVER_LONG_LINE
            if waiting and (not stripped or alone or size > _LONGEST_PARAGRAPH):
                texts.append(" ".join(waiting))
                begins.append(begin)
                waiting, size = [], 0
            if alone:
                texts.append(line)
                begins.append(number)
            elif stripped:
                begin = begin if waiting else number
                waiting.append(stripped)
                size += len(stripped)
        yield texts, begins
    if waiting:
        yield [" ".join(waiting)], [begin]


def _clean(texts: Sequence[str], numbers: Sequence[int], form: str, report: ReadingReport) -> TextChunk:
    """Strip and normalise, and leave out what is no text, with its reason in the report."""
    report.read += len(texts)
    over_long = [text is OVER_LONG_LINE for text in texts]
    cleaned = normalise(texts, form)
    reasons = [OVER_LONG if far else _find_fault(text) for text, far in zip(cleaned, over_long, strict=True)]
    kept = [place for place, reason in enumerate(reasons) if reason is None]
    for place, reason in enumerate(reasons):
        if reason is not None:
            report.skip(reason, numbers[place])
    report.kept += len(kept)
    return TextChunk([cleaned[place] for place in kept], [numbers[place] for place in kept])


def _find_fault(text: str) -> str | None:
    if not text:
        return EMPTY_LINE
    if "\0" in text:
        return NUL
    return None if is_unicode(text) else NOT_UNICODE
