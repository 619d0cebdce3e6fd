"""Load the predictor of a trained model from a folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.bundle import load_bundle
from regard.errors import RequestError
from regard.task import find_task
from regard.tasks.requests import find_device


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "auto",
    *,
    model: nn.Module | None = None,
    attention: nn.Module | None = None,
) -> Any:
    """Load a trained model: a translator, a classifier or a language model.

    Args:
        folder: Folder of a trained model; or several folders, whose translators become one ensemble.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, or `cuda:N`.
        model: The model object, if it is the user's own.
        attention: The mechanism, if it is the user's own.

    Returns:
        A `Translator`, a `Classifier` or a `LanguageModel`, or the predictor of another task.

    Raises:
        BundleError: If the folder is not a trained model, or is damaged.
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
    bundle = load_bundle(folder, device=find_device(device), model=model, attention=attention)
    return find_task(bundle.config.task).predictor(bundle)
