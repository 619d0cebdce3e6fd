"""Files of tokenizers in a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.task import BundleFiles
    from regard.text.tokenizers.tokenizer import Tokenizer

TOKENIZER = "tokenizer.json"
"""The tokenizer of a classifier or a language model, or of both sides of a translator."""
SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"


def read_tokenizer(files: BundleFiles, name: str) -> Tokenizer:
    """Read a tokenizer from bytes whose checksum was verified.

    Raises:
        BundleError: If it is damaged.
    """
    from regard.text.tokenizers.tokenizer import Tokenizer

    return Tokenizer.load(files.path(name), data=files.content[name])
