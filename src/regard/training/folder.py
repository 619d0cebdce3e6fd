"""A run's folder: its bundle, and beside it what is needed to go on.

    checkpoints/config.yaml           the settings; with this file, the folder holds a run
    checkpoints/run.json              what else the result depends on: the data's hash, the device, the threads
    checkpoints/last.ckpt             everything that an exact resume needs
    checkpoints/weights-00001200.ckpt weights of a validation that the final model may be made of: the best, or the last n
    logs/                             metrics.csv, and TensorBoard's files

Each file is written beside its place, flushed to the disk and renamed, so that at any moment it is whole: the old or the new.
"""

import errno
import io
import json
import os
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.bundle.bundle import FILES, WEIGHTS
from regard.config import AnyConfig, RunConfig
from regard.config.loading import read_config, render_config
from regard.disk import flush
from regard.errors import BundleError, ConfigError, RegardError, TrainingError


class RunFolder:
    """Reads and writes a run's folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"

    def holds_run(self) -> bool:
        """Whether a run, or a model, is in here."""
        return (self.checkpoints / "config.yaml").exists() or (self.path / WEIGHTS).exists()

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that must not be written to, before any work is done. Nothing is changed.

        Raises:
            ConfigError: If it holds a run and `overwrite` is False, holds something else, is a file, or cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"out is '{self.path}', which is a file; name a folder")
        if self.holds_run():
            if not overwrite:
                raise ConfigError(
                    f"out is '{self.path}', which already holds a run; name another folder, go on with "
                    f"`regard resume {self.path}`, or set overwrite to true to replace it"
                )
        elif self.path.exists() and any(self.path.iterdir()):
            raise ConfigError(f"out is '{self.path}', which holds files that are not a run's; name a new or an empty folder")
        there = next(parent for parent in (self.path, *self.path.absolute().parents) if parent.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"out is '{self.path}', but '{there}' cannot be written to; name another folder")

    def start(self, config: RunConfig, facts: dict[str, Any]) -> None:
        """Make the folder and begin a run in it, in place of the run that it may hold.

        Raises:
            TrainingError: If the folder cannot be written; then it is as if nothing had been tried.
        """
        made = next((p for p in (*reversed(self.path.absolute().parents), self.path.absolute()) if not p.exists()), None)
        try:
            self._clear()
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            self._write(self.checkpoints / "run.json", json.dumps(facts, indent=1).encode())
            self._write(self.checkpoints / "config.yaml", render_config(config).encode())
        except (OSError, RegardError) as error:
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)
            raise error if isinstance(error, RegardError) else write_error(self.path, error) from error

    def _clear(self) -> None:
        # The settings go first: without them nobody takes what is left of the old run for a run.
        (self.checkpoints / "config.yaml").unlink(missing_ok=True)
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.checkpoints, self.logs, *self.path.glob(".incoming*")):
            if folder.exists():
                shutil.rmtree(folder)

    def read_start(self) -> tuple[AnyConfig, dict[str, Any]]:
        """Read what `start` wrote.

        Raises:
            ConfigError: If the folder holds no run.
        """
        if not (self.checkpoints / "config.yaml").exists():
            what = "holds a model, but not the checkpoints of its run" if self.holds_run() else "holds no run"
            what = what if self.path.is_dir() else "is not a folder"
            raise ConfigError(f"cannot resume '{self.path}': it {what}; name the folder that `regard train` wrote to")
        try:
            facts = json.loads((self.checkpoints / "run.json").read_bytes())
        except (OSError, ValueError) as error:
            raise BundleError(f"cannot resume '{self.path}': checkpoints/run.json cannot be read ({error})") from error
        return read_config(self.checkpoints / "config.yaml"), facts

    def save_checkpoint(self, state: dict[str, Any], keep: Iterable[int]) -> None:
        """Replace the last checkpoint, and drop the weights of validations other than `keep`."""
        self._save(self.checkpoints / "last.ckpt", state)
        kept = {self._weights_path(step).name for step in keep}
        for path in self.checkpoints.glob("weights-*.ckpt"):
            if path.name not in kept:
                path.unlink()

    def has_checkpoint(self) -> bool:
        """Whether a checkpoint has been written."""
        return (self.checkpoints / "last.ckpt").exists()

    def load_checkpoint(self) -> dict[str, Any] | None:
        """Read the last checkpoint; None if the run was stopped before its first.

        Raises:
            BundleError: If it is damaged.
        """
        return self._load(self.checkpoints / "last.ckpt") if self.has_checkpoint() else None

    def save_weights(self, step: int, weights: dict[str, Tensor]) -> None:
        """Keep the weights of the validation after update number `step`."""
        self._save(self._weights_path(step), weights)

    def load_weights(self, step: int) -> dict[str, Tensor]:
        """Read weights that were kept.

        Raises:
            BundleError: If they are missing or damaged.
        """
        return self._load(self._weights_path(step))

    def _weights_path(self, step: int) -> Path:
        return self.checkpoints / f"weights-{step:08d}.ckpt"

    def _save(self, path: Path, value: Any) -> None:
        # Through memory: a disk that is full in the middle of torch.save ends in an error about its archive instead.
        buffer = io.BytesIO()
        torch.save(value, buffer)
        self._write(path, buffer.getbuffer())

    def _load(self, path: Path) -> Any:
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
            raise BundleError(
                f"cannot resume '{self.path}': {path.name} is missing or damaged ({_first_line(error)})"
            ) from error

    def _write(self, path: Path, content: bytes | memoryview) -> None:
        temporary = path.with_name(path.name + ".new")
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            flush(path.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> TrainingError:
    """Say what could not be written, why, and what is left."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return TrainingError(
            f"cannot write '{path}': the disk is full ({error.strerror}); what was written before is intact: "
            "make room and resume the run with `regard resume`"
        )
    return TrainingError(f"cannot write '{path}': {error.strerror or error}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
