"""Find the files of labelled texts: a table, a text file for each label, or a folder of texts for each label."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import isdir, isfile  # unlike those of Path, they return False for links to themselves and hidden folders
from pathlib import Path

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.text.opening import check_file, without_gz
from regard.text.rows import detect_format, find_table

WHAT = "labelled texts"
# Beginning of the names of files that describe other files.
_ABOUT = re.compile(r"(readme|licen[sc]e)(?![a-z])", re.IGNORECASE)
_SHOWN = 8
# Names of folders that the operating system writes. They are treated like hidden ones.
_SYSTEM = frozenset(("__MACOSX", "lost+found"))
# Names of folders with texts that have no label, such as IMDB's `unsup`.
_UNLABELLED = frozenset(("unsup", "unsupervised", "unlabeled", "unlabelled"))
# Names of folders that hold the parts of a data set, and not the texts of a label.
_PARTS = frozenset(("train", "training", "test", "testing", "dev", "devel", "val", "valid", "validation", "eval"))


@dataclass(frozen=True)
class LabelFile:
    """A file or a folder, and the label of its texts if each label has its own file or folder."""

    path: Path
    label: str = ""

    @cached_property
    def texts(self) -> list[Path]:
        """Files of a folder, each of which holds one text; for a file, the file itself."""
        return _scan(self.path)[0] if self.path.is_dir() else [self.path]

    @cached_property
    def texts_with_content(self) -> list[Path]:
        return [text for text in self.texts if text.stat().st_size]


@dataclass(frozen=True)
class LabelFiles:
    """The files or folders of labelled texts."""

    files: list[LabelFile]
    """One table; or the files or folders, in order of their labels."""
    form: str
    """Format of a table; `text` for a text file for each label, or `folders` for a folder for each label."""


def find_files(paths: Sequence[str | Path], data: LabelledDataConfig) -> LabelFiles:
    """Find the files or folders to read, and their format.

    Args:
        paths: One table, one text file for each label, a folder of such files, or folders of texts.
        data: Settings, of which `format` is used.
    """
    given = [Path(path) for path in paths]
    if not given:
        raise DataError("no file was given, expected one table, one text file for each label, or a folder of such files")
    if len(given) == 1 and isdir(given[0]):
        given = _look_into(given[0])
    if all(map(isdir, given)) and data.format in ("auto", "text"):
        _check_folders(given)
        return LabelFiles(_in_order(given, [folder.name or folder.resolve().name for folder in given]), "folders")
    files = [check_file(file, WHAT) for file in given]
    shown, count = ", ".join(map(str, files[:4])) + (", …" if len(files) > 4 else ""), len(files)
    if count == 1 and data.format == "text":
        raise DataError(f"{shown}: data.format is 'text', which needs one file for each label, but only one was given")
    if count == 1:
        return LabelFiles([LabelFile(files[0])], data.format if data.format != "auto" else detect_format(files[0]))
    if data.format not in ("auto", "text"):
        raise DataError(f"{count} files were given with data.format '{data.format}', expected one: {shown}")
    if data.format == "auto" and (table := find_table(files)):
        raise DataError(
            f"{count} files were given, and {table.name} is named like a table; expected one table, or one text file for each "
            f"label (then set data.format to text): {shown}"
        )
    return LabelFiles(_in_order(files, _name_labels(files)), "text")


def _look_into(folder: Path) -> list[Path]:
    """Return the files of a folder, or the folders in it; if it has both, an error asks for those to read."""
    files, folders = _scan(folder)
    files = [file for file in files if not _ABOUT.match(file.name)]
    files = [file for file in files if file.suffix.lower() != ".md"] or files
    if not files and not folders:
        raise DataError(f"{folder}: holds no files to read, expected one text file or one folder for each label")
    labels = [inner for inner in folders if inner.name.casefold() not in _UNLABELLED]
    if (files and folders) or len(labels) < len(folders):
        named = labels if len(labels) > 1 else files or folders
        raise DataError(
            f"{folder}: holds {', '.join(path.name for path in [*folders, *files][:_SHOWN])}, not all of which are labels; "
            "name the table, or the files or folders with the texts of a label, as in --data.train "
            f"{named[0]},{named[-1]}"
        )
    return files or folders


def _check_folders(folders: Sequence[Path]) -> None:
    """Raise an error if folders don't look like labels with one text per file."""
    if all(folder.name.casefold() in _PARTS for folder in folders):
        raise DataError(
            f"{', '.join(map(str, folders))}: these folders are named like the parts of a data set and not like labels; give "
            "one of them as data.train and another as data.dev"
        )
    for folder in folders:
        texts, inner = _scan(folder)
        table = find_table(texts)
        if inner or table or not texts:
            odd = f"a folder, {inner[0].name}" if inner else f"a table, {table.name}" if table else "no files"
            raise DataError(
                f"{folder}: holds {odd}, but is read as the texts of the label '{folder.name}'; expected files with one text "
                "each. To read one text file for each label, name these files one by one"
            )


def _scan(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files and the folders in a folder in order of their names, without hidden ones and those of the system."""
    try:
        with os.scandir(folder) as entries:
            visible = sorted(Path(entry) for entry in entries if entry.name[0] != "." and entry.name not in _SYSTEM)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}); check its permissions") from error
    return list(filter(isfile, visible)), list(filter(isdir, visible))


def _in_order(paths: Sequence[Path], labels: Sequence[str]) -> list[LabelFile]:
    """Return files or folders with their labels, in order of the labels, which must all be different."""
    label, count = Counter(labels).most_common(1)[0]
    if count > 1:
        both = [str(path) for path, other in zip(paths, labels, strict=True) if other == label]
        raise DataError(
            f"{both[0]} and {both[1]} both have the label '{label}', expected one file or folder for each label; join them"
        )
    return [LabelFile(path, label) for label, path in sorted(zip(labels, paths, strict=True))]


def _name_labels(files: Sequence[Path]) -> list[str]:
    """Return the files' names without their endings, or their endings if only these differ (`polarity.pos`, `polarity.neg`)."""
    names = [without_gz(file.name) for file in files]
    stems = [name.rpartition(".")[0] or name for name in names]
    endings = [name.rpartition(".")[2] for name in names]
    return endings if len(set(stems)) == 1 and len(set(endings)) == len(endings) else stems
