"""Prepare sources for the model: encode them, split long ones, and build batches.

A source with more tokens than the sources in training is split into parts, at ends of sentences if there are any, else between
words. The parts are translated separately and joined, so no part of a line is lost. The attention of each part is a block of
the joined record.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.decoding import Hypothesis, score_of
from regard.records.views import sides
from regard.text.symbols import END, END_TOKEN, PAD
from regard.text.tokenizers.tokenizer import Encoding, Tokenizer

_SENTENCE_ENDS = frozenset(".!?…;。！？；")


@dataclass(frozen=True)
class Source:
    """A text with its ids in one part, or in several parts for a very long text; an empty text has no part."""

    text: str
    pieces: tuple[np.ndarray, ...]
    """Ids of each part, with an end symbol."""

    def describe(self, tokenizer: Tokenizer) -> tuple[list[str], list[str], list[int]]:
        """Return the tokens with the end symbols, words, and the word of each token (−1 for end symbols)."""
        encoding = tokenizer.encode(self.text)
        tokens, word_of, start = [], [], 0
        for piece in self.pieces:
            stop = start + len(piece) - 1
            tokens += [*encoding.tokens[start:stop], END_TOKEN]
            word_of += [*encoding.word_of[start:stop], -1]
            start = stop
        return tokens, encoding.words, word_of


def encode_sources(texts: Sequence[str], tokenizer: Tokenizer, longest: int) -> list[Source]:
    """Encode texts, and split those of more than `longest` tokens."""
    ids, offsets = tokenizer.encode_batch(texts)
    sources = []
    for number, text in enumerate(texts):
        own = ids[offsets[number] : offsets[number + 1]]
        cuts = [0, *_cuts(tokenizer.encode(text), longest), len(own)] if len(own) > longest else [0, len(own)]
        pieces = [np.append(own[start:stop], END) for start, stop in pairwise(cuts) if stop > start]
        sources.append(Source(text, tuple(pieces)))
    return sources


def guided(source: Source) -> Source:
    """Return a source with at least one part, because an empty text is also translated if there are constraints."""
    return source if source.pieces else Source(source.text, (np.array([END]),))


def pad(rows: Sequence[np.ndarray], device: torch.device) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return the rows of ids as one tensor, and a mask that is False at padding."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.full(mask.shape, PAD, dtype=np.int64)
    ids[mask] = np.concatenate(rows)
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def join(pieces: Sequence[Hypothesis], length_penalty: float, length_reward: float) -> Hypothesis:
    """Join the hypotheses of a source's parts, with end symbols between them and their attention in blocks.

    The result is finished if all parts are. It ends with an end symbol if the last part does.
    """
    if len(pieces) == 1:
        return pieces[0]
    tokens: list[int] = []
    for piece in pieces[:-1]:
        tokens += [*piece.tokens, END] if piece.finished else piece.tokens
    total = sum(piece.log_probability for piece in pieces)
    each = np.concatenate([piece.token_log_probabilities for piece in pieces])
    return Hypothesis(
        tokens=tokens + pieces[-1].tokens,
        log_probability=total,
        score=score_of(total, float(len(each)), length_penalty, length_reward),
        finished=all(piece.finished for piece in pieces),
        token_log_probabilities=each,
        attention={site: _blocks(_parts(pieces, site)) for site in pieces[0].attention},
    )


def _parts(pieces: Sequence[Hypothesis], site: str) -> list[np.ndarray]:
    parts = [piece.attention[site] for piece in pieces]
    if site.startswith("decoder"):
        for number, before in enumerate(pieces[:-1], 1):
            # Without an end symbol between two parts, the column of the start symbol would be that of the previous word.
            if not before.finished:
                parts[number] = parts[number].copy()
                parts[number][..., 0] = 0
    return parts


def _cuts(encoding: Encoding, longest: int) -> list[int]:
    """Return the positions at which to split a long text.

    Each part ends at the last end of a sentence within `longest` tokens, else at the last end of a word, else after `longest`
    tokens.
    """
    words, owner = encoding.words, encoding.word_of
    starts = [at for at in range(1, len(owner)) if owner[at] != owner[at - 1]]
    sentences = [at for at in starts if words[owner[at - 1]][-1:] in _SENTENCE_ENDS]
    cuts, at = [], 0
    while len(owner) - at > longest:
        reach = (positions[bisect_right(positions, at + longest) - 1] for positions in (sentences, starts) if positions)
        at = next((cut for cut in reach if at < cut <= at + longest), at + longest)
        cuts.append(at)
    return cuts


def _blocks(parts: Sequence[np.ndarray]) -> np.ndarray:
    rows, columns = sum(part.shape[-2] for part in parts), sum(part.shape[-1] for part in parts)
    whole = np.zeros((*parts[0].shape[:-2], rows, columns), dtype=np.float32)
    row = column = 0
    for part in parts:
        whole[..., row : row + part.shape[-2], column : column + part.shape[-1]] = part
        row, column = row + part.shape[-2], column + part.shape[-1]
    return whole


def empty_hypothesis(sites: Collection[str]) -> Hypothesis:
    """Return the translation of an empty source, for which the model is not run."""
    size = {"source": 0, "target": 1}  # the end symbol; sites within the source are empty
    shapes = {site: [size[side] for side in sides(site)] for site in sites}
    maps = {site: np.zeros(shape, dtype=np.float32) for site, shape in shapes.items() if shape[0]}
    return Hypothesis([], 0.0, 0.0, True, np.zeros(1, dtype=np.float32), maps)
