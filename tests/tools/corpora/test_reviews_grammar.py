"""The grammar of the reviews: sentiment words, outlines, patterns, and the order of the texts."""

from itertools import chain
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tools.corpora import reviews_words as words
from tools.corpora.numbered import Permutation
from tools.corpora.reviews_grammar import Pattern, Slot, draw_outline

SENTIMENT = (words.ADJECTIVES, words.NOUNS, words.PAST_VERBS, words.BASE_VERBS, *words.SPECIAL.values())
OPPOSITE = {word: pair[pair[0] == word] for pair in chain(*SENTIMENT) for word in pair}
NEGATORS = {"not", "never", "hardly", "no", "neither", "nor", "far", "from"}
CONCEDING = {"looked", "seemed", "it"}


def test_sentiment_words_have_one_polarity_and_are_nothing_else() -> None:
    listed = [word for pair in chain(*SENTIMENT) for word in pair]
    assert len(listed) == len(set(listed))
    others = (
        words.TITLE_FIRST,
        words.TITLE_LAST,
        words.PLACES,
        words.FIRST_NAMES,
        words.LAST_NAMES,
        words.DEGREES,
        words.COLORS,
    )
    plain = {*chain(*others, *words.THINGS.values(), *words.ASPECTS.values(), *words.TEASERS.values())}
    assert not plain & set(listed)
    assert not {*NEGATORS, *CONCEDING} & {*listed, *plain}
    assert {decoy.split()[0] for decoy in words.DECOYS} <= set(listed)
    assert {len(decoy.split()) for decoy in words.DECOYS} == {2}
    tables = (*others, words.DECOYS, words.DISHES, words.SIDES, words.SHADES, words.JOBS, words.INSTRUMENTS, words.RELATIVES)
    assert all(len(table) == len(set(table)) for table in tables)


def test_an_outline_differs_between_labels_in_sentiment_alone() -> None:
    random = Random(5)
    for _ in range(50):
        outline = draw_outline(random, size=1000)
        first, second = (outline.pattern(label) for label in (0, 1))
        assert (first.size, first.length, first.decisive) == (second.size, second.length, second.decisive)
        for rank in range(0, 1000, 97):
            pairs = zip(first.text(rank).split(), second.text(rank).split(), strict=True)
            assert all(b in {a, OPPOSITE.get(a)} or {a, b} == {"a", "an"} for a, b in pairs)


def test_a_pattern_has_each_of_its_texts_once() -> None:
    pattern = Pattern((Slot(("x y", "z w"), False), Slot(("is",), False), Slot(("a", "b", "c"), True)))
    assert (pattern.size, pattern.length, pattern.decisive) == (6, 4, (3,))
    assert {pattern.text(rank) for rank in range(6)} == {f"{x} is {y}" for x in ("x y", "z w") for y in "abc"}


@given(st.integers(0, 1000), st.integers(2, 9))
def test_a_permutation_reaches_every_number(seed: int, bits: int) -> None:
    permutation = Permutation(bits, random=Random(seed))
    assert sorted(map(permutation, range(1 << bits))) == list(range(1 << bits))
