"""What the preparation of labelled texts and of texts alone has in common: an example has one text."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from regard.config import TokenizerConfig
from regard.text.cache import DataSettings
from regard.text.preparation import C, DataSchema, P, Part, S
from regard.text.spool import Texts
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer


class TextSettings(DataSettings, Protocol):
    """The settings of data of which each example has one text."""

    @property
    def language(self) -> str:
        """The language of the texts, as a code."""

    @property
    def normalization(self) -> str:
        """The Unicode form of the texts: `nfc`, `nfkc` or `none`."""


class SingleTextSchema(DataSchema[C, S, P]):
    """A kind of data of which each example has one text.

    Args:
        data: The settings of the data.
        tokenizer: The settings of the tokenizer.
        learned: The tokenizer of a model that training starts from, which is used instead of a new one.
    """

    columns = ("text",)

    def __init__(self, data: TextSettings, tokenizer: TokenizerConfig, learned: Tokenizer | None) -> None:
        super().__init__(data, (tokenizer,), None if learned is None else (learned,))
        self._texts = data

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizer."""
        language, form = self._texts.language, self._texts.normalization
        column = (chunk[0] for chunk in texts)
        return (build_tokenizer(column, self.tokenizers[0], language=language, normalization=form, progress=progress),)

    def find_overlap(self, train: Part[S], dev: Part[S]) -> int | None:
        """Return the number of texts in dev files that the training data has too; None without dev files."""
        if not self.files.dev:
            return None
        return int(np.isin(dev.spool.hashes[0], train.spool.hashes[0][train.chosen]).sum())
