"""Where words begin and end."""

import builtins
import re

import pytest

from regard.errors import ConfigError
from regard.text.tokenizers.schemes import SpacyScheme, SubwordScheme, WhitespaceScheme, WordsScheme, build_scheme

WORDS = [
    ("Don't stop , John's 'cause it's don’t", ["Don't", "stop", ",", "John's", "'", "cause", "it's", "don’t"]),
    ("3.14 1,000 10:30 -5 3rd A4", ["3.14", "1,000", "10:30", "-5", "3rd", "A4"]),
    ("well-known T-Shirt x- und -helm a--b", ["well-known", "T-Shirt", "x-", "und", "-helm", "a", "--", "b"]),
    ("end. (no)! what?! ...", ["end", ".", "(", "no", ")", "!", "what", "?", "!", "..."]),
    ('“a” „b“ "c" «d»', ["“", "a", "”", "„", "b", "“", '"', "c", '"', "«", "d", "»"]),
    ("日本語 テスト です한국어", ["日", "本", "語", "テ", "ス", "ト", "で", "す", "한국어"]),
    ("ok👩‍👩‍👧🇩🇪🇫🇷5️⃣✌🏽!", ["ok", "👩‍👩‍👧", "🇩🇪", "🇫🇷", "5️⃣", "✌🏽", "!"]),
    ("नमस्ते naïve e\u0301", ["नमस्ते", "naïve", "e\u0301"]),
    ("50% $5 R&B U.S. <s>", ["50", "%", "$", "5", "R&B", "U.S", ".", "<", "s", ">"]),
]


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_words(text, words):
    scheme = WordsScheme()
    assert [word for chunk in text.split() for word in scheme.split(chunk)] == words


@pytest.mark.parametrize("text", [text for text, _ in WORDS])
def test_subwords_never_cross_words_and_lose_nothing(text):
    scheme = SubwordScheme("bpe")
    for chunk in text.split():
        words = scheme.split(chunk)
        assert "".join(words) == chunk
        assert all("".join(scheme.units(word, first=False)) == word for word in words)


def test_white_space_alone_cuts_what_is_tokenised():
    assert WhitespaceScheme().split("don't\t&apos;s\u00a0x") == ["don't", "&apos;s\u00a0x"]


def test_spacy_gets_short_parts_because_its_time_grows_with_their_square(monkeypatch):
    pytest.importorskip("spacy")
    scheme = SpacyScheme("en")
    rules, sizes = scheme._tokenizer, []
    monkeypatch.setattr(scheme, "_tokenizer", lambda part: sizes.append(len(part)) or rules(part))
    chunk = "\"'" * 10_000
    assert "".join(scheme.split(chunk)) == chunk
    assert sizes == [scheme.longest_part] * (len(chunk) // scheme.longest_part)
    assert sum(size**2 for size in sizes) < 1e7  # 4e8 for the whole
    assert scheme.split("x" * scheme.longest_part) == ["x" * scheme.longest_part]


def test_spacy_cuts_contractions():
    pytest.importorskip("spacy")
    assert SpacyScheme("en").split("don't") == ["do", "n't"]


def test_the_name_of_a_language_chooses_the_rules_of_its_code():
    for name, code in (("German", "de"), ("Deutsch", "de"), ("français", "fr"), ("de-AT", "de-AT"), ("Klingon", "Klingon")):
        assert build_scheme("words", name).language == code
    assert build_scheme("words", "German").join(["5", "%"]) == build_scheme("words", "de").join(["5", "%"]) == "5 %"


def test_spacy_that_is_missing_is_named(monkeypatch):
    real = builtins.__import__

    def without_spacy(name, *rest, **more):
        if name == "spacy":
            raise ImportError("No module named 'spacy'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_spacy)
    with pytest.raises(ConfigError, match=re.escape("/regard', or set the tokenizer's kind to words")):
        SpacyScheme("en")


def test_unknown_languages_are_named_with_the_nearest():
    pytest.importorskip("spacy")
    with pytest.raises(ConfigError, match=r"^spaCy has no language 'dee'; did you mean 'de'\?; give a language code"):
        SpacyScheme("dee")


def test_languages_that_need_more_packages_say_so():
    pytest.importorskip("spacy")
    with pytest.raises(
        ConfigError, match=r"^spaCy's tokenizer for 'ja' cannot start: .*[Ss]udachi.* or set the tokenizer's kind to"
    ):
        SpacyScheme("ja")
