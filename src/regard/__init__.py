"""regard: the attention toolkit for PyTorch.

The public names are lazy: importing the package imports no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import BundleError, ConfigError, DataError, RegardError, RequestError, ShapeError

if TYPE_CHECKING:
    import regard.record as record
    from regard.analysis.capture import capture
    from regard.analysis.history import curves
    from regard.analysis.run_info import RunInfo, info
    from regard.choose import choose_config
    from regard.config import ClassificationConfig, LanguageConfig, TranslationConfig
    from regard.config.loading import load_config, read_config
    from regard.decoding import Sampling
    from regard.models.build import build_classifier, build_language_model, build_translator
    from regard.predict import Classification, Classifier, Generation, LanguageModel, Translation, Translator, load
    from regard.presets import load_preset
    from regard.record import AttentionRecord, alignment_error_rate
    from regard.training.fit import fit, resume

__version__ = "0.1.0"

_HOMES = {
    "AttentionRecord": "regard.record",
    "Classification": "regard.predict",
    "ClassificationConfig": "regard.config",
    "Classifier": "regard.predict",
    "Generation": "regard.predict",
    "LanguageConfig": "regard.config",
    "LanguageModel": "regard.predict",
    "RunInfo": "regard.analysis.run_info",
    "Sampling": "regard.decoding",
    "Translation": "regard.predict",
    "TranslationConfig": "regard.config",
    "Translator": "regard.predict",
    "alignment_error_rate": "regard.record",
    "build_classifier": "regard.models.build",
    "build_language_model": "regard.models.build",
    "build_translator": "regard.models.build",
    "capture": "regard.analysis.capture",
    "choose_config": "regard.choose",
    "curves": "regard.analysis.history",
    "fit": "regard.training",
    "info": "regard.analysis.run_info",
    "load": "regard.predict",
    "load_config": "regard.config.loading",
    "load_preset": "regard.presets",
    "read_config": "regard.config.loading",
    "record": "regard.record",
    "resume": "regard.training",
}

_MODULES = frozenset(
    ("analysis", "attention", "bundle", "choose", "config", "decoding", "errors", "layers", "metrics", "models", "predict")
) | {"presets", "text", "training", "viz"}
"""Submodules that are attributes without an import of their own."""

__all__ = [
    "AttentionRecord",
    "BundleError",
    "Classification",
    "ClassificationConfig",
    "Classifier",
    "ConfigError",
    "DataError",
    "Generation",
    "LanguageConfig",
    "LanguageModel",
    "RegardError",
    "RequestError",
    "RunInfo",
    "Sampling",
    "ShapeError",
    "Translation",
    "TranslationConfig",
    "Translator",
    "alignment_error_rate",
    "build_classifier",
    "build_language_model",
    "build_translator",
    "capture",
    "choose_config",
    "curves",
    "fit",
    "info",
    "load",
    "load_config",
    "load_preset",
    "read_config",
    "record",
    "resume",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"regard.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    module = import_module(_HOMES[name])
    return module if module.__name__ == f"regard.{name}" else getattr(module, name)  # `regard.record` is a callable module


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
