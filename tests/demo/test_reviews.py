"""The built-in reviews: texts by number, no text twice, decisive words that decide, and nothing else that tells the label."""

import re
from collections import Counter
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
def test_decisive_words_are_the_verdicts_sentiment_and_its_negators(index: int) -> None:
    review = CORPUS[index]
    decisive = {review.words[place] for place in review.decisive}
    assert decisive <= {*POLARITY, *NEGATORS}
    assert decisive & set(POLARITY)
    assert len(review.decisive) <= 4
    kept = list(review.words)
    for place in review.decisive:
        kept[place] = "_"
    assert read(kept) == set()  # whatever else looks like sentiment decides nothing


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


@given(INDICES)
@settings(max_examples=200, deadline=None)
def test_changing_other_sentiment_words_changes_nothing(index: int) -> None:
    review = CORPUS[index]
    turned = [word if place in review.decisive else OPPOSITE.get(word, word) for place, word in enumerate(review.words)]
    assert read(turned) == {review.label}


WORKED = {
    "plain": r" is a \w+ \w+ \.",
    "negated adjective": r" is (not|never|hardly) ",
    "far from": r" is far from ",
    "negated noun": r" is no \w+ \.",
    "negated verb": r" (never|hardly) \w+ (me|us)\b",
    "negated wish": r"\b(will|do) not ",
    "neither": r" is neither \w+ nor ",
    "two verdicts": r" is \w+ and ",
    "but": r" (looked|seemed) \w+ , (but|yet) ",
    "although": r"^(although|while) the \w+ looked \w+ , ",
    "afterthought": r" , although friends called it \w+ \.",
    "agreement": r"^just as ",
    "name of a thing": r" the (bad guy|great hall|dull knife) ",
    "an": r" an (awful|excellent|ugly|honest|unfunny) ",
    "a": r" a useless ",
}


@pytest.mark.parametrize("name", WORKED)
def test_every_phenomenon_occurs(name: str) -> None:
    assert any(re.search(WORKED[name], review.text) for review in sample(20_000))


def test_articles_fit_the_word_behind_them() -> None:
    vowel = re.compile(r"\ba (?:[aeio]|un|ug|honest)|\ban (?:[^aeiouh ]|us|h(?!onest))")
    assert not [review.text for review in sample(20_000) if vowel.search(review.text)]


def test_labels_are_balanced_and_neither_length_nor_form_tells_them() -> None:
    counts = Counter(review.label for review in sample(20_000))
    assert abs(counts["positive"] - 10_000) < 250
    lengths = {label: Counter(len(r.words) for r in sample(20_000) if r.label == label) for label in LABELS}
    means = [sum(length * count for length, count in lengths[label].items()) / counts[label] for label in LABELS]
    assert abs(means[0] - means[1]) < 0.3
    # the form: all but what was drawn from pairs; each must come with either label about as often
    forms: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
    for review in sample(20_000):
        forms[review.label].update({word for word in review.words if word not in POLARITY})
    for word in (forms["positive"] + forms["negative"]).keys() - {"a", "an"}:
        either = [forms[label][word] for label in LABELS]
        assert abs(either[0] - either[1]) < 5 * sum(either) ** 0.5 + 1, word


def test_words_alone_tell_little() -> None:
    speaks: Counter[str] = Counter()
    for review in sample(10_000):
        speaks.update(dict.fromkeys(set(review.words), 1 if review.label == "positive" else -1))
    right = sum(
        (sum(speaks[word] / 100 for word in set(review.words)) > 0) == (review.label == "positive")
        for review in sample(20_000)[10_000:]
    )
    assert right < 7_500


def test_the_parts_of_the_corpus() -> None:
    drawn = sample(20_000)
    negated = sum(bool(NEGATORS & {r.words[place] for place in r.decisive}) for r in drawn) / len(drawn)
    conceding = sum(bool(re.search(r" (looked|seemed) | called it ", r.text)) for r in drawn) / len(drawn)
    contrary = sum(bool(re.search(r"\b(but|yet|although|while)\b", r.text)) for r in drawn) / len(drawn)
    assert 0.35 < negated < 0.45
    assert 0.43 < conceding < 0.57
    assert 0.2 < contrary < 0.3
    assert min(len(r.words) for r in drawn) < 10
    assert max(len(r.words) for r in drawn) == LONGEST


def test_no_text_comes_twice() -> None:
    texts = {text for text, _ in CORPUS.texts()}
    assert len(texts) == len(CORPUS) == 30_000


def test_the_seed_is_the_corpus() -> None:
    again, other = ReviewCorpus(seed=1), ReviewCorpus(seed=2)
    assert [again[index] for index in range(50)] == sample(50)
    assert not {review.text for review in sample(5000)} & {text for text, _ in other.texts(0, 5000)}


def test_it_stays_what_it_is() -> None:
    text = "it was october and we were in rome . what a rich cottage . sofia parker sat at the desk next to the stale bread ."
    assert CORPUS[0] == Review(text, "positive", tuple(text.split()), (11,))


def test_held_out_texts_have_pairs_of_words_that_training_had_and_no_text_of_it() -> None:
    seen = {pair for review in sample(20_000) for pair in pairwise(review.words)}
    held = [CORPUS[index] for index in range(len(CORPUS) - 1000, len(CORPUS))]
    negated = [pair for review in held for pair in pairwise(review.words) if pair[0] in NEGATORS and pair[1] in POLARITY]
    assert len(negated) > 300
    assert sum(pair in seen for pair in negated) / len(negated) > 0.98
    assert not {review.text for review in held} & {review.text for review in sample(20_000)}


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
    with pytest.raises(DataError, match=r"the built-in corpus cannot be written to .*name a file in a folder that exists"):
        CORPUS.write(tmp_path / "nowhere" / "reviews.tsv", stop=10)
    with pytest.raises(IndexError, match="reviews 10 to 5 were requested"):
        CORPUS.write(tmp_path / "reviews.tsv", 10, 5)
