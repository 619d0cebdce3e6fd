"""Settings that all tasks share. Together with the task's own settings they determine the result of a run."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from regard.config.checks import device_misfits, optimizer_misfits
from regard.config.settings import DataSettings, ModelSettings, Settings, changed_settings
from regard.config.training import TrainingConfig


class _Parts(Settings):
    """The parts of a run whose classes each task chooses."""

    data: DataSettings
    model: ModelSettings


@dataclass(frozen=True, kw_only=True)
class RunConfig(_Parts):
    """Settings that the runs of all tasks have; a task's own class adds `data`, `model`, and what else it needs."""

    task: str = ""
    """Name of the task, such as `translation`."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How the model is trained."""
    out: str = ""
    """Folder of the run. Empty: `runs/` and the data's and the preset's names."""
    start_from: str = ""
    """Folder of a trained model to start from, with its vocabulary (`--from`). Empty: start from random weights."""
    overwrite: bool = False
    """Replace a run that `out` already holds."""
    seed: int = 1
    """Governs the split, the order of batches, the weights and the dropout."""
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
        """As `Settings.misfits`; a task's class adds its own."""
        yield from device_misfits(self.device)
        yield from optimizer_misfits(self.training)
        yield from self.data.misfits()
