"""Every kind of tokenizer: ids, words, the way back, and that what is fast equals what is plain."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from regard.config import (
    BPEConfig,
    CharactersConfig,
    DataConfig,
    SpacyConfig,
    TokenizersConfig,
    UnigramConfig,
    WhitespaceConfig,
    WordsConfig,
)
from regard.errors import ConfigError, DataError
from regard.text.symbols import END, PAD, SPECIAL_TOKENS, START, UNKNOWN, WHITE_SPACE
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer, build_tokenizers

ENGLISH = [
    "She kissed him.",
    "They don't pay 3.14 or 1,000 dollars at 10:30, do they?",
    "The well-known dog barked... and the cat (a small one) slept!",
    "He said \"no\" — the boys' room isn't here.",
    "Screaming kids screamed; a scream was heard.",
] * 3
GERMAN = [
    "Sie küsste ihn.",
    "Geht's dir gut? „Ja“, sagte er.",
    "Vor- und Nachname stehen auf dem „Stopp“-Schild.",
    "Die Straße ist 3,5 km lang.",
    "Das Kind hat geschrien, schreit und wird schreien!",
] * 3
DATA = DataConfig(source="en", target="de")
CONFIGS = [
    WordsConfig(),
    WhitespaceConfig(),
    SpacyConfig(),
    CharactersConfig(),
    BPEConfig(size=300, min_count=1),
    UnigramConfig(size=150),
]
kinds = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)


def build(config, texts=ENGLISH, **data) -> Tokenizer:
    if isinstance(config, SpacyConfig):
        pytest.importorskip("spacy")
    settings = DataConfig(**{"source": "en", "target": "de"} | data)
    return build_tokenizers([(texts, ["x"])], TokenizersConfig(source=config), settings)[0]


_BUILT: dict[str, Tokenizer] = {}


def built(config) -> Tokenizer:
    if config.kind not in _BUILT:
        _BUILT[config.kind] = build(config, ENGLISH + GERMAN)
    return _BUILT[config.kind]


def one_by_one(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text).ids for text in texts]


def at_once(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    ids, offsets = tokenizer.encode_batch(texts)
    assert ids.dtype == np.int32
    assert offsets.dtype == np.int64
    assert len(offsets) == len(texts) + 1
    many, starts = tokenizer.encode_batch([*texts, "", ""])  # one text is encoded in another way
    assert (many.tolist(), starts[: len(offsets)].tolist()) == (ids.tolist(), offsets.tolist())
    return [ids[start:end].tolist() for start, end in pairwise(offsets)]


@kinds
def test_special_symbols_have_their_ids(config):
    assert built(config).symbols.tokens[:4] == SPECIAL_TOKENS == ("<pad>", "<unk>", "<s>", "</s>")


@kinds
def test_a_text_cannot_smuggle_in_special_symbols(config):
    texts = ["<s> </s> <pad> <unk>", "a<s>b</s>"]
    for tokenizer in (built(config), build(config, [*ENGLISH, *texts])):
        for ids in at_once(tokenizer, texts):
            assert ids
            assert not {PAD, START, END} & set(ids)


@kinds
def test_empty_texts_are_nothing(config):
    tokenizer = built(config)
    assert at_once(tokenizer, ["", "  ", "Sie", " \t "]) == [[], [], tokenizer.encode("Sie").ids, []]
    assert at_once(tokenizer, []) == []
    assert tokenizer.encode("") == tokenizer.describe([])
    assert tokenizer.decode([]) == ""


@kinds
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(max_size=12) | st.sampled_from([*ENGLISH, *GERMAN]), max_size=5))
def test_encode_batch_equals_encode(config, texts):
    tokenizer = built(config)
    assert at_once(tokenizer, texts) == one_by_one(tokenizer, texts)


@kinds
@pytest.mark.parametrize("lowercase", [False, True])
def test_equals_the_library(config, lowercase, tmp_path):
    if config.kind == "spacy":
        pytest.skip("spaCy's rules are not the library's")
    tokenizer = build(type(config)(**vars(config) | {"lowercase": lowercase}), ENGLISH + GERMAN)
    tokenizer.save(tmp_path / "tokenizer.json")
    library = Library.from_str(json.dumps(json.loads((tmp_path / "tokenizer.json").read_text())["tokenizer"]))
    texts = [*ENGLISH, *GERMAN, "Etwas Unbekanntes: 日本, naïve ☃ und 👩‍👩‍👧!"]
    assert at_once(tokenizer, texts) == [encoding.ids for encoding in library.encode_batch(texts)]


@kinds
def test_unknown_words_never_raise(config):
    ids = built(config).encode("☃☃ Ωmega Жук").ids
    assert UNKNOWN in ids
    assert "<unk>" in built(config).decode(ids)


@kinds
def test_unknown_words_of_many_texts_are_those_of_each(config):
    tokenizer = built(config)
    texts = ["☃ kissed Жук", *ENGLISH, "Жук, 日本語です  ☃☃", "", " Ωmega", "naïve ☃ \ud800", "She\tkissed ☃\n"] * 2
    expected = {}
    for encoding in map(tokenizer.encode, texts):
        owners = [owner for number, owner in zip(encoding.ids, encoding.word_of, strict=True) if number == UNKNOWN]
        expected |= dict.fromkeys(encoding.words[owner] for owner in owners if owner >= 0)
    assert tokenizer.unknown_words(texts) == tokenizer.unknown_words(texts * 20) == list(expected)
    assert tokenizer.unknown_words([]) == []


@kinds
def test_halves_of_surrogate_pairs_never_raise(config):
    tokenizer = built(config)
    assert at_once(tokenizer, ["She \ud800 kissed"]) == one_by_one(tokenizer, ["She \ud800 kissed"])


@kinds
def test_no_symbol_holds_a_control_character(config, tmp_path):
    tokenizer = build(config, ["a\x1b[2Jb \x07 \x9b1m c\x7fd \x85\x93 plain words"] * 3)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(tokenizer.vocabulary()))
    assert tokenizer.encode("plain").ids
    tokenizer.save(tmp_path / "tokenizer.json")
    Tokenizer.load(tmp_path / "tokenizer.json")  # which refuses control characters


@kinds
@pytest.mark.parametrize("text", ENGLISH[:5] + GERMAN[:5])
def test_plain_sentences_come_back(config, text):
    tokenizer = built(config)
    if config.kind == "spacy" and text in GERMAN:
        tokenizer = build(config, GERMAN, source="de")
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@kinds
@pytest.mark.parametrize("text", ENGLISH[:5] + GERMAN[:5])
def test_describe_finds_the_words_of_encode(config, text):
    tokenizer = built(config)
    encoding = tokenizer.encode(text)
    assert tokenizer.describe(encoding.ids) == encoding


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="SheTykisdhm.,!?'-\"() \t", max_size=40))
@pytest.mark.parametrize("config", [CONFIGS[3], CONFIGS[4], CONFIGS[5]], ids=lambda config: config.kind)
def test_texts_come_back_up_to_white_space(config, text):
    tokenizer = built(config)
    known = "".join(character for character in text if character.isspace() or UNKNOWN not in tokenizer.encode(character).ids)
    assert tokenizer.decode(tokenizer.encode(known).ids) == " ".join(known.split())


_LETTERS = st.characters(exclude_characters=f" {WHITE_SPACE}", exclude_categories=["Cs", "Cc"])


def test_symbols_of_white_space_stand_for_white_space():
    tokenizer = build(WhitespaceConfig(), ["␉ x"], normalization="none")  # found by the next test
    assert tokenizer.decode(tokenizer.encode("␉ x").ids) == "\t x"


@given(st.lists(st.text(_LETTERS, min_size=1), min_size=1))
def test_tokenised_text_comes_back_exactly(words):
    words = [word for word in words if word not in SPECIAL_TOKENS]
    tokenizer = build(WhitespaceConfig(), [" ".join(words), "x"], normalization="none")
    assert tokenizer.encode(" ".join(words)).words == words
    assert tokenizer.decode(tokenizer.encode(" ".join(words)).ids) == " ".join(words)


@pytest.mark.parametrize("config", [CONFIGS[1], CONFIGS[3], CONFIGS[4], CONFIGS[5]], ids=lambda config: config.kind)
def test_spaces_before_punctuation_stay(config):
    text = "the dog , ( a small one ) , slept ."
    tokenizer = build(config, [text] * 5)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_pieces_of_a_word_are_one_word():
    tokenizer = build(BPEConfig(size=40, min_count=1), ["ge schrei en creamt ges ."] * 9)
    encoding = tokenizer.encode("gescreamt .")
    assert len(encoding.ids) > 2
    assert encoding.words == ["gescreamt", "."]
    assert encoding.word_of == [0] * (len(encoding.ids) - 1) + [1]


def test_pieces_do_not_cross_punctuation():
    tokenizer = build(BPEConfig(size=500, min_count=1), ["end. x", "end. y", "3.14 end."] * 20)
    assert tokenizer.encode("end. 3.14").tokens == ["▁end", ".", "▁3", ".", "14"]
    assert tokenizer.encode("end. 3.14").words == ["end", ".", "3.14"]


def test_the_space_before_a_word_belongs_to_it():
    encoding = build(CharactersConfig(), ["ab c"]).encode("ab c")
    assert encoding.tokens == ["a", "b", " ", "c"]
    assert encoding.word_of == [0, 0, 1, 1]


def test_describe_marks_special_symbols_and_keeps_unknown_ones():
    tokenizer = build(WordsConfig(), ["a b"])
    a = tokenizer.encode("a").ids[0]
    described = tokenizer.describe([START, a, UNKNOWN, END, PAD])
    assert described.tokens == ["<s>", "a", "<unk>", "</s>", "<pad>"]
    assert described.words == ["a", "<unk>"]
    assert described.word_of == [-1, 0, 1, -1, -1]
    assert tokenizer.decode([START, a, UNKNOWN, END, PAD]) == "a <unk>"


def test_an_unknown_piece_is_a_part_of_its_word():
    tokenizer = build(BPEConfig(size=40, min_count=1), ["ab cd"] * 3)
    encoding = tokenizer.encode("ab☃ cd")
    assert UNKNOWN in encoding.ids
    assert tokenizer.describe(encoding.ids).words == ["ab<unk>", "cd"]


@pytest.mark.parametrize(
    ("before", "after", "text", "words"),
    [
        ("a tree", "blue.", "a tree blue.", ["a", "tree", "blue", "."]),
        ("a tree", "☃.", "a tree <unk>.", ["a", "tree", "<unk>", "."]),
        ("a tree", " blue", "a tree blue", ["a", "tree", "blue"]),
        ("a tree ", "blue", "a tree blue", ["a", "tree", "blue"]),
        ("今天。", "天气", "今天。天气", ["今", "天", "。", "天", "气"]),
        ("今天！", "「天气」", "今天！「天气」", ["今", "天", "！", "「", "天", "气", "」"]),
    ],
)
def test_a_space_stands_between_the_parts_of_a_long_text(before, after, text, words):
    tokenizer = build(CharactersConfig(min_count=1), ["a tree blue. 今天。天气！「」"])
    ids = [*tokenizer.encode(before).ids, END, *tokenizer.encode(f"x{after}").ids[1:]]
    assert tokenizer.decode(ids) == text
    described = tokenizer.describe([*ids, END])
    assert described.words == words
    assert len(described.word_of) == len(ids) + 1


def test_parts_of_subwords_bring_their_spaces():
    tokenizer = build(BPEConfig(size=60, min_count=1), ["a tree blue"])
    ids = [*tokenizer.encode("a tree").ids, END, *tokenizer.encode("blue").ids]
    assert tokenizer.decode(ids) == "a tree blue"
    assert tokenizer.describe(ids).tokens == [tokenizer.symbols.tokens[number] for number in ids]


def test_unknown_words_can_be_replaced():
    tokenizer = build(WordsConfig(), ["Das ist ein Haus ."], source="de")
    ids = tokenizer.encode("Das ist ein Schloss .").ids
    assert tokenizer.decode(ids) == "Das ist ein <unk>."
    assert tokenizer.decode(ids, replace={3: "Schloss"}) == "Das ist ein Schloss."


def test_words_keep_their_case_where_symbols_lose_it():
    encoding = build(WordsConfig(lowercase=True)).encode("She KISSED him.")
    assert encoding.tokens == ["she", "kissed", "him", "."]
    assert encoding.words == ["She", "KISSED", "him", "."]


def test_lower_casing_is_unicode():
    assert build(WordsConfig(lowercase=True), ["Ärger ΟΔΟΣ İ"]).encode("Ärger ΟΔΟΣ İ").tokens == ["ärger", "οδος", "i̇"]


def test_composed_and_decomposed_letters_are_one():
    tokenizer = build(WordsConfig(), ["ku\u0308sste"])
    assert tokenizer.encode("k\u00fcsste").ids == tokenizer.encode("ku\u0308sste").ids == [4]


def test_vocabulary_goes_by_count_then_by_code_point():
    tokenizer = build(WordsConfig(), ["b b a", "c a <s> é", "b"])
    assert tokenizer.symbols.tokens[4:] == ("b", "a", "<", ">", "c", "s", "é")
    assert build(WordsConfig(min_count=2), ["b b a", "c a", "b"]).symbols.tokens[4:] == ("b", "a")
    assert build(WordsConfig(max_size=1), ["b b a", "c a", "b"]).symbols.tokens[4:] == ("b",)


@pytest.mark.parametrize("config", [BPEConfig(size=40), UnigramConfig(size=40)], ids=["bpe", "unigram"])
def test_the_size_bounds_alphabet_and_pieces(config):
    many = "".join(chr(0x4E00 + number) for number in range(200))
    assert build(config, [*ENGLISH * 3, many]).size <= 40


@kinds
def test_learning_repeats_itself(config, tmp_path):
    rows = [f"{s} {v} {o}." for s in ("a man", "the dog") for v in ("sees", "kisses") for o in ("me", "Ωx", "Zß", "Qy")]
    for number, texts in enumerate((rows, rows[::-1])):
        build(config, texts).save(tmp_path / f"{number}.json")
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


def test_joint_tokenizers_are_one_object():
    chunks = [(["a b"], ["c d"]), (["a"], ["e"])]
    source, target = build_tokenizers(iter(chunks), TokenizersConfig(joint=True), DATA)
    assert source is target
    assert set(source.symbols.tokens[4:]) == set("abcde")


def test_separate_tokenizers_learn_from_their_side():
    source, target = build_tokenizers(iter([(["a b"], ["c d"])]), TokenizersConfig(), DATA)
    assert source.symbols.tokens[4:] == ("a", "b")
    assert target.symbols.tokens[4:] == ("c", "d")


def test_joint_spacy_needs_one_language():
    config = TokenizersConfig(source=SpacyConfig(), target=SpacyConfig(), joint=True)
    with pytest.raises(ConfigError, match=r"the rules of one language, but data names 'en' and 'de': set tokenizers"):
        build_tokenizers([], config, DATA)


def test_no_text_is_refused():
    with pytest.raises(DataError, match="no text on the target side to learn a vocabulary from: check the files and columns"):
        build_tokenizers([(["a"], [" "])], TokenizersConfig(), DATA)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            BPEConfig(size=4),
            "the tokenizer's size is 4; expected a larger one, such as 8000, for 4 special symbols and some subwords",
        ),
    ],
)
def test_bounds_out_of_range_are_refused(config, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        build(config)


SPACELESS = ["今天天气很好。我们去公园吧。", "我有iPhone手机", "สวัสดีครับ ผมชื่อสมชาย", "a good day"] * 4


@pytest.mark.parametrize("config", [BPEConfig(size=120), UnigramConfig(size=90), CharactersConfig()])
def test_words_of_scripts_without_spaces_end_where_tokens_end(config):
    tokenizer = build_tokenizer([SPACELESS], config)
    for text in ("今天天气很好。", "สวัสดี good day", "今龘龘天"):
        encoding = tokenizer.encode(text)
        assert "".join(encoding.words) == text.replace(" ", "")
        starts = [at for at, owner in enumerate(encoding.word_of) if at == 0 or owner != encoding.word_of[at - 1]]
        assert [encoding.word_of[at] for at in starts] == list(range(len(encoding.words)))
        assert len(encoding.words) > 1
        described = tokenizer.describe([*encoding.ids, 3])
        assert described.word_of[-1] == -1
        if "<unk>" not in encoding.tokens:
            assert (described.words, described.word_of[:-1]) == (encoding.words, encoding.word_of)
    assert tokenizer.encode("good day").words == ["good", "day"]
