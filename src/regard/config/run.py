"""Settings that all tasks share. Together with the task's own settings, they determine the result of a run."""

import re
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

import yaml
from annotated_types import Ge, Le

from regard.config.fields import Natural, Role, settings_with
from regard.config.settings import DataSettings, ModelSettings, Settings, changed_settings
from regard.config.training import TrainingConfig

DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?|mps")
DEVICES = "auto, cpu, cuda, cuda:N, or mps"


class RunConfig(Settings):
    """Settings of the runs of all tasks. A task's class adds `data`, `model`, and its other settings."""

    if TYPE_CHECKING:  # no fields yet, because their classes depend on the task
        data: DataSettings = DataSettings()
        model: ModelSettings = ModelSettings()

    task: str = ""
    """Name of the task, such as `translation`."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Settings of the training."""
    out: str = ""
    """Folder of the run. Empty: `runs/NAME`, with the name of the first training file; commands append the name of the preset,
    or of the model in `start_from`.
    """
    start_from: str = ""
    """Folder of a trained model to start from, with its vocabulary (`--from`). Empty: start from random weights."""
    overwrite: bool = False
    """Whether to replace a run that is already in `out`."""
    seed: Annotated[int, Ge(0), Le(2**32 - 1)] = 1
    """Seed of all random choices: held-out examples, order of batches, initial weights, dropout and others."""
    device: Annotated[str, Role.ADJUSTABLE] = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:N`, or `mps` for Apple's GPU (untested). `auto` is an NVIDIA GPU if there is one, or
    the CPU.
    """
    threads: Annotated[Natural, Role.ADJUSTABLE] = 0
    """Number of CPU threads; 0 for all cores that the process may use, at most `OMP_NUM_THREADS` if it is set."""
    chosen: Annotated[tuple[str, ...], Role.DERIVED] = ()
    """Explanations of the settings that regard chose from the data. This field is written by regard; do not set it."""

    @property
    def fits_page(self) -> bool:
        """Whether `regard page` can write the model, if the command supports the task."""
        return True

    def __repr__(self) -> str:
        """Return the task and the settings that differ from the defaults, as YAML that `--config` reads."""
        settings = {"task": self.task} | changed_settings(self)
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=120).rstrip()
        return f"# {type(self).__name__}: settings that differ from the defaults\n{text}"

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield conflicts between the settings that all tasks share; see `Settings.conflicts`.

        The class of a task overrides this method and adds conflicts between settings of the task.
        """
        if not DEVICE.fullmatch(self.device):
            yield "device", f"device is '{self.device}', expected {DEVICES}"
        kinds = [kind for name, kind in settings_with(Role.VOCABULARY, self).items() if name.endswith(".kind")]
        if self.training.bpe_dropout and "bpe" not in kinds:
            yield (
                "training.bpe_dropout",
                f"training.bpe_dropout is {self.training.bpe_dropout:g}, which needs a tokenizer of kind bpe; this run has "
                f"{', '.join(kinds) or 'none'}: set training.bpe_dropout to 0, or the kind to bpe",
            )
        yield from self.training.conflicts()
        yield from self.data.conflicts()
