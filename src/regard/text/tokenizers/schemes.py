"""Splitting text into words and joining words to text, with one class for each kind of tokenizer.

A text is split at white space into *chunks*, a chunk into *words* (`him.` has two), and a word into *units*, which the model of
the vocabulary looks up. No rule depends on text outside a chunk, so the ids of a chunk are the same everywhere;
`Tokenizer.encode_batch` relies on this.
"""

import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

from tokenizers import Regex, pre_tokenizers

from regard.errors import ConfigError, install_command, nearest
from regard.text.languages import find_language
from regard.text.tokenizers.detokenizer import detokenize

SPACE_MARK = "▁"
"""Symbol for a space in the subwords of BPE and unigram models."""

_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}"
# Invisible characters such as joiners and marks of direction, but not the zero-width space, which separates words.
_FORMAT = r"[\p{Cf}&&[^\x{200B}]]"
# Characters that belong to the character before them, as in UAX 29 (rule WB4).
_EXTEND = r"[\p{M}\p{Cf}\x{1F3FB}-\x{1F3FF}&&[^\x{200B}]]"
_EMOJI = r"[0-9#*]\x{FE0F}?\x{20E3}|[\x{1F1E6}-\x{1F1FF}]{2}|\p{Extended_Pictographic}"
_JOINED_EMOJI = rf"{_EXTEND}*(?:(?<=\x{{200D}})\p{{Extended_Pictographic}}{_EXTEND}*)*"
_SUBWORD_UNIT = (
    rf"{SPACE_MARK}?[\p{{L}}\p{{M}}\p{{Cf}}]+|{SPACE_MARK}?\p{{N}}+"
    rf"|{SPACE_MARK}?([^\s\p{{L}}\p{{M}}\p{{N}}\p{{Cf}}{SPACE_MARK}])\1*"
)


def _word_pattern(letter: str) -> str:
    """Return the Oniguruma pattern of a word whose characters match the pattern `letter`."""
    joint = (
        r"(?<=[\p{Nd}\p{Cf}])[.,:;'’٫٬،⁄](?=\p{Cf}*\p{Nd})"  # 3.14, 1,000, 10:30
        r"|(?<=[\p{L}\p{M}\p{Cf}])['‘’.:·‧՟״](?=\p{Cf}*\p{L})"  # don't, U.S, EU:n
        r'|(?<=\p{Hebrew})"(?=\p{Hebrew})'  # an acronym
        r"|(?<=\p{Lu})&(?=\p{Lu})"  # R&B
        rf"|[-‐‑](?={letter})"  # well-known
    )
    first = (
        r"['’](?i:s|re|ve|ll|d|m|em|n|ne|nen|t)(?![\p{L}\p{N}])"  # 's, 'ne: the end of a word, or a short word
        rf"|(?:(?<!\S)[-−+](?=\p{{Nd}})|(?:(?<!\S)|(?<=[“”‘’»«\").]))[-‐‑](?=\p{{L}}))?{letter}+"  # -5; „Stop“-Schild
    )
    hanging = r"(?:(?<=\p{L})-(?![-\p{L}\p{N}])|(?<=\p{Hebrew})')?"  # Vor- und Nachname
    return rf"(?:{first})(?:(?:{joint}){letter}+)*{hanging}"


_LETTERS = r"\p{L}\p{Alphabetic}\p{M}\p{N}\p{Pc}\p{Cf}\x{2B0}-\x{2FF}\x{55A}-\x{55C}\x{55E}\x{58A}\x{5F3}\x{A708}-\x{A721}"
_ANY_LETTER = rf"[{_LETTERS}&&[^\x{{200B}}]]"
_LETTER = rf"[{_LETTERS}&&[^\x{{200B}}{_CJK}]]"
_WORD = rf"{_FORMAT}*(?:{_EMOJI}|[{_CJK}]|{_word_pattern(_LETTER)}|([^\s])\1*){_JOINED_EMOJI}"
_SUBWORD_WORD = rf"{SPACE_MARK}?{_FORMAT}*(?:{_EMOJI}|{_word_pattern(_ANY_LETTER)}|([^\s{SPACE_MARK}])\1*){_JOINED_EMOJI}"


@cache
def _cutter(pattern: str) -> Any:
    """Return a splitter that makes each match of a pattern a separate part. It is cached, because compiling is slow."""
    return pre_tokenizers.Split(Regex(pattern), "isolated")


class Scheme(ABC):
    """Rules of one kind of tokenizer.

    `language` selects the rules that join words. `pre_tokenizer` has the rules as an object of the `tokenizers` library, for
    saved files and for comparison in tests.
    """

    space: ClassVar[str] = ""
    """Symbol for the space before a word; empty if spaces are not symbols."""
    leading_space: ClassVar[bool] = False
    """Whether the first word of a text also has the mark of a preceding space."""
    needs: ClassVar[str] = ""
    """Rules that only a Python library implements, so that a page cannot use them; empty for regard's own rules."""

    def __init__(self, kind: str, language: str, pre_tokenizer: Any) -> None:
        self.kind, self.language, self.pre_tokenizer = kind, language, pre_tokenizer

    @abstractmethod
    def split(self, chunk: str) -> list[str]:
        """Split a chunk, which contains no space, into words."""

    def units(self, word: str, *, first: bool) -> Sequence[str]:
        """Split a word into units, which the vocabulary looks up; `first` is True if a space precedes the word."""
        return (word,)

    def to_plain(self) -> str:
        """Return everything else that determines the ids of a text, besides the symbols and the kind."""
        return ""

    def join(self, symbols: Sequence[str]) -> str:
        """Join symbols to text."""
        return self.join_words(symbols)

    def join_words(self, words: Sequence[str]) -> str:
        """Join words to text."""
        return detokenize(words, self.language)


class WhitespaceScheme(Scheme):
    """A scheme that splits text at ASCII white space, and joins tokens with one space between them."""

    def __init__(self) -> None:
        super().__init__("whitespace", "", pre_tokenizers.Split(Regex(r"[ \t\n\r\f\v]+"), "removed"))

    def split(self, chunk: str) -> list[str]:
        return re.findall(r"[^ \t\n\r\f\v]+", chunk)

    def join_words(self, words: Sequence[str]) -> str:
        return " ".join(words)


class WordsScheme(Scheme):
    """Words by rules based on Unicode's (UAX 29). A punctuation mark, or a run of equal ones, is a word.

    Numbers with separators, words with apostrophes and hyphens, and emoji with modifiers are not split. Chinese and Japanese
    are split into characters.
    """

    def __init__(self, language: str = "") -> None:
        self._splitter = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), _cutter(_WORD)])
        super().__init__("words", language, self._splitter)

    def split(self, chunk: str) -> list[str]:
        return [word for word, _ in self._splitter.pre_tokenize_str(chunk)]


class SpacyScheme(Scheme):
    """The rules of spaCy's blank pipeline for a language."""

    needs = "spaCy's rules"
    longest_part: ClassVar[int] = 400
    """Maximum number of characters that spaCy gets at once, because it needs quadratic time for text that it cannot split."""

    def __init__(self, language: str) -> None:
        super().__init__("spacy", language, pre_tokenizers.WhitespaceSplit())  # for text that spaCy has already split
        self._tokenizer = _spacy_tokenizer(language)

    def split(self, chunk: str) -> list[str]:
        parts = (chunk[start : start + self.longest_part] for start in range(0, len(chunk), self.longest_part))
        return [token.text for part in parts for token in self._tokenizer(part) if not token.is_space]

    def join_words(self, words: Sequence[str]) -> str:
        return detokenize(words, self.language, split_hyphens=self.language != "de")


class CharactersScheme(WordsScheme):
    """Every code point is a symbol, including the space."""

    space = " "

    def __init__(self, language: str = "") -> None:
        super().__init__(language)
        self.kind, self.pre_tokenizer = "characters", pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")

    def units(self, word: str, *, first: bool) -> Sequence[str]:
        return self.space + word if first else word

    def join(self, symbols: Sequence[str]) -> str:
        return "".join(symbols)


class SubwordScheme(Scheme):
    """Subwords, each of only letters, only digits or only punctuation. A space becomes a mark before a subword."""

    space = SPACE_MARK
    leading_space = True

    def __init__(self, kind: str, language: str = "") -> None:
        self._words, self._units = _cutter(_SUBWORD_WORD), _cutter(_SUBWORD_UNIT)
        steps = [pre_tokenizers.Metaspace(SPACE_MARK, "always"), self._words, self._units]
        super().__init__(kind, language, pre_tokenizers.Sequence(steps))

    def split(self, chunk: str) -> list[str]:
        # A mark in the text would be decoded as a space, so it is read as an underscore.
        return [word for part in chunk.replace(SPACE_MARK, "_").split() for word, _ in self._words.pre_tokenize_str(part)]

    def units(self, word: str, *, first: bool) -> Sequence[str]:
        return [unit for unit, _ in self._units.pre_tokenize_str(SPACE_MARK + word if first else word)]

    def join(self, symbols: Sequence[str]) -> str:
        return "".join(symbols).replace(SPACE_MARK, " ").strip()


def build_scheme(kind: str, language: str) -> Scheme:
    """Build the scheme for a kind of `TokenizerConfig`; the language is a code, or a name, such as `German` of a column."""
    language = find_language(language, codes=False) or language
    match kind:
        case "whitespace":
            return WhitespaceScheme()
        case "words":
            return WordsScheme(language)
        case "spacy":
            return SpacyScheme(language)
        case "characters":
            return CharactersScheme(language)
        case "bpe" | "unigram":
            return SubwordScheme(kind, language)
        case _:
            raise AssertionError(f"a tokenizer of kind {kind!r} has no scheme")


def _spacy_tokenizer(language: str) -> Any:
    try:
        import spacy
        import spacy.lang
    except ImportError as error:
        raise ConfigError(
            f"the spacy tokenizer for {language!r} needs spaCy, which cannot be imported ({error}): "
            f"{install_command('spacy')}, or set the tokenizer's kind to words"
        ) from error
    known = sorted(module.name for module in pkgutil.iter_modules(spacy.lang.__path__) if module.ispkg)
    if language not in known:
        raise ConfigError(
            f"spaCy has no language {language!r}{nearest(language, known)}; give a language code (en, de, …) "
            "with --data.source and --data.target or with the tokenizer's language, or set the tokenizer's kind to words"
        )
    try:
        return spacy.blank(language).tokenizer
    except ImportError as error:  # Japanese, Thai and others need further packages
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"spaCy's tokenizer for {language!r} cannot start: {reason}; or set the tokenizer's kind to words"
        ) from error
