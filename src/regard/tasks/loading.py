"""Load the predictor of a trained model from a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.bundle import load_bundle
from regard.config.run import DEVICE
from regard.errors import RequestError
from regard.machine import resolve_device
from regard.processes.ranks import read_ranks
from regard.task import find_task


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "auto",
    *,
    model: nn.Module | None = None,
    attention: nn.Module | None = None,
) -> Any:
    """Load the predictor of a trained model from a folder, or an ensemble from several; see `regard.load` for the arguments."""
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
    if not DEVICE.fullmatch(name):
        raise RequestError(f"device is {name!r}, expected auto, cpu, cuda, or cuda:N")
    if name in ("auto", "cuda") and torch.cuda.is_available():
        # Each of several processes uses its own GPU, or shares one if there are fewer GPUs than processes.
        return torch.device("cuda", read_ranks().local_rank % torch.cuda.device_count())
    return resolve_device(name)
