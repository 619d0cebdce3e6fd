"""Load the predictor of a trained model from a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.bundle import load_bundle
from regard.errors import RequestError
from regard.processes.ranks import read_ranks
from regard.task import find_task


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "auto",
    *,
    model: nn.Module | None = None,
    attention: nn.Module | None = None,
) -> Any:
    """Load a trained model: a translator, a classifier or a language model.

    Args:
        folder: Folder of a trained model; or several folders of translators, which become one ensemble.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, or `cuda:N`.
        model: A model built in the same way as for training, if the model was trained as an object of your own.
        attention: The same for the attention mechanism, if only that was an object of your own.

    Returns:
        A `Translator`, a `Classifier`, a `LanguageModel`, or the predictor of a task of your own.

    Raises:
        BundleError: If the folder is not a trained model, is damaged, or was written by a newer regard.
        RequestError: If the device does not exist, an object is missing or not needed, or the models cannot form an ensemble.
    """
    if not isinstance(folder, str | Path):
        members = [load(one, device, model=model, attention=attention) for one in folder]
        if not members:
            raise RequestError("load: got an empty list of folders, expected at least one")
        tasks = [member.config.task for member in members]
        for one, task in zip(folder, tasks, strict=True):
            if task != tasks[0]:
                first, other = (find_task(name).words.predictor for name in (tasks[0], task))
                raise RequestError(
                    f"load: {one} holds {other}, but the first folder holds {first}; an ensemble needs models for the same task"
                )
        return find_task(tasks[0]).ensemble(members)
    bundle = load_bundle(folder, device=_find_device(device), model=model, attention=attention)
    return find_task(bundle.config.task).predictor(bundle)


def _find_device(name: str) -> torch.device:
    """Return the device of this name; `auto` means a GPU if PyTorch finds one, otherwise the CPU.

    Raises:
        RequestError: If there is no such device.
    """
    if name in ("auto", "cuda") and torch.cuda.is_available():
        # Each of several processes uses its own GPU, or shares one if there are fewer GPUs than processes.
        return torch.device("cuda", read_ranks().local_rank % torch.cuda.device_count())
    if name == "auto":
        return torch.device("cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise RequestError(f"device is {name!r}, expected auto, cpu, cuda, or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise RequestError(f"device is {name!r}, expected auto, cpu, cuda, or cuda:N")
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if (device.index or 0) >= count:
        raise RequestError(
            f"device is {name!r}, but PyTorch finds {count or 'no'} GPU{'s' * (count > 1)} here; use cpu or auto"
        )
    return device
