"""From a folder to what it predicts with."""

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from regard.bundle import LanguageBundle, TranslationBundle, load_bundle
from regard.errors import RequestError
from regard.tasks.classification.predictor import Classifier
from regard.tasks.language.predictor import LanguageModel
from regard.tasks.requests import find_device
from regard.tasks.translation.predictor import Translator, ensemble


def load(
    folder: str | Path | Sequence[str | Path],
    device: str = "auto",
    *,
    model: nn.Module | None = None,
    attention: nn.Module | None = None,
) -> Translator | Classifier | LanguageModel:
    """Load a trained translator, classifier or language model.

    Args:
        folder: A folder that training made; or several, of translators that become one ensemble.
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, or `cuda:N`.
        model: The model object, where it is its maker's own.
        attention: The mechanism, where it is its maker's own.

    Raises:
        BundleError: If the folder is not a trained model, or is damaged.
        RequestError: If the device is not there, an object is missing or not needed, or folders make no ensemble.
    """
    if not isinstance(folder, str | Path):
        members = [load(one, device, model=model, attention=attention) for one in folder]
        for one, member in zip(folder, members, strict=True):
            if not isinstance(member, Translator):
                raise RequestError(f"load: {one} holds no translator; only translators make an ensemble")
        return ensemble([member for member in members if isinstance(member, Translator)])
    bundle = load_bundle(folder, device=find_device(device), model=model, attention=attention)
    if isinstance(bundle, TranslationBundle):
        return Translator(bundle)
    return LanguageModel(bundle) if isinstance(bundle, LanguageBundle) else Classifier(bundle)
