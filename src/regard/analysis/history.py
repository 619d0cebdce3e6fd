"""The logged metrics of a run (`logs/metrics.csv`) as columns, and their curves."""

import csv
import math
from collections.abc import Sequence
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
    """Return the metrics of a run, finished or not, as columns by name, with None where a row has NaN or no value.

    The columns are `step` (number of updates), `epoch`, `learning_rate`, `seconds` of training without validations, `train_nll`
    (mean loss in nats since the previous row), and from validations `dev_nll` and the task's scores.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BundleError(f"there is no folder {folder}; expected one that `regard train` made")
    path = folder / "logs" / "metrics.csv"
    if not path.is_file():
        advice = "expected the folder of one run (of a cross-validation: of one fold), with its logs"
        raise DataError(f"{folder} has no curves: {path} is missing; {advice}")
    try:
        text = read(folder, "logs/metrics.csv", largest=_LARGEST).decode()
        names, *rows = csv.reader(StringIO(text, newline="")) if text else [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is damaged: {error}; copy the run's logs again") from error
    if "step" not in names:
        raise DataError(f"{path} is not the metrics of a run: its first line has no column 'step'")
    if rows and len(rows[-1]) != len(names):  # a run that is still training may have written only a part of the last row
        rows.pop()
    columns: Columns = {name: [] for name in names}
    for number, row in enumerate(rows, 2):
        place = f"{path}:{number}"
        if len(row) != len(names):
            raise DataError(f"{place}: the row has {len(row)} values, expected {len(names)}; copy the run's logs again")
        for name, cell in zip(names, row, strict=True):
            try:
                value = float(cell) if cell else math.nan
            except ValueError as error:
                raise DataError(f"{place}: {name} is '{cell:.40}', expected a number; copy the run's logs again") from error
            columns[name].append(None if math.isnan(value) else value)
    return columns


def curves(
    folders: str | Path | Sequence[str | Path],
    path: str | Path | None = None,
    *,
    by: "By" = "update",
    columns: Sequence[str] = (),
    title: str | None = None,
) -> "Picture":
    """Draw the learning curves of one or several runs, finished or not.

    Args:
        folders: The folder of a run, or several folders, which are drawn in one picture with a legend.
        path: File to write the picture to, as .png, .svg or .pdf. If None, no file is written.
        by: Horizontal axis: `update`, `epoch`, or `minute` of training.
        columns: Columns of `logs/metrics.csv` to draw; `loss` means the losses of training and dev. If empty, the loss and
            every score of the dev set are drawn.
        title: Title of the picture.

    Returns:
        The picture, which a notebook shows.

    Raises:
        BundleError: If a folder is missing.
        DataError: If a folder has no metrics, they cannot be read, or the picture cannot be written.
        RequestError: If there is nothing to draw, a folder is given twice, or an argument is wrong.
    """
    from regard.viz.curves import draw

    runs: dict[str, Columns] = {}
    for folder in [folders] if isinstance(folders, str | Path) else folders:
        name = str(folder).rstrip("/") or str(folder)
        if name in runs:
            raise RequestError(f"curves: {name} is named twice; name each run once")
        runs[name] = read_metrics(folder)
    return draw(runs, path, by=by, columns=columns, title=title)
