"""Texts that translations must begin with or contain."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from unicodedata import category

import torch

from regard.decoding import Guidance
from regard.errors import RequestError
from regard.tasks.requests import check_texts
from regard.text.copying import Copier
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.tokenizer import Encoding, Tokenizer


class TargetConstraints:
    """Texts that several translations must begin with (prefixes), and words and phrases that they must contain (constraints).

    Args:
        count: Number of translations.
        tokenizer: Tokenizer of the target.
        prefix: Beginning of the translations: one text for all, or one for each; empty for none.
        constraints: For each translation a list of words and phrases that it must contain.
    """

    def __init__(
        self,
        count: int,
        tokenizer: Tokenizer,
        *,
        prefix: str | Sequence[str] | None = None,
        constraints: Sequence[Sequence[str]] | None = None,
    ) -> None:
        prefixes = [prefix or ""] * count if prefix is None or isinstance(prefix, str) else check_texts("prefix", prefix)
        self._is_empty = not any(prefixes) and constraints is None
        for each in constraints or ():
            if isinstance(each, str):
                expected = "a list of phrases for each text: constraints=[['a phrase', …], …]"
                raise RequestError(f"constraints: got {each[:40]!r}, expected {expected}")
        demands = [[]] * count if constraints is None else [check_texts("constraints", each) for each in constraints]
        for name, given in (("prefix", prefixes), ("constraints", demands)):
            if len(given) != count:
                raise RequestError(
                    f"translate: got {count} texts, but the length of {name} is {len(given)}; expected one item for each text"
                )
        for number, texts in enumerate(demands, 1):
            if not all(text.strip() for text in texts):
                raise RequestError(f"translate: a constraint of text {number} is empty; leave it out")
        self._tokenizer = tokenizer
        encoded = {text: tokenizer.encode(text) for text in prefixes}
        self._prefixes = [encoded[text] for text in prefixes]
        self._phrases = [[tokenizer.encode(text) for text in texts] for texts in demands]

    def holds(self, number: int) -> bool:
        """Return whether the translation with this number has a prefix or constraints."""
        return bool(self._prefixes[number].ids or self._phrases[number])

    def copy_from(self, copier: Copier, sources: Sequence[str], sizes: Sequence[int]) -> None:
        """Copy unknown words of prefixes and phrases from the sources, of whose words the first `sizes` can be copied."""

        def known(encoding: Encoding, words: Sequence[str]) -> Encoding:
            return replace(encoding, ids=copier.extended(encoding.ids, encoding.words, words))

        for number, size in enumerate(sizes if not self._is_empty else ()):
            words = copier.source.split(sources[number])[:size]
            self._prefixes[number] = known(self._prefixes[number], words)
            self._phrases[number] = [known(phrase, words) for phrase in self._phrases[number]]

    def take(self, numbers: Iterable[int | None]) -> Guidance | None:
        """Return the prefixes and constraints of the translations with these numbers; None means a translation without any."""
        if self._is_empty:
            return None
        chosen = list(numbers)
        prefixes = [[] if number is None else self._prefixes[number].ids for number in chosen]
        phrases = [[] if number is None else [each.ids for each in self._phrases[number]] for number in chosen]
        return Guidance(prefixes, phrases, self._continuing)

    @cached_property
    def _continuing(self) -> torch.Tensor | None:
        """Mask of the symbols that continue a word; None if the tokenizer does not mark the space before every word."""
        scheme = self._tokenizer.scheme
        if not scheme.leading_space:
            return None
        return torch.tensor([_continues_word(token[0]) for token in self._tokenizer.vocabulary()])

    def unknown(self, number: int, tokens: Sequence[int]) -> dict[int, str]:
        """Return the required words that contain unknown symbols, by the position of their symbols in a translation.

        The position of a word's first symbol has the word, and the positions of its other symbols have an empty text.
        """
        replaced = _unknown_at(self._tokenizer, self._prefixes[number], 0)
        for phrase in self._phrases[number]:
            size = len(phrase.ids)
            places = [at for at in range(len(tokens) - size + 1) if list(tokens[at : at + size]) == phrase.ids]
            # Phrases with the same unknown symbols take different places.
            free = [words for at in places if not (words := _unknown_at(self._tokenizer, phrase, at)).keys() & replaced.keys()]
            replaced |= free[0] if free else {}
        return replaced


def _continues_word(letter: str) -> bool:
    """Return whether a character is a letter, a digit, or a mark or joiner, which belongs to the letter before it."""
    return category(letter).startswith(("L", "N", "M", "Cf")) and letter != "\u200b"  # the zero-width space separates words


def _unknown_at(tokenizer: Tokenizer, encoding: Encoding, start: int) -> dict[int, str]:
    """Return the words of a text that contain unknown symbols, as `unknown` does; the text begins at position `start`."""
    # A space that is a separate symbol is not replaced.
    space = "" if tokenizer.scheme.leading_space else tokenizer.scheme.space
    replaced: dict[int, str] = {}
    for word in {owner for owner, number in zip(encoding.word_of, encoding.ids, strict=True) if number == UNKNOWN}:
        symbols = enumerate(zip(encoding.word_of, encoding.tokens, strict=True), start)
        first, *others = [at for at, (owner, token) in symbols if owner == word and not (space and token == space)]
        replaced |= {first: encoding.words[word]} | dict.fromkeys(others, "")
    return replaced
