"""Usual names of the columns of tables, in many languages."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)")
_LONGEST_NAME = 200
_SEPARATORS = re.compile(r"[\W_]+")

EXACT = (8, 6, 3)
"""Scores of column names that are certain, usual and possible names of the wanted column."""
PARTIAL = (5, 4, 2)
"""Scores of column names that contain a certain, usual or possible name among other words."""
METADATA_SCORE = -6
"""Score of names of columns that are neither a text nor a label: row numbers, dates, authors."""


@lru_cache(4096)
def _fold(name: str) -> str:
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", name))
    folded = "".join(letter for letter in plain.casefold() if not unicodedata.combining(letter))
    return _SEPARATORS.sub(" ", folded).strip()


def fold(name: str) -> str:
    """Return a name in lower case, without accents, as words with one space between them: `ReviewText` is `review text`.

    Only the first 200 characters of a name count.
    """
    return _fold(name[:_LONGEST_NAME])


def _words(listed: str) -> frozenset[str]:
    return frozenset(fold(word) for word in listed.split())


@dataclass(frozen=True)
class Names:
    """Certain, usual and possible names of a wanted column."""

    certain: frozenset[str]
    usual: frozenset[str]
    possible: frozenset[str]

    def rate(self, name: str) -> int:
        """Return the score of a column's name; 0 if it contains none of the names."""
        folded = fold(name)
        words = folded.split()
        for tier, score in zip(self._tiers(), EXACT, strict=True):
            if folded in tier:
                return score
        found = (score for tier, score in zip(self._tiers(), PARTIAL, strict=True) if any(word in tier for word in words))
        return next(found, 0) or self._inside(folded)

    def is_exact(self, name: str) -> bool:
        """Return True if a column's name is one of the names."""
        return any(fold(name) in tier for tier in self._tiers())

    def is_usual(self, name: str) -> bool:
        """Return True if a column's name is one of the certain or usual names."""
        return fold(name) in self.certain or fold(name) in self.usual

    def _inside(self, folded: str) -> int:
        """Return the score of a name in a script without spaces between words, such as 评论内容."""
        if folded.isascii():
            return 0
        tiers = zip(self._tiers(), PARTIAL, strict=True)
        return next(
            (score for tier, score in tiers if any(len(word) > 1 and is_unspaced(word) and word in folded for word in tier)), 0
        )

    def _tiers(self) -> tuple[frozenset[str], ...]:
        return self.certain, self.usual, self.possible


def is_unspaced(text: str) -> bool:
    """Return True if a text begins with a letter of Chinese, Japanese, Korean or Thai."""
    code = ord(text[0]) if text else 0
    return 0x0E00 <= code <= 0x0E7F or 0x1100 <= code <= 0x11FF or 0x2E80 <= code <= 0xD7FF or 0xF900 <= code <= 0xFAFF


TEXT = Names(
    _words(
        "text texts texte texto textos testo tekst tekstas текст teks metin szöveg teksti 文本 正文 テキスト 텍스트 본문 نص"
    ),
    _words(
        "sentence sentences review reviews content comment comments document message tweet utterance body post satz sätze "
        "phrase oración frase oração zin reseña avis critique commentaire comentario comentário kommentar commento komentarz "
        "rezension nachricht inhalt contenu contenido conteúdo contenuto mensaje mensagem messaggio recensione recenzja zdanie "
        "отзыв отзывы комментарий сообщение предложение содержание відгук коментар yorum cümle 评论 評論 内容 內容 评价 句子 "
        "留言 微博 本文 文章 レビュー コメント 感想 口コミ 내용 리뷰 댓글 문장 تعليق"
    ),
    _words(
        "title headline summary subject description abstract query question answer input string sms email opinion opinión "
        "opinião transcript caption verbatim feedback narrative article news lyrics statement complaint paragraph "
        "titre título titolo titel titulo betreff resumen résumé beschreibung descripción meinung 标题 タイトル 제목 заголовок "
        "bewertung bewertungen valoración avaliação évaluation valutazione 評価"
    ),
)
LABEL = Names(
    _words(
        "label labels class classes étiquette etiqueta etichetta etikett klasse classe clase klasa sınıf etiket etykieta címke "
        "štítek класс метка мітка 标签 標籤 標簽 类别 類別 ラベル 레이블 라벨 분류"
    ),
    _words(
        "category categories sentiment sentiments target targets polarity intent intents topic topics emotion emotions stance "
        "kategorie catégorie categoría categoria kategoria kategori категория категорія sentimiento sentimento stimmung gefühl "
        "emoción émotion emozione emoção polarité polaridad polaridade polarità thema tema тема тональность эмоция настроение "
        "clasificación classificação classificazione classification "
        "intention absicht duygu 分类 分類 情感 情绪 情緒 极性 感情 カテゴリ カテゴリー 카테고리 감정 감성"
    ),
    _words(
        "score rating ratings star stars tag tags genre genres gold output y spam toxic type verdict grade toxicity hate "
        "bewertung valoración puntuación calificación nota évaluation punteggio ocena оценка рейтинг puan 评分 星级 評価 "
        "평점 별점 sterne étoiles estrellas estrelas stelle gwiazdki звезды yıldız note voto punkte urteil annotations"
    ),
)
SOURCE = Names(
    _words("source src quelle origen origine исходный kaynak 源文 原文 源语言 원문"),
    _words("input original"),
    _words("sentence1 question front word graphemes"),
)
TARGET = Names(
    _words("target tgt trg ziel destino cible destinazione целевой hedef 译文 譯文 目标 訳文 번역문"),
    _words(
        "translation reference output übersetzung traduction traducción traduccion tradução traduzione перевод çeviri "
        "vertaling tłumaczenie 翻译 翻譯 翻訳 번역"
    ),
    _words("answer response back phones phonemes"),
)
_BESIDE_LANGUAGE = (
    TEXT.certain
    | TEXT.usual
    | _words("word words term terms translation wort wörter satz sätze übersetzung mot mots palabra parola")
)
"""Words that may follow or precede a language in the name of a column, such as `word` in `English word`."""
METADATA = _words(
    "id ids idx index uid uuid guid key no nr num number row rowid line count length len date datum fecha time timestamp "
    "datetime created year url uri link href user username userid author autor auteur language lang langue sprache idioma "
    "lingua split fold set partition file filename path license licence lizenz attribution credit page position rank "
    "confidence probability weight version location city country note notes remark remarque bemerkung unnamed numero número "
    "nummer numéro номер дата автор ссылка идентификатор язык 编号 序号 日期 时间 時間 用户 作者 链接 番号 "
    "日付 번호 날짜 작성자"
)
"""Names of columns that hold neither texts nor labels."""


def is_metadata(name: str) -> bool:
    """Return True if a column's name is empty, or has a word which says that the column is neither a text nor a label."""
    folded = fold(name)
    return not folded or any(word in METADATA for word in folded.split())


@cache
def _languages() -> dict[str, str]:
    """Return a dictionary from names and codes of languages to the code that regard uses."""
    known: dict[str, str] = {}
    listed = (files("regard.text.files") / "languages.txt").read_text(encoding="utf-8")
    for line in listed.splitlines():
        codes, mark, names = line.partition(" | ")
        if mark and not line.startswith("#"):
            known.update(dict.fromkeys((*codes.split(), *map(fold, names.split(", "))), codes.split()[0]))
    return known


def find_language(name: str, *, codes: bool = True) -> str | None:
    """Return the code of the language that a name or a code means, such as `fr` for `Français`, `fra` and `fr-CA`.

    Args:
        name: Name of a column, or value of a setting.
        codes: Whether codes such as `fr` count, not only names.
    """
    folded = fold(name)
    whole = [folded] if codes or len(folded) > 3 or not folded.isascii() else []
    regional = re.fullmatch(r"([A-Za-z]{2,3})[-_]([A-Za-z]{2}|[A-Za-z]{4})", name.strip())
    if codes and regional and find_language(regional[2]) is None:
        whole.append(regional[1].casefold())
    return next((_languages()[each] for each in whole if each in _languages()), None)


def find_named_language(name: str, *, codes: bool = True) -> str | None:
    """Return the code of the language in the name of a column: `en` for `English` and `English word`.

    Args:
        name: Name of a column.
        codes: Whether codes such as `fr` count, if they are the whole name.

    Returns:
        The code, or None if the name contains no language.
    """
    words = [re.sub(r"(?<=sch)(e|er|es|en)$", "", word) for word in fold(name).split()]
    kept = [word for word in words if word not in _BESIDE_LANGUAGE]
    if kept and len(kept) < len(words):
        return find_language(" ".join(kept), codes=False)
    return find_language(name, codes=codes)


def find_languages(name: str) -> set[str]:
    """Return the codes of all languages that the words of a name mean, such as `de` for `sentence_de`."""
    folded = fold(name)
    return {code for code in map(find_language, _split(folded)) if code}


def _split(folded: str) -> Iterable[str]:
    return [folded, *folded.split()]
