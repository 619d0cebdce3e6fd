"""What became of every line that was read: kept, or skipped with its reason and the first few line numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FIRST_LINES = 5
"""How many line numbers are kept for each reason."""

EMPTY_LINE = "empty line"
EMPTY_SOURCE = "empty source"
EMPTY_TARGET = "empty target"
TOO_FEW_COLUMNS = "too few columns"
TOO_MANY_COLUMNS = "too many columns"
HEADER = "header"
COLUMN_NUMBERS = "a line of column numbers"
NOT_UNICODE = "not valid UTF-8"
IN_FILE = " ("
"""Separator between a reason and the name of the file that it is counted for."""
NUL = "holds a NUL character"
OVER_LONG = "over-long line"
EMPTY_TEXT = "empty text"
EMPTY_LABEL = "empty label"
MISSING_LABEL = "missing label: NaN, N/A, null or None"
LONG_LABEL = "a label too long to be one"
REPEATED_TEXT = "exact repeat of an earlier text with the same label"
BEYOND_MAX_TEXTS = "beyond max_texts"

UNUSABLE = (
    *(EMPTY_SOURCE, EMPTY_TARGET, TOO_FEW_COLUMNS, TOO_MANY_COLUMNS, NOT_UNICODE, NUL, OVER_LONG),
    *(EMPTY_TEXT, EMPTY_LABEL, MISSING_LABEL, LONG_LABEL),
)
"""Reasons that show a problem of the file: a file with many such lines is probably not in the format that it is read as."""
NOT_DATA = (EMPTY_LINE, HEADER, COLUMN_NUMBERS)
"""Reasons of lines that hold no data."""


@dataclass
class Skipped:
    """How often one reason applied, and where first."""

    count: int = 0
    lines: list[int] = field(default_factory=list)
    """The first few line numbers, from 1."""


@dataclass
class ReadingReport:
    """What was read from one file, or from several that belong together.

    Always `read == kept + the sum of all skipped counts` once reading is over.
    """

    files: list[str] = field(default_factory=list)
    form: str = ""
    """How the files were read, such as `tab-separated`."""
    columns: list[str] = field(default_factory=list)
    """Names or numbers of the columns that were read; empty for files without."""
    unit: str = "lines"
    """What is counted: `lines`, or `rows` where one can span lines or there are none."""
    read: int = 0
    kept: int = 0
    kind: str = "pairs"
    """What is kept of them: `pairs`, or `texts` with labels."""
    skipped: dict[str, Skipped] = field(default_factory=dict)
    encoding: str = "UTF-8"
    """Encoding of the files."""
    first: str = ""
    """The first pair or text that was kept, as it was understood; shortened and in quotation marks."""
    advice: str = ""
    """Advice about skipped lines; empty if there is none."""

    def skip(self, reason: str, line: int) -> None:
        """Count one line that is not kept."""
        entry = self.skipped.setdefault(reason, Skipped())
        entry.count += 1
        if len(entry.lines) < FIRST_LINES:
            entry.lines.append(line)

    def withdraw(self, reason: str, lines: Iterable[int], count: int) -> None:
        """Count pairs that were kept by the reader and are left out by a later step.

        Args:
            reason: Why.
            lines: Line numbers, in order, of the first of them at least; zeros where they would not say in which file.
            count: How many in all.
        """
        if not count:
            return
        entry = self.skipped.setdefault(reason, Skipped())
        entry.count += count
        self.kept -= count
        for line in lines:
            if len(entry.lines) >= FIRST_LINES or not line:
                break
            entry.lines.append(int(line))

    @property
    def num_skipped(self) -> int:
        """All that was not kept."""
        return sum(entry.count for entry in self.skipped.values())

    def count(self, reasons: Iterable[str]) -> int:
        """Return the number of lines in all files that were skipped for one of the given reasons."""
        return sum(entry.count for reason, entry in self.skipped.items() if reason.partition(IN_FILE)[0] in reasons)

    def render(self) -> str:
        """The report as a few lines for a terminal."""
        columns = f", columns {' and '.join(self.columns)}" if self.columns else ""
        counts = f"{self.read:,} {self.unit} read, {self.kept:,} {self.kind} kept"
        rows = [f"{' + '.join(self.files)} ({self.form}{columns}): {counts}"]
        width = max((len(f"{entry.count:,}") for entry in self.skipped.values()), default=0)
        for reason, entry in sorted(self.skipped.items(), key=lambda item: -item[1].count):
            more = ", …" if entry.count > len(entry.lines) else ""
            place = "row" if self.form in ("Parquet", "a JSON array") else "line"
            places = f" ({place}{'s' * (entry.count > 1)} {', '.join(map(str, entry.lines))}{more})"
            shown = reason.replace(NOT_UNICODE, f"not valid {self.encoding}")
            rows.append(f"  skipped {entry.count:>{width},}: {shown}{places if entry.lines else ''}")
        if self.advice:
            rows.append(f"  {self.advice}")
        if self.first:
            rows.append(f"  first {self.kind.removesuffix('s')}: {self.first}")
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ReadingReport":
        """The report that `to_dict` was called on."""
        skipped = {reason: Skipped(**entry) for reason, entry in plain["skipped"].items()}
        return cls(**{**plain, "skipped": skipped})


WARN_OVERLAP = 0.1
"""Minimum share of the dev set in the training data for a warning."""


def warn_of_overlap(shared: int, total: int, what: str) -> list[str]:
    """Return a warning if a large share of the dev set is also in the training data; else an empty list.

    Args:
        shared: Number of dev examples that are also in the training data.
        total: Number of all dev examples.
        what: Kind of the examples: `pairs` or `texts`.
    """
    if not total or shared < max(WARN_OVERLAP * total, 1):
        return []
    part = (
        f"all {total:,} dev {what} are" if shared >= total else f"{shared:,} of {total:,} dev {what} ({shared / total:.0%}) are"
    )
    return [
        f"warning: {part} in the training data too, so validation shows what the model remembers, not what it has learned; "
        f"set data.dev to other files, or leave it empty to hold {what} out of the training data"
    ]
