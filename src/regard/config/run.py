"""Settings that all tasks share. Together with the task's own settings, they determine the result of a run."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from regard.config.checks import device_misfits, optimizer_misfits
from regard.config.settings import DataSettings, ModelSettings, Settings, changed_settings
from regard.config.training import TrainingConfig


class _Parts(Settings):
    """Parts of a run's settings whose classes depend on the task."""

    data: DataSettings
    model: ModelSettings


@dataclass(frozen=True, kw_only=True)
class RunConfig(_Parts):
    """Settings of the runs of all tasks. A task's class adds `data`, `model`, and its other settings."""

    task: str = ""
    """Name of the task, such as `translation`."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Settings of the training."""
    out: str = ""
    """Folder of the run. Empty: `runs/`, the name of the data, and the name of the preset."""
    start_from: str = ""
    """Folder of a trained model to start from, with its vocabulary (`--from`). Empty: start from random weights."""
    overwrite: bool = False
    """Whether to replace a run that is already in `out`."""
    seed: int = 1
    """Seed of the split, the order of batches, the initial weights and the dropout."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, or `cuda:N`."""
    threads: int = 0
    """CPU threads; 0 for all cores."""
    chosen: tuple[str, ...] = ()
    """Reasons for the settings that were chosen from the data; written by regard, not a setting."""

    def __repr__(self) -> str:
        """Return the task and the settings that differ from the defaults, as YAML that `--config` reads."""
        settings = {"task": self.task} | changed_settings(self)
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=120).rstrip()
        return f"# {type(self).__name__}: settings that differ from the defaults\n{text}"

    def misfits(self) -> Iterator[tuple[str, str]]:
        """Yield conflicts between the settings that all tasks share; see `Settings.misfits`. A task's class adds its own."""
        yield from device_misfits(self.device)
        yield from optimizer_misfits(self.training)
        yield from self.data.misfits()
