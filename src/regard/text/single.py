"""Preparation of examples with a single text: labelled texts and plain texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from regard.config import FixedTokenizerConfig, LabelledDataConfig, TextDataConfig, TokenizerConfig
from regard.text.mapped import MappedCorpus
from regard.text.preparation import C, DataSchema, P, Part, S, read_json
from regard.text.report import TextsReport
from regard.text.spool import Texts
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

M = TypeVar("M", bound=MappedCorpus)
R = TypeVar("R", bound=TextsReport)


@dataclass(frozen=True, kw_only=True)
class SingleTextData(Generic[M, R]):
    """Texts, ready for training."""

    train: M
    dev: M
    """Texts to validate on; may be empty."""
    tokenizer: Tokenizer
    tokenizer_config: FixedTokenizerConfig
    """The settings of the tokenizer, with a fixed kind instead of `auto`."""
    report: R
    fingerprint: str
    """Hash of the files' bytes."""


class SingleTextSchema(DataSchema[C, S, P]):
    """A kind of data with one text per example.

    Args:
        data: The settings of the data.
        tokenizer: The settings of the tokenizer.
        learned: The tokenizer of a model that training starts from, which is used instead of a new one.
    """

    columns = ("text",)

    def __init__(
        self, data: LabelledDataConfig | TextDataConfig, tokenizer: TokenizerConfig, learned: Tokenizer | None
    ) -> None:
        super().__init__(data, (tokenizer,), None if learned is None else (learned,))
        self._texts = data

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizer."""
        language, form = self._texts.language, self._texts.normalization
        column = (chunk[0] for chunk in texts)
        return (build_tokenizer(column, self.tokenizers[0], language=language, normalization=form, progress=progress),)

    def count_texts(self, train: Part[S], dev: Part[S], tokenizers: Sequence[Tokenizer]) -> dict[str, Any]:
        """Return the fields of a `TextsReport`, except `notes` and `symbols`."""
        known = train.spool.hashes[0][train.chosen]
        return {
            "train": train.report,
            "dev": dev.report if self.files.dev else None,
            "train_texts": len(train),
            "dev_texts": len(dev),
            "vocabulary_size": tokenizers[0].size,
            "train_tokens": train.tokens[0],
            "overlap": int(np.isin(dev.spool.hashes[0], known).sum()) if self.files.dev else None,
        }

    def load_texts(
        self, folder: Path, tokenizers: Sequence[Tokenizer], fingerprint: str, corpus: type[M], report: type[R]
    ) -> dict[str, Any]:
        """Return the fields of a `SingleTextData`, loaded from a folder of the cache."""
        return {
            "train": corpus(folder / "train.arrow"),
            "dev": corpus(folder / "dev.arrow"),
            "tokenizer": tokenizers[0],
            "tokenizer_config": self.tokenizers[0],
            "report": report.from_dict(read_json(folder / "report.json")),
            "fingerprint": fingerprint,
        }
