"""The preparation of sentence pairs: both sides are tokenised, duplicates and pairs with too many tokens are left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.config import DataConfig, TokenizersConfig
from regard.text.clean import Chunk
from regard.text.corpora import EncodedCorpus
from regard.text.languages import describe_unknown
from regard.text.mapped import Rows
from regard.text.pairs.readers import read_pairs
from regard.text.preparation import DataSchema, EncodedRows, Part, Prepared
from regard.text.report import REPEATED_PAIR, TOO_MANY_TOKENS, ReadingReport
from regard.text.split import Indices, ranges
from regard.text.spool import Texts
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizers


@dataclass(frozen=True, kw_only=True)
class PreparedData(Prepared[EncodedCorpus]):
    """Sentence pairs, ready for training."""

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of the sources."""
        return self.column_tokenizers[0]

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of the targets; the same object as `source_tokenizer` if both sides share a tokenizer."""
        return self.column_tokenizers[1]

    @property
    def tokenizers(self) -> TokenizersConfig:
        """The settings of the tokenizers, with a fixed kind instead of `auto`."""
        source, target = self.column_configs
        return TokenizersConfig(source=source, target=target, joint=self.source_tokenizer is self.target_tokenizer)


class PairSchema(DataSchema):
    """Pairs of a source and a target; `learned` are the tokenizers of a model that training starts from."""

    content = "sentence pairs"
    example = "one file of pairs or two parallel files"
    unit = "pair"
    columns = ("source", "target")
    corpus = EncodedCorpus
    prepared = PreparedData
    repeated = REPEATED_PAIR
    drops_long = True

    def __init__(
        self, data: DataConfig, tokenizers: TokenizersConfig, learned: tuple[Tokenizer, Tokenizer] | None = None
    ) -> None:
        super().__init__(data, (tokenizers.source, tokenizers.target), learned, joint=tokenizers.joint)
        self.data, self.max_rows = data, data.max_pairs

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        return read_pairs(paths, self.data, report)

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizers of both sides."""
        source, target = self.tokenizers
        config = TokenizersConfig(source=source, target=target, joint=self.joint)
        return build_tokenizers(((chunk[0], chunk[1]) for chunk in texts), config, self.data, progress=progress)

    def encode(self, part: Part, positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Leave out pairs with too many tokens on either side."""
        fits = np.stack([np.diff(offsets) for _, offsets in encoded]).max(axis=0) <= self.data.max_tokens
        if not fits.all():
            part.report.withdraw(TOO_MANY_TOKENS, part.spool.lines[positions[~fits]])
            lengths = [np.diff(offsets) for _, offsets in encoded]
            encoded = [
                (ids[ranges(offsets[:-1][fits], length[fits])], np.r_[0, np.cumsum(length[fits])])
                for (ids, offsets), length in zip(encoded, lengths, strict=True)
            ]
            texts = tuple([text for text, fit in zip(column, fits.tolist(), strict=True) if fit] for column in texts)
        symbols = [ids for ids, _ in encoded]
        tokens = [len(ids) + int(fits.sum()) for ids in symbols]
        return EncodedRows(encoded, texts, symbols, tokens, int((~fits).sum()))

    def notes(self, too_long: int) -> list[str]:
        """Return lines on languages that regard does not know."""
        data = self.data
        return [*describe_unknown("data.source", data.source), *describe_unknown("data.target", data.target)]
