"""Conversion of text to ids and back, with one class for all kinds of tokenizers.

A `Tokenizer` consists of a scheme, which splits text into words and units (`schemes.py`), symbols (`vocabulary.py`), and
normalisation: a Unicode form, and lower case for each word. Chunks are independent of each other, so the ids of each distinct
chunk are computed once and then looked up.
"""

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, tee
from pathlib import Path

import numpy as np
from jaxtyping import Int32, Int64

from regard.config import DataConfig, FixedTokenizerConfig, PretrainedTokenizerConfig, SpacyConfig, TokenizersConfig
from regard.errors import ConfigError, DataError
from regard.scripts import ends_word, is_spaceless
from regard.text.split import ranges
from regard.text.strings import to_form
from regard.text.symbols import END, SPECIAL_TOKENS, UNKNOWN, UNKNOWN_TOKEN, WHITE_SPACE, restore_space, show_space
from regard.text.tokenizers.file import read_tokenizer, write_tokenizer
from regard.text.tokenizers.pretrained import PretrainedScheme
from regard.text.tokenizers.resolve import resolve_kinds
from regard.text.tokenizers.schemes import CharactersScheme, Scheme, build_scheme
from regard.text.tokenizers.vocabulary import Symbols, learn

_MOST_CACHED = 500_000  # chunks, about 100 MB
_LONGEST_CACHED = 200  # characters of a chunk
_BATCH = 50_000  # number of texts at once, so that offsets fit into 32 bits
_NUM_SPECIAL = len(SPECIAL_TOKENS)


@dataclass(frozen=True)
class Encoding:
    """A text and its symbols."""

    ids: list[int]
    tokens: list[str]
    """The texts of the symbols."""
    words: list[str]
    """The words with the original case."""
    word_of: list[int]
    """Index of each token's word; −1 for padding, start and end symbols. The space before a word belongs to that word."""

    def first(self, longest: int) -> "Encoding":
        """Return the first tokens as a classifier reads them; see `regard.text.corpora.cut_rows`."""
        kept = list(range(min(longest, len(self.ids))))
        if len(self.ids) > longest and self.ids[-1] == END:
            kept[-1] = len(self.ids) - 1
        ids, tokens = [self.ids[n] for n in kept], [self.tokens[n] for n in kept]
        return Encoding(ids, tokens, self.words, [self.word_of[n] for n in kept])


class Tokenizer:
    """Conversion of text to ids and back. Get one from `build_tokenizer`, `build_tokenizers` or `Tokenizer.load`.

    If `lowercase`, words are converted to lower case before the look-up. `normalization` is `nfc`, `nfkc` or `none`.
    """

    def __init__(self, symbols: Symbols, *, scheme: Scheme, lowercase: bool = False, normalization: str = "nfc") -> None:
        self.symbols = symbols
        self.scheme = scheme
        self.lowercase = lowercase
        self.normalization = normalization
        self._model = symbols.model()
        self._id_of = {token: number for number, token in enumerate(symbols.tokens) if number >= _NUM_SPECIAL}
        self.keeps_space = not set(WHITE_SPACE).isdisjoint("".join(symbols.tokens)) and not isinstance(scheme, PretrainedScheme)
        self._whole_units = symbols.merges is None and symbols.scores is None
        self._cache: dict[str, list[int]] = {}  # ids of chunks; frequent chunks are soon cached again after it was cleared

    @property
    def size(self) -> int:
        """Number of symbols, including special ones."""
        return len(self.symbols.tokens)

    def vocabulary(self) -> tuple[str, ...]:
        """Return the texts of all symbols, by id."""
        return self.symbols.tokens

    def digest(self) -> str:
        """Return a hash of everything that determines the ids of a text: the symbols, their order, and the rules."""
        symbols = self.symbols
        rules = [self.kind, self.scheme.language, self.lowercase, self.normalization]
        plain = self.scheme.to_plain()
        whole = json.dumps([rules, symbols.tokens, symbols.merges, symbols.scores, *([plain] if plain else [])])
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def kind(self) -> str:
        return self.scheme.kind

    @property
    def encoder_ids(self) -> tuple[int, ...]:
        """The id of each symbol in the vocabulary of the pretrained encoder that the tokenizer belongs to; else empty."""
        return tuple(self.scheme.encoder_ids.tolist()) if isinstance(self.scheme, PretrainedScheme) else ()

    @property
    def record_scheme(self) -> str:
        """The `source_scheme` or `target_scheme` of attention records."""
        return "characters" if self.kind == "characters" else ""

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, size={self.size}, lowercase={self.lowercase})"

    def encode(self, text: str) -> Encoding:
        """Convert a text to symbols, and find the word of each symbol. Unknown words become the unknown symbol."""
        if isinstance(self.scheme, PretrainedScheme):
            found, owned, owners = self.scheme.encode(self._clean(text))
            return Encoding(found, [self.symbols.tokens[number] for number in found], owned, owners)
        ids: list[int] = []
        words: list[str] = []
        word_of: list[int] = []
        for chunk in self._clean(text).split(" "):
            for word, word_ids in self._chunk_words(chunk, at_start=not words):
                ids += word_ids
                word_of += [len(words)] * len(word_ids)
                words.append(word)
        tokens = [self.symbols.tokens[number] for number in ids]
        return Encoding(ids, tokens, *self._part(words, word_of, tokens))

    @property
    def has_whole_words(self) -> bool:
        """Whether each token is a word or a punctuation mark."""
        return self._whole_units and not self.scheme.space and not isinstance(self.scheme, PretrainedScheme)

    def split(self, text: str) -> list[str]:
        """Return the words of a text with the original case: one for each token, if tokens are whole words."""
        chunks = self._clean(text).split(" ")
        return [word for chunk in chunks for word, _ in split_units(self.scheme, chunk, False, spaced=False)]

    def look_up(self, word: str) -> tuple[str, int]:
        """Return a word as the vocabulary spells it, and its id."""
        key = word.lower() if self.lowercase else word
        return key, self._id_of.get(key, UNKNOWN)

    def encode_batch(self, texts: Sequence[str]) -> tuple[Int32[np.ndarray, " tokens"], Int64[np.ndarray, " offsets"]]:
        """Convert many texts to ids, fast. The ids equal those of `encode`, without special symbols.

        Returns:
            The concatenated ids of all texts, and the offsets of the texts: text i is `ids[offsets[i]:offsets[i + 1]]`.
        """
        parts = [self._encode_part(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        ids = np.concatenate([part for part, _ in parts]) if parts else np.zeros(0, np.int32)
        counts = np.concatenate([part for _, part in parts]) if parts else np.zeros(0, np.int64)
        return ids, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        """Return the words of texts that have the unknown symbol, or contain it, in the order in which they first occur."""
        ids, offsets = self.encode_batch(texts)
        affected = np.unique(np.searchsorted(offsets, np.flatnonzero(ids == UNKNOWN), side="right") - 1)
        # Splitting into words is slow, so only the different chunks of texts with unknown words are split.
        chunks = dict.fromkeys(chunk for number in affected.tolist() for chunk in self._clean(texts[number]).split(" "))
        encoding = self.encode(" ".join(chunks))
        pairs = zip(encoding.ids, encoding.word_of, strict=True)
        return list(dict.fromkeys(encoding.words[owner] for number, owner in pairs if number == UNKNOWN and owner >= 0))

    def decode(self, ids: Sequence[int], *, replace: dict[int, str] | None = None) -> str:
        """Convert ids to a text with the usual spacing. Padding, start and end symbols are left out.

        An end symbol between symbols ends a part of a long text; the next part begins with a space.

        Words of `replace` replace the symbols at their positions in `ids`; an empty word removes the symbol.
        """
        text = self.scheme.join(list(self._spell(ids, replace or {}).values()))
        return restore_space(text) if self.keeps_space else text

    def describe(self, ids: Sequence[int]) -> Encoding:
        """Return the symbols and the words of a model's output. An unknown symbol is a word `<unk>`, or part of a word."""
        numbers = [int(number) for number in ids]
        tokens = [self.symbols.tokens[number] for number in numbers]
        ordinary = self._spell(numbers, {})
        words, owners = self._group(list(ordinary.values()))
        word_of = [-1] * len(numbers)
        for position, owner in zip(ordinary, owners, strict=True):
            word_of[position] = owner
        return Encoding(numbers, tokens, words, word_of)

    def detokenize(self, words: Sequence[str]) -> str:
        """Join words, such as `Encoding.words`, to a text by rules. If spaces are symbols, `decode` restores them exactly."""
        text = self.scheme.join_words(words)
        return restore_space(text) if self.keeps_space else text

    def save(self, path: str | Path) -> None:
        """Write one JSON file. Equal tokenizers give equal bytes."""
        write_tokenizer(path, self.symbols, self.scheme, lowercase=self.lowercase, normalization=self.normalization)

    @classmethod
    def load(cls, path: str | Path, *, data: bytes | None = None) -> "Tokenizer":
        """Load a tokenizer that `save` wrote; `data` is the file's content, if it was read before.

        No code in the file is run, and all its contents are checked.
        """
        fields, symbols = read_tokenizer(path, data)
        scheme = fields.get("scheme") or build_scheme(fields["kind"], fields["language"])
        return cls(symbols, scheme=scheme, lowercase=fields["lowercase"], normalization=fields["normalization"])

    def _clean(self, text: str) -> str:
        return _clean(show_space(text) if self.keeps_space else text, self.normalization)

    def _chunk_words(self, chunk: str, *, at_start: bool) -> Iterable[tuple[str, list[int]]]:
        """Return the words of a chunk and their ids; `at_start` is True for the first chunk of a text."""
        for word, units in split_units(self.scheme, chunk, self.lowercase, spaced=not at_start or self.scheme.leading_space):
            if self._whole_units:
                yield word, [self._id_of.get(unit, UNKNOWN) for unit in units]
                continue
            # Ordinary text never gets the id of a special symbol.
            found = [token.id for unit in units for token in self._model.tokenize(unit)]
            yield word, [number if number >= _NUM_SPECIAL else UNKNOWN for number in found]

    def _add(self, chunk: str) -> list[int]:
        """Return the ids of a chunk, and cache them unless the chunk is very long."""
        words = self._chunk_words(self._clean(chunk), at_start=False)
        ids = [number for _, word_ids in words for number in word_ids]
        if len(chunk) <= _LONGEST_CACHED:
            self._cache[chunk] = ids
        return ids

    def _encode_part(self, texts: Sequence[str]) -> tuple[Int32[np.ndarray, " tokens"], Int64[np.ndarray, " texts"]]:
        """Return flat ids and the number of ids of each text."""
        if isinstance(self.scheme, PretrainedScheme):
            return self.scheme.encode_batch(list(map(self._clean, texts)))
        if len(texts) == 1:  # a command that reads one text would wait for the import of pyarrow
            ids = np.array(self.encode(texts[0]).ids, np.int32)
            return ids, np.array([len(ids)], np.int64)
        # Texts are split at spaces, each different chunk is looked up once, and its ids are copied to all its occurrences.
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.keeps_space:
            texts = list(map(show_space, texts))
        try:
            strings = pa.array(texts, pa.large_string())
        except UnicodeEncodeError:  # half of a surrogate pair
            strings = pa.array([_clean(text, "none") for text in texts], pa.large_string())
        # Chunks repeat often: coding them as a dictionary leaves one look-up for each different chunk of the batch.
        chunks = pc.split_pattern(strings, " ")
        coded = chunks.values.dictionary_encode()
        if len(self._cache) > _MOST_CACHED:
            self._cache.clear()
        cache = self._cache
        known = [cache[chunk] if chunk in cache else self._add(chunk) for chunk in coded.dictionary.to_pylist()]
        sizes = np.fromiter(map(len, known), np.int64, len(known))
        flat = np.fromiter(chain.from_iterable(known), np.int32, int(sizes.sum()))
        starts = np.cumsum(sizes) - sizes

        which = coded.indices.to_numpy()
        ids = flat[ranges(starts[which], sizes[which])]
        bounds = np.r_[0, np.cumsum(sizes[which])][chunks.offsets.to_numpy()]
        counts = np.diff(bounds)
        # Every chunk was given a space, but the first chunk of a text must not have one.
        if self.scheme.space and not self.scheme.leading_space:
            ids = np.delete(ids, bounds[:-1][counts > 0])
            counts -= counts > 0
        return ids, counts

    def _spell(self, ids: Sequence[int], replace: dict[int, str]) -> dict[int, str]:
        """Return the symbols of a text by their positions in `ids`, as `decode` joins them."""
        space = "" if self.scheme.leading_space else self.scheme.space
        spelled: dict[int, str] = {}
        before = ""
        for position, number in enumerate(ids):
            if number == UNKNOWN or number >= _NUM_SPECIAL:
                symbol = self._spelled(replace.get(position), number)
                parted = before and ids[position - 1] == END and not before[-1].isspace() and not symbol.isspace()
                spelled[position] = space + symbol if parted and not is_spaceless(before + symbol) else symbol
                before = (before + symbol)[-3:]
        return spelled

    def _spelled(self, replacement: str | None, number: int) -> str:
        if replacement is None:
            return self.symbols.tokens[number]
        return self.scheme.space + replacement if replacement and self.scheme.leading_space else replacement

    def _group(self, tokens: list[str]) -> tuple[list[str], list[int]]:
        """Group tokens into words by the rules of the scheme."""
        if not self.scheme.space:
            return tokens, list(range(len(tokens)))
        # A letter replaces the unknown symbol, so that the symbol belongs to the surrounding word.
        shown = [token.replace(self.scheme.space, " ") for token in tokens]
        spelled = [token.replace(UNKNOWN_TOKEN, "x") for token in shown]
        text = "".join(spelled)
        ends: list[int] = []  # where each word ends; a space belongs to the next word
        for word in chain.from_iterable(map(self.scheme.split, text.split(" "))):
            ends.append(text.index(word, ends[-1] if ends else 0) + len(word))
        words, word_of, at = [""] * len(ends), [], 0
        for token, part in zip(shown, spelled, strict=True):
            first = at + len(part) - len(part.lstrip(" "))
            word_of.append(min(bisect_right(ends, first), len(ends) - 1))
            if words:
                words[word_of[-1]] += token.strip(" ")
            at += len(part)
        return self._part(words, word_of, tokens)

    def _part(self, words: list[str], word_of: list[int], tokens: list[str]) -> tuple[list[str], list[int]]:
        """Split words of scripts without spaces, such as Chinese or Thai, where tokens begin."""
        if not self.scheme.space or not any(map(is_spaceless, words)):
            return words, word_of
        parts: list[str] = []
        part_of: list[int] = []
        for number, word in enumerate(words):
            text, start, at = word.lower() if self.lowercase else word, 0, 0
            for token in tokens[len(part_of) : bisect_right(word_of, number)]:
                found = text.find(spelled := token.replace(self.scheme.space, ""), at)  # −1 for a character that is unknown
                begin = max(found, at)
                if ends_word(word[start:begin], word[begin:]):
                    parts.append(word[start:begin])
                    start = begin
                part_of.append(len(parts))
                at = begin + (len(spelled) if found >= 0 else 1)
            parts.append(word[start:])
        return parts, part_of


def build_tokenizers(
    texts: Iterable[Sequence[Sequence[str]]], config: TokenizersConfig, data: DataConfig, *, progress: bool = False
) -> tuple[Tokenizer, Tokenizer]:
    """Learn the tokenizers of both sides in one pass over chunks of sources and targets; they are one object if joint.

    For `auto`, the kind is chosen from the first texts (`resolve.py`).
    """
    if config.joint and isinstance(config.source, SpacyConfig) and not config.source.language and data.source != data.target:
        raise ConfigError(
            "a joint spacy tokenizer splits both sides by the rules of one language, but data names "
            f"{data.source!r} and {data.target!r}: set tokenizers.source.language and "
            "tokenizers.target.language to one of them, or turn joint off"
        )
    texts, sample = tee(texts)
    kinds = resolve_kinds((config.source, config.target), sample, joint=config.joint)
    del sample  # otherwise it would keep all texts that are read
    if config.joint:
        # Decoded text is in the target's language, so a tokenizer for both sides joins words by the rules of that language.
        sides = ((chain(*chunk),) for chunk in texts)
        [both] = _learn(sides, kinds[:1], (data.target,), data.normalization, "on the source and target side ", progress)
        return both, both
    languages = data.source, data.target
    source, target = _learn(texts, kinds, languages, data.normalization, "on the {side} side ", progress)
    return source, target


def build_tokenizer(
    texts: Iterable[Iterable[str]],
    config: FixedTokenizerConfig,
    *,
    language: str = "",
    normalization: str = "nfc",
    progress: bool = False,
) -> Tokenizer:
    """Learn one tokenizer in one pass over chunks of texts."""
    [tokenizer] = _learn(((chunk,) for chunk in texts), (config,), (language,), normalization, "", progress)
    return tokenizer


def _learn(
    texts: Iterable[Sequence[Iterable[str]]],
    configs: Sequence[FixedTokenizerConfig],
    languages: Sequence[str],
    normalization: str,
    where: str,
    progress: bool,
) -> list[Tokenizer]:
    """Learn a tokenizer for each column of texts. Only distinct chunks are stored, not the texts."""
    named = (getattr(config, "language", "") or language for config, language in zip(configs, languages, strict=True))
    schemes = [
        PretrainedScheme.of(config.name)
        if isinstance(config, PretrainedTokenizerConfig)
        else build_scheme(config.kind, language)
        for config, language in zip(configs, named, strict=True)
    ]
    counts: list[Counter[str]] = [Counter() for _ in configs]
    starts = [0] * len(configs)  # number of texts whose first chunk has no symbol of a preceding space
    for columns in texts:
        for number, column in enumerate(columns):
            if isinstance(schemes[number], PretrainedScheme):
                continue  # nothing to learn
            cut = [text.split(" ") for text in column]
            counts[number].update(chain.from_iterable(cut))
            if isinstance(schemes[number], CharactersScheme):
                starts[number] += sum(map(any, cut))
    made = []
    for number, (config, scheme) in enumerate(zip(configs, schemes, strict=True)):
        if isinstance(scheme, PretrainedScheme):
            made.append(Tokenizer(scheme.symbols, scheme=scheme, normalization=normalization))
            continue
        assert not isinstance(config, PretrainedTokenizerConfig)
        units: Counter[str] = Counter()
        for chunk, count in counts[number].items():
            for _, parts in split_units(scheme, _clean(chunk, normalization), config.lowercase, spaced=True):
                for part in parts:
                    units[part] += count
        if starts[number]:
            units[scheme.space] -= starts[number]
        if not (units := +units):
            side = where.format(side=("source", "target")[number])
            raise DataError(f"found no text {side}to learn a vocabulary from: check the files and columns")
        symbols = learn(units, config, progress=progress)
        made.append(Tokenizer(symbols, scheme=scheme, lowercase=config.lowercase, normalization=normalization))
    return made


def _clean(text: str, normalization: str) -> str:
    """Convert text to its Unicode form, and replace characters that UTF-8 cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    return to_form(text, normalization)


def split_units(scheme: Scheme, chunk: str, lowercase: bool, *, spaced: bool) -> Iterable[tuple[str, Sequence[str]]]:
    """Return the words of a chunk and the units of each; `spaced` is True if a space mark precedes the first unit."""
    first = True
    for part in chunk.split() if scheme.kind != "whitespace" else (chunk,):
        at_start = True
        for word in scheme.split(part):
            yield word, scheme.units(word.lower() if lowercase else word, first=at_start and (spaced or not first))
            first = at_start = False
