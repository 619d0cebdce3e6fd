"""From a folder to what it predicts with."""

from pathlib import Path

from torch import nn

from regard.bundle import LanguageBundle, TranslationBundle, load_bundle
from regard.predict.classifier import Classifier
from regard.predict.language_model import LanguageModel
from regard.predict.requests import find_device
from regard.predict.translator import Translator


def load(
    folder: str | Path, device: str = "auto", *, model: nn.Module | None = None, attention: nn.Module | None = None
) -> Translator | Classifier | LanguageModel:
    """Load a trained translator, classifier or language model.

    Args:
        folder: A folder that training made.
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, or `cuda:N`.
        model: The model object, where it is its maker's own.
        attention: The mechanism, where it is its maker's own.

    Raises:
        BundleError: If the folder is not a trained model, or is damaged.
        RequestError: If the device is not there, or an object is missing or not needed.
    """
    bundle = load_bundle(folder, device=find_device(device), model=model, attention=attention)
    if isinstance(bundle, TranslationBundle):
        return Translator(bundle)
    return LanguageModel(bundle) if isinstance(bundle, LanguageBundle) else Classifier(bundle)
