"""Join words to a sentence, with spaces placed by rules.

The rules cover punctuation, brackets, quotation marks, apostrophes and contractions, numbers with signs, and scripts without
spaces. Most rules, also those for English contractions, are the same for all languages; German, French, Italian, Catalan,
Occitan, Swedish, Czech, Chinese, Cantonese and Japanese have a few of their own. Case is not changed.
"""

import re
import unicodedata
from collections.abc import Sequence

# Marks that end a sentence or a part of it, in less common scripts.
_MARKS = "։՝׃؛؞܀܁܂܃܄܅܆܇܈܉߸߹།༎༔၊။።፣፤፥፦፧፨᙮។៕៖᠂᠃᠄᠅᥄᥅᭚᭛᭝᭞᭟᰻᰼᰽᰾᰿᱾᱿⹁⹎꓾꓿꘍꘎꘏꛳꛴꛵꛶꛷꡶꡷꣎꣏꧇꧈꧉꩝꩞꩟꯫𑅁𑅂𑅃"
_CLOSING = frozenset([*",.;:!?…)]}°′″‰、。，！？；：）」』》؟،۔।॥", *_MARKS, "...", ".."])
# Marks between words, instead of a space, and symbols of white space.
_GLUED = frozenset("་༌፡\u200b␊␉␠")
_OPENING = frozenset("([{¿¡（「『《")
_PREFIXES = frozenset("$£€¥₹₽₺#§~")
_CONTRACTIONS = re.compile(r"^(?:n['’]?t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
_HALVES = frozenset(
    [("gon", "na"), ("wan", "na"), ("got", "ta"), ("gim", "me"), ("lem", "me"), ("can", "not"), ("i", "m"), ("i", "d")]
)
_ELIDING = frozenset({"fr", "it", "ca", "oc"})
_CJK = re.compile(r"[\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_SPACELESS = frozenset({"zh", "ja", "yue"})

# Opening quotation marks, and the marks that may close them.
_PAIRS = {"“": "”", "‘": "’", "„": "“”", "‚": "‘’", "«": "»", "‹": "›"}
_GERMAN_PAIRS = {"„": "“”", "‚": "‘’", "»": "«", "›": "‹"}


def detokenize(words: Sequence[str], language: str = "", *, split_hyphens: bool = False) -> str:
    """Join words and punctuation marks to a sentence with the usual spacing.

    The order and spelling of the words are never changed. If `split_hyphens`, because the tokenizer splits `well-known` into
    three words, hyphens between words get no spaces.
    """
    return _Joiner(re.split("[-_]", language.lower())[0], split_hyphens).join(words)


class _Joiner:
    """A joiner that decides for each word whether a space precedes it, and keeps track of open quotation marks."""

    def __init__(self, language: str, split_hyphens: bool) -> None:
        self.language = language
        self.split_hyphens = split_hyphens
        self.pairs = _GERMAN_PAIRS if language == "de" else _PAIRS
        self.open: list[str] = []  # closing marks of the open quotations, innermost last

    def join(self, words: Sequence[str]) -> str:
        text: list[str] = []
        shown, words = words, [_bare(word) for word in words]
        final = {word: position for position, word in enumerate(words)}
        glued = True  # whether the next word follows without a space
        for position, word in enumerate(words):
            before = words[position - 1] if position else ""
            after = words[position + 1] if position + 1 < len(words) else ""
            left, right = self.glue(before, word, after, last=final[word] == position)
            if not (glued or left):
                text.append(" ")
            text.append(shown[position])
            glued = right
        return "".join(text)

    def glue(self, before: str, word: str, after: str, *, last: bool) -> tuple[bool, bool]:
        """Return two flags: no space before the word, and no space after it; `last` is False if the word occurs again."""
        if word[:1] in _GLUED:
            return True, True
        quotation = self.quotation(before, word, last)
        if quotation is not None:
            return quotation
        if word in _OPENING:
            return False, True
        if word in _CLOSING or set(word) <= {"!", "?"} or (word == "·" and self.language == "el"):
            return not (self.language == "fr" and word[0] in "?!;:"), False
        if word == "%":
            return self.language not in {"de", "fr", "sv", "cs"}, False
        if word in _PREFIXES:
            return False, after[:1].isdigit() or (word in "#~" and after[:1].isalnum())
        if word in {"/", "@"} or (word == "–" and before[-1:].isdigit() and after[:1].isdigit()):
            return _is_word(before) and _is_word(after), _is_word(before) and _is_word(after)
        if word in {"-", "‐", "‑"}:
            closed = self.split_hyphens and _is_word(before) and _is_word(after)
            return closed, closed or not before
        if _CONTRACTIONS.match(word) or (before.lower(), word.lower()) in _HALVES:
            return True, False
        if word[0] in "-‐‑" and before and before[-1] in '“”‘’»«").':
            return True, False  # the „Stop“-Schild
        elided = self.language in _ELIDING and len(word) > 1 and word[-1] in "'’"
        return self.spaceless(before, word), elided

    def quotation(self, before: str, word: str, last: bool) -> tuple[bool, bool] | None:
        """Track open quotation marks; return the same as `glue` for a quotation mark, and None for any other word."""
        airy = self.language == "fr" and word in {"«", "»"}
        if self.open and word in self.open[-1]:
            self.open.pop()
            return not airy, False
        if word in self.pairs:
            self.open.append(self.pairs[word])
            return False, not airy
        if word in {"'", "’"} and before[-1:].isalnum() and last:
            return True, False  # the boys' garden
        if word in {'"', "'", "`", "``", "''"}:
            self.open.append("''" if word == "``" else word)
            return False, True
        if word in {"”", "’", "»", "“", "‘", "«", "›", "‹"}:
            return not airy, False  # closes a quotation that this sentence did not open
        return None

    def spaceless(self, before: str, word: str) -> bool:
        """Return whether two words need no space between them because of their script or language."""
        if not before:
            return False
        one, other = bool(_CJK.match(before[-1])), bool(_CJK.match(word[:1]))
        return (one or other) if self.language in _SPACELESS else (one and other)


def _bare(word: str) -> str:
    """Return a word without marks and invisible characters, which the rules ignore."""
    if word.isascii():
        return word
    return "".join(letter for letter in word if unicodedata.category(letter) not in ("Cf", "Mn")) or word


def _is_word(text: str) -> bool:
    return any(character.isalnum() for character in text)
