"""Choose a tokenizer from the text, for `kind: auto`; and find the ends of sentences among its tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from regard.config import (
    AutoConfig,
    FixedTokenizerConfig,
    PretrainedTokenizerConfig,
    TokenizerConfig,
    WhitespaceConfig,
    WordsConfig,
)
from regard.scripts import SENTENCE_ENDS
from regard.text.symbols import SPECIAL_TOKENS
from regard.text.tokenizers.pretrained import read_library
from regard.text.tokenizers.schemes import SPACE_MARK

SAMPLE_SIZE = 4096
"""Number of sentences, from the beginning of the training data, from which the kind is chosen."""

_COMMAS = ",،፣၊՝"
# Characters that may follow the end of a sentence.
_CLOSING = "\"'“”‘’«»‹›)]} \t"


def is_tokenised(texts: Sequence[str]) -> bool:
    """Return whether text is tokenised, with punctuation separated from words: `she kissed him .`"""
    # Text is tokenised if at least 95% of the final punctuation marks and of the commas after a word have a space before them,
    # and there are at least half as many such marks as sentences. Text without punctuation counts as not tokenised, because the
    # rules for words split it at spaces anyway.
    stripped = [text.rstrip(_CLOSING) for text in texts]
    ended = [text for text in stripped if text.endswith(tuple(SENTENCE_ENDS))]
    apart = sum(text.rstrip(SENTENCE_ENDS)[-1:].strip() == "" for text in ended)
    commas = [chunk for text in texts for chunk in text.split() if chunk[-1] in _COMMAS]
    enough = 2 * (len(ended) + len(commas)) >= len(texts) > 0
    return bool(enough and apart >= 0.95 * len(ended) and sum(len(chunk) == 1 for chunk in commas) >= 0.95 * len(commas))


def resolve_kinds(
    configs: Sequence[TokenizerConfig], sample: Iterable[Sequence[Sequence[str]]], *, joint: bool = False
) -> tuple[FixedTokenizerConfig, ...]:
    """Replace `auto` by a kind: `whitespace` for tokenised text, else `words`; if `joint`, the same for all columns."""
    # The first `SAMPLE_SIZE` rows of `sample`, chunks with a list for each column, are read, or none if no kind is `auto`.
    if not any(isinstance(config, AutoConfig) for config in configs):
        return tuple(_resolve(config, False) for config in configs)
    columns: list[list[str]] = [[] for _ in configs]
    for chunk in sample:
        for texts, new in zip(columns, chunk, strict=True):
            texts += new
        if len(columns[0]) >= SAMPLE_SIZE:
            break
    tokenised = [is_tokenised(texts[:SAMPLE_SIZE]) for texts in columns]
    if joint:
        tokenised = [all(tokenised)] * len(columns)
    return tuple(map(_resolve, configs, tokenised))


def _resolve(config: TokenizerConfig, tokenised: bool) -> FixedTokenizerConfig:
    if isinstance(config, PretrainedTokenizerConfig) and not config.checksum:
        return replace(config, checksum=read_library(config.name)[1])
    if not isinstance(config, AutoConfig):
        return config
    kind = WhitespaceConfig if tokenised else WordsConfig
    return kind(lowercase=config.lowercase, min_count=config.min_count, max_size=config.max_size)


def sentence_ends(vocabulary: Sequence[str]) -> tuple[int, ...]:
    """Return the ids of tokens that consist only of full stops, exclamation marks, question marks and ellipses."""
    spelled = [token.removeprefix(SPACE_MARK) for token in vocabulary[len(SPECIAL_TOKENS) :]]
    marks = frozenset(SENTENCE_ENDS + "．｡‼⁇⁈⁉")
    return tuple(number for number, token in enumerate(spelled, len(SPECIAL_TOKENS)) if token and marks.issuperset(token))
