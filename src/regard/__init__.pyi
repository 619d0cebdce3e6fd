"""The public names of the package, each with the module that defines it; `__init__.py` reads them from this file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from regard.adapters.pipelines import pipeline as pipeline
from regard.adapters.scikit_learn import RegardClassifier as RegardClassifier
from regard.analysis.capture import capture as capture
from regard.analysis.history import curves as curves
from regard.analysis.huggingface import from_huggingface as from_huggingface
from regard.analysis.run_info import RunInfo as RunInfo
from regard.analysis.run_info import info as info
from regard.choose import choose_config as choose_config
from regard.config import RunConfig
from regard.config.loading import load_config as load_config
from regard.config.loading import read_config as read_config
from regard.decoding import Sampling as Sampling
from regard.errors import ArgumentError as ArgumentError
from regard.errors import BundleError as BundleError
from regard.errors import ConfigError as ConfigError
from regard.errors import DataError as DataError
from regard.errors import RegardError as RegardError
from regard.errors import RequestError as RequestError
from regard.errors import ShapeError as ShapeError
from regard.export import export_ctranslate2 as export_ctranslate2
from regard.export import export_onnx as export_onnx
from regard.export.page import write_page as write_page
from regard.hub import push as push
from regard.models.build import build_captioner as build_captioner
from regard.models.build import build_classifier as build_classifier
from regard.models.build import build_language_model as build_language_model
from regard.models.build import build_tagger as build_tagger
from regard.models.build import build_translator as build_translator
from regard.presets import load_preset as load_preset
from regard.records import AttentionRecord as AttentionRecord
from regard.records import alignment_error_rate as alignment_error_rate
from regard.records import frames as frames
from regard.records import join_subwords as join_subwords
from regard.records import load_record as load_record
from regard.records import patches as patches
from regard.records import record as record
from regard.records import rollout as rollout
from regard.tasks.captioning.config import CaptioningConfig as CaptioningConfig
from regard.tasks.captioning.faithfulness import measure_caption_faithfulness as measure_caption_faithfulness
from regard.tasks.captioning.predict import Captioner as Captioner
from regard.tasks.captioning.results import Caption as Caption
from regard.tasks.classification.comparison import compare_classifiers as compare_classifiers
from regard.tasks.classification.config import ClassificationConfig as ClassificationConfig
from regard.tasks.classification.decisive import decisive_share as decisive_share
from regard.tasks.classification.faithfulness import measure_faithfulness as measure_faithfulness
from regard.tasks.classification.predict import Classifier as Classifier
from regard.tasks.classification.results import Classification as Classification
from regard.tasks.language.config import LanguageConfig as LanguageConfig
from regard.tasks.language.predict import LanguageModel as LanguageModel
from regard.tasks.language.results import Generation as Generation
from regard.tasks.loading import load as load
from regard.tasks.tagging.config import TaggingConfig as TaggingConfig
from regard.tasks.tagging.predict import Tagger as Tagger
from regard.tasks.tagging.results import TaggedText as TaggedText
from regard.tasks.translation.alignments import evaluate_alignment as evaluate_alignment
from regard.tasks.translation.comparison import compare_translators as compare_translators
from regard.tasks.translation.config import TranslationConfig as TranslationConfig
from regard.tasks.translation.faithfulness import measure_translation_faithfulness as measure_translation_faithfulness
from regard.tasks.translation.predict import Translator as Translator
from regard.tasks.translation.results import Translation as Translation
from regard.training.cross_validation import cross_validate as cross_validate
from regard.training.trainer import resume as resume
from regard.version import __version__ as __version__

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
    config: CaptioningConfig, *, model: Any = None, attention: Any = None, start_from: str | Path = "", progress: bool = True
) -> Captioner: ...
@overload
def fit(
    config: TaggingConfig, *, model: Any = None, attention: Any = None, start_from: str | Path = "", progress: bool = True
) -> Tagger: ...
@overload
def fit(
    config: RunConfig | Mapping[str, Any],
    *,
    model: Any = None,
    attention: Any = None,
    start_from: str | Path = "",
    progress: bool = True,
) -> Any: ...
def __getattr__(name: str) -> Any: ...  # modules and packages
