"""regard: the attention toolkit for PyTorch.

A public name is imported when it is first used, so that `import regard` does not import torch.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from regard.errors import (
    ArgumentError,
    BundleError,
    ConfigError,
    DataError,
    RegardError,
    RequestError,
    ShapeError,
    missing_package,
)
from regard.processes.cores import wait_passively
from regard.rendering import Renderer, set_renderer
from regard.version import __version__ as __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import overload

    from regard.adapters.pipelines import pipeline
    from regard.adapters.scikit_learn import RegardClassifier
    from regard.analysis.capture import capture
    from regard.analysis.history import curves
    from regard.analysis.huggingface import from_huggingface
    from regard.analysis.run_info import RunInfo, info
    from regard.choose import choose_config
    from regard.config import RunConfig
    from regard.config.loading import load_config, read_config
    from regard.decoding import Sampling
    from regard.export import export_ctranslate2, export_onnx
    from regard.export.page import write_page
    from regard.hub import load, push
    from regard.models.build import build_classifier, build_language_model, build_translator
    from regard.presets import load_preset
    from regard.records import (
        AttentionRecord,
        alignment_error_rate,
        join_subwords,
        load_record,
        record,
        rollout,
    )
    from regard.tasks.classification.config import ClassificationConfig
    from regard.tasks.classification.predictor import Classifier
    from regard.tasks.classification.results import Classification
    from regard.tasks.language.config import LanguageConfig
    from regard.tasks.language.predictor import LanguageModel
    from regard.tasks.language.results import Generation
    from regard.tasks.translation.config import TranslationConfig
    from regard.tasks.translation.predictor import Translator
    from regard.tasks.translation.results import Translation
    from regard.training.cross_validation import cross_validate
    from regard.training.trainer import resume

if TYPE_CHECKING:  # the type that `fit` returns for the settings of each task

    @overload
    def fit(
        config: TranslationConfig,
        *,
        model: Any = None,
        attention: Any = None,
        start_from: str | Path = "",
        progress: bool = True,
    ) -> Translator: ...
    @overload
    def fit(
        config: ClassificationConfig,
        *,
        model: Any = None,
        attention: Any = None,
        start_from: str | Path = "",
        progress: bool = True,
    ) -> Classifier: ...
    @overload
    def fit(
        config: LanguageConfig, *, model: Any = None, attention: Any = None, start_from: str | Path = "", progress: bool = True
    ) -> LanguageModel: ...
    @overload
    def fit(
        config: RunConfig | Mapping[str, Any],
        *,
        model: Any = None,
        attention: Any = None,
        start_from: str | Path = "",
        progress: bool = True,
    ) -> Any: ...
    def fit(config: Any, **options: Any) -> Any: ...


_HOMES = {
    "AttentionRecord": "regard.records",
    "Classification": "regard.tasks.classification.results",
    "ClassificationConfig": "regard.tasks.classification.config",
    "Classifier": "regard.tasks.classification.predictor",
    "Generation": "regard.tasks.language.results",
    "LanguageConfig": "regard.tasks.language.config",
    "LanguageModel": "regard.tasks.language.predictor",
    "RegardClassifier": "regard.adapters.scikit_learn",
    "RunInfo": "regard.analysis.run_info",
    "Sampling": "regard.decoding",
    "Translation": "regard.tasks.translation.results",
    "TranslationConfig": "regard.tasks.translation.config",
    "Translator": "regard.tasks.translation.predictor",
    "alignment_error_rate": "regard.records",
    "build_classifier": "regard.models.build",
    "build_language_model": "regard.models.build",
    "build_translator": "regard.models.build",
    "capture": "regard.analysis.capture",
    "choose_config": "regard.choose",
    "cross_validate": "regard.training.cross_validation",
    "curves": "regard.analysis.history",
    "export_ctranslate2": "regard.export",
    "export_onnx": "regard.export",
    "fit": "regard.training",
    "from_huggingface": "regard.analysis.huggingface",
    "info": "regard.analysis.run_info",
    "join_subwords": "regard.records",
    "load": "regard.hub",
    "load_config": "regard.config.loading",
    "load_preset": "regard.presets",
    "load_record": "regard.records",
    "read_config": "regard.config.loading",
    "pipeline": "regard.adapters.pipelines",
    "push": "regard.hub",
    "record": "regard.records",
    "resume": "regard.training",
    "rollout": "regard.records",
    "write_page": "regard.export.page",
}

__all__ = [
    "ArgumentError",
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
    "RegardClassifier",
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
    "cross_validate",
    "curves",
    "export_ctranslate2",
    "export_onnx",
    "fit",
    "from_huggingface",
    "info",
    "join_subwords",
    "load",
    "load_config",
    "load_preset",
    "load_record",
    "pipeline",
    "push",
    "read_config",
    "record",
    "resume",
    "rollout",
    "write_page",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name) or (f"regard.{name}" if name in _submodules() else "")
    if not home:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    wait_passively()
    try:
        found = import_module(home)
    except ModuleNotFoundError as error:
        if advice := missing_package(error):
            raise ModuleNotFoundError(f"regard.{name} {advice}", name=error.name) from error
        raise
    return getattr(found, name) if name in _HOMES else found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_submodules()})


def _submodules() -> set[str]:
    """Return the names of this package's public modules and packages. `__getattr__` imports each of them at its first use."""
    return {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}


def _find_renderer() -> Renderer:
    from regard.viz import drawing

    return drawing


set_renderer(_find_renderer)
