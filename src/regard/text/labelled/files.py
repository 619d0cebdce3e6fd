"""Find the files of labelled texts: a table, a text file for each label, or a folder of texts for each label."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.files.formats import ENDINGS, detect_table, ending
from regard.text.files.opening import check_file

WHAT = "labelled texts"
_ABOUT = ("README", "LICENSE", "LICENCE")
"""Beginnings of the names of files that describe other files, in upper case."""
_PARTS = frozenset(("train", "training", "test", "testing", "dev", "devel", "val", "valid", "validation", "eval"))
"""Names of folders that hold the parts of a data set, and not the texts of a label."""


@dataclass(frozen=True)
class LabelFile:
    """A file or a folder, and the label of its texts if there is one of them for each label."""

    path: Path
    label: str = ""

    def texts(self) -> list[Path]:
        """Return the files of a folder, each of which holds one text; for a file, the file itself."""
        return _scan(self.path)[0] if self.path.is_dir() else [self.path]


@dataclass(frozen=True)
class LabelFiles:
    """The files or folders of labelled texts."""

    files: list[LabelFile]
    """One table; or the files or folders, in order of their labels."""
    form: str
    """Format of a table, `text` for one text file for each label, or `folders` for one folder for each label."""
    ignored: list[str]
    """Files and folders beside them that are not read."""


def find_files(paths: Sequence[str | Path], data: LabelledDataConfig) -> LabelFiles:
    """Find the files or folders to read, and their format.

    Args:
        paths: One table, one text file for each label, a folder of such files, or folders of texts.
        data: Settings, of which `format` and `encoding` are used.

    Raises:
        DataError: If no file is given, a file cannot be read, or the number of files does not fit the format.
    """
    if not paths:
        raise DataError("no file was given, expected one table, one text file for each label, or a folder of such files")
    if data.format in ("auto", "text") and (found := _find_folders([Path(path) for path in paths])):
        return found
    expanded = [_expand(Path(path)) for path in paths]
    files = [check_file(file, WHAT) for kept, _ in expanded for file in kept]
    ignored = [name for _, names in expanded for name in names]
    shown = ", ".join(map(str, files[:4])) + (", …" if len(files) > 4 else "")
    if data.format not in ("auto", "text"):
        if len(files) > 1:
            raise DataError(f"{len(files)} files were given with data.format '{data.format}', expected one: {shown}")
        return LabelFiles([LabelFile(files[0])], data.format, ignored)
    if data.format == "auto":
        if len(files) == 1:
            return LabelFiles([LabelFile(files[0])], detect_table(files[0], data.encoding), ignored)
        if table := _find_table(files):
            raise DataError(
                f"{len(files)} files were given, and {table.name} is named like a table; expected one table, or one text "
                f"file for each label (then set data.format to text): {shown}"
            )
    if len(files) == 1:
        raise DataError(f"{shown}: data.format is 'text', which needs one file for each label, but only one was given")
    return LabelFiles(_in_order(files, _name_labels(files)), "text", ignored)


def _find_folders(paths: Sequence[Path]) -> LabelFiles | None:
    """Return the folders of texts among or in the given folders; None if there is no folder for each label.

    Raises:
        DataError: If the folders don't look like labels with one text per file.
    """
    files: list[Path] = []
    folders = list(paths)
    if len(paths) == 1 and paths[0].is_dir():
        files, folders = _scan(paths[0])
        folders = [folder for folder in folders if any(_scan(folder))]
    if len(folders) < 2 or not all(folder.is_dir() for folder in folders):
        return None
    labels = [folder.name or folder.resolve().name for folder in folders]
    if all(label.casefold() in _PARTS for label in labels):
        raise DataError(
            f"{', '.join(map(str, folders))}: these folders are named like the parts of a data set and not like labels; give "
            "one of them as data.train and another as data.dev"
        )
    for folder in folders:
        texts, inner = _scan(folder)
        if inner or not texts:
            found = f"a folder, {inner[0].name}" if inner else "no files"
            raise DataError(
                f"{folder}: holds {found}, but is read as the texts of the label '{folder.name}'; expected files with one text "
                "each. To read one text file for each label, name these files one by one"
            )
        if table := _find_table(texts):
            raise DataError(
                f"{table}: is named like a table, but its folder is read as a label; expected files with one text each"
            )
    return LabelFiles(_in_order(folders, labels), "folders", list(map(str, files)))


def _expand(path: Path) -> tuple[list[Path], list[str]]:
    """Return a file, or the files in a folder except those that describe the others, and the names of what is left out."""
    if not path.is_dir():
        return [path], []
    files, folders = _scan(path)
    kept = [file for file in files if not file.name.upper().startswith(_ABOUT)]
    kept = [file for file in kept if file.suffix.lower() != ".md"] or kept
    ignored = [*(file for file in files if file not in kept), *folders]
    if not kept:
        inside = f", but folders such as {folders[0].name}" if folders else f" but {files[0].name}" if files else ""
        advice = "; write the texts of each folder to one file, with one text per line" if folders else ""
        raise DataError(f"{path}: holds no files{inside}, expected one text file for each label{advice}")
    return kept, [str(entry) for entry in ignored]


def _scan(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files and the folders in a folder in order of their names, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            visible = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}); check its permissions") from error
    return [Path(entry) for entry in visible if entry.is_file()], [Path(entry) for entry in visible if entry.is_dir()]


def _find_table(files: Iterable[Path]) -> Path | None:
    return next((file for file in files if ending(file) in ENDINGS), None)


def _in_order(paths: Sequence[Path], labels: Sequence[str]) -> list[LabelFile]:
    """Return files or folders with their labels, in order of the labels.

    Raises:
        DataError: If two have the same label.
    """
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        both = [str(path) for path, label in zip(paths, labels, strict=True) if label == twice]
        raise DataError(
            f"{both[0]} and {both[1]} both stand for the label '{twice}', expected one file for each label; join them"
        )
    return [LabelFile(path, label) for label, path in sorted(zip(labels, paths, strict=True))]


def _name_labels(files: Sequence[Path]) -> list[str]:
    """Return the files' names without their endings.

    If only the endings differ (`polarity.pos`, `polarity.neg`), return the endings.
    """
    names = [file.name.removesuffix(".gz").removesuffix(".GZ") for file in files]
    stems = [name.rpartition(".")[0] or name for name in names]
    endings = [name.rpartition(".")[2] for name in names]
    return endings if len(set(stems)) == 1 and len(set(endings)) == len(endings) else stems
