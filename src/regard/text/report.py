"""Counts of the lines that were read, kept and skipped, by reason, and a check that enough of them are usable."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from regard.errors import one_line
from regard.plurals import counted
from regard.text import reasons

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FIRST_LINES = 5
"""Maximum number of line numbers kept for each reason."""

PARALLEL = "parallel text"
"""Form of two parallel files, whose line numbers belong together."""


@dataclass
class Skipped:
    """Number of lines that were skipped for one reason, and the first of these lines."""

    count: int = 0
    lines: list[int] = field(default_factory=list)
    """Numbers of the first skipped lines, rows or files, counted from 1."""


@dataclass
class ReadingReport:
    """Report on reading one file, or several that belong together: `read == kept + sum of all skipped counts`."""

    files: list[str] = field(default_factory=list)
    form: str = ""
    """How the files were read, such as `tab-separated`."""
    columns: list[str] = field(default_factory=list)
    """Names or numbers of the columns that were read; empty for files without columns."""
    unit: str = "lines"
    """Unit of counting: `lines`; `rows` if a row can span lines; `paragraphs`; or `files` if each holds one text."""
    read: int = 0
    kept: int = 0
    kind: str = "pairs"
    """Kind of examples that are kept: `pairs` or `texts`."""
    skipped: dict[str, Skipped] = field(default_factory=dict)
    encoding: str = "UTF-8"
    """Encoding of the files."""
    first: str = ""
    """The first kept pair or text as it was read, shortened and in quotation marks."""
    advice: str = ""
    """Advice on how the files were read, such as on skipped lines, and the names of files that were not read; may be empty."""

    hashes: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """SHA-256 hash of each file, computed while it was read; it is not saved."""

    def skip(self, reason: str, line: int) -> None:
        """Count a skipped line."""
        entry = self.skipped.setdefault(reason, Skipped())
        entry.count += 1
        if len(entry.lines) < FIRST_LINES:
            entry.lines.append(line)

    @property
    def locates(self) -> bool:
        """Whether a line number identifies a line, as in one file or two parallel files."""
        return len(self.files) < 2 or self.form == PARALLEL

    def withdraw(self, reason: str, lines: "Sequence[int] | npt.NDArray[np.int64]") -> None:
        """Count examples that the reader kept but a later step leaves out, given by their ascending line numbers."""
        if not len(lines):
            return
        entry = self.skipped.setdefault(reason, Skipped())
        entry.count += len(lines)
        self.kept -= len(lines)
        if self.locates:
            entry.lines += map(int, lines[: FIRST_LINES - len(entry.lines)])

    @property
    def num_skipped(self) -> int:
        """Total number of skipped lines."""
        return sum(entry.count for entry in self.skipped.values())

    def count(self, chosen: Iterable[str]) -> int:
        """Return the number of lines in all files that were skipped for one of the chosen reasons."""
        return sum(entry.count for reason, entry in self.skipped.items() if reason.partition(reasons.IN_FILE)[0] in chosen)

    def render(self) -> str:
        """Return the report as a few lines for a terminal."""
        columns = f", columns {' and '.join(self.columns)}" if self.columns else ""
        read, kept = (
            counted(number, noun.removesuffix("s")) for number, noun in ((self.read, self.unit), (self.kept, self.kind))
        )
        counts = f"{read} read, {kept} kept"
        rows = [f"{one_line(' + '.join(self.files))} ({self.form}{columns}): {counts}"]
        width = max((len(f"{entry.count:,}") for entry in self.skipped.values()), default=0)
        for reason, entry in sorted(self.skipped.items(), key=lambda item: -item[1].count):
            more = ", …" if entry.count > len(entry.lines) else ""
            place = "row" if self.form in ("Parquet", "a JSON array") else "file" if self.unit == "files" else "line"
            places = f" ({place}{'s' * (entry.count > 1)} {', '.join(map(str, entry.lines))}{more})"
            shown = reason.replace(reasons.NOT_UNICODE, f"not valid {self.encoding}")
            rows.append(f"  skipped {entry.count:>{width},}: {shown}{places if entry.lines else ''}")
        if self.advice:
            rows.append(f"  {self.advice}")
        if self.first:
            rows.append(f"  first {self.kind.removesuffix('s')}: {self.first}")
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        plain = asdict(self)
        del plain["hashes"]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ReadingReport":
        """Build a report from the result of `to_dict`."""
        skipped = {reason: Skipped(**entry) for reason, entry in plain["skipped"].items()}
        return cls(**{**plain, "skipped": skipped})
