import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RequestError
from regard.records import join_subwords


@pytest.mark.parametrize(
    ("tokens", "words", "word_of"),
    [
        (["[CLS]", "un", "##believ", "##able", "!", "[SEP]", "[PAD]"], ["unbelievable", "!"], [-1, 0, 0, 0, 1, -1, -1]),
        (["▁un", "believ", "able", ",", "▁yes", "</s>"], ["unbelievable,", "yes"], [0, 0, 0, 0, 1, -1]),
        (["un", "believ", "Ġstory", "Ċ", "<|endoftext|>"], ["unbeliev", "story", "Ċ"], [0, 0, 1, 2, -1]),
        (["un", "able</w>", "story</w>", "!</w>"], ["unable", "story", "!"], [0, 0, 1, 2]),
        (["un@@", "believ@@", "able", "story"], ["unbelievable", "story"], [0, 0, 0, 1]),
        (["<s>", "a", "b", "</s>"], ["a", "b"], [-1, 0, 1, -1]),
        (["un", "[SEP]", "##able"], ["un", "##able"], [0, -1, 1]),
        (["[UNK]", "##s", "[MASK]"], ["[UNK]s", "[MASK]"], [0, 0, 1]),
        (["▁", "▁a"], ["▁", "a"], [0, 1]),
        (["a", "##", "#"], ["a", "##", "#"], [0, 1, 2]),
        ([], [], []),
    ],
)
def test_words_by_the_marks_that_are_there(tokens, words, word_of):
    assert join_subwords(tokens) == (words, word_of)


def test_letters_that_stand_for_bytes_are_read():
    assert join_subwords(["Ġsch", "Ã¶n", "Ġ."]) == (["schön", "."], [0, 0, 1])


@pytest.mark.parametrize(
    ("tokens", "words", "word_of"),
    [
        (["▁今天", "天气", "很", "好", "。"], ["今天", "天气", "很", "好", "。"], [0, 1, 2, 3, 4]),
        (["▁", "今天", "▁AI", "技术"], ["今天", "AI", "技术"], [0, 0, 1, 2]),
        (["▁I", "▁", "<0xE4>", "<0xBB>", "<0x8A>", "天", "s"], ["I", "今", "天", "s"], [0, 1, 1, 1, 1, 2, 3]),
        (["[CLS]", "今", "##天", "play", "##ing"], ["今", "天", "playing"], [-1, 0, 1, 2, 2]),
        (["ä»Ĭå¤©", "æ°", "Ķ", "å¾Ī"], ["今天", "气", "很"], [0, 1, 1, 2]),  # no token begins with a space
        (["Ġun", "believ", "able", "æ°", "Ķ"], ["unbelievable", "气"], [0, 0, 0, 1, 1]),
        (["▁สวั", "สดี", "ค", "รั", "บ"], ["สวั", "สดี", "ค", "รั", "บ"], [0, 1, 2, 3, 4]),
        (["▁ก", "ิน", "▁ខ", "្ម", "ែរ"], ["กิน", "ខ្មែរ"], [0, 0, 1, 1, 1]),  # marks stay with their letters
        (["▁ខ្", "មែ", "▁မြ", "န်", "မာ", "▁ラ", "ー"], ["ខ្មែ", "မြ", "န်", "မာ", "ラ", "ー"], [0, 0, 1, 2, 3, 4, 5]),
        (["▁한국", "어", "▁नम", "स्ते"], ["한국어", "नमस्ते"], [0, 0, 1, 1]),  # scripts with spaces
        (["天@@", "气", "un@@", "do"], ["天", "气", "undo"], [0, 1, 2, 2]),
        (["天", "气</w>", "un", "do</w>"], ["天", "气", "undo"], [0, 1, 2, 2]),
        (["schön", "café", "naïve"], ["schön", "café", "naïve"], [0, 1, 2]),
    ],
)
def test_words_end_with_tokens_where_the_script_has_no_spaces(tokens, words, word_of):
    assert join_subwords(tokens) == (words, word_of)


def test_a_scheme_may_be_named_and_special_tokens_too():
    assert join_subwords(["a", "b"], scheme="sentencepiece") == (["ab"], [0, 0])
    assert join_subwords(["##a", "de_DE", "[CLS]"], scheme="none", special=["de_DE"]) == (["##a", "[CLS]"], [0, -1, 1])
    assert join_subwords(["<unk>", "</s>"], special=["<unk>", "</s>"]) == (["<unk>"], [0, -1])
    with pytest.raises(RequestError, match=r"scheme is 'wordpeice', expected one of auto, .*; did you mean 'wordpiece'"):
        join_subwords(["a"], scheme="wordpeice")


@given(st.lists(st.text(alphabet="ab▁Ġ#@</w>[CLS]", max_size=6), max_size=8))
def test_every_token_has_a_word_or_is_special_and_words_come_in_order(tokens):
    words, word_of = join_subwords(tokens)
    own = [word for word in word_of if word >= 0]
    assert len(word_of) == len(tokens)
    assert sorted(set(own)) == list(range(len(words)))
    assert own == sorted(own)
