"""A translation reads like a sentence."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.tokenizers.detokenizer import detokenize
from regard.text.tokenizers.schemes import Scheme, SpacyScheme, WordsScheme

REAL = Path(os.environ.get("REGARD_DATA", "../shared/data"))

TABLE = [
    ("en", "She kissed him ."),
    ("en", "Well , I do n't know : is it 's fault ? || Well, I don't know: is it's fault?"),
    (
        "en",
        "They 're here , I 'm not , we 've gone , he 'll go ! || They're here, I'm not, we've gone, he'll go!",
    ),
    ("en", "you can not || you cannot"),
    ("en", "I 'm gon na do it || I'm gonna do it"),
    ("en", 'He said " yes " and " no " . || He said "yes" and "no".'),
    ("en", "“ Go , ” she said , “ now . ” || “Go,” she said, “now.”"),
    ("en", "the boys ' room || the boys' room"),
    ("en", "a band called ' Queen ' played || a band called 'Queen' played"),
    ("en", "It costs $ 5 or £ 3 , i.e. 50 % ( half ) . || It costs $5 or £3, i.e. 50% (half)."),
    ("en", "and / or || and/or"),
    ("en", "wait ... what ?! || wait... what?!"),
    ("en", "1990 – 2000 || 1990–2000"),
    ("en", "a dog – a big one – barks || a dog – a big one – barks"),
    ("en", "# 1 on a @ b.com || #1 on a@b.com"),
    ("de", "Er sagte : „ Ja , gern “ . || Er sagte: „Ja, gern“."),
    ("de", "» Nein ! « , rief sie . || »Nein!«, rief sie."),
    ("de", "Das macht 5 % oder 3 € ( ungefähr ) . || Das macht 5 % oder 3 € (ungefähr)."),
    ("de", "Wie geht 's ? || Wie geht's?"),
    ("de", "Vor- und Nachname am „ Stopp “ -Schild || Vor- und Nachname am „Stopp“-Schild"),
    ("de", "am 3 . Mai || am 3. Mai"),
    ("fr", "Qu' est-ce que c' est ? « Rien » , dit -elle ! || Qu'est-ce que c'est ? « Rien », dit -elle !"),
    ("es", "¿ Qué ? ¡ Nada ! || ¿Qué? ¡Nada!"),
    ("zh", "我 有 3 个 苹 果 。 || 我有3个苹果。"),
    ("ja", "「 はい 」 と 言 っ た 。 || 「はい」と言った。"),
    ("en", "The word 日 本 means Japan . || The word 日本 means Japan."),
    ("", ". . . || ..."),
    ("en", ""),
]


@pytest.mark.parametrize(("language", "row"), TABLE)
def test_reads_like_a_sentence(language, row):
    tokens, _, sentence = row.partition(" || ")
    assert detokenize(tokens.split(), language) == (sentence or tokens.replace(" .", "."))


def test_hyphens_are_closed_where_the_tokenizer_cuts_them():
    assert detokenize(["a", "well", "-", "known", "man"], "en", split_hyphens=True) == "a well-known man"
    assert detokenize(["a", "man", "-", "a", "fool"], "en") == "a man - a fool"


def test_a_region_does_not_change_the_rules():
    assert detokenize(["5", "%"], "de-AT") == detokenize(["5", "%"], "DE") == "5 %"


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1)),
    st.sampled_from(["en", "de", "fr", "zh", ""]),
)
def test_only_spaces_are_added(words, language):
    text = detokenize(words, language)
    assert text.replace(" ", "") == "".join(words)
    assert text == text.strip(" ")
    assert "  " not in text


@pytest.mark.real
@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("scheme", [WordsScheme, SpacyScheme])
def test_real_sentences_come_back(language, scheme):
    folder = REAL / "multi30k"
    if not folder.is_dir():
        pytest.skip("needs multi30k in ../shared/data or the folder in REGARD_DATA")
    if scheme is SpacyScheme:
        pytest.importorskip("spacy")
    texts = [" ".join(line.split()) for line in (folder / f"val.{language}").read_text(encoding="utf-8").splitlines()]
    rules: Scheme = scheme(language)
    back = [rules.join([word for chunk in text.split() for word in rules.split(chunk)]) for text in texts]
    assert sum(one != other for one, other in zip(texts, back, strict=True)) <= 0.01 * len(texts)
