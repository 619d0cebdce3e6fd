"""The preparation of sentence pairs: both sides are tokenised, duplicates and pairs with too many tokens are left out."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np

from regard.config import DataConfig, TokenizersConfig
from regard.text import reasons
from regard.text.clean import Chunk
from regard.text.corpora import EncodedCorpus
from regard.text.languages import describe_unknown
from regard.text.mapped import Rows
from regard.text.pairs.readers import read_pairs
from regard.text.preparation import DataSchema, EncodedRows, Part
from regard.text.report import ReadingReport
from regard.text.split import Indices, take_rows
from regard.text.spool import Texts
from regard.text.symbols import END
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizers


class PairSchema(DataSchema):
    """Pairs of a source and a target; `learned` are the tokenizers of a model that training starts from."""

    content = "sentence pairs"
    example = "one file of pairs or two parallel files"
    unit = "pair"
    columns = ("source", "target")
    corpus = EncodedCorpus
    repeated = reasons.REPEATED_PAIR
    drops_long = True
    data: DataConfig

    def __init__(
        self, data: DataConfig, tokenizers: TokenizersConfig, learned: tuple[Tokenizer, Tokenizer] | None = None
    ) -> None:
        super().__init__(data, (tokenizers.source, tokenizers.target), learned, joint=tokenizers.joint)
        self.max_rows = data.max_pairs

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        return read_pairs(paths, self.data, report)

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        source, target = self.tokenizers
        config = TokenizersConfig(source=source, target=target, joint=self.joint)
        return build_tokenizers(((chunk[0], chunk[1]) for chunk in texts), config, self.data, progress=progress)

    def encode(self, part: Part, positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Leave out pairs with too many tokens on either side."""
        encoded = [_without_end(rows) for rows in encoded]
        fits = np.stack([np.diff(offsets) for _, offsets in encoded]).max(axis=0) <= self.data.max_tokens
        if not fits.all():
            part.report.withdraw(reasons.TOO_MANY_TOKENS, part.spool.lines[positions[~fits]])
            encoded = [take_rows(rows, np.flatnonzero(fits)) for rows in encoded]
            texts = tuple(list(compress(column, fits)) for column in texts)
        symbols = [ids for ids, _ in encoded]
        tokens = [len(ids) + int(fits.sum()) for ids in symbols]
        return EncodedRows(encoded, texts, symbols, tokens, int((~fits).sum()))

    def notes(self, too_long: int) -> list[str]:
        """Return lines on languages that regard does not know."""
        data = self.data
        return [*describe_unknown("data.source", data.source), *describe_unknown("data.target", data.target)]


def _without_end(rows: Rows) -> Rows:
    """Leave out the end symbols of a pretrained tokenizer, because batches add them."""
    ids, offsets = rows
    ended = np.diff(offsets) > 0
    ended[ended] = ids[offsets[1:][ended] - 1] == END
    if not ended.any():
        return rows
    return np.delete(ids, offsets[1:][ended] - 1), offsets - np.r_[0, np.cumsum(ended)]
