"""What a bundle holds, and how its files are called."""

from dataclasses import dataclass, field
from typing import Any, Literal

from regard.config import TranslationConfig
from regard.models.seq2seq import Seq2Seq
from regard.text.tokenizer import Tokenizer

FORMAT_VERSION = 1

CONFIG, WEIGHTS, SIGNATURE, REPORT, CARD = "config.yaml", "model.safetensors", "signature.json", "report.json", "README.md"
JOINT_TOKENIZER = "tokenizer.json"
SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"

Custom = Literal["", "model", "attention"]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A trained translator and where it comes from."""

    config: TranslationConfig
    model: Seq2Seq
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    """The same object as `source_tokenizer` where the vocabulary is joint."""
    signature: dict[str, Any] = field(default_factory=dict)
    """Plain data: `seed`, `data` (hash of the data), `scores`, and whatever else a run wants to be known by. Saving adds the
    format, versions and checksums."""
    report: dict[str, Any] = field(default_factory=dict)
    """What was read, kept and skipped, as `PreparedData.report` tells it."""
    custom: Custom = ""
    """`model` where the whole model is the user's own object, `attention` where its mechanism is; loading then asks for it,
    because a configuration cannot build it."""
