"""The preparation of tagged sentences: words are split into tokens, tags are numbered, long sentences are split into parts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.config import TaggedDataConfig, TokenizerConfig
from regard.text import mapped, reasons
from regard.text.batching import Tensors
from regard.text.clean import Chunk
from regard.text.corpora import cut_rows
from regard.text.labelled.labels import Labels
from regard.text.labelled.prepare import labels_of, renumber
from regard.text.mapped import Ids, MappedCorpus, Offsets, Rows, pad_rows
from regard.text.preparation import DataSchema, EncodedRows, Part, Selection
from regard.text.report import ReadingReport
from regard.text.split import Indices
from regard.text.spool import Spool, Texts
from regard.text.symbols import END, START
from regard.text.tagged.readers import WHAT, read_tagged
from regard.text.tokenizers.tokenizer import Tokenizer

NO_TAG = -1
"""Number that pads shorter rows of tags in a batch."""


@dataclass(frozen=True)
class EncodedWords:
    """Sentences as ids: the parts that a model reads at once, in order."""

    ids: Ids
    """The tokens of all words."""
    starts: Offsets
    """Position in `ids` at which each word begins, and the number of tokens."""
    bounds: Offsets
    """Number of the word at which each part begins, and the number of words."""
    sentence: Indices
    """Index of the sentence of each part."""
    ends: bool = False
    """Whether each part is between the start and the end symbol."""

    @property
    def tokens(self) -> Rows:
        """The tokens of each part."""
        return self._between(self.ids, (START, END)), self.starts[self.bounds] + 2 * self.ends * np.arange(len(self.bounds))

    @property
    def word_of(self) -> Ids:
        """The number of each token's word, counted over all sentences; −1 for start and end symbols."""
        owners = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))
        return self._between(owners, (-1, -1))

    @property
    def places(self) -> Rows:
        """The position of each word's first token, in its part."""
        begins = np.repeat(self.starts[self.bounds[:-1]], np.diff(self.bounds))
        return (self.starts[:-1] - begins + self.ends).astype(np.int32), self.bounds

    def _between(self, values: Ids, around: tuple[int, int]) -> Ids:
        """Insert two values around each part if there are start and end symbols."""
        if not self.ends:
            return values
        borders = np.repeat(self.starts[self.bounds], 2)[1:-1]
        return np.insert(values, borders, np.tile(around, len(self.bounds) - 1)).astype(np.int32, copy=False)


def encode_words(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], longest: int) -> EncodedWords:
    """Convert words to tokens, at least one per word, and split sentences of more than `longest` tokens between words.

    A word with more than `longest` tokens is truncated, and is tagged like other words.
    """
    ends = bool(tokenizer.encoder_ids)  # a pretrained encoder has start and end symbols
    longest = max(1, longest - 2) if ends else longest
    flat = chain.from_iterable(sentences)
    ids, starts = tokenizer.encode_batch([f" {word}" for word in flat] if ends else list(flat))
    if ends:  # remove those around each word
        ids, starts = np.delete(ids, np.r_[starts[:-1], starts[1:] - 1]), starts - 2 * np.arange(len(starts))
    (ids, starts), _ = cut_rows(ids, starts, longest)
    bounds, owners, first = [0], [], 0
    for number, words in enumerate(sentences):
        end = first + len(words)
        while first < end:
            fits = int(np.searchsorted(starts, starts[first] + longest, side="right")) - 1
            first = min(fits, end)
            bounds.append(first)
            owners.append(number)
    return EncodedWords(ids, starts, np.array(bounds, np.int64), np.array(owners, np.int64), ends)


@dataclass(frozen=True)
class TaggedBatch(Tensors):
    """Tagged sentences as tensors."""

    tokens: Int[Tensor, "B S"]
    """Ids, padded at the end."""
    mask: Bool[Tensor, "B S"]
    """True at tokens, False at padding."""
    places: Int[Tensor, "B W"]
    """Position of the first token of each word, padded with 0."""
    tags: Int[Tensor, "B W"]
    """Number of each word's tag, padded with −1."""
    index: Int[Tensor, " B"]


class TaggedCorpus(MappedCorpus):
    """Encoded sentences with the tags and the texts of their words, in a file."""

    schema = pa.schema(
        [
            *(pa.field(name, pa.large_list(pa.int32())) for name in ("tokens", "places", "tags")),
            pa.field("text", pa.large_string()),
        ]
    )
    multiple = True

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._starts, self.lengths = self._rows("tokens")
        self._place_starts, self.num_words = self._rows("places")
        self._tag_starts, _ = self._rows("tags")

    def batch(self, indices: mapped.Indices) -> TaggedBatch:
        """Return the tensors of some sentences, padded to the longest."""
        rows = np.asarray(indices, np.int64)
        tokens, mask = pad_rows(self._flat, self._starts[rows], self.lengths[rows])
        places, known = pad_rows(self._flat, self._place_starts[rows], self.num_words[rows])
        tags, _ = pad_rows(self._flat, self._tag_starts[rows], self.num_words[rows])
        return TaggedBatch(*map(torch.from_numpy, (tokens, mask, places, np.where(known, tags, NO_TAG), rows.copy())))

    def texts(self, indices: mapped.Indices) -> list[str]:
        """Return the words of sentences, separated by spaces, in the order of `indices`."""
        return self._texts("text", indices)


class TaggedSchema(DataSchema):
    """Sentences with a tag for each word; `learned` are the tokenizer and the tags of a model that training starts from."""

    content = WHAT
    example = "a file of tagged sentences"
    unit = "sentence"
    untokenised = ("tag",)
    grouped = (-1, -1)  # different sentences often have equal tags
    corpus = TaggedCorpus
    repeated = reasons.REPEATED_SENTENCE
    data: TaggedDataConfig

    def __init__(
        self, data: TaggedDataConfig, tokenizer: TokenizerConfig, learned: tuple[Tokenizer, tuple[str, ...]] | None = None
    ) -> None:
        super().__init__(data, (tokenizer,), learned[:1] if learned else None)
        self.max_rows = data.max_sentences
        self._tags = learned[1] if learned else ()
        self._tokenizer = learned[0] if learned else None

    def settings(self) -> dict[str, tuple[str, ...]]:
        """Return the tags of the model that training starts from."""
        return {"known": self._tags}

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        return read_tagged(paths, self.data, report)

    def select(self, spool: Spool, report: ReadingReport, seed: int) -> Selection:
        """Select as for all data, and number the tags as in the model that training starts from, which must have all."""
        selection = super().select(spool, report, seed)
        known = Labels(self._tags, True, (0,) * len(self._tags)) if self._tags else None
        return replace(selection, spool=renumber(spool, known, report)) if known else selection

    def learn(self, texts: Iterable[Texts], progress: bool) -> tuple[Tokenizer, ...]:
        """Learn the tokenizer, and keep it, because `encode` splits word by word."""
        [self._tokenizer] = found = super().learn(texts, progress)
        return found

    def match_dev(self, spool: Spool, selection: Selection, report: ReadingReport) -> Spool:
        """Number the tags of dev files as in training, which must have all of them."""
        return renumber(spool, labels_of(selection.spool), report)

    def encode(self, part: Part, positions: Indices, encoded: Sequence[Rows], texts: Texts) -> EncodedRows:
        """Convert words and tags to numbers, and split long sentences."""
        tags, sentences = ([row.split(" ") for row in column] for column in texts)
        assert self._tokenizer is not None, "encode is called after learn"
        words = encode_words(self._tokenizer, sentences, self.data.max_tokens)
        number = {name: place for place, name in enumerate(part.spool.names)}
        flat = list(chain.from_iterable(sentences))
        parts = [" ".join(flat[begin:end]) for begin, end in pairwise(words.bounds.tolist())]
        numbered = np.fromiter(map(number.__getitem__, chain.from_iterable(tags)), np.int32, len(flat))
        split = len(np.unique(words.sentence[1:][np.diff(words.sentence) == 0]))
        rows = [words.tokens, words.places, (numbered, words.bounds)]
        return EncodedRows(rows, [parts], [words.tokens[0]], [len(words.tokens[0])], split)

    def notes(self, too_long: int) -> list[str]:
        limit = f"{self.data.max_tokens:,} tokens (data.max_tokens)"
        return [f"sentences split into parts of at most {limit}: {too_long:,}"] if too_long else []
