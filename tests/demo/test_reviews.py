"""The built-in reviews: texts by number, no text twice, decisive words that decide, and nothing else that tells the label."""

from functools import cache
from itertools import chain, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.corpora import reviews_words as words
from tools.corpora.reviews_grammar import LABELS, LONGEST, SHORTEST

from regard.demo import Review, ReviewCorpus
from regard.errors import DataError

CORPUS = ReviewCorpus()
INDICES = st.integers(0, len(CORPUS) - 1)
SENTIMENT = (words.ADJECTIVES, words.NOUNS, words.PAST_VERBS, words.BASE_VERBS, *words.SPECIAL.values())
POLARITY = {word: label for pair in chain(*SENTIMENT) for word, label in zip(pair, LABELS, strict=True)}
OPPOSITE = {word: pair[pair[0] == word] for pair in chain(*SENTIMENT) for word in pair}
NEGATORS = {"not", "never", "hardly", "no", "neither", "nor", "far", "from"}
CONCEDING = {"looked", "seemed", "it"}


@cache
def sample(count: int) -> list[Review]:
    return [CORPUS[index] for index in range(count)]


def read(text: list[str]) -> set[str]:
    """An independent reader: the labels that the sentiment words speak for, each by the word in front of it."""
    found = set()
    for front, word in pairwise(text):
        if word in POLARITY and front not in {*CONCEDING, "the"}:
            turned = front in NEGATORS
            found.add(POLARITY[OPPOSITE[word]] if turned else POLARITY[word])
    return found


@given(INDICES)
@settings(max_examples=300, deadline=None)
def test_a_reader_of_word_pairs_finds_the_label(index: int) -> None:
    review = CORPUS[index]
    assert read(list(review.words)) == {review.label}
    assert CORPUS.text(index) == (review.text, review.label)
    assert review.text == " ".join(review.words)
    assert SHORTEST <= len(review.words) <= LONGEST


@given(INDICES)
@settings(max_examples=300, deadline=None)
def test_changing_the_decisive_words_changes_the_label(index: int) -> None:
    review = CORPUS[index]
    (other,) = {*LABELS} - {review.label}
    places = set(review.decisive)
    turned = [OPPOSITE.get(word, word) if place in places else word for place, word in enumerate(review.words)]
    assert read(turned) == {other}
    if NEGATORS & {review.words[place] for place in places}:
        bare = [word for place, word in enumerate(review.words) if place not in places or word not in NEGATORS]
        assert read(bare) == {other}


def test_no_text_comes_twice() -> None:
    texts = {text for text, _ in CORPUS.texts()}
    assert len(texts) == len(CORPUS) == 30_000


def test_the_seed_is_the_corpus() -> None:
    again, other = ReviewCorpus(seed=1), ReviewCorpus(seed=2)
    assert [again[index] for index in range(50)] == sample(50)
    assert not {review.text for review in sample(5000)} & {text for text, _ in other.texts(0, 5000)}


@pytest.mark.parametrize("index", [-1, len(CORPUS)])
def test_an_index_outside(index: int) -> None:
    with pytest.raises(IndexError, match=rf"there is no review {index}; the corpus has reviews 0 to {len(CORPUS) - 1}"):
        CORPUS[index]


def test_the_file(tmp_path: Path) -> None:
    file = tmp_path / "reviews.tsv"
    CORPUS.write(file, 3, 40)
    header, *rows = file.read_text(encoding="utf-8").splitlines()
    assert header == "text\tlabel"
    assert rows == [f"{text}\t{label}" for text, label in CORPUS.texts(3, 40)]
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.tsv"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"reviews\.tsv: cannot be written: .*there is no folder .*, make it first"):
        CORPUS.write(tmp_path / "nowhere" / "reviews.tsv", stop=10)
    with pytest.raises(IndexError, match="reviews 10 to 5 were requested"):
        CORPUS.write(tmp_path / "reviews.tsv", 10, 5)
