"""Requests for translations: texts that they must begin with or contain, and the settings of search or sampling."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.config import DecodingConfig
from regard.decoding import Guidance, Hypothesis, Sampling, restrictions_of, sample, search
from regard.errors import RequestError
from regard.models.seq2seq import Seq2Seq
from regard.reweight import ReweightBySite
from regard.tasks.requests import check_texts
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.tokenizer import Encoding, Tokenizer


def _phrases(given: Sequence[str]) -> list[str]:
    """Return the phrases that one translation must contain.

    Raises:
        RequestError: If they are not a list of texts.
    """
    if isinstance(given, str):
        raise RequestError(
            f"constraints: got {given[:40]!r}, expected a list of phrases for each text: constraints=[['a phrase', …], …]"
        )
    return check_texts("constraints", given)


class TargetConstraints:
    """Texts that several translations must begin with (prefixes), and words and phrases that they must contain (constraints).

    Args:
        count: Number of translations.
        tokenizer: Tokenizer of the target.
        prefix: Beginning of the translations: one text for all, or one for each; empty for none.
        constraints: For each translation a list of words and phrases that it must contain.

    Raises:
        RequestError: If the number of prefixes or of lists of constraints differs from `count`, something is not a text, or a
            constraint is empty.
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
        demands = [[]] * count if constraints is None else [_phrases(each) for each in constraints]
        for name, given in (("prefix", prefixes), ("constraints", demands)):
            if len(given) != count:
                raise RequestError(
                    f"translate: got {count} texts, but the length of {name} is {len(given)}; expected one item for each text"
                )
        for number, texts in enumerate(demands, 1):
            if not all(text.strip() for text in texts):
                raise RequestError(f"translate: a constraint of text {number} is empty; leave it out")
        self._tokenizer = tokenizer
        self._prefixes = [tokenizer.encode(text) for text in prefixes]
        self._phrases = [[tokenizer.encode(text) for text in texts] for texts in demands]
        self._continues = _continuing(tokenizer)

    def holds(self, number: int) -> bool:
        """Return whether the translation with this number has a prefix or constraints."""
        return bool(self._prefixes[number].ids or self._phrases[number])

    def take(self, numbers: Iterable[int | None]) -> Guidance:
        """Return the prefixes and constraints of the translations with these numbers; None means a translation without any."""
        chosen = list(numbers)
        prefixes = [[] if number is None else self._prefixes[number].ids for number in chosen]
        phrases = [[] if number is None else [each.ids for each in self._phrases[number]] for number in chosen]
        return Guidance(prefixes, phrases, self._continues)

    def unknown(self, number: int, tokens: Sequence[int]) -> dict[int, str]:
        """Return the required words that contain unknown symbols, by the position of their symbols in a translation.

        The position of a word's first symbol has the word, and the positions of its other symbols have an empty text.

        Args:
            number: Number of the translation.
            tokens: Tokens of the translation.
        """
        replaced = _unknown_at(self._tokenizer, self._prefixes[number], 0)
        for phrase in self._phrases[number]:
            size = len(phrase.ids)
            places = [at for at in range(len(tokens) - size + 1) if list(tokens[at : at + size]) == phrase.ids]
            free = [words for at in places if not (words := _unknown_at(self._tokenizer, phrase, at)).keys() & replaced.keys()]
            replaced |= free[0] if free else {}
        return replaced


def _unknown_at(tokenizer: Tokenizer, encoding: Encoding, start: int) -> dict[int, str]:
    """Return the words of a text that contain unknown symbols, by the position of their symbols.

    The position of a word's first symbol has the word, and the positions of its other symbols have an empty text.

    Args:
        tokenizer: The tokenizer.
        encoding: The text, encoded.
        start: Position of the text's first symbol.
    """
    # A space that is a separate symbol is not replaced.
    space = "" if tokenizer.scheme.leading_space else tokenizer.scheme.space
    replaced: dict[int, str] = {}
    for word in {owner for owner, number in zip(encoding.word_of, encoding.ids, strict=True) if number == UNKNOWN}:
        symbols = enumerate(zip(encoding.word_of, encoding.tokens, strict=True), start)
        first, *others = [at for at, (owner, token) in symbols if owner == word and not (space and token == space)]
        replaced |= {first: encoding.words[word]} | dict.fromkeys(others, "")
    return replaced


def _continuing(tokenizer: Tokenizer) -> torch.Tensor | None:
    """Return a tensor that is True for symbols that continue a word: they begin with a letter or digit, not with a space mark.

    Return None if the tokenizer does not mark the space before every word.
    """
    if not tokenizer.scheme.leading_space:
        return None
    mark = tokenizer.scheme.space
    return torch.tensor([not token.startswith(mark) and token[:1].isalnum() for token in tokenizer.vocabulary()])


@dataclass(frozen=True)
class SearchRequest:
    """Settings of one search for translations, or of one sampling."""

    decoding: DecodingConfig
    n_best: int
    sites: list[str]
    guide: TargetConstraints | None
    sampling: Sampling | None
    reweight: ReweightBySite | None

    @property
    def width(self) -> int:
        """Number of hypotheses per sentence: samples, or the beam size."""
        return max(1, self.sampling.count if self.sampling else self.decoding.beam_size)

    def run(self, model: Seq2Seq, ids: Tensor, mask: Tensor, places: list[tuple[int, int]]) -> list[list[Hypothesis]]:
        """Search for translations, or sample them.

        Args:
            model: The model.
            ids: Ids of parts of texts, a row for each part.
            mask: True at the ids, False at padding.
            places: For each part, the number of its text and the number of the part within this text, from 0.
        """
        guidance = None
        if self.guide is not None:  # prefix and constraints of a long text apply to its first part
            guidance = self.guide.take(None if later else number for number, later in places)
        common: dict[str, Any] = {"guidance": guidance, "record": self.sites, "reweight": self.reweight}
        if self.sampling is None:
            return search(model, ids, mask, self.decoding, n_best=self.n_best, **common)
        return sample(
            model,
            ids,
            mask,
            self.sampling,
            numbers=[number + (later << 40) for number, later in places],  # separate random numbers for each part
            length_penalty=self.decoding.length_penalty,
            length_reward=self.decoding.length_reward,
            max_length=self.decoding.max_length,
            restrictions=restrictions_of(replace(self.decoding, beam_size=1)),  # sampling has no groups
            **common,
        )
