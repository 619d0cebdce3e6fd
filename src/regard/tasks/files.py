"""Names of the tasks' own files in a bundle, and functions that read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.errors import BundleError, DataError
from regard.task.bundle import BundleFiles, BundleFormat, Inventory

if TYPE_CHECKING:
    from regard.text.tokenizers.tokenizer import Tokenizer

Parts = TypeVar("Parts")

TOKENIZER = "tokenizer.json"
"""File of the tokenizer of a classifier or a language model, or of both sides of a translator with a joint vocabulary."""
SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"
LABELS = "labels.json"
FAITHFULNESS = "faithfulness.json"
"""File with a measurement of a classifier's attention, made after training. It is not signed, and may be missing."""


class TokenizerFormat(BundleFormat):
    """Base of the `BundleFormat` of tasks whose models have one tokenizer, of texts, as their only part."""

    def write_parts(self, parts: Tokenizer, folder: Path) -> None:
        parts.save(folder / TOKENIZER)

    def read_parts(self, files: BundleFiles) -> Tokenizer:
        return read_tokenizer(files, TOKENIZER)

    def inventory(self, parts: Tokenizer) -> Inventory:
        """Return the tokenizer under the name `text`."""
        return Inventory({"text": parts})


def read_tokenizer(files: BundleFiles, name: str) -> Tokenizer:
    """Read a tokenizer from the files of a bundle, whose checksums have been verified."""
    from regard.text.tokenizers.tokenizer import Tokenizer

    return Tokenizer.load(files.path(name), data=files.content[name])


def read_labels(files: BundleFiles, parse: Callable[[Any], Parts]) -> Parts:
    """Return what a function makes of the content of `labels.json`, which may be damaged.

    Raises:
        BundleError: If the content is not what the function expects.
    """
    from regard.bundle.load import first_line

    try:
        return parse(json.loads(files.content[LABELS]))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError, DataError) as error:
        message = f"it does not hold labels ({first_line(error)}); copy the model again"
        raise BundleError(f"{files.path(LABELS)} is damaged: {message}") from error
