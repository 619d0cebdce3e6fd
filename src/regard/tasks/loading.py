"""Load the predictor of a trained model from a folder, or from the hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.bundle import load_bundle
from regard.config.run import DEVICE, DEVICES, RunConfig
from regard.errors import RequestError
from regard.hub import local_folder
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
    """Load a trained model: a translator, a classifier, a language model, a captioner or a tagger.

    Args:
        folder: Folder of a trained model, or the address of a model on the hub, `hf://user/name@revision`; or a list of
            several folders or addresses, whose translators become one ensemble.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:N`, or `mps` (untested).
        model: A model object of the user's own class, if the model was trained with this class.
        attention: An object of the user's own attention mechanism, if the model was trained with this mechanism.

    Returns:
        A `Translator`, a `Classifier` or a `LanguageModel`, or the predictor of another task.

    Raises:
        BundleError: If the folder is not a trained model, is damaged, or was written by a newer regard; or if the hub has no
            such model, or cannot be reached and the cache has no copy.
        ConfigError: If the device does not exist.
        RequestError: If `folder` is not a folder, such as the settings of a run; if the address is malformed, `model` or
            `attention` is missing or is not needed, or the models cannot form an ensemble.

    Example:
        translator = regard.load("runs/deu")
        translator = regard.load("hf://user/deu@v1")
    """
    if isinstance(folder, RunConfig):
        raise RequestError(
            f"load: got the settings of a run ({type(folder).__name__}), expected the folder of a trained model; "
            f"regard.load({folder.out or 'runs/NAME'!r}) loads the model of this run, and regard.fit(config) trains it"
        )
    if not isinstance(folder, str | Path | Sequence):
        raise RequestError(f"load: got {type(folder).__name__}, expected the folder of a trained model, or a list of folders")
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
    bundle = load_bundle(local_folder(folder), device=_find_device(device), model=model, attention=attention)
    return find_task(bundle.config.task).predictor(bundle)


def _find_device(name: str) -> torch.device:
    if not DEVICE.fullmatch(name):
        raise RequestError(f"device is {name!r}, expected {DEVICES}")
    if name in ("auto", "cuda") and torch.cuda.is_available():
        # Each of several processes uses its own GPU, or shares one if there are fewer GPUs than processes.
        return torch.device("cuda", read_ranks().local_rank % torch.cuda.device_count())
    return resolve_device(name)
