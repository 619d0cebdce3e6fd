"""Join subword tokens of common tokenizers into words."""

import re
from collections.abc import Collection, Sequence
from typing import Literal

from regard.errors import RequestError, nearest
from regard.scripts import ends_word, is_spaceless

Scheme = Literal["auto", "wordpiece", "sentencepiece", "bytes", "end", "joiner", "none"]
# Marks of tokens by scheme, whether they are at the start of a token, and whether they join tokens (or separate words).
_MARKS: dict[str, tuple[tuple[str, ...], bool, bool]] = {
    "wordpiece": (("##",), True, True),
    "sentencepiece": (("▁",), True, False),
    "bytes": (("Ġ", "Ċ"), True, False),
    "end": (("</w>",), False, False),
    "joiner": (("@@",), False, True),
}
_SCHEMES = ("auto", *_MARKS, "none")
_SPECIAL = re.compile(r"\[(CLS|SEP|PAD|BOS|EOS)\]|</?s>|<(pad|bos|eos|cls|sep)>|<\|[^|]*\|>", re.IGNORECASE)
SPELLED_IN_BYTES = ("bytes", "sentencepiece")
"""Schemes whose tokens can be bytes of a character. In SentencePiece, such a token is written `<0xE4>`."""
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_INCOMPLETE = "\ufffd"
_STANDS_FOR_A_WORD = ("[UNK]", "<unk>", "[MASK]", "<mask>")


def join_subwords(
    tokens: Sequence[str], *, scheme: Scheme = "auto", special: Collection[str] | None = None
) -> tuple[list[str], list[int]]:
    """Join tokens into words.

    In scripts without spaces, such as Chinese, Japanese and Thai, words end where tokens end. Tokens that are parts of one
    character (bytes of its UTF-8 form) are always in one word.

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
    words, word_of, _ = join(tokens, scheme, special)
    return words, word_of


def join(tokens: Sequence[str], scheme: str, special: Collection[str] | None) -> tuple[list[str], list[int], str]:
    """Join tokens into words, and also return the scheme that was found; see `join_subwords`."""
    if scheme not in _SCHEMES:
        raise RequestError(
            f"join_subwords: scheme is {scheme!r}, expected one of {', '.join(_SCHEMES)}{nearest(scheme, _SCHEMES)}"
        )
    ordinary = [not _is_special(token, special) for token in tokens]
    detected = _find_scheme([t for t, is_word in zip(tokens, ordinary, strict=True) if is_word]) if scheme == "auto" else scheme
    groups, group_of = join_bytes(tokens, ordinary, detected)
    grouped: list[list[str]] = []
    word_of = []
    for before, group, token in zip([-1, *group_of], group_of, tokens, strict=False):
        if group >= 0 and group != before:
            follows = before >= 0 and _continues(detected, token, groups[before][-1])
            if not follows or ends_word(_text(detected, groups[before]), _text(detected, groups[group])):
                grouped.append([])
        if group >= 0:
            grouped[-1].append(token)
        word_of.append(len(grouped) - 1 if group >= 0 else -1)
    return [_text(detected, word) or "".join(word) for word in grouped], word_of, detected


def join_bytes(tokens: Sequence[str], ordinary: Sequence[bool], scheme: str) -> tuple[list[list[str]], list[int]]:
    """Join the tokens that are UTF-8 bytes of one character.

    Returns:
        Groups of tokens, usually of one token, and for each token the index of its group, −1 for tokens that are not ordinary.
    """
    groups: list[list[str]] = []
    group_of: list[int] = []
    for token, is_word in zip(tokens, ordinary, strict=True):
        begins = not group_of or group_of[-1] < 0 or scheme not in SPELLED_IN_BYTES
        if is_word and (begins or not (_text(scheme, groups[-1])[-1:] == _text(scheme, [token])[:1] == _INCOMPLETE)):
            groups.append([])
        if is_word:
            groups[-1].append(token)
        group_of.append(len(groups) - 1 if is_word else -1)
    return groups, group_of


def token_label(scheme: str, group: Sequence[str]) -> str:
    """Return the text that is shown for a group of `join_bytes`: bytes are decoded, and other marks are kept."""
    if scheme not in SPELLED_IN_BYTES or not (scheme == "bytes" or any(_BYTE.fullmatch(token) for token in group)):
        return "".join(group)
    return _decode(scheme, group).replace(" ", "▁")


def _decode(scheme: str, tokens: Sequence[str]) -> str:
    """Return the text that tokens with bytes spell, with the character � for incomplete bytes."""
    from tokenizers import decoders  # its import is slow

    return str((decoders.ByteLevel() if scheme == "bytes" else decoders.ByteFallback()).decode(list(tokens)))


def _is_special(token: str, special: Collection[str] | None) -> bool:
    if token in _STANDS_FOR_A_WORD:
        return False
    return _SPECIAL.fullmatch(token) is not None if special is None else token in special


def _find_scheme(tokens: Sequence[str]) -> str:
    for scheme, (marks, at_start, joins) in _MARKS.items():
        has_mark = str.startswith if at_start else str.endswith
        if any(has_mark(token, marks) and not (joins and token in marks) for token in tokens):
            return scheme
    written = "".join(tokens)  # of a text without spaces; in byte-level tokens, each letter stands for a byte
    is_bytes = not written.isascii() and _INCOMPLETE not in (decoded := _decode("bytes", tokens)) and decoded != written
    return "bytes" if is_bytes else "none"


def _continues(scheme: str, token: str, before: str) -> bool:
    """Return whether a token continues the word of the previous token."""
    if scheme not in _MARKS:
        return False
    marks, at_start, joins = _MARKS[scheme]
    return (token.startswith(marks) if at_start else before.endswith(marks)) == joins


def _text(scheme: str, tokens: Sequence[str]) -> str:
    match scheme:
        case "wordpiece":
            first = tokens[0].removeprefix("##") if is_spaceless(tokens[0]) else tokens[0]
            return first + "".join(token.removeprefix("##") for token in tokens[1:])
        case "sentencepiece":
            spelled = any(_BYTE.fullmatch(token) for token in tokens)
            return (_decode(scheme, tokens) if spelled else "".join(tokens)).replace("▁", " ").strip()
        case "bytes":
            return _decode(scheme, tokens).strip()
        case "end" | "joiner":
            [mark] = _MARKS[scheme][0]
            return "".join(token.removesuffix(mark) for token in tokens)
    return "".join(tokens)
