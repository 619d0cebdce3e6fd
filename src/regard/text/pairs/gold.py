"""Gold alignments of training pairs: a file in Pharaoh format, and batches with its links.

Line n of the file belongs to line n of the pairs; a header is a line too. Pairs with an empty or missing line have no gold
alignment, and are used like all other pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from regard.config import DataConfig
from regard.errors import DataError
from regard.pharaoh import Link, parse_pharaoh
from regard.text.batching import Batch
from regard.text.cache import fingerprint_of, hash_files
from regard.text.corpora import EncodedCorpus
from regard.text.mapped import Indices
from regard.text.opening import CHUNK_ROWS, line_blocks
from regard.text.pairs.readers import read_pairs
from regard.text.preparation import Prepared
from regard.text.reasons import HEADER
from regard.text.report import ReadingReport, Skipped
from regard.text.split import hash_pairs, hash_texts
from regard.text.tokenizers.tokenizer import Tokenizer

Place = tuple[int, Sequence[Link]]
"""Number of a line of the alignment file, and the links in that line (source word, target word)."""


@dataclass(frozen=True)
class AlignedBatch(Batch):
    """A batch of pairs, some of which have a gold alignment."""

    gold: Float[Tensor, "B T S"]
    """Row t has equal weights, which sum to one, at the source symbols that symbol t of `target_out` is linked to; if symbol t
    has no link, all are zero.
    """


class AlignedCorpus(EncodedCorpus):
    """An encoded corpus with links between the symbols of its pairs.

    Args:
        path: As for `EncodedCorpus`.
        offsets: Index into `links` at which the links of each pair begin, and the end of the last, (N + 1,).
        links: Positions of the source symbol and of the target symbol of each link in their sentences, (L,2).
    """

    def __init__(self, path: str | Path, offsets: npt.NDArray[np.int64], links: npt.NDArray[np.int32]) -> None:
        super().__init__(path)
        self.offsets, self.links = offsets, links

    def __reduce__(self) -> tuple:
        return AlignedCorpus, (self.path, self.offsets, self.links)

    def batch(self, indices: Indices) -> AlignedBatch:  # type: ignore[override]  # links are between the usual tokens
        """Return a batch as for `EncodedCorpus`, with the gold alignment."""
        plain = super().batch(indices)
        gold = torch.zeros(*plain.target_out.shape, plain.source.shape[1])
        for row, pair in enumerate(plain.index.tolist()):
            links = torch.from_numpy(self.links[self.offsets[pair] : self.offsets[pair + 1]]).long()
            gold[row, links[:, 1], links[:, 0]] = 1
        return AlignedBatch(**vars(plain), gold=gold / gold.sum(-1, keepdim=True).clamp_min(1))


def add_gold_alignments(prepared: Prepared[EncodedCorpus], data: DataConfig) -> Prepared[EncodedCorpus]:
    """Add the alignments of `data.alignments` to the training pairs."""
    known = _read(data)
    offsets, links = [0], [np.zeros((0, 2), np.int32)]
    for start in range(0, len(prepared.train), CHUNK_ROWS):
        sources, targets = prepared.train.texts(range(start, min(start + CHUNK_ROWS, len(prepared.train))))
        for key, source, target in zip(_keys(sources, targets), sources, targets, strict=True):
            if key in known:
                links.append(_between_symbols(known[key], (source, target), prepared.tokenizers, data.alignments))
            offsets.append(offsets[-1] + (len(links[-1]) if key in known else 0))
    if not offsets[-1]:
        raise DataError(f"{data.alignments}: links no words of the training pairs; check that the file belongs to them")
    corpus = AlignedCorpus(prepared.train.path, np.array(offsets, np.int64), np.concatenate(links))
    fingerprint = fingerprint_of([prepared.fingerprint, *hash_files([data.alignments], "alignments")])
    return replace(prepared, train=corpus, fingerprint=fingerprint)


def _read(data: DataConfig) -> Mapping[int, Place]:
    """Return the line number and the sure links of each pair that has an alignment, by the hash of the pair."""
    lines = chain.from_iterable(lines for lines, _ in line_blocks(data.alignments))
    wanted: dict[int, str] = {}
    for number, text in enumerate(lines, 1):
        if text.strip():
            wanted[number] = text
    report, last = ReadingReport(), 0
    known: dict[int, Place] = {}
    for chunk in read_pairs(data.train, data, report):
        for key, line in zip(_keys(chunk.source, chunk.target), chunk.line, strict=True):
            if line in wanted:
                sure, _ = parse_pharaoh(wanted[line], where=f"{data.alignments}, line {line}")
                known.setdefault(key, (line, sorted(sure)))  # possible links are not used for training
        last = max(chunk.line, default=last)
    if header := next((line for line in report.skipped.get(HEADER, Skipped()).lines if line in wanted), 0):
        raise DataError(
            f"{data.alignments}: line {header:,} has links, but line {header:,} of the pairs is a header; write an empty line "
            "for it"
        )
    last = max(last, report.read)  # the line of the last pair; in a CSV file, it can be beyond the number of rows
    if wanted and max(wanted) > last:
        raise DataError(
            f"{data.alignments}: line {max(wanted):,} has an alignment, but the pairs end at line {last:,}; expected one line "
            "for each line of the pairs"
        )
    return known


def _keys(sources: Sequence[str], targets: Sequence[str]) -> list[int]:
    return hash_pairs(hash_texts(sources), hash_texts(targets)).tolist()


def _between_symbols(place: Place, texts: tuple[str, str], tokenizers: Sequence[Tokenizer], path: str) -> npt.NDArray[np.int32]:
    """Return links between all symbols of linked words."""
    number, links = place
    symbols: list[list[list[int]]] = []
    for tokenizer, text in zip(tokenizers, texts, strict=True):
        encoding = tokenizer.encode(text)
        of_word: list[list[int]] = [[] for _ in encoding.words]
        for symbol, word in enumerate(encoding.word_of):
            if word >= 0:
                of_word[word].append(symbol)
        symbols.append(of_word)
    for source, target in links:
        if source >= len(symbols[0]) or target >= len(symbols[1]):
            raise DataError(
                f"{path}, line {number}: the link {source}-{target} is beyond the {len(symbols[0])} and {len(symbols[1])} "
                f"words that the tokenizers find in this pair ({texts[0][:60]!r}); links must count words as the tokenizers do"
            )
    pairs = [(s, t) for source, target in links for s in symbols[0][source] for t in symbols[1][target]]
    return np.array(sorted(set(pairs)), np.int32).reshape(-1, 2)
