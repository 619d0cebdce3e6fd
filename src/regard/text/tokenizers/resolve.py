"""What kind of tokenizer a text needs, where the configuration leaves it open (`kind: auto`)."""

from collections.abc import Iterable, Sequence

from regard.config import AutoConfig, FixedTokenizerConfig, TokenizerConfig, TokenizersConfig, WhitespaceConfig, WordsConfig

SAMPLE_SIZE = 4096
"""Sentences that a kind is chosen by: the first of the training data."""

ENDS = ".!?…。！？।؟"
"""Marks that end a sentence."""
_CLOSING = "\"'“”‘’«»‹›)]} \t"
"""What may stand behind the end of a sentence."""


def is_tokenised(texts: Sequence[str]) -> bool:
    """Whether text is tokenised already, so that punctuation stands apart from words: `she kissed him .`

    It is if at least 95% of the full stops and the like at the end have a space before them, at least 95% of the commas behind
    a word have one too, and there is one of these marks for every second sentence. Text without punctuation counts as not
    tokenised: the rules for words cut it at its spaces anyhow.
    """
    stripped = [text.rstrip(_CLOSING) for text in texts]
    ended = [text for text in stripped if text.endswith(tuple(ENDS))]
    apart = sum(text.rstrip(ENDS)[-1:].strip() == "" for text in ended)
    commas = [chunk for text in texts for chunk in text.split() if chunk.endswith(",")]
    enough = 2 * (len(ended) + len(commas)) >= len(texts) > 0
    return bool(enough and apart >= 0.95 * len(ended) and commas.count(",") >= 0.95 * len(commas))


def resolve_kinds(
    config: TokenizersConfig, sample: Iterable[tuple[Sequence[str], Sequence[str]]]
) -> tuple[FixedTokenizerConfig, FixedTokenizerConfig]:
    """Put a kind in place of `auto`: `whitespace` for text that is tokenised already, `words` for any other.

    Args:
        config: The tokenizers' settings. Each side is judged by itself, both together where they are joint.
        sample: Chunks of sources and targets, of which the first `SAMPLE_SIZE` pairs are read, none if nothing is open.

    Returns:
        The source's and the target's settings.
    """
    source, target = config.source, config.target
    if not isinstance(source, AutoConfig) and not isinstance(target, AutoConfig):
        return source, target
    sources: list[str] = []
    targets: list[str] = []
    for chunk in sample:
        sources += chunk[0]
        targets += chunk[1]
        if len(sources) >= SAMPLE_SIZE:
            break
    tokenised = [is_tokenised(texts[:SAMPLE_SIZE]) for texts in (sources, targets)]
    if config.joint:
        tokenised = [all(tokenised)] * 2
    return _resolve(source, tokenised[0]), _resolve(target, tokenised[1])


def resolve_kind(config: TokenizerConfig, sample: Iterable[Sequence[str]]) -> FixedTokenizerConfig:
    """The same for one tokenizer.

    Args:
        config: The tokenizer's settings.
        sample: Chunks of texts, of which the first `SAMPLE_SIZE` are read, none if nothing is open.
    """
    if not isinstance(config, AutoConfig):
        return config
    texts: list[str] = []
    for chunk in sample:
        texts += chunk
        if len(texts) >= SAMPLE_SIZE:
            break
    return _resolve(config, is_tokenised(texts[:SAMPLE_SIZE]))


def _resolve(config: TokenizerConfig, tokenised: bool) -> FixedTokenizerConfig:
    if not isinstance(config, AutoConfig):
        return config
    kind = WhitespaceConfig if tokenised else WordsConfig
    return kind(lowercase=config.lowercase, min_count=config.min_count, max_size=config.max_size)
