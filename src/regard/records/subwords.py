"""Join subword tokens of common tokenizers into words."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from regard.errors import RequestError, nearest
from regard.records import checks
from regard.records.data import AttentionRecord

Scheme = Literal["auto", "wordpiece", "sentencepiece", "bytes", "end", "joiner", "none"]
_SCHEMES = ("auto", "wordpiece", "sentencepiece", "bytes", "end", "joiner", "none")
_SPECIAL = re.compile(r"\[(CLS|SEP|PAD|BOS|EOS)\]|</?s>|<(pad|bos|eos|cls|sep)>|<\|[^|]*\|>", re.IGNORECASE)
_STANDS_FOR_A_WORD = ("[UNK]", "<unk>", "[MASK]", "<mask>")


def join_subwords(
    tokens: Sequence[str], *, scheme: Scheme = "auto", special: Collection[str] | None = None
) -> tuple[list[str], list[int]]:
    """Join tokens into words.

    Args:
        tokens: Tokens of a tokenizer (`convert_ids_to_tokens`).
        scheme: How tokens mark words: `wordpiece` (un ##believ ##able), `sentencepiece` (▁un believ able), `bytes` (Ġun believ
            able, of GPT-2, where letters stand for bytes), `end` (un believ able</w>), `joiner` (un@@ believ@@ able), `none`
            (each token is a word); `auto` uses the first of these schemes whose marks occur.
        special: Tokens that belong to no word, such as a tokenizer's `all_special_tokens`; None for the usual ones, such as
            [CLS] </s> <|endoftext|>. Unknown symbols and masks are words, because they replace words.

    Returns:
        The words, and for each token the index of its word, −1 for special ones.

    Raises:
        RequestError: If there is no such scheme.

    Example:
        >>> join_subwords(["[CLS]", "un", "##believ", "##able", "!", "[SEP]"])
        (['unbelievable', '!'], [-1, 0, 0, 0, 1, -1])
    """
    if scheme not in _SCHEMES:
        raise RequestError(
            f"join_subwords: scheme is {scheme!r}, expected one of {', '.join(_SCHEMES)}{nearest(scheme, _SCHEMES)}"
        )
    ordinary = [not _is_special(token, special) for token in tokens]
    found = _find_scheme([t for t, is_word in zip(tokens, ordinary, strict=True) if is_word]) if scheme == "auto" else scheme
    parts: list[list[str]] = []
    word_of = []
    before: str | None = None
    for token, is_word in zip(tokens, ordinary, strict=True):
        if not is_word:
            before = None
            word_of.append(-1)
            continue
        if before is None or not _continues(found, token, before):
            parts.append([])
        parts[-1].append(token)
        word_of.append(len(parts) - 1)
        before = token
    return [_text(found, each) or "".join(each) for each in parts], word_of


def _is_special(token: str, special: Collection[str] | None) -> bool:
    if token in _STANDS_FOR_A_WORD:
        return False
    return _SPECIAL.fullmatch(token) is not None if special is None else token in special


def _find_scheme(tokens: Sequence[str]) -> str:
    if any(token.startswith("##") and len(token) > 2 for token in tokens):
        return "wordpiece"
    if any(token.startswith("▁") for token in tokens):
        return "sentencepiece"
    if any(token.startswith(("Ġ", "Ċ")) for token in tokens):
        return "bytes"
    if any(token.endswith("</w>") for token in tokens):
        return "end"
    return "joiner" if any(token.endswith("@@") and len(token) > 2 for token in tokens) else "none"


def _continues(scheme: str, token: str, before: str) -> bool:
    """Return whether a token continues the word of the previous token."""
    match scheme:
        case "wordpiece":
            return token.startswith("##")
        case "sentencepiece":
            return not token.startswith("▁")
        case "bytes":
            return not token.startswith(("Ġ", "Ċ"))
        case "end":
            return not before.endswith("</w>")
        case "joiner":
            return before.endswith("@@")
    return False


def _text(scheme: str, tokens: Sequence[str]) -> str:
    """Return the text of a word from its tokens."""
    match scheme:
        case "wordpiece":
            return tokens[0] + "".join(token.removeprefix("##") for token in tokens[1:])
        case "sentencepiece":
            return "".join(tokens).replace("▁", " ").strip()
        case "bytes":
            from tokenizers.decoders import ByteLevel  # letters represent bytes

            return ByteLevel().decode(list(tokens)).strip()
        case "end":
            return "".join(token.removesuffix("</w>") for token in tokens)
        case "joiner":
            return "".join(token.removesuffix("@@") for token in tokens)
    return "".join(tokens)


def record_of_tokens(
    tokens: Sequence[str],
    target_tokens: Sequence[str] | None,
    weights: Mapping[str, Any],
    *,
    subwords: Scheme = "auto",
    special: Collection[str] | None = None,
    **settings: Any,
) -> AttentionRecord:
    """Build the record of a model whose tokens are parts of words.

    Args:
        tokens: Tokens of the source.
        target_tokens: Tokens of the target; None if the record has no target.
        weights: Weights by site, as in a record.
        subwords: As for `join_subwords`.
        special: As for `join_subwords`.
        settings: Other fields of `AttentionRecord`.
    """
    tokens = checks.strings("tokens", tokens)
    target_tokens = () if target_tokens is None else checks.strings("target_tokens", target_tokens)
    source_words, source_word_of = join_subwords(tokens, scheme=subwords, special=special)
    target_words, target_word_of = join_subwords(target_tokens, scheme=subwords, special=special)
    return AttentionRecord(
        source_tokens=tokens,
        target_tokens=target_tokens,
        source_words=tuple(source_words),
        target_words=tuple(target_words),
        source_word_of=tuple(source_word_of),
        target_word_of=tuple(target_word_of),
        weights=dict(weights),
        **settings,
    )
