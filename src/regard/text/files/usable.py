"""A check that enough lines of a file are usable."""

from collections.abc import Sequence
from pathlib import Path

from regard.errors import DataError
from regard.text.files.advise import advise_encoding
from regard.text.files.encoding import is_utf8
from regard.text.files.report import NOT_DATA, NOT_UNICODE, NUL, UNUSABLE, ReadingReport

_FEWEST = 10
"""A file with fewer lines is judged as if it had this number, so that one of five lines may be unusable."""


class SkipLimit:
    """A check that raises an error if more lines of a file are unusable than `data.allow_skipped` allows.

    Duplicate pairs, blank lines, a header, and pairs beyond `max_tokens` or `max_pairs` do not count as unusable.
    """

    def __init__(self, allowed: float, encoding: str, report: ReadingReport) -> None:
        self._allowed, self._encoding, self._report = allowed, encoding, report
        self._read = self._unusable = self._undecodable = 0

    def check(self, paths: Sequence[Path], *, whole: bool = True) -> None:
        """Check the lines that were read since the last call.

        If no line of all files was kept, only the report's advice is set, because the reader then raises its own error.

        Args:
            paths: The files that were read since then.
            whole: If True, these are all files.

        Raises:
            DataError: If too many lines are unusable.
        """
        report = self._report
        read, unusable = report.read - report.count(NOT_DATA), report.count(UNUSABLE)
        undecodable = report.count((NOT_UNICODE, NUL))
        new, new_unusable, new_undecodable = read - self._read, unusable - self._unusable, undecodable - self._undecodable
        self._read, self._unusable, self._undecodable = read, unusable, undecodable
        if new_undecodable * 100 > new:
            report.advice = self._advise(paths)
        if new_unusable <= self._allowed * max(new, _FEWEST) or (whole and not report.kept):
            return
        share = f"{new_unusable / new:.0%}"
        raise DataError(
            f"{' + '.join(map(str, paths))}: {new_unusable:,} of {new:,} {report.unit} ({share}) are unusable, but "
            f"data.allow_skipped allows {self._allowed:.0%}. {report.advice}{' ' if report.advice else ''}Fix the file, or set "
            f"data.allow_skipped to {_enough(new_unusable / new)} to use the other {report.unit}. The report:\n"
            f"{_without_advice(report)}"
        )

    def _advise(self, paths: Sequence[Path]) -> str:
        if self._encoding != "auto" and not is_utf8(self._encoding):
            return f"Is data.encoding right? It is {self._encoding}."
        found = (advise_encoding(path) for path in paths)
        return next(filter(None, found), "Is the file in another encoding? Set data.encoding, or convert it to UTF-8.")


def _enough(share: float) -> str:
    return f"{min(int(share * 100) + 1, 100) / 100:g}"


def _without_advice(report: ReadingReport) -> str:
    return "\n".join(row for row in report.render().split("\n") if not report.advice or row.strip() != report.advice)
