"""The folder of a run: its bundle, and the files that are needed to resume it.

    checkpoints/config.yaml           the settings; a folder with this file contains a run
    checkpoints/run.json              further facts that affect the result: hash of the data, device, threads, …; and checksums
    checkpoints/start.ckpt            the trained model that the run started from, if there is one
    checkpoints/last.ckpt             all data for an exact resume
    checkpoints/previous.ckpt         the previous checkpoint, in case the last one is damaged
    checkpoints/weights-00001200.ckpt weights of a validation that the final model may use: the best, and the last n
    checkpoints/lock                  exists while a process writes here, and names the process
    checkpoints/replacing             exists while another run replaces this one
    logs/                             metrics.csv, and TensorBoard's files

Other files belong to the user, and are not changed.

n is `training.average_last`, and 00001200 is the number of the update. Except for the logs and the lock, each file is written
under another name, synchronised and renamed, so that at any moment either the old or the complete new file exists. Each file
*.ckpt ends with its checksum; run.json contains its own checksum and that of config.yaml.
"""

import hashlib
import io
import os
import pickle
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import disk
from regard.bundle.bundle import WEIGHTS, file_names
from regard.bundle.load import read_config_file
from regard.config import RunConfig
from regard.config.loading import render_config
from regard.disk import FULL, holder_of, locked, seal_of, unseal
from regard.errors import BundleError, ConfigError, TrainingError
from regard.training.facts import parse_facts, render_facts

_LAST, _PREVIOUS, _LOCK, _REPLACING = "last.ckpt", "previous.ckpt", "lock", "replacing"
_START = "start.ckpt"
_CHECKPOINT = re.compile(r"(config\.yaml|run\.json|start\.ckpt|last\.ckpt|previous\.ckpt|weights-\d{8,}\.ckpt)(\.new)?")
_LOG = re.compile(r"metrics\.csv|events\.out\.tfevents\..*")
_BEFORE_IT_BEGAN = frozenset((_LOCK, _START, f"{_START}.new", "run.json", "run.json.new", "config.yaml.new"))
_LARGEST = 1 << 20  # bytes of run.json and config.yaml
_COPY_OR_ANEW = "restore an intact copy of the file, or start a new run"


class RunFolder:
    """The folder of a run, with functions that read and write it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"
        self._last_is_good = True
        self._kept: list[int] = []

    def holds_run(self) -> bool:
        """Return whether the folder contains a run or a model."""
        return (self.checkpoints / "config.yaml").exists() or (self.path / WEIGHTS).exists()

    def check_free(self, *, overwrite: bool) -> None:
        """Raise an error for a folder that must not be written to, before any work is done. Nothing is changed.

        Raises:
            ConfigError: If it contains a run and `overwrite` is False, contains other files, is a file, or cannot be written;
                or if a run would write a file where a folder is, or a folder where a file or a link is.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"out is '{self.path}', which is a file; name a folder")
        if self.holds_run():
            if not overwrite:
                raise ConfigError(
                    f"out is '{self.path}', which already holds a run; name another folder, continue with "
                    f"`regard resume {self.path}`, or replace it with --overwrite (in Python: overwrite=True)"
                )
        elif self.path.exists() and not self._is_free():
            raise ConfigError(f"out is '{self.path}', which holds files that are not a run's; name a new or an empty folder")
        if wrong := self._in_the_way():
            what = "a link" if wrong.is_symlink() else "a folder" if wrong.is_dir() else "a file"
            raise ConfigError(
                f"out is '{self.path}', but '{wrong}' is {what} that does not belong to a run; move it, or name another folder"
            )
        there = next(parent for parent in (self.path, *self.path.absolute().parents) if parent.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"out is '{self.path}', but '{there}' cannot be written to; name another folder")

    def _is_free(self) -> bool:
        """Return whether a folder without a run is empty, or contains only files of a run that was killed before it had
        started.
        """
        if (self.checkpoints / _REPLACING).exists():
            return True  # an interrupted run was replacing another one here, so the folder was checked before
        if any(path not in (self.checkpoints, self.logs) or not path.is_dir() for path in self.path.iterdir()):
            return False
        if self.logs.exists() and any(self.logs.iterdir()):
            return False
        return not self.checkpoints.exists() or all(_precedes_a_run(path) for path in self.checkpoints.iterdir())

    def _in_the_way(self) -> Path | None:
        """Return a file in place of a folder that a run writes, or a folder in place of a file; None if there is neither."""
        folders = (self.checkpoints, self.logs)
        wrong = [path for path in folders if path.is_symlink() or (path.exists() and not path.is_dir())]
        if not wrong:
            inside = self.checkpoints.iterdir() if self.checkpoints.exists() else ()
            wrong = [path for path in (*inside, *self._written()) if path.is_dir() and not path.is_symlink()]
        return min(wrong, default=None)

    def _written(self) -> list[Path]:
        """Return the files that a run has written here, except `lock` and `replacing`."""
        names = file_names(self.path)
        found = [folder / name for folder in (self.path, *self._stages()) for name in names]
        for folder, pattern in ((self.checkpoints, _CHECKPOINT), (self.logs, _LOG)):
            if folder.exists():
                found += [path for path in folder.iterdir() if pattern.fullmatch(path.name)]
        return [path for path in found if os.path.lexists(path)]

    def _stages(self) -> list[Path]:
        """Return the temporary folders of a model that is being written, or whose writing was interrupted."""
        stages = (self.path / ".incoming", self.path / ".incoming.tmp")
        return [path for path in stages if path.is_dir() and not path.is_symlink()]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder, so that no other process writes to it while the context is open.

        The folder is created if necessary, and removed again if no run started in it.

        Raises:
            ConfigError: If another process writes here.
            TrainingError: If the folder cannot be written.
        """
        whole = self.path.absolute()
        made = [path for path in (whole / "logs", whole / "checkpoints", whole, *whole.parents) if not path.exists()]
        try:
            with ExitStack() as stack:
                try:
                    self.checkpoints.mkdir(parents=True, exist_ok=True)
                    holder = stack.enter_context(locked(self.checkpoints / _LOCK))
                except OSError as error:
                    raise write_error(self.path, error) from error
                if holder:
                    raise ConfigError(
                        f"'{self.path}' is being written to by {holder}, which trains in it; wait until that run has ended, or "
                        "name another folder"
                    )
                try:
                    yield
                finally:
                    if whole / "checkpoints" in made and not self.holds_run():
                        for name in ("run.json", _START):
                            with suppress(OSError):
                                (self.checkpoints / name).unlink(missing_ok=True)
        finally:
            if not self.holds_run():
                for path in made:  # innermost first; folders that are not empty are kept
                    with suppress(OSError):
                        path.rmdir()

    def start(self, config: RunConfig, facts: dict[str, Any], model: dict[str, Any] | None = None) -> None:
        """Start a run in the locked folder, and replace the run that it may contain.

        Args:
            config: The settings.
            facts: Further facts that affect the result.
            model: The trained model that the run starts from, as returned by `StartFiles.pack`; None without `start_from`.

        Raises:
            TrainingError: If the folder cannot be written.
        """
        settings = render_config(config).encode()
        try:
            if self.holds_run():
                disk.write(self.checkpoints / _REPLACING, b"")
            self._clear()
            self.logs.mkdir(exist_ok=True)
        except OSError as error:
            raise write_error(self.path, error) from error
        if model is not None:
            self._save(self.checkpoints / _START, model)
        self._write(self.checkpoints / "run.json", render_facts({**facts, "config": hashlib.sha256(settings).hexdigest()}))
        self._write(self.checkpoints / "config.yaml", settings)
        with suppress(OSError):  # `replacing` has no meaning once the settings exist
            (self.checkpoints / _REPLACING).unlink(missing_ok=True)

    def _clear(self) -> None:
        # Delete the settings first, because without them the other files do not count as a run.
        (self.checkpoints / "config.yaml").unlink(missing_ok=True)
        for path in self._written():
            path.unlink()
        for stage in self._stages():
            with suppress(OSError):  # it contains other files
                stage.rmdir()

    def check_begun(self) -> None:
        """Raise an error for a folder without a run that can be resumed.

        Raises:
            ConfigError: If the folder contains no run, or only a link to one.
        """
        if links := [path for path in (self.checkpoints, self.logs) if path.is_symlink()]:
            raise ConfigError(f"cannot resume '{self.path}': '{links[0]}' is a link, expected the folder itself; copy it there")
        if not (self.checkpoints / "config.yaml").exists():
            if self.checkpoints.is_dir() and self._is_free():
                holder = holder_of(self.checkpoints / _LOCK)
                what = f"is just being started by {holder}; wait" if holder else "was stopped before its settings were written"
                advice = "" if holder else f"; start it again with `regard train` and --out {self.path}"
                raise ConfigError(f"cannot resume '{self.path}': its run {what}{advice}")
            what = "holds a model, but not the checkpoints of its run" if self.holds_run() else "holds no run"
            what = what if self.path.is_dir() else "is not a folder"
            raise ConfigError(f"cannot resume '{self.path}': it {what}; name the folder that `regard train` wrote to")

    def read_start(self) -> tuple[RunConfig, dict[str, Any]]:
        """Read the settings and facts that `start` or, later, `change_settings` wrote.

        Raises:
            ConfigError: If the folder contains no run.
            BundleError: If the files are damaged.
        """
        self.check_begun()
        try:
            facts = parse_facts(disk.read(self.checkpoints / "run.json", _LARGEST))
        except (OSError, ValueError, RecursionError) as error:
            raise BundleError(
                f"cannot resume '{self.path}': checkpoints/run.json is missing or damaged ({error}); {_COPY_OR_ANEW}"
            ) from error
        path = self.checkpoints / "config.yaml"
        try:
            settings = disk.read(path, _LARGEST)
        except OSError as error:
            raise BundleError(f"cannot resume '{self.path}': cannot read {path}: {error.strerror}; {_COPY_OR_ANEW}") from error
        before, digest = facts.pop("before", None), hashlib.sha256(settings).hexdigest()
        if before is not None and before["config"] == digest:
            facts |= before  # a change was interrupted before config.yaml was written, so the old settings are still valid
        if digest != facts["config"]:
            raise BundleError(
                f"cannot resume '{self.path}': checkpoints/config.yaml was edited or damaged: it differs from the file that "
                f"the run wrote; {_COPY_OR_ANEW}"
            )
        return read_config_file(settings, path), facts

    def change_settings(self, config: RunConfig, change: dict[str, Any]) -> None:
        """Replace the settings of the run in the locked folder.

        The new settings are valid as soon as config.yaml has been renamed. Until then, run.json has the checksums of both the
        old and the new settings, so the old ones stay valid after an interruption.

        Args:
            config: The new settings.
            change: Plain data that `read_start` returns as `change` afterwards.

        Raises:
            TrainingError: If the folder cannot be written. The old settings then stay valid.
        """
        _, facts = self.read_start()
        settings = render_config(config).encode()
        before = {"config": facts["config"], "change": facts.get("change")}
        now = {"config": hashlib.sha256(settings).hexdigest(), "change": change, "before": before}
        self._write(self.checkpoints / "run.json", render_facts({**facts, **now}))
        self._write(self.checkpoints / "config.yaml", settings)

    def load_start(self) -> dict[str, Any]:
        """Read the trained model that the run started from.

        Raises:
            BundleError: If it is missing or damaged.
        """
        try:
            return self._load(self.checkpoints / _START)
        except BundleError as error:
            raise BundleError(f"cannot resume '{self.path}': {error}; {_COPY_OR_ANEW}") from error

    def save_checkpoint(self, state: dict[str, Any], keep: Iterable[int]) -> None:
        """Write the last checkpoint, and keep the old last one as the previous one.

        Args:
            state: Content of the checkpoint.
            keep: Updates of the validations whose weights the checkpoint needs. Weights that neither the last nor the previous
                checkpoint needs are deleted.
        """
        kept = sorted(keep)
        last, previous = self.checkpoints / _LAST, self.checkpoints / _PREVIOUS
        if self._last_is_good and last.exists():
            self._rotate(last, previous)
        self._save(last, {**state, "keep": kept})
        self._last_is_good = True
        names = {self._weights_path(step).name for step in {*kept, *self._kept}}
        for path in self.checkpoints.glob("weights-*.ckpt"):
            if path.name not in names:
                with suppress(OSError):  # remaining files do no harm
                    path.unlink()
        self._kept = kept

    def _rotate(self, last: Path, previous: Path) -> None:
        try:
            disk.keep_as(last, previous)
        except OSError as error:
            raise write_error(previous, error) from error

    def has_checkpoint(self) -> bool:
        """Return whether a checkpoint has been written."""
        return any((self.checkpoints / name).exists() for name in (_LAST, _PREVIOUS))

    def load_checkpoint(self) -> tuple[dict[str, Any] | None, str]:
        """Read the last checkpoint, or the previous one if the last one, or weights that it needs, are damaged or missing.

        Returns:
            The state, or None if the run has no checkpoint yet; and a message about the damage to the last checkpoint, or an
            empty string.

        Raises:
            BundleError: If there are checkpoints, but none is intact.
        """
        wrong: list[str] = []
        for name in (_LAST, _PREVIOUS):
            if not (self.checkpoints / name).exists():
                continue
            try:
                state = self._load(self.checkpoints / name)
                for step in state["keep"]:
                    self.load_weights(step)
            except BundleError as error:
                wrong.append(str(error))
                continue
            except (KeyError, TypeError, ValueError):
                wrong.append(f"{self.checkpoints / name} is damaged: it lacks the list of the weights that it needs")
                continue
            self._last_is_good, self._kept = not wrong and name == _LAST, state["keep"]
            return state, "".join(wrong)
        if wrong:
            raise BundleError(
                f"cannot resume '{self.path}': {'; '.join(wrong)}; no checkpoint is intact. Copy the folder's checkpoints "
                "again from their source, or start a new run; the model beside them, if any, is the best so far"
            )
        return None, ""

    def save_weights(self, step: int, weights: dict[str, Tensor]) -> None:
        """Write the weights of the validation after update number `step`."""
        self._save(self._weights_path(step), weights)

    def load_weights(self, step: int) -> dict[str, Tensor]:
        """Read the weights that `save_weights` wrote for update number `step`.

        Raises:
            BundleError: If they are missing or damaged.
        """
        return self._load(self._weights_path(step))

    def _weights_path(self, step: int) -> Path:
        return self.checkpoints / f"weights-{step:08d}.ckpt"

    def _save(self, path: Path, value: Any) -> None:
        # Saved to memory first, because torch.save raises an error about its archive if the disk is full.
        buffer = io.BytesIO()
        torch.save(value, buffer)
        self._write(path, buffer.getbuffer(), seal_of(buffer.getbuffer()))

    def _load(self, path: Path) -> dict[str, Any]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about unusual files, which are refused anyway
                value = torch.load(io.BytesIO(unseal(disk.read(path))), map_location="cpu", weights_only=True)
        except FileNotFoundError as error:
            raise BundleError(f"{path} is missing") from error
        except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
            raise BundleError(f"{path} is damaged: {_first_line(error)}") from error
        if not isinstance(value, dict):
            raise BundleError(f"{path} is damaged: it holds {type(value).__name__}, expected named values")
        return value

    def _write(self, path: Path, *parts: bytes | memoryview) -> None:
        try:
            disk.write(path, *parts)
        except OSError as error:
            raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> TrainingError:
    """Return an error that says which file could not be written and why, and, if the disk is full, how to continue."""
    if error.errno in FULL:
        return TrainingError(
            f"cannot write '{path}': the disk is full ({error.strerror}); everything written before is intact: "
            "free some space and continue with `regard resume`"
        )
    return TrainingError(f"cannot write '{path}': {error.strerror or error}")


def _precedes_a_run(path: Path) -> bool:
    """Return whether this file of the checkpoint folder is one that a run writes before its settings."""
    if path.name not in _BEFORE_IT_BEGAN or not path.is_file():
        return False
    if path.name != "run.json":
        return True
    with suppress(OSError, ValueError, RecursionError):
        data = disk.read(path, _LARGEST)
        return not data or bool(parse_facts(data))
    return False


def _first_line(error: BaseException) -> str:
    return (str(getattr(error, "strerror", None) or error).splitlines() or [type(error).__name__])[0]
