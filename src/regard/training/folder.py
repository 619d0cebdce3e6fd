"""A run on disk, and what is needed to resume it.

    checkpoints/run.json              the settings, and further facts that affect the result; a folder with it contains a run
    checkpoints/start.ckpt            the trained model that the run started from, if there is one
    checkpoints/last.ckpt             all data for an exact resume
    checkpoints/previous.ckpt         the previous checkpoint, in case the last one is damaged
    checkpoints/weights-00001200.ckpt weights of a validation that the final model may use: the best, and the last n
    checkpoints/lock                  exists while a process writes here, and names the process
    logs/                             metrics.csv, and TensorBoard's files

The model itself is beside these folders. Other files belong to the user, and are not changed.

n is `training.average_last`, and 00001200 is the number of the update. Except for the logs and the lock, each file is written
under another name, synchronised and renamed, so that at any moment either the old or the complete new file exists. Each file
*.ckpt ends with its checksum, and run.json contains its own.

If several processes train together, the first one reads and writes the folder for all, so that other hosts need no access.
"""

import hashlib
import io
import json
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from regard import disk
from regard.bundle.bundle import WEIGHTS, file_names
from regard.bundle.forms import describe_mismatch
from regard.config import RunConfig
from regard.config.loading import load_config
from regard.disk import DRAFT, FULL, holder_of, locked, seal_of, unseal
from regard.errors import BundleError, ConfigError, TrainingError
from regard.processes.team import Team, with_plain_numbers

_RUN, _START, _LAST, _PREVIOUS, _LOCK = "run.json", "start.ckpt", "last.ckpt", "previous.ckpt", "lock"
# Files that a run writes before run.json; a killed process may leave them.
_BEFORE_RUN = (_LOCK, _START, f"{_START}.{DRAFT}", f"{_RUN}.{DRAFT}")
# Examples of the entries of run.json. `trainer.py` explains them where it makes them.
_FACTS: dict[str, Any] = {
    "settings": {},
    "fingerprint": "",
    "vocabulary": "",
    "custom": "",
    "started_from": {},
    "estimated": {},
    "environment": {},
}
_LARGEST_FACTS = 1 << 20  # bytes
_REMEDY = "restore an intact copy of the file, or start a new run"

P = ParamSpec("P")
T = TypeVar("T")


def _by_first(method: "Callable[Concatenate[RunFolder, P], T]") -> "Callable[Concatenate[RunFolder, P], T]":
    """Run a method in the first process only; every process returns its result, or raises its error."""

    @wraps(method)
    def shared(self: "RunFolder", *arguments: P.args, **named: P.kwargs) -> T:
        return self.team.broadcast(lambda: method(self, *arguments, **named))

    return shared


class RunFolder:
    """The folder of a run, which the first process of the team reads and writes for all."""

    def __init__(self, path: str | Path, team: Team | None = None) -> None:
        self.path, self.team = Path(path), team or Team()
        self.checkpoints, self.logs = self.path / "checkpoints", self.path / "logs"
        self._last_is_good = True
        self._kept: list[int] = []

    def holds_run(self) -> bool:
        """Return whether the folder contains a run or a model."""
        return (self.checkpoints / _RUN).exists() or (self.path / WEIGHTS).exists()

    @_by_first
    def check_free(self, *, overwrite: bool) -> None:
        """Raise an error for a folder that must not be written to, before any work is done. Nothing is changed.

        Raises:
            ConfigError: If it contains a run and `overwrite` is False, contains other files, is a file, has links in place of
                its folders, or cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"out is '{self.path}', which is a file; name a folder")
        for folder in (self.checkpoints, self.logs):
            if folder.is_symlink():
                raise ConfigError(f"out is '{self.path}', but '{folder}' is a link; move it, or name another folder")
        if self.holds_run():
            if not overwrite:
                raise ConfigError(
                    f"out is '{self.path}', which already holds a run; name another folder, continue with "
                    f"`regard resume {self.path}`, or replace it with --overwrite (in Python: overwrite=True)"
                )
        elif self._other_file() is not None:
            raise ConfigError(f"out is '{self.path}', which holds files that are not a run's; name a new or an empty folder")
        there = next(parent for parent in (self.path, *self.path.absolute().parents) if parent.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"out is '{self.path}', but '{there}' cannot be written to; name another folder")

    def _other_file(self) -> Path | None:
        """Return a file other than those that a process leaves if it is killed before its run has started."""
        left = [self.checkpoints / name for name in _BEFORE_RUN]
        return next((path for path in self.path.rglob("*") if path not in left and not path.is_dir()), None)

    def _written(self) -> list[Path]:
        """Return the files that a run has written here, except the lock; run.json is the last one."""
        stages = (self.path / ".incoming", self.path / ".incoming.tmp")  # of a model whose writing was interrupted
        folders = [self.path, *(path for path in stages if path.is_dir() and not path.is_symlink())]
        paths = [folder / name for folder in folders for name in file_names(self.path)]
        paths += [*self.logs.glob("metrics.csv"), *self.logs.glob("events.out.tfevents.*")]
        paths += [
            path
            for pattern in ("*.ckpt", f"*.ckpt.{DRAFT}", f"{_RUN}.{DRAFT}", _RUN)
            for path in self.checkpoints.glob(pattern)
        ]
        return [path for path in paths if os.path.lexists(path)]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create the folder if necessary, and lock it, so that no other process writes to it while the context is open.

        Raises:
            ConfigError: If another process writes here.
            TrainingError: If the folder cannot be written.
        """
        with ExitStack() as stack:
            self.team.broadcast(lambda: self._lock(stack))
            yield

    def _lock(self, stack: ExitStack) -> None:
        with writing(self.path):
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            holder = stack.enter_context(locked(self.checkpoints / _LOCK))
        if holder:
            raise ConfigError(
                f"'{self.path}' is being written to by {holder}, which trains in it; wait until that run has ended, or "
                "name another folder"
            )

    @_by_first
    def start(self, facts: Mapping[str, Any], model: dict[str, Any] | None = None) -> None:
        """Start a run in the locked folder, and replace the run that it may contain.

        `facts` are the settings, and further facts that affect the result; `model` is the packed trained model that the run
        starts from (`StartFiles.pack`).

        Raises:
            TrainingError: If the folder cannot be written.
        """
        with writing(self.path):
            for path in self._written():
                path.unlink()
                if path.parent.name.startswith(".incoming"):
                    with suppress(OSError):  # it contains other files
                        path.parent.rmdir()
            self.logs.mkdir(exist_ok=True)
        if model is not None:
            self._save(self.checkpoints / _START, model)
        self._write(self.checkpoints / _RUN, render_facts(facts))

    @_by_first
    def check_begun(self) -> None:
        """Raise an error for a folder without a run that can be resumed.

        Raises:
            ConfigError: If the folder contains no run, or only a link to one.
        """
        if links := [path for path in (self.checkpoints, self.logs) if path.is_symlink()]:
            raise ConfigError(f"cannot resume '{self.path}': '{links[0]}' is a link, expected the folder itself; copy it there")
        if (self.checkpoints / _RUN).exists():
            return
        if holder := holder_of(self.checkpoints / _LOCK):
            raise ConfigError(f"cannot resume '{self.path}': its run is just being started by {holder}; wait")
        if self.checkpoints.is_dir() and self._other_file() is None:
            raise ConfigError(
                f"cannot resume '{self.path}': its run was stopped before its settings were written; start it again with "
                f"`regard train` and --out {self.path}"
            )
        what = "holds a model, but not the checkpoints of its run" if self.holds_run() else "holds no run"
        what = what if self.path.is_dir() else "is not a folder"
        raise ConfigError(f"cannot resume '{self.path}': it {what}; name the folder that `regard train` wrote to")

    def read_start(self) -> tuple[RunConfig, dict[str, Any]]:
        """Read the settings and the facts that `start` or, later, `write_facts` wrote.

        Raises:
            ConfigError: If the folder contains no run.
            BundleError: If the file is damaged, or was edited.
        """
        self.check_begun()
        facts = self._read_facts()
        try:
            return load_config(facts["settings"]), facts
        except ConfigError as error:
            raise BundleError(
                f"cannot resume '{self.path}': the settings in checkpoints/run.json cannot be read: {error}; {_REMEDY}"
            ) from error

    @_by_first
    def _read_facts(self) -> dict[str, Any]:
        try:
            return parse_facts(disk.read(self.checkpoints / _RUN, _LARGEST_FACTS))
        except (OSError, ValueError, RecursionError) as error:
            raise BundleError(
                f"cannot resume '{self.path}': checkpoints/run.json is damaged, was edited, or is of another version of regard "
                f"({error}); {_REMEDY}"
            ) from error

    @_by_first
    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Replace the settings and the facts of the run in the locked folder; after an error, the old ones stay valid."""
        self._write(self.checkpoints / _RUN, render_facts(facts))

    @_by_first
    def load_start(self) -> dict[str, Any]:
        """Read the trained model that the run started from."""
        try:
            return self._load(self.checkpoints / _START)
        except BundleError as error:
            raise BundleError(f"cannot resume '{self.path}': {error}; {_REMEDY}") from error

    @_by_first
    def save_checkpoint(self, state: dict[str, Any], keep: Iterable[int]) -> None:
        """Write the last checkpoint, and keep the old last one as the previous one.

        `keep` are the updates of the validations whose weights the checkpoint needs. Weights that neither the last nor the
        previous checkpoint needs are deleted.
        """
        kept = sorted(keep)
        last, previous = self.checkpoints / _LAST, self.checkpoints / _PREVIOUS
        if self._last_is_good and last.exists():
            with writing(previous):
                disk.rename(last, previous)  # until the new one is complete, a resume reads the previous one
        self._save(last, {**state, "keep": kept})
        self._last_is_good = True
        names = {self._weights_path(step).name for step in {*kept, *self._kept}}
        for path in self.checkpoints.glob("weights-*.ckpt"):
            if path.name not in names:
                with suppress(OSError):  # remaining files do no harm
                    path.unlink()
        self._kept = kept

    def has_checkpoint(self) -> bool:
        """Return whether a checkpoint has been written."""
        return any((self.checkpoints / name).exists() for name in (_LAST, _PREVIOUS))

    @_by_first
    def load_checkpoint(self) -> tuple[dict[str, Any] | None, str]:
        """Read the last checkpoint, or the previous one if the last one, or weights that it needs, are damaged or missing.

        Returns:
            The state, or None if the run has no checkpoint yet; and a message about the damage to the last checkpoint, if any.

        Raises:
            BundleError: If there are checkpoints, but none is intact.
        """
        damage: list[str] = []
        for name in (_LAST, _PREVIOUS):
            if not (self.checkpoints / name).exists():
                continue
            try:
                state = self._load(self.checkpoints / name)
                for step in state["keep"]:
                    self._load(self._weights_path(step))
            except (BundleError, KeyError, TypeError, ValueError) as error:
                known = isinstance(error, BundleError)
                damage.append(str(error) if known else f"{self.checkpoints / name} is damaged: {error!r}")
                continue
            self._last_is_good, self._kept = not damage and name == _LAST, state["keep"]
            return state, "".join(damage)
        if damage:
            raise BundleError(
                f"cannot resume '{self.path}': {'; '.join(damage)}; no checkpoint is intact. Copy the folder's checkpoints "
                "again from their source, or start a new run; the model beside them, if any, is the best so far"
            )
        return None, ""

    @_by_first
    def save_weights(self, step: int, weights: dict[str, Tensor]) -> None:
        """Write the weights of the validation after update number `step`."""
        self._save(self._weights_path(step), weights)

    @_by_first
    def load_weights(self, step: int) -> dict[str, Tensor]:
        """Read the weights that `save_weights` wrote for update number `step`."""
        return self._load(self._weights_path(step))

    def _weights_path(self, step: int) -> Path:
        return self.checkpoints / f"weights-{step:08d}.ckpt"

    def _save(self, path: Path, value: Any) -> None:
        # Saved to memory first, because torch.save raises an error about its archive if the disk is full.
        buffer = io.BytesIO()
        torch.save(with_plain_numbers(value), buffer)
        self._write(path, buffer.getbuffer(), seal_of(buffer.getbuffer()))

    def _load(self, path: Path) -> dict[str, Any]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about unusual files, which are refused anyway
                value = torch.load(io.BytesIO(unseal(disk.read(path))), map_location="cpu", weights_only=True)
        except FileNotFoundError as error:
            raise BundleError(f"{path} is missing") from error
        except pickle.UnpicklingError as error:  # PyTorch's message advises to load the file without this protection
            raise BundleError(f"{path} is damaged: it holds other objects than numbers, texts and tensors") from error
        except Exception as error:  # a forged file can make the loader fail in any way
            reason = (str(getattr(error, "strerror", None) or error).splitlines() or [type(error).__name__])[0]
            raise BundleError(f"{path} is damaged: {reason}") from error
        if not isinstance(value, dict):
            raise BundleError(f"{path} is damaged: it holds {type(value).__name__}, expected named values")
        return value

    def _write(self, path: Path, *parts: bytes | memoryview) -> None:
        with writing(path):
            disk.write(path, *parts)


def render_facts(facts: Mapping[str, Any]) -> bytes:
    """Return the content of run.json, with its checksum."""
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return (json.dumps({**facts, "checksum": digest}, indent=1) + "\n").encode()


def parse_facts(data: bytes) -> dict[str, Any]:
    """Return the settings and facts in the content of run.json, which is not trusted.

    Raises:
        ValueError: If the file is damaged, or an entry does not have the form that a run writes.
    """
    facts = json.loads(data)
    if not isinstance(facts, dict) or not facts.pop("checksum", None) or render_facts(facts) != data:
        raise ValueError("its content does not match its checksum")
    if wrong := describe_mismatch(facts, _FACTS, "run.json"):
        raise ValueError(wrong)
    return facts


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an error that says which file could not be written and why, and, if the disk is full, how to continue."""
    try:
        yield
    except OSError as error:
        full = "; everything written before is intact: free some space and continue with `regard resume`"
        reason = f"the disk is full ({error.strerror}){full}" if error.errno in FULL else error.strerror or error
        raise TrainingError(f"cannot write '{path}': {reason}") from error
