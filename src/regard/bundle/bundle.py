"""What a bundle holds, and how its files are called."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from regard.config import AnyConfig, ClassificationConfig, LanguageConfig, TranslationConfig
from regard.models.seq2seq import Seq2Seq
from regard.models.text_classifier import TextClassifier
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import Tokenizer

FORMAT_VERSION = 2

CONFIG, WEIGHTS, SIGNATURE, REPORT, CARD = "config.yaml", "model.safetensors", "signature.json", "report.json", "README.md"
TOKENIZER = "tokenizer.json"
"""Of a classifier, of a language model, or of both sides of a translator."""
SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"
LABELS = "labels.json"
FAITHFULNESS = "faithfulness.json"
"""Measured after training, beside the files that were signed; it may be missing."""
FILES = (CONFIG, WEIGHTS, SIGNATURE, REPORT, CARD, TOKENIZER, SOURCE_TOKENIZER, TARGET_TOKENIZER, LABELS, FAITHFULNESS)

Custom = Literal["", "model", "attention"]


def fingerprint_vocabulary(tokenizers: Sequence[Tokenizer], labels: Labels | None = None) -> str:
    """Return a hash of vocabularies and labels in order; if two hashes are equal, each id means the same token or label."""
    named = [[*labels.names], labels.multiple] if labels else []
    return hashlib.sha256(json.dumps([[tokenizer.digest() for tokenizer in tokenizers], named]).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A trained model and where it comes from."""

    config: AnyConfig
    model: nn.Module
    signature: dict[str, Any] = field(default_factory=dict)
    """Plain data: `seed`, `data` (hash of the data), `scores`, and whatever else a run wants to be known by. Saving adds the
    format, versions and checksums."""
    report: dict[str, Any] = field(default_factory=dict)
    """What was read, kept and skipped, as the prepared data's report tells it."""
    custom: Custom = ""
    """`model` where the whole model is the user's own object, `attention` where its mechanism is; loading then asks for it,
    because a configuration cannot build it."""


@dataclass(frozen=True, kw_only=True)
class TranslationBundle(Bundle):
    """A trained translator."""

    config: TranslationConfig
    model: Seq2Seq
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    """The same object as `source_tokenizer` where the vocabulary is joint."""


@dataclass(frozen=True, kw_only=True)
class ClassificationBundle(Bundle):
    """A trained classifier."""

    config: ClassificationConfig
    model: TextClassifier
    tokenizer: Tokenizer
    labels: Labels
    temperature: float = 1.0
    """What the scores are divided by before they become probabilities (Guo et al. 2017)."""
    faithfulness: str = ""
    """What was found about how far the attention can be trusted; empty where nobody has looked."""


@dataclass(frozen=True, kw_only=True)
class LanguageBundle(Bundle):
    """A trained language model."""

    config: LanguageConfig
    model: Seq2Seq
    """One that makes nothing of its source."""
    tokenizer: Tokenizer
