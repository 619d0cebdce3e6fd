"""Which columns of a table hold a source and a target, or a text and a label, judged by their names."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from regard.config import DataConfig, LabelledDataConfig
from regard.errors import DataError
from regard.scripts import is_spaceless
from regard.text.content import Content
from regard.text.languages import find_language, find_languages, find_named_language, fold

CERTAIN, USUAL, POSSIBLE = 8, 6, 3
"""Ranks of names that are certain, usual and possible names of a wanted column."""
_INSIDE = {CERTAIN: 5, USUAL: 4, POSSIBLE: 2}
"""Ranks of names that contain such a name among other words."""
NEVER = -1
"""Rank of names of other columns: row numbers, dates, authors, another language."""
_OF_SIDE, _CONTAINS_SIDE, _ANY_LANGUAGE = 8, 6, 6
"""Ranks of names that are the language of a side, contain it, or are any language if the settings name none."""
_LABEL_NUMBER = 1
"""Rank of names such as `label_id` as the name of a label."""
_LONGEST_LABEL_WORDS = 8


def _fold_words(words: str) -> frozenset[str]:
    return frozenset(map(fold, words.split()))


class Names:
    """Known names of a column, in three tiers: certain, usual, and possible names."""

    def __init__(self, certain: str, usual: str, possible: str) -> None:
        tiers = zip((POSSIBLE, USUAL, CERTAIN), (possible, usual, certain), strict=True)
        self._ranks = {word: rank for rank, words in tiers for word in _fold_words(words)}

    def rank(self, name: str) -> int:
        """Return the rank of a column's name; 0 if it contains none of the names."""
        folded = fold(name)
        if folded in self._ranks:
            return self._ranks[folded]
        inside = [self._ranks[word] for word in folded.split() if word in self._ranks]
        if not folded.isascii():  # 评论内容 has no spaces between words
            inside += [rank for word, rank in self._ranks.items() if len(word) > 1 and is_spaceless(word) and word in folded]
        return _INSIDE[max(inside)] if inside else 0

    def is_exact(self, name: str) -> bool:
        """Return True if a column's name is one of the names."""
        return fold(name) in self._ranks

    def is_usual(self, name: str) -> bool:
        """Return True if a column's name is one of the certain or usual names."""
        return self._ranks.get(fold(name), 0) >= USUAL


TEXT = Names(
    "text texts texte texto testo tekst текст 文本 正文 テキスト 텍스트 본문 نص",
    "sentence review reviews content comment comments document message tweet utterance body post phrase satz frase rezension "
    "kommentar commentaire comentario comentário commento avis reseña отзыв комментарий 评论 内容 句子 レビュー 리뷰 내용 "
    "nachricht contenu contenido conteúdo description",
    "title headline summary subject abstract query question answer input string article news titre título titolo titel "
    "bewertung 标题 タイトル 제목",
)
LABEL = Names(
    "label labels class classes étiquette etiqueta etichetta etikett klasse classe clase метка класс 标签 类别 ラベル 레이블 "
    "라벨",
    "classification clasificación category categories sentiment target polarity intent topic emotion stance "
    "kategorie catégorie categoría categoria "
    "stimmung sentimiento sentimento тональность категория 分类 情感 カテゴリ 카테고리 감정",
    "score rating stars star tag tags genre gold output y verdict bewertung nota 评分 星级 評価 평점 sterne "
    "étoiles estrellas annotations",
)
SOURCE = Names("source src quelle origen origine 源文 原文 원문", "input original", "sentence1 question front word graphemes")
TARGET = Names(
    "target tgt trg ziel destino cible 译文 目标 訳文 번역문",
    "translation reference output übersetzung traduction traducción tradução traduzione перевод 翻译 翻訳 번역",
    "answer response back phones phonemes",
)
_METADATA = _fold_words(
    "id ids idx index uid uuid guid key no nr num number row line count length date datum fecha time timestamp created year "
    "url uri link user author autor auteur language lang sprache split fold set file filename path license attribution page "
    "position rank confidence weight version location note notes remark unnamed numero nummer номер дата автор 编号 序号 日期 "
    "时间 用户 作者 番号 日付 번호 날짜"
)
"""Names of columns that hold neither texts nor labels."""
_ROW_NUMBERS = frozenset(("id", "ids", "idx", "index", "uid", "uuid", "guid", "key", "row", "rowid", "line"))
_PLAIN = frozenset(("text", "sentence", "score", "sentence 1", "sentence 2"))
"""Further names that columns of pairs may have."""


def is_metadata(name: str) -> bool:
    """Return True if a column's name is empty, or has a word which says that the column is neither a text nor a label."""
    folded = fold(name)
    return not folded or any(word in _METADATA for word in folded.split())


def is_row_number(name: str) -> bool:
    """Return True if a column's name has a word for row numbers."""
    return not _ROW_NUMBERS.isdisjoint(fold(name).split())


def rate_text(content: Content) -> int:
    """Return how well a column fits texts: 2 for texts of several words, 1 for single words, 0 for other values.

    A few values that repeat often are no texts.
    """
    if content.kind != "words" or (content.count >= 30 and content.distinct * 10 <= content.count):
        return 0
    return 2 if content.words > 1.5 else 1


def rate_label(content: Content) -> int:
    """Return how well a column fits labels: 2 for lists and values that repeat, 1 for other short values, 0 for all others.

    A constant column repeats too, because it may be the label of a file that is sorted by label.
    """
    if content.kind in ("dates", "addresses", "licences", "nothing") or content.words > _LONGEST_LABEL_WORDS:
        return 0
    if content.kind in ("lists", "one value") or (content.repeats and content.count > 2):
        return 2
    return 0 if content.varies else 1


class ColumnRules(ABC):
    """The two columns to look for in a table: their names, their content, and the settings that choose them."""

    what: str
    """Name of both columns together in messages, such as `a source and a target`."""
    sides: tuple[str, str]
    """Name of each of the two columns in messages, such as `the source` and `the target`."""
    settings: str
    """The settings that choose columns, for messages."""
    header: str
    """Whether there is a header: `auto`, `yes` or `no`."""
    encoding: str
    """Encoding of the file."""
    kinds: tuple[type, ...]
    """Allowed types of values, for formats whose values have types."""
    allowed: str
    """Description of the allowed values, for messages."""
    one_column: str
    """Advice for files with only one column, for messages."""
    common_width: bool
    """Whether every line needs all columns; if False, a line only needs those up to the last wanted column."""
    in_order: bool
    """Whether two columns that fit both sides equally well are taken in their order, the source first."""

    @abstractmethod
    def given(self) -> tuple[str, str]:
        """Return the two columns that the settings name; an empty string for a column that they don't name."""

    def setting(self, side: int) -> str:
        """Return the setting that names one side; empty if one setting names both."""
        return self.settings.partition(" and ")[2 * side] if " and " in self.settings else ""

    @abstractmethod
    def rank(self, name: str, side: int) -> int:
        """Return the rank of a name as that of the first (0) or the second (1) column; `NEVER` for names of other columns."""

    @abstractmethod
    def rate(self, content: Content, side: int) -> int:
        """Return how well the content of a column fits a side, from 0 to 2."""

    @abstractmethod
    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if the cells of a row are usual names of columns."""

    @abstractmethod
    def example(self, names: Sequence[str]) -> str:
        """Return the command-line options that choose two columns by name or number, for messages."""


class LabelledColumns(ColumnRules):
    """A text and a label column, as the settings of `data` describe them."""

    what = "a text and a label"
    sides = ("the text", "the label")
    settings = "data.text and data.label"
    kinds = (str, bool, int, float, list)
    allowed = "text, a number, true or false, or an array of these"
    one_column = "give one text file for each label"
    common_width = True
    in_order = False

    def __init__(self, data: LabelledDataConfig) -> None:
        self.data, self.header, self.encoding = data, data.header, data.encoding

    def given(self) -> tuple[str, str]:
        return self.data.text, self.data.label

    def rank(self, name: str, side: int) -> int:
        names, other = ((TEXT, LABEL), (LABEL, TEXT))[side]
        if names.is_exact(name):
            return names.rank(name)
        if is_metadata(name):
            return _LABEL_NUMBER if side == 1 and LABEL.rank(name) else NEVER
        return NEVER if other.is_exact(name) else names.rank(name)

    def rate(self, content: Content, side: int) -> int:
        return rate_label(content) if side else rate_text(content)

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if a cell is a usual name of texts or labels, two cells contain a name of each, or all name metadata."""
        if any(TEXT.is_usual(cell) or LABEL.is_usual(cell) for cell in first):
            return True
        texts, labels = ({place for place, cell in enumerate(first) if names.rank(cell) > 0} for names in (TEXT, LABEL))
        return (bool(texts) and bool(labels) and len(texts | labels) > 1) or all(map(is_metadata, first))

    def example(self, names: Sequence[str]) -> str:
        text, label = (f"'{name}'" if " " in name else name for name in names)
        return f"--data.text {text} --data.label {label}"


class PairColumns(ColumnRules):
    """A source and a target column, as the settings of `data` describe them."""

    what = "a source and a target"
    sides = ("the source", "the target")
    settings = "data.columns"
    kinds = (str,)
    allowed = "text"
    one_column = "give two parallel files as FILE,FILE"
    common_width = False
    in_order = True

    def __init__(self, data: DataConfig) -> None:
        self.data, self.header, self.encoding = data, data.header, data.encoding
        if len(data.columns) not in (0, 2):
            raise DataError(f"data.columns is {','.join(data.columns)}, expected two: the source's and the target's")
        self.languages = (find_language(data.source), find_language(data.target))
        self._settings = (data.source.casefold(), data.target.casefold())

    def given(self) -> tuple[str, str]:
        return (self.data.columns[0], self.data.columns[1]) if self.data.columns else ("", "")

    def rank(self, name: str, side: int) -> int:
        names, language, other = (SOURCE, TARGET)[side], self.languages[side], self.languages[1 - side]
        found, inside = find_language(name), find_languages(name)
        if name and (name.casefold() == self._settings[side] or (language and found == language)):
            return _OF_SIDE
        if names.is_exact(name):
            return names.rank(name)
        if is_metadata(name) or (found and (language or found == other)):
            return NEVER
        if language and language in inside and other not in inside:
            return _CONTAINS_SIDE
        if language and inside:
            return NEVER if names.rank(name) <= 0 else names.rank(name)
        return max(names.rank(name), _ANY_LANGUAGE if inside else 0)

    def rate(self, content: Content, side: int) -> int:
        return rate_text(content)

    def recognises(self, first: Sequence[str]) -> bool:
        """Return True if cells name the source and the target, or all are usual names.

        Codes of languages count only in lower case, because "Hi" and "No" are sentences. If two
        cells name the same language, all are taken for sentences too.
        """
        languages = [code for cell in first if (code := find_named_language(cell, codes=cell.islower()))]
        if len(set(languages)) < len(languages):
            return False
        sources, targets = ({place for place, cell in enumerate(first) if self.names_side(cell, side)} for side in (0, 1))
        if sources and targets and len(sources | targets) > 1:
            return True
        named = [fold(cell) in _PLAIN or self._names_any(cell) for cell in first]
        return any(named) and all(name or is_metadata(cell) for name, cell in zip(named, first, strict=True))

    def example(self, names: Sequence[str]) -> str:
        listed = ",".join(names)
        return f"--data.columns '{listed}'" if " " in listed else f"--data.columns {listed}"

    def names_side(self, cell: str, side: int) -> bool:
        """Return True if a cell could be the header of the sources (side 0) or of the targets (side 1)."""
        if not cell or (SOURCE, TARGET)[side].is_exact(cell) or cell.casefold() == self._settings[side]:
            return bool(cell)
        named, language = find_named_language(cell, codes=cell.islower()), self.languages[side]
        if language is None:
            return named is not None
        return named == language or ("_" in cell and language in find_languages(cell))

    def _names_any(self, cell: str) -> bool:
        return self.names_side(cell, 0) or self.names_side(cell, 1) or bool(find_named_language(cell, codes=cell.islower()))
