"""The logged metrics of a run (`logs/metrics.csv`) as columns, and their curves."""

import csv
import math
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from regard.bundle.folder import read
from regard.errors import BundleError, DataError, RequestError

if TYPE_CHECKING:
    from regard.viz.curves import By
    from regard.viz.picture import Picture

_LARGEST = 1 << 28  # bytes, enough for about a million rows

Columns = dict[str, list[float | None]]


def read_metrics(folder: str | Path) -> Columns:
    """Read the metrics of a run, finished or not.

    Args:
        folder: The run's folder.

    Returns:
        The columns by name, with None where a row has NaN or no value: `step` (number of updates), `epoch`, `learning_rate`,
        `seconds` of training without validations, `train_nll` (mean loss in nats since the previous row), and from validations
        `dev_nll` and the task's scores. `bleu` and `chrf` are scores of greedy translations.

    Raises:
        BundleError: If there is no such folder, or the file is a link, has more than 256 MB, or cannot be read.
        DataError: If the folder has no metrics, or they are damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BundleError(f"there is no folder {folder}; expected one that `regard train` made")
    path = folder / "logs" / "metrics.csv"
    if not path.is_file():
        raise DataError(_no_metrics(folder, path))
    try:
        text = read(folder, "logs/metrics.csv", largest=_LARGEST).decode()
        return _columns(path, csv.reader(StringIO(text, newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is damaged: {error}; copy the run's logs again") from error


def _no_metrics(folder: Path, path: Path) -> str:
    inside = sorted(other.parent.parent.name for other in folder.glob("*/logs/metrics.csv"))
    if inside:
        return f"{folder} is not a run, but it contains folders of runs; name one or more of them, such as {folder / inside[0]}"
    if (folder / "model.safetensors").exists():
        return (
            f"{folder} holds a model without its logs ({path} is missing), so there are no curves to draw; copy the run's "
            "logs/ beside it, or run `regard info` to see its scores"
        )
    return f"{folder} is not a run: {path} is missing; expected a folder that `regard train` made"


def _columns(path: Path, rows: Iterator[list[str]]) -> Columns:
    names = next(rows, [])
    if "step" not in names:
        raise DataError(f"{path} is not the metrics of a run: its first line has no column 'step'")
    columns: Columns = {name: [] for name in names}
    number, last_row = 1, None
    for number, row in enumerate(rows, 2):
        if last_row is not None:
            _append(f"{path}:{number - 1}", columns, last_row)
        last_row = row
    # A run that is still training may have written only a part of the last row; such a row is skipped.
    if last_row is not None and len(last_row) == len(names):
        _append(f"{path}:{number}", columns, last_row)
    return columns


def _append(place: str, columns: Columns, row: list[str]) -> None:
    if len(row) != len(columns):
        raise DataError(f"{place}: the row has {len(row)} values, expected {len(columns)}; copy the run's logs again")
    for (name, values), text in zip(columns.items(), row, strict=True):
        try:
            value = float(text) if text else None
        except ValueError as error:
            raise DataError(f"{place}: {name} is '{text:.40}', expected a number; copy the run's logs again") from error
        values.append(None if value is not None and math.isnan(value) else value)


def curves(
    folders: str | Path | Sequence[str | Path],
    path: str | Path | None = None,
    *,
    by: "By" = "update",
    columns: Sequence[str] = (),
    title: str | None = None,
    dpi: float = 150,
) -> "Picture":
    """Draw the learning curves of one or several runs, finished or not.

    Args:
        folders: The folder of a run, or several folders, which are drawn in one picture with a legend.
        path: File to write the picture to, as .png, .svg or .pdf. If None, no file is written.
        by: Horizontal axis: `update`, `epoch`, or `minute` of training.
        columns: Columns of `logs/metrics.csv` to draw; `loss` means the losses of training and dev. If empty, the loss and
            every score of the dev set are drawn.
        title: Title of the picture.
        dpi: Pixels per inch.

    Returns:
        The picture, which a notebook shows.

    Raises:
        BundleError: If a folder is missing.
        DataError: If a folder has no metrics, they cannot be read, or the picture cannot be written.
        RequestError: If there is nothing to draw, a folder is given twice, or an argument is wrong.
    """
    from regard.viz.curves import draw

    named = [folders] if isinstance(folders, str | Path) else list(folders)
    names = [str(folder).rstrip("/") or str(folder) for folder in named]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"curves: {twice} is named twice; name each run once")
    runs = {name: read_metrics(folder) for name, folder in zip(names, named, strict=True)}
    return draw(runs, path, by=by, columns=columns, title=title, dpi=dpi)
