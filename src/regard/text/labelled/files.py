"""Which files hold the labelled texts, and in what form."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.files.formats import ENDINGS, detect_table, ending
from regard.text.files.opening import check_file

WHAT = "labelled texts"


@dataclass(frozen=True)
class LabelFile:
    """A file, and the label of all its texts where it is one for each label."""

    path: Path
    label: str = ""


def find_files(paths: Sequence[str | Path], data: LabelledDataConfig) -> tuple[list[LabelFile], str]:
    """The files that were named or lie in the folders that were named, and how to read them.

    Args:
        paths: One table, one text file for each label, or a folder of such files.
        data: `format`.

    Returns:
        The files, in the order of their labels where they have some, and the format.

    Raises:
        DataError: If there is none, one cannot be read, or their number does not fit the format.
    """
    if not paths:
        raise DataError("no file was given, expected one of labelled texts, one text file for each label, or a folder of these")
    files = [check_file(file, WHAT) for path in paths for file in _expand(Path(path))]
    shown = ", ".join(map(str, files[:4])) + (", …" if len(files) > 4 else "")
    if data.format not in ("auto", "text"):
        if len(files) > 1:
            raise DataError(f"{len(files)} files were given with data.format '{data.format}', expected one: {shown}")
        return [LabelFile(files[0])], data.format
    if data.format == "auto":
        if len(files) == 1:
            return [LabelFile(files[0])], detect_table(files[0], data.encoding)
        tables = [file for file in files if ending(file) in ENDINGS]
        if tables:
            raise DataError(
                f"{len(files)} files were given, and {tables[0].name} is named like a table; expected one table, or one text "
                f"file for each label (then say data.format text): {shown}"
            )
    if len(files) == 1:
        raise DataError(f"{shown}: data.format is 'text', which needs one file for each label, and one was given")
    labels = _name_labels(files)
    order = sorted(range(len(files)), key=lambda place: labels[place])
    return [LabelFile(files[place], labels[place]) for place in order], "text"


def _expand(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise DataError(f"{path}: holds no files, expected one text file for each label")
    return files


def _name_labels(files: Sequence[Path]) -> list[str]:
    """The files' names without their endings; or the endings, where only these differ (`polarity.pos`, `polarity.neg`)."""
    names = [file.name.removesuffix(".gz").removesuffix(".GZ") for file in files]
    stems = [name.rpartition(".")[0] or name for name in names]
    if len(set(stems)) == len(stems):
        return stems
    if len(set(stems)) == 1:
        endings = [name.rpartition(".")[2] for name in names]
        if len(set(endings)) == len(endings):
            return endings
    twice = next(stem for stem in stems if stems.count(stem) > 1)
    both = [str(file) for file, stem in zip(files, stems, strict=True) if stem == twice]
    raise DataError(f"{both[0]} and {both[1]} both stand for the label '{twice}', expected one file for each label; join them")
