"""Examples of the classes of `regard.config`, generated: each shows one choice in Python, in a YAML file and as options.

`SETTINGS` has the settings that an example shows. The part of a run that a class configures is found by searching the settings
of all tasks.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import UnionType
from typing import Any

import yaml

import regard.config
from regard.config import AttentionConfig, NormalizerConfig, PoolingConfig
from regard.config.fields import facts_of
from regard.config.loading import kinds_of
from regard.config.plugins import BUILT_IN, locate_task
from regard.config.run import RunConfig
from regard.presets import load_preset

PRESETS = {
    "translation": "luong",
    "classification": "bilstm",
    "language": "language-tiny",
    "captioning": "digits",
    "tagging": "tagger",
}
"""By task, the preset whose settings its examples change."""
FILES = {
    "translation": "pairs.tsv",
    "classification": "reviews.csv",
    "language": "stories.txt",
    "captioning": "digits/train.csv",
    "tagging": "names.conll",
}
# Further settings that a kind needs in these presets.
_BESIDE = {
    ("model.kind", "pretrained"): {"tokenizer.kind": "auto"},
    ("model.encoder.kind", "pretrained"): {"training.optimizer": "adamw", "training.learning_rate": 2e-3},
    ("model.image.kind", "pretrained"): {"training.optimizer": "adamw"},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "AdditiveConfig": {"attention_size": 128},
    "AdditivePoolingConfig": {"attention_size": 64},
    "AutoConfig": {"min_count": 2},
    "BPEConfig": {"size": 4000},
    "BagClassifierConfig": {"max_ngram": 3},
    "BahdanauDecoderConfig": {"readout": "deep"},
    "CharactersConfig": {"lowercase": True},
    "CaptionDataConfig": {"cell": 8, "height": 64, "width": 96},
    "CombinedClassifierConfig": {"num_recurrent": 2},
    "ConcatConfig": {"attention_size": 128},
    "ConstantConfig": {"warmup_steps": 100},
    "CosineScoreConfig": {"scale": 8.0},
    "CosineConfig": {"warmup_steps": 200, "final": 0.1},
    "ConvolutionalConfig": {"dropout": 0.2},
    "CountedClassifierConfig": {"max_ngram": 3},
    "CoverageConfig": {"attention_size": 128},
    "DataConfig": {"max_pairs": 10000, "dev_size": 500},
    "DecodingConfig": {"beam_size": 10, "length_penalty": 0.6},
    "DotConfig": {"scaled": True},
    "EncoderConfig": {"cell": "lstm", "num_layers": 2},
    "Entmax15Config": {"temperature": 0.5},
    "EntmaxConfig": {"alpha": 1.3},
    "FertilityCoverageConfig": {"max_fertility": 3.0},
    "GenerationConfig": {"temperature": 0.7, "top_p": 0.9},
    "HardMoChAConfig": {"chunk_size": 4},
    "HardMonotonicConfig": {"initial_offset": -2.0},
    "HeadModifiersConfig": {"qk_norm": True, "output_gate": True},
    "HierarchicalClassifierConfig": {"hidden_size": 100},
    "InverseSquareRootConfig": {"warmup_steps": 1000},
    "LabelledDataConfig": {"text": "review", "label": "stars"},
    "LanguageModelConfig": {"num_layers": 6, "num_heads": 8},
    "LinearDecayConfig": {"final": 0.1},
    "LinearPoolingConfig": {"normalizer.kind": "sparsemax"},
    "LocalMonotonicConfig": {"window": 3, "scorer.kind": "dot"},
    "LocalPredictiveConfig": {"window": 3},
    "LocationSensitiveConfig": {"num_filters": 16, "kernel_size": 15},
    "LuongDecoderConfig": {"input_feeding": True},
    "MoChAConfig": {"chunk_size": 4, "decoding": "soft"},
    "MonotonicConfig": {"noise": 2.0},
    "ContextualPositionAttentionConfig": {"num_positions": 16},
    "DifferentialAttentionConfig": {"num_heads": 2, "initial_lambda": 0.2},
    "ForgettingAttentionConfig": {"initial_gate": 3.0},
    "GatedDeltaNetConfig": {"num_heads": 8},
    "GatedPoolingConfig": {"attention_size": 64},
    "LatentAttentionConfig": {"latent_size": 64},
    "LinearAttentionConfig": {"num_heads": 8},
    "MultiHeadConfig": {"num_heads": 8},
    "MultiHeadPoolingConfig": {"num_heads": 8},
    "PatchesConfig": {"dropout": 0.2},
    "PlateauConfig": {"factor": 0.7, "patience": 2},
    "RotaryConfig": {"scaling": "yarn", "scaling_factor": 4.0},
    "PretrainedTaggerConfig": {"encoder.tuning": "frozen"},
    "RecurrentCaptionerConfig": {"image_size": 96},
    "RecurrentClassifierConfig": {"cell": "gru", "num_layers": 2},
    "RecurrentConfig": {"bridge": "mean"},
    "RecurrentTaggerConfig": {"cell": "gru", "attention.kind": "dot"},
    "SelfAttentionConfig": {"normalizer.kind": "entmax15"},
    "SoftmaxConfig": {"temperature": 2.0},
    "SpacyConfig": {"language": "en"},
    "DistillationConfig": {"weight": 0.7, "words": 16},
    "TeacherForcingConfig": {"end": 0.5, "unit": "token"},
    "TaggedDataConfig": {"dev_size": 200, "max_tokens": 128},
    "TextDataConfig": {"unit": "paragraph"},
    "TokenizersConfig": {"joint": True},
    "TrainingConfig": {"max_epochs": 20, "learning_rate": 5e-4},
    "TransformerCaptionerConfig": {"encoder_layers": 2},
    "TransformerClassifierConfig": {"num_layers": 4},
    "TransformerConfig": {"encoder_layers": 6, "decoder_layers": 2},
    "TransformerTaggerConfig": {"num_layers": 4},
    "UnigramConfig": {"size": 4000},
    "WeightNormAdditiveConfig": {"attention_size": 128},
    "WordsConfig": {"min_count": 2, "lowercase": True},
}
"""By class, the settings that its example changes. The examples of other classes only choose their `kind`."""


@dataclass(frozen=True)
class Place:
    """The part of a task's settings that a class configures."""

    task: str
    path: str
    """Dotted name of the part, such as `model.decoder.attention`."""
    kinds: dict[str, str]
    """The kinds that must be chosen for the part to exist with this class, by the dotted name of the setting."""


@dataclass(frozen=True)
class Example:
    """One choice, written in three ways."""

    python: str
    yaml: str
    command: str


@cache
def generated() -> dict[str, Example]:
    """Return the examples of all classes that configure a part of a run, by the name of the class."""
    found = {}
    for name in regard.config.__all__:
        cls = getattr(regard.config, name)
        if isinstance(cls, type) and not inspect.isabstract(cls) and is_dataclass(cls) and (place := place_of(cls)):
            found[name] = write_example(cls, place)
    return found


def place_of(cls: type) -> Place | None:
    """Return the place of a class (or of a subclass) that needs the fewest other choices and, among these, is least nested."""
    places = [place for place, other in _all_parts() if issubclass(other, cls) and place.path]
    return min(places, key=lambda place: (len(_choices_before(place)), place.path.count(".")), default=None)


@cache
def _all_parts() -> list[tuple[Place, type]]:
    return [part for task in BUILT_IN for part in parts(task)]


def parts(task: str) -> Iterator[tuple[Place, type]]:
    """Yield all parts of a task's settings, for every kind; a part inside a part of the same family of kinds is left out."""
    yield from _parts(Place(task, "", {}), locate_task(task).config_class, ())


def _parts(place: Place, cls: type, families: tuple[Any, ...]) -> Iterator[tuple[Place, type]]:
    yield place, cls
    for name, facts in facts_of(cls).items():
        hint = facts.type
        path = f"{place.path}.{name}".lstrip(".")
        for kind, part in kinds_of(hint).items():
            if hint not in families:
                yield from _parts(Place(place.task, path, place.kinds | {f"{path}.kind": kind}), part, (*families, hint))
        if is_dataclass(hint) and not kinds_of(hint):
            yield from _parts(Place(place.task, path, place.kinds), hint, families)  # type: ignore[arg-type]


def write_example(cls: type, place: Place) -> Example:
    """Return the example of a class: it changes a preset to use the class, and builds the module that the class describes."""
    own = f"{place.path}.kind"
    chosen = _choices_before(place) | ({own: place.kinds[own]} if own in place.kinds else {})
    for name, kind in place.kinds.items():
        chosen |= _BESIDE.get((name, kind), {})
    chosen |= {f"{place.path}.{name}": value for name, value in SETTINGS.get(cls.__name__, {}).items()}
    text = yaml.safe_dump({"task": place.task} | _nested(chosen), sort_keys=False).rstrip()
    options = [f"--{name} {str(value).lower() if isinstance(value, bool) else value}" for name, value in chosen.items()]
    command = " \\\n    ".join([f"regard train {place.task} {FILES[place.task]} --preset {PRESETS[place.task]}", *options])
    return Example(_python(cls, place, chosen), text, command)


def _nested(chosen: dict[str, Any]) -> dict[str, Any]:
    """Return settings with dotted names as nested mappings."""
    nested: dict[str, Any] = {}
    for name, value in chosen.items():
        *parts, last = name.split(".")
        inner = nested
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def _python(cls: type, place: Place, chosen: dict[str, Any]) -> str:
    items = [f'"{name}": ' + (f'"{value}"' if isinstance(value, str) else repr(value)) for name, value in chosen.items()]
    call = f'config = regard.load_preset("{PRESETS[place.task]}", {{'
    one_line = call + ", ".join(items) + "})"
    lines = ["import regard", f"from regard.config import {cls.__name__}", ""]
    lines += [one_line] if len(one_line) <= 100 else [call, *(f"    {item}," for item in items), "})"]
    lines += [f"assert isinstance(config.{place.path}, {cls.__name__})"]
    sizes = {AttentionConfig: "query_size=256, key_size=256", PoolingConfig: "size=256", NormalizerConfig: ""}
    lines += [f"module = config.{place.path}.build({size})" for family, size in sizes.items() if issubclass(cls, family)]
    return "\n".join(lines) + "\n"


def _choices_before(place: Place) -> dict[str, str]:
    """Return the kinds that must be chosen before that of a place, without those that the preset already has."""
    return _choices(place.task, tuple(item for item in place.kinds.items() if item[0] != f"{place.path}.kind"))


@cache
def _choices(task: str, kinds: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the given kinds, from the outermost to the innermost, without those that the preset of a task already has."""
    if not kinds:
        return {}
    *before, (name, kind) = kinds
    chosen = _choices(task, tuple(before))
    part: Any = _preset(task, tuple(chosen.items()))
    for attribute in name.split("."):
        part = getattr(part, attribute)
    return chosen if part == kind else chosen | {name: kind} | _BESIDE.get((name, kind), {})


@cache
def _preset(task: str, chosen: tuple[tuple[str, str], ...]) -> RunConfig:
    return load_preset(PRESETS[task], dict(chosen))


def members(union: UnionType) -> list[str]:
    """Return the names of the classes of a union."""
    return [cls.__name__ for cls in union.__args__]
