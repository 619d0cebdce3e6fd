"""Send the rows of a run's logs to a library for tracking experiments; by default, nothing is sent (`training.track`).

Each class is a few lines around a library, which is imported only when it is used. The library's environment variables decide
where the data go: `WANDB_MODE=offline`, `MLFLOW_TRACKING_URI`, `TRACKIO_SPACE_ID`, …
"""

import importlib.util
import json
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard import disk
from regard.config.loading import flatten
from regard.config.settings import changed_settings
from regard.errors import ConfigError, install_command, one_line

# File in the folder of the logs that names the tracked runs, which a resumed run continues.
_FILE = "tracked.json"
# Maximum number of bytes of this file.
_LARGEST = 1 << 16


class Tracker(ABC):
    """A run of a library for tracking.

    The arguments of a subclass in `_KINDS` are the name of a project, the name of the run, the identity of the run to
    continue (empty for a new one), and the settings that differ from the defaults, by dotted names.
    """

    identity: str = ""
    """Identity of the run, by which it can be continued."""

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send the values of a row of the logs; `step` is the number of updates."""

    @abstractmethod
    def close(self) -> None:
        """Mark the run as ended."""


class TensorBoard(Tracker):
    """Files for TensorBoard in the folder of the logs."""

    def __init__(self, folder: Path, first: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Rows that an interrupted run wrote after its last checkpoint are removed.
        self._writer: Any = SummaryWriter(str(folder), purge_step=first)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Wandb(Tracker):
    """A run of Weights & Biases."""

    def __init__(self, project: str, name: str, identity: str, settings: Mapping[str, Any]) -> None:
        import wandb

        self.identity = identity or secrets.token_hex(4)
        self._run: Any = wandb.init(project=project, name=name, id=self.identity, resume="allow", config=dict(settings))

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class Trackio(Wandb):
    """A run of Trackio, which has the functions of `wandb`, and identifies runs by their names."""

    def __init__(self, project: str, name: str, identity: str, settings: Mapping[str, Any]) -> None:
        import trackio

        self.identity = identity or f"{name}-{secrets.token_hex(4)}"
        self._run = trackio.init(project=project, name=self.identity, resume="allow", config=dict(settings))


class MLflow(Tracker):
    """A run of MLflow."""

    def __init__(self, project: str, name: str, identity: str, settings: Mapping[str, Any]) -> None:
        import mlflow

        # A client changes no global state, such as a run that the caller has started.
        self._client: Any = mlflow.MlflowClient()
        if identity:
            self.identity = identity
            self._client.update_run(identity, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(project)
        experiment = found.experiment_id if found else self._client.create_experiment(project)
        self.identity = self._client.create_run(experiment, run_name=name).info.run_id
        for setting, value in settings.items():
            self._client.log_param(self.identity, setting, str(value)[:500])

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self.identity, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self.identity)


_KINDS: dict[str, Callable[..., Tracker]] = {"wandb": Wandb, "mlflow": MLflow, "trackio": Trackio}


def check_trackers(names: Sequence[str]) -> None:
    """Raise a `ConfigError` if a library that `training.track` names is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(f"training.track names {name}, which is not installed: {install_command('tracking')}")


def open_trackers(config: Any, folder: Path) -> list[tuple[str, Tracker]]:
    """Return the trackers that `training.track` names, by name; those of a resumed run continue its tracked runs.

    Args:
        config: Settings of the run.
        folder: Folder of the logs.

    Raises:
        ConfigError: If a library cannot start, for example because the user is not logged in.
    """
    names, file = config.training.track, folder / _FILE
    if not names:
        return []
    known = _read(file)
    settings, trackers = flatten(changed_settings(config)), list[tuple[str, Tracker]]()
    for name in names:
        try:
            tracker = _KINDS[name](config.training.track_project, Path(config.out).name, known.get(name, ""), settings)
        except Exception as error:
            raise ConfigError(
                f"training.track: {name} cannot start ({one_line(str(error))}); correct this, and continue with: regard resume "
                f"{config.out}, or resume without tracking: --training.track ''"
            ) from error
        trackers.append((name, tracker))
        known[name] = tracker.identity
        disk.write(file, json.dumps(known))
    return trackers


def _read(file: Path) -> dict[str, str]:
    """Return the identities of tracked runs by library, as far as the file can be read."""
    try:
        with disk.open_ordinary(file, "rb") as opened:
            found = json.loads(opened.read(_LARGEST))
    except (OSError, ValueError):
        return {}
    plain = found.items() if isinstance(found, dict) else ()
    return {name: text for name, text in plain if isinstance(text, str)}


def finite_values(row: Mapping[str, float]) -> dict[str, float]:
    """Return the finite values of a row of the logs, without the number of the update."""
    return {name: float(value) for name, value in row.items() if name != "step" and math.isfinite(value)}
