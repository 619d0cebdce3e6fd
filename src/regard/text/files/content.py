"""The content of a column of a table and the language of its texts, judged by some of its cells."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from regard.text.files.names import is_unspaced

Kind = Literal["nothing", "numbers", "dates", "addresses", "codes", "one value", "licences", "lists", "words"]

ENOUGH = 3
"""Minimum number of cells for recognising codes."""
ENOUGH_TO_REPEAT = 5
"""Minimum number of cells for recognising a value that never changes."""
MANY = 20
"""Minimum number of cells for drawing conclusions from the number of different values."""

_MOST = 0.9
"""Minimum share of the cells that must be of one kind for the column to be of that kind."""
_NUMBER = re.compile(r"[-+]?[\d.,\u00a0'’]*\d(?:[eE][-+]?\d+)?\s?[%€$£]?")
_DATE = re.compile(
    r"\d{1,4}[-/.年]\s?\d{1,2}[-/.月]\s?\d{1,4}日?(?:[T ]?\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2})?"
    r"|(?:\w{3,9},? )?(?:\w{3,9}\.? \d{1,2},?|\d{1,2}\.? \w{3,9}\.?) (?:\d{2}:\d{2}:\d{2} (?:\w{1,5} )?)?\d{4}"
)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.]+", re.IGNORECASE)
_CODE = re.compile(r"(?=\S*\d)[\w:./#-]{2,}|[0-9a-fA-F-]{16,}", re.ASCII)
_ITEM = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^\s,'"\[\](){}][^,'"\[\](){}]*+"""
_ITEMS = rf"\s*+(?:(?:{_ITEM})\s*+,?\s*+)*+"
_LIST = re.compile(rf"\[{_ITEMS}\]|\({_ITEMS}\)|\{{{_ITEMS}\}}")
_LICENCE = re.compile(r"CC[- ]BY\b|\bCC0\b|#\d+ \(\w+\).*#\d+ \(\w+\)", re.IGNORECASE)
TEXT_SCORE, WORD_SCORE, NOT_TEXT_SCORE, LABEL_LIKE_SCORE = 3, 1, -6, -3
"""Points that a column gets as a candidate for the text: if its cells have several words, have one word, have no words (such as
numbers), or repeat a few values."""


@dataclass(frozen=True)
class Content:
    """Summary of some cells of a column."""

    count: int
    """Number of cells that are not empty."""
    kind: Kind
    distinct: int
    """Number of different values."""
    words: float
    """Mean number of words; in scripts without spaces between words, each letter counts as a word."""
    characters: float
    """Mean number of characters."""

    @property
    def repeats(self) -> bool:
        """Whether a few values fill many cells, as labels do."""
        return self.distinct * 3 <= self.count

    @property
    def varies(self) -> bool:
        """Whether there are many values and nearly all are different. Such a column does not contain labels."""
        return self.count >= MANY and self.distinct > _MOST * self.count

    def describe(self) -> str:
        """Return a short description of the column, for messages."""
        if self.kind != "words":
            return self.kind
        if self.repeats and self.count >= MANY:
            return f"{self.distinct} different values"
        return "text" if self.words > 1.5 else "single words"


def describe_cells(cells: Sequence[object]) -> Content:
    """Summarise the content of a column.

    Args:
        cells: Some of its values: strings; in formats whose values have types, also numbers, lists and booleans.
    """
    if any(isinstance(cell, list) for cell in cells):
        return Content(len(cells), "lists", len(cells), 0.0, 0.0)
    texts = [text for cell in cells if cell is not None and (text := str(cell).strip())]
    if not texts:
        return Content(0, "nothing", 0, 0.0, 0.0)
    counts = Counter(texts)
    words = sum(map(_count_words, texts)) / len(texts)
    return Content(len(texts), _find_kind(texts, len(counts)), len(counts), words, sum(map(len, texts)) / len(texts))


def rate_text(content: Content) -> float:
    """Return the score of a column as a text: highest if cells have several words and do not repeat a few values."""
    if content.kind == "nothing":
        return 0
    if content.kind != "words":
        # Two cells may be numbers by chance.
        return NOT_TEXT_SCORE if content.count > 2 else -1
    if content.count >= 30 and content.distinct * 10 <= content.count:
        return LABEL_LIKE_SCORE
    return TEXT_SCORE if content.words > 1.5 else WORD_SCORE


def read_list(cell: str) -> list[str] | None:
    """Return the items of a list in the notation of Python, JSON, NumPy or SQL (`['film', 'good']`); None for another text."""
    if not _LIST.fullmatch(cell := cell.strip()):
        return None
    items = map(str.strip, re.findall(_ITEM, cell[1:-1]))
    return [_unquote(item[1:-1]) if item[0] in "'\"" else item for item in items]


def _unquote(text: str) -> str:
    plain = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_number(cell: str) -> bool:
    """Return True if a cell holds a number."""
    return bool(_NUMBER.fullmatch(cell.strip())) or cell.strip().lower() in ("nan", "inf", "-inf")


def is_code(cell: str) -> bool:
    """Return True if a cell is written like a code (`A-17`, `user_3`); some names of columns are, too."""
    return bool(_CODE.fullmatch(cell.strip()))


def is_mark(cell: str) -> bool:
    """Return True if a cell holds a number, a date or an address, which a header never holds."""
    cell = cell.strip()
    return is_number(cell) or bool(_DATE.fullmatch(cell) or _ADDRESS.fullmatch(cell))


def is_extra(cell: str) -> bool:
    """Return True if a cell holds a number, a date, an address or a licence, and not the rest of a text."""
    return bool(_LICENCE.search(cell)) or is_mark(cell)


def _count_words(text: str) -> int:
    unspaced = sum(map(is_unspaced, text)) if not text.isascii() else 0
    return max(len(text.split()), unspaced)


def _find_kind(texts: Sequence[str], distinct: int) -> Kind:
    needed = _MOST * len(texts)
    if len(texts) >= ENOUGH_TO_REPEAT and distinct == 1:
        return "one value"
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("numbers", _NUMBER),
        ("dates", _DATE),
        ("addresses", _ADDRESS),
        ("codes", _CODE),
        ("lists", _LIST),
    )
    for kind, pattern in kinds:
        if sum(map(bool, map(pattern.fullmatch, texts))) >= needed and (kind != "codes" or len(texts) >= ENOUGH):
            return kind
    if sum(map(bool, map(_LICENCE.search, texts))) >= needed:
        return "licences"
    return "words"


_WORD = re.compile(r"[^\W\d_]+")

_ENOUGH_WORDS = 30
"""Minimum number of words to guess a language."""
_LEAST_SHARE = 0.12
"""Minimum share of the words that must be frequent words of the language."""
_LEAD = 1.5
"""Minimum ratio of the number of words found in the list of the best language to the number found in any other list."""
_GUESSED_BY = 300
"""Maximum number of texts from which a language is guessed."""
_ENOUGH_LETTERS = 40

_SCRIPTS = (
    ("ja", r"[\u3040-\u30ff]"), ("ko", r"[\uac00-\ud7af\u1100-\u11ff]"), ("zh", r"[\u4e00-\u9fff]"), ("th", r"[\u0e00-\u0e7f]"),
    ("el", r"[\u0370-\u03ff]"), ("he", r"[\u0590-\u05ff]"), ("ka", r"[\u10a0-\u10ff]"), ("hy", r"[\u0530-\u058f]"),
    ("ta", r"[\u0b80-\u0bff]"), ("te", r"[\u0c00-\u0c7f]"), ("bn", r"[\u0980-\u09ff]"), ("hi", r"[\u0900-\u097f]"),
)  # fmt: skip
"""Code of each language, and the characters of a script that is used only, or in most files, for this language."""
_PATTERNS = [(code, re.compile(pattern)) for code, pattern in _SCRIPTS]

_CYRILLIC = (
    ("uk", frozenset("їєґ"), frozenset("ыэъў")),
    ("ru", frozenset("ыэ"), frozenset("іїєґўәқңөүұҳћђџљњ")),
    ("bg", frozenset("ъ"), frozenset("ыэіїєјљњћђџ")),
)
"""Code of each language, letters of which a text must contain at least one, and letters of which it must contain none."""

_FREQUENT: Mapping[str, frozenset[str]] = {
    code: frozenset(words.split())
    for code, words in {
        "en": "the of and to in is that it was for on with he you i a this are they his her not be have an at my we do she",
        "de": "der die das und ist nicht ein eine ich zu in den mit sie er es auf dem im von für an sich wir du hat einen was",
        "fr": "le la les de des et est un une il je que dans pour pas en qui sur vous du elle ne ce au se avec nous tu à c l",
        "es": "el la los las de que y en un una es por con no para se lo su me está del al yo te más muy como ella le hay",
        "it": "il la di che e un una è per non in sono con si lo gli i del le mi della ha al questo ti da come nel ho alla",
        "pt": "o a os as de que e um uma é não em para com por se do da no na eu você ele ela está mais ao mas muito foi",
        "nl": "de het een en van is niet ik in dat op te zijn met voor er hij ze je aan die we maar wat was om heeft dit",
        "sv": "och att det är en ett som på i jag inte för av med han den har du de till var om hon vi så från man",
        "da": "og at det er en et som på i jeg ikke for af med han den har du de til var hun vi så fra sig kan der",
        "no": "og at det er en et som på i jeg ikke for av med han den har du de til var hun vi så fra seg kan hva",
        "fi": "ja on ei se että hän minä ole oli en kun mutta ovat olen sinä mitä me tämä niin voi kuin mies nainen siitä",
        "pl": "i w nie na się jest to że z do jak co o ja ale ma po tym za czy jestem od był mnie tego przez dla są",
        "cs": "a je se na v to že ne s jsem z do co jak ale by za ho si o já mi tak jsi má pro jeho byl na jsou",
        "sk": "a je sa na v to že nie s som z do čo ako ale by za ho si o ja mi tak má pre jeho bol sú aby",
        "hu": "a az és hogy nem egy is van ez meg azt volt én mi ki csak de ha el már vagy mint nagyon le egyik",
        "ro": "și de în la nu un o este că pe cu să din care mai am se pentru el ea ce a lui nu sunt eu ai",
        "tr": "bir ve bu da de için ne mi o çok ben var değil ile gibi daha olarak sen bana ama her olan adam bunu",
        "hr": "i je u se na da su za od s nije ne sam što a to kao bi ali o koji ja si on biti ima nisam",
        "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada saya dia ke adalah ada mereka kamu bisa aku seorang",
        "vi": "và của là có không một được cho trong tôi này với người đã những các anh để ở ấy bạn khi đó rất",
        "et": "ja on ei et ta see ma oli kui ka seda mis ning kes mu ole oma aga sa või nad me siis tema",
        "lv": "un ir ka es uz no par ar nav tas viņš viņa to bet kas tu vai mēs bija lai man ja šis",
        "lt": "ir yra kad aš į su tai ne jis iš ji tu bet kas buvo mes ar man savo apie kaip už šis jo",
        "ru": "и в не на что я с он это как по но она к у мы из вы за то его был так ты мне же все",
        "uk": "і в не на що я з він це як але до вона у ми та за ви його є був так ти мені про від",
        "bg": "и на да се не в че е от за си с по това като съм аз той ли ми беше ще са но",
        "ar": "في من على أن لا ما هذا إلى هو كان هل عن مع التي هي أنا لم لقد كل يا إن أنت ذلك كانت",
        "fa": "و در به از که این را با است من برای آن او یک تو نیست می ما شما هم بود دارد خود تا",
    }.items()
}


def guess_language(texts: Iterable[str]) -> str | None:
    """Return the code of the probable language of texts; None if it is not clear.

    Args:
        texts: Texts, of which the first 300 are used.
    """
    whole = "\n".join(islice(texts, _GUESSED_BY)).casefold()
    letters = sum(map(str.isalpha, whole))
    if letters >= _ENOUGH_LETTERS:
        for code, pattern in _PATTERNS:
            # Many characters of a Japanese text are Chinese, so a share of kana above a fifth is enough to recognise it.
            if len(pattern.findall(whole)) * (5 if code == "ja" else 2) > letters:
                return code
    counts = Counter(_WORD.findall(whole))
    total = counts.total()
    if total < _ENOUGH_WORDS:
        return None
    for code, has, lacks in _CYRILLIC:
        if has & set(whole) and not lacks & set(whole):
            return code
    found = sorted(((sum(counts[word] for word in words), code) for code, words in _FREQUENT.items()), reverse=True)
    (most, best), (second, _) = found[:2]
    return best if most >= _LEAST_SHARE * total and most >= _LEAD * second else None
