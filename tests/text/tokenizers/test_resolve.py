import pytest

from regard.config import AutoConfig, BPEConfig, DataConfig, TokenizersConfig, WhitespaceConfig, WordsConfig
from regard.text.tokenizers.resolve import SAMPLE_SIZE, is_tokenised, resolve_kinds
from regard.text.tokenizers.tokenizer import build_tokenizers

PLAIN = ["She kissed him.", "Well, who is it?", 'He said: "Go, now!"', "Stop!", "He left (at 3.14)."]
CUT = ["she kissed him .", "well , who is it ?", 'he said : " go , now ! "', "stop !", "he left ( at 3.14 ) ."]
AUTO = (AutoConfig(), AutoConfig(min_count=2, lowercase=True, max_size=9))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (PLAIN, False),
        (CUT, True),
        (["我 爱 你 。", "你 好 ！"], True),
        (["我爱你。", "你好！"], False),
        (["Tu viens, Anna ?", "Oui, oui !"], False),  # French sets a space before these, but not before commas
        (["no stop at all", "nor here"], False),
        (["a b c", "a b c", "a b ."], False),  # a mark for less than half of them
        (["a , b , c", "a b c", "a b c"], True),
        (["a b", "a b .", "a b ."], True),
        ([], False),
        ([""], False),
        ([".", "..."], True),
        (["so it goes . . .", "well ..."], True),
    ],
)
def test_text_that_is_tokenised_already(texts, expected):
    assert is_tokenised(texts) is expected


@pytest.mark.parametrize(("stray", "expected"), [(5, True), (6, False)])
def test_one_sentence_in_twenty_may_stray(stray, expected):
    assert is_tokenised(CUT * ((100 - stray) // 5) + CUT[: (100 - stray) % 5] + ["Stop!"] * stray) is expected


def test_each_side_is_judged_by_itself_and_keeps_its_settings():
    source, target = resolve_kinds(AUTO, [(PLAIN, CUT)])
    assert source == WordsConfig()
    assert target == WhitespaceConfig(min_count=2, lowercase=True, max_size=9)


def test_joint_sides_are_judged_together():
    both = (AutoConfig(), AutoConfig())
    assert resolve_kinds(both, [(PLAIN, CUT)], joint=True) == (WordsConfig(), WordsConfig())
    assert resolve_kinds(both, [(CUT, CUT)], joint=True) == (WhitespaceConfig(), WhitespaceConfig())


def test_fixed_kinds_read_nothing():
    fixed = (BPEConfig(), WordsConfig())

    def never():
        raise AssertionError
        yield

    assert resolve_kinds(fixed, never()) == (BPEConfig(), WordsConfig())


def test_the_sample_is_bounded():
    def chunks():
        yield CUT * (SAMPLE_SIZE // 5 + 1), CUT * (SAMPLE_SIZE // 5 + 1)
        raise AssertionError

    assert resolve_kinds(AUTO, chunks())[0] == WhitespaceConfig()


def test_tokenizers_are_built_of_the_kind_and_learn_from_the_sample_too():
    chunks = ((part, part) for part in (CUT[:2], CUT[2:]))
    source, target = build_tokenizers(chunks, TokenizersConfig(source=AutoConfig(), target=BPEConfig(size=40)), DataConfig())
    assert (source.kind, target.kind) == ("whitespace", "bpe")
    assert {"kissed", "3.14", ")"} <= set(source.symbols.tokens)
