"""Logs of a run: a CSV file, and TensorBoard's files."""

import csv
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from regard import disk
from regard.training.folder import write_error

Row = dict[str, float | int]

_COLUMNS = ("step", "epoch", "learning_rate")
"""First columns of the logs of every run."""


class Logs:
    """The logs of a run, to which rows are appended.

    After a resume, the logs continue from the rows of the checkpoint, so that there are no duplicates.
    """

    def __init__(self, folder: Path, history: list[Row], columns: tuple[str, ...], *, tensorboard: bool) -> None:
        self._path = folder / "metrics.csv"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            kept = StringIO()
            before = csv.DictWriter(kept, names := (*_COLUMNS, *columns))
            before.writeheader()
            before.writerows(history)
            disk.write(self._path, kept.getvalue())
            self._file: TextIO = disk.open_log(self._path)
            self._board = _open_board(folder, history) if tensorboard else None
            self._rows = csv.DictWriter(self._file, names)
        except OSError as error:
            with suppress(AttributeError):  # if not even the first file could be opened
                self.close()
            raise write_error(self._path, error) from error

    def write(self, row: Row) -> None:
        """Write one row; missing columns stay empty.

        Raises:
            TrainingError: If a file cannot be written, for example on a full disk.
        """
        try:
            self._rows.writerow(row)
            self._file.flush()
            if self._board is not None:
                for name, value in row.items():
                    if name != "step":
                        self._board.add_scalar(name, value, row["step"])
                self._board.flush()
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Close the files."""
        with suppress(OSError):  # the disk is full, which was reported; `resume` writes the missing rows again
            self._file.close()
        if self._board is not None:
            with suppress(OSError):
                self._board.close()


class NoLogs(Logs):
    """Logs of a process that writes no logs, because the first process writes them."""

    def __init__(self) -> None: ...

    def write(self, row: Row) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _open_board(folder: Path, history: list[Row]) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    # Rows that an interrupted run wrote after its last checkpoint are removed.
    return SummaryWriter(str(folder), purge_step=int(history[-1]["step"]) + 1 if history else 0)
