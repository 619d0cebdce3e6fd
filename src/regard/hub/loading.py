"""`regard.load`: models from local folders and from the hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.hub.download import local_folder
from regard.tasks import loading

if TYPE_CHECKING:
    from torch import nn


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "auto",
    *,
    model: "nn.Module | None" = None,
    attention: "nn.Module | None" = None,
) -> Any:
    """Load a trained model: a translator, a classifier or a language model.

    Args:
        folder: Folder of a trained model, or the address of a model on the hub, `hf://user/name@revision`; or a list of
            several folders or addresses, whose translators become one ensemble.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, or `cuda:N`.
        model: A model object of the user's own class, if the model was trained with this class.
        attention: An object of the user's own attention mechanism, if the model was trained with this mechanism.

    Returns:
        A `Translator`, a `Classifier` or a `LanguageModel`, or the predictor of another task.

    Raises:
        BundleError: If the folder is not a trained model, is damaged, or was written by a newer regard; or if the hub has no
            such model, or cannot be reached and the cache has no copy.
        ConfigError: If the device does not exist.
        RequestError: If the address is malformed, `model` or `attention` is missing or is not needed, or the models cannot
            form an ensemble.

    Example:
        translator = regard.load("runs/deu")
        translator = regard.load("hf://user/deu@v1")
    """
    found = local_folder(folder) if isinstance(folder, str | Path) else [local_folder(one) for one in folder]
    return loading.load(found, device, model=model, attention=attention)
