"""The contents of a bundle, read without allocating memory for its weights."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.bundle.bundle import LABELS, REPORT, TOKENIZER, WEIGHTS
from regard.bundle.folder import find, version
from regard.bundle.load import (
    _TRIES,
    CONFIG,
    _check_depth,
    _first_line,
    _read_report,
    _read_tokenizer,
    _read_tokenizers,
    read_config_file,
    read_labels,
)
from regard.bundle.signature import read_signed
from regard.bundle.weights import read_shapes
from regard.config import AnyConfig, ClassificationConfig, LanguageConfig, TranslationConfig
from regard.errors import BundleError, RegardError
from regard.models.build import build_classifier, build_language_model, build_translator
from regard.text.labelled.labels import Labels
from regard.text.labelled.sentences import sentence_ends
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Inspection:
    """All parts of a bundle, but only the shapes of its weights."""

    config: AnyConfig
    signature: dict[str, Any]
    report: dict[str, Any]
    tokenizers: dict[str, Tokenizer]
    """Tokenizers by what they read: `source` and `target` (the same object if the vocabulary is joint), or `text`."""
    shapes: dict[str, tuple[int, ...]]
    """Shapes of the tensors in the weights' file; tied weights appear once."""
    weight_bytes: int
    model: nn.Module | None = field(repr=False)
    """The model without weights (on the meta device); None if it is the user's own object."""
    labels: Labels | None = None


def inspect_bundle(folder: str | Path) -> Inspection:
    """Read and check everything in a bundle without building its model in memory.

    Raises:
        BundleError: If the folder is not a bundle, or is damaged.
    """
    folder = Path(folder)
    for _ in range(_TRIES):  # a run may be replacing its model at the same time
        before = version(folder)
        try:
            return _inspect(folder)
        except BundleError:
            if version(folder) == before:
                raise
    return _inspect(folder)


def _inspect(folder: Path) -> Inspection:
    signature, files = read_signed(folder)
    config = read_config_file(files[CONFIG], find(folder, CONFIG))
    if config.task != signature["task"]:
        raise BundleError(f"{find(folder, CONFIG)} is for {config.task}, but the model's signature is of {signature['task']}")
    if isinstance(config, TranslationConfig):
        source, target = _read_tokenizers(folder, files)
        tokenizers = {"source": source, "target": target}
    else:
        tokenizers = {"text": _read_tokenizer(folder, files, TOKENIZER)}
    labels = read_labels(files[LABELS], find(folder, LABELS))[0] if isinstance(config, ClassificationConfig) else None
    model = None
    if signature["custom"] != "model":
        _check_depth(config, files[WEIGHTS], find(folder, WEIGHTS))
        model = _plan(folder, config, tokenizers, labels)
    return Inspection(
        config=config,
        signature=signature,
        report=_read_report(files[REPORT], find(folder, REPORT)),
        tokenizers=tokenizers,
        shapes=read_shapes(files[WEIGHTS], find(folder, WEIGHTS)),
        weight_bytes=len(files[WEIGHTS]),
        model=model,
        labels=labels,
    )


def _plan(folder: Path, config: AnyConfig, tokenizers: dict[str, Tokenizer], labels: Labels | None) -> nn.Module:
    """Build the model on the meta device, where tensors take no memory."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            if isinstance(config, TranslationConfig):
                source, target = tokenizers["source"], tokenizers["target"]
                return build_translator(config.model, source_size=source.size, target_size=target.size)
            tokenizer = tokenizers["text"]
            if isinstance(config, LanguageConfig):
                return build_language_model(config.model, vocabulary_size=tokenizer.size)
            assert labels is not None
            return build_classifier(
                config.model,
                vocabulary_size=tokenizer.size,
                num_labels=len(labels.names),
                sentence_ends=sentence_ends(tokenizer),
                embedding_size=config.data.vectors_size,
            )
    except (RegardError, RuntimeError, ValueError, OverflowError, MemoryError) as error:
        raise BundleError(f"{folder}: config.yaml describes a model that cannot be built: {_first_line(error)}") from error
