"""Prepare sources for the model: encode them, split long ones, and build batches.

A source with more tokens than `data.max_tokens`, the limit in training, is split into parts: at ends of sentences if there are
any, otherwise between words. The parts are translated separately, and their translations are joined, so no text is lost. The
attention of each part is a block of the joined record.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from regard.decoding import Hypothesis, score_of
from regard.records.views import sides
from regard.scripts import SENTENCE_ENDS
from regard.tasks.requests import block_diagonal
from regard.text.copying import Copier
from regard.text.symbols import END, END_TOKEN, START, START_TOKEN
from regard.text.tokenizers.tokenizer import Encoding, Tokenizer

_ENDS = frozenset(SENTENCE_ENDS + ";；")
# Characters that belong to the sentence before them. Other quotation marks close in one language and open in another.
_CLOSING = frozenset("”’)]}」』》")


@dataclass(frozen=True)
class Source:
    """A text and its ids, in one part. A very long text has several parts; an empty one has none, unless it is guided."""

    text: str
    pieces: tuple[np.ndarray, ...]
    """Ids of each part, with an end symbol, and the start symbol of a pretrained encoder; two for each token if the model
    copies words (`Copier.encoded`).
    """

    def describe(self, tokenizer: Tokenizer) -> tuple[list[str], list[str], list[int]]:
        """Return the tokens, the words, and the index of each token's word; the symbols around each part have −1."""
        encoding = tokenizer.encode(self.text)
        tokens, word_of, start = [], [], count_starts(encoding.ids)
        for piece in self.pieces:
            first = count_starts(piece)
            stop = start + len(piece) - 1 - first
            tokens += [*[START_TOKEN] * first, *encoding.tokens[start:stop], END_TOKEN]
            word_of += [*[-1] * first, *encoding.word_of[start:stop], -1]
            start = stop
        return tokens, encoding.words, word_of


def as_source(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the ids of a text with one end symbol, which a pretrained tokenizer has added already."""
    return np.asarray(ids if len(ids) and ids[-1] == END else [*ids, END], np.int32)


def count_starts(ids: Sequence[int] | np.ndarray) -> int:
    """Return the number of start symbols of a source: 1 from a pretrained tokenizer, 0 from others."""
    return int(len(ids) > 0 and np.ravel(ids[0])[0] == START)


def encode_sources(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    longest: int,
    is_constrained: Callable[[int], bool] = lambda number: False,
    copier: Copier | None = None,
) -> list[Source]:
    """Encode texts, and split texts of more than `longest` tokens, not counting the end symbol, into parts.

    `is_constrained` returns whether the text with this number gets a translation even if it is empty, because the
    translation has a prefix or constraints. With a `copier`, the ids of a part are those that a model needs to copy words.
    """
    ids, offsets = tokenizer.encode_batch(texts)
    sources = []
    for number, text in enumerate(texts):
        whole = as_source(ids[offsets[number] : offsets[number + 1]])
        first = whole[: count_starts(whole)]
        own, most = whole[len(first) : -1], longest - len(first)
        cuts = [0, *find_cuts(tokenizer.encode(text), most), len(own)] if len(own) > most else [0, len(own)]
        pieces = [np.r_[first, own[start:stop], END] for start, stop in pairwise(cuts) if stop > start]
        if not pieces and is_constrained(number):
            pieces = [whole]
        if copier is not None:
            words = iter(copier.source.split(text))
            pieces = [copier.encoded(piece, list(islice(words, len(piece) - 1))) for piece in pieces]
        sources.append(Source(text, tuple(pieces)))
    return sources


def join(
    pieces: Sequence[Hypothesis], source: Source, num_words: int, length_penalty: float, length_reward: float
) -> Hypothesis:
    """Join the hypotheses of a source's parts into one, with an end symbol after each finished part.

    The attention of each part is a block. The result is finished if all parts are. Ids of copied words, which are positions of
    words beyond the `num_words` words of the vocabulary, then count from the beginning of the source.
    """
    if len(pieces) == 1:
        return pieces[0]
    tokens: list[int] = []
    start = 0
    for piece, part in zip(pieces, source.pieces, strict=True):
        tokens += [token + start if token >= num_words else token for token in piece.tokens]
        tokens += [END] if piece.finished and piece is not pieces[-1] else []
        start += len(part) - 1
    total = sum(piece.log_probability for piece in pieces)
    each = np.concatenate([piece.token_log_probabilities for piece in pieces])
    return Hypothesis(
        tokens=tokens,
        log_probability=total,
        score=score_of(total, float(len(each)), length_penalty, length_reward),
        finished=all(piece.finished for piece in pieces),
        token_log_probabilities=each,
        attention={site: block_diagonal(_parts(pieces, site)) for site in pieces[0].attention},
    )


def _parts(pieces: Sequence[Hypothesis], site: str) -> list[np.ndarray]:
    parts = [piece.attention[site] for piece in pieces]
    if site.startswith("decoder"):
        for number, before in enumerate(pieces[:-1], 1):
            # The start symbol of a part uses the column of the end symbol of the part before. If that part has no end
            # symbol, the column belongs to its last word, which must not get the weights of the start symbol.
            if not before.finished:
                parts[number] = parts[number].copy()
                parts[number][..., 0] = 0
    return parts


def find_cuts(encoding: Encoding, longest: int) -> list[int]:
    """Return the positions at which to split a long text, without special symbols, into parts of at most `longest` tokens."""
    words, owner = encoding.words, [word for word in encoding.word_of if word >= 0]
    starts = [at for at in range(1, len(owner)) if owner[at] != owner[at - 1]]
    sentences, ended = [], False
    for at in starts:
        before = words[owner[at - 1]]
        ended = before[-1:] in _ENDS or (ended and before in _CLOSING)
        if ended:
            sentences.append(at)
    cuts, at = [], 0
    # Each part ends at the last end of a sentence within its reach; without one, at the last end of a word, or anywhere.
    while len(owner) - at > longest:
        reach = (positions[bisect_right(positions, at + longest) - 1] for positions in (sentences, starts) if positions)
        at = next((cut for cut in reach if at < cut <= at + longest), at + longest)
        cuts.append(at)
    return cuts


def empty_hypothesis(sites: Collection[str]) -> Hypothesis:
    """Return the translation of an empty source, for which the model is not run."""
    size = {"source": 0, "target": 1}  # the target has only its end symbol; sites of the encoder have no rows and are left out
    shapes = {site: [size[side] for side in sides(site)] for site in sites}
    maps = {site: np.zeros(shape, dtype=np.float32) for site, shape in shapes.items() if shape[0]}
    return Hypothesis([], 0.0, 0.0, True, np.zeros(1, dtype=np.float32), maps)
