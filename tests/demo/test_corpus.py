"""The built-in corpus: pairs by number, no pair twice, one translation for every sentence, links worked by hand."""

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DataConfig, TokenizersConfig
from regard.demo import DemoCorpus
from regard.errors import DataError
from regard.text.tokenizers.tokenizer import build_tokenizers

CORPUS = DemoCorpus()
INDICES = st.integers(0, len(CORPUS) - 1)

# one phenomenon each; sure links by hand as "source-target", possible ones behind "|"
WORKED = {
    # verb-second behind an adverbial, a separable verb: one English word, two German ones
    15293: ("Today I close our door.", "Heute mache ich unsere Tür zu.", "0-0 1-2 2-1 2-5 3-3 4-4 5-6 |"),
    # and rejoined at the end of a subordinate clause; the comma may go with the conjunction
    26124: (
        "We ate the pear because the man got up.",
        "Wir aßen die Birne, weil der Mann aufstand.",
        "0-0 1-1 2-2 3-3 4-5 5-6 6-7 7-8 8-8 9-9 | 4-4",
    ),
    # zu inside the separable verb
    5418: ("She began to open a window.", "Sie begann, ein Fenster aufzumachen.", "0-0 1-1 3-5 4-3 5-4 6-6 | 2-2 2-5"),
    # a compound from "of the", and one from two nouns
    2349: ("Your door of the kitchen is old.", "Deine Küchentür ist alt.", "0-0 1-1 4-1 5-2 6-3 7-4 | 2-1 3-1"),
    10454: ("My women have a kitchen table.", "Meine Frauen haben einen Küchentisch.", "0-0 1-1 2-2 3-3 4-4 5-4 6-5 |"),
    # kein
    3197: (
        "The aunt did not buy a big key.",
        "Die Tante kaufte keinen großen Schlüssel.",
        "0-0 1-1 3-3 4-2 5-3 6-4 7-5 8-6 | 2-2",
    ),
    9236: ("I cannot see old cats now.", "Ich kann jetzt keine alten Katzen sehen.", "0-0 1-1 1-3 2-6 3-4 4-5 5-2 6-7 |"),
    # a verb bracket, in + das
    28872: ("A man will drive into the house.", "Ein Mann wird ins Haus fahren.", "0-0 1-1 2-2 3-5 4-3 5-3 6-4 7-6 |"),
    # past perfect with sein
    16020: (
        "We had gone into the small cities.",
        "Wir waren in die kleinen Städte gegangen.",
        "0-0 1-1 2-6 3-2 4-3 5-4 6-5 7-7 | 1-6 2-1",
    ),
    # relative pronouns: nominative, and accusative plural
    11760: ("My queen who sang saw cats.", "Meine Königin, die sang, sah Katzen.", "0-0 1-1 2-3 3-4 4-6 5-7 6-8 | 2-2 2-5"),
    13051: ("We buy two bags which I saw.", "Wir kaufen zwei Taschen, die ich sah.", "0-0 1-1 2-2 3-3 4-5 5-6 6-7 7-8 | 4-4"),
    # um … zu
    4044: (
        "He ran to the lakes in order to eat a cake.",
        "Er lief an die Seen, um einen Kuchen zu essen.",
        "0-0 1-1 2-2 3-3 4-4 5-6 7-9 8-10 9-7 10-8 11-11 | 5-5 6-5 6-6",
    ),
    # a pronoun by the gender of what it stands for
    23956: (
        "I buy an old key, but I sell it.",
        "Ich kaufe einen alten Schlüssel, aber ich verkaufe ihn.",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 10-10 |",
    ),
    20623: ("Please do not take a ball!", "Bitte nimm keinen Ball!", "0-0 2-2 3-1 4-2 5-3 6-4 | 1-1"),
    22229: ("She is richer than my boys.", "Sie ist reicher als meine Jungen.", "0-0 1-1 2-2 3-3 4-4 5-5 6-6 |"),
    8679: ("In my house there is a ball.", "In meinem Haus gibt es einen Ball.", "0-0 1-1 2-2 3-4 4-3 5-5 6-6 7-7 |"),
    23858: ("She helps the old men.", "Sie hilft den alten Männern.", "0-0 1-1 2-2 3-3 4-4 5-5 |"),
}


def links(text: str) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in (link.split("-") for link in text.split())}


@pytest.mark.parametrize("index", WORKED)
def test_worked_sentences(index: int) -> None:
    source, target, aligned = WORKED[index]
    sure, possible = (links(part) for part in aligned.split("|"))
    pair = CORPUS[index]
    assert (pair.source, pair.target) == (source, target)
    assert pair.alignment == sure
    assert pair.possible == sure | possible
    assert pair.pharaoh() == aligned.split("|")[0].strip()


@cache
def sample(count: int) -> list[tuple[str, str]]:
    return list(CORPUS.pairs(0, count))


def test_no_sentence_twice_in_either_language() -> None:
    pairs = sample(len(CORPUS))
    assert len({source for source, _ in pairs}) == len(pairs)
    assert len({target for _, target in pairs}) == len(pairs)


def test_size_and_bounds() -> None:
    assert len(CORPUS) == 60_000
    message = r"DemoCorpus: there is no pair {}; the corpus has pairs 0 to 59999"
    for index in (-1, len(CORPUS)):
        with pytest.raises(IndexError, match=message.format(index)):
            CORPUS[index]
        with pytest.raises(IndexError, match=message.format(index)):
            CORPUS.text(index)


def test_the_same_seed_gives_the_same_pairs_in_any_order() -> None:
    again = DemoCorpus()
    indices = [7, 59_999, 3, 30_000]
    assert [CORPUS[index] for index in indices] == [again[index] for index in reversed(indices)][::-1]
    other = DemoCorpus(seed=2)
    assert not set(other.pairs(stop=20_000)) & set(CORPUS.pairs(stop=20_000))
    assert sorted(other.pairs()) == sorted(CORPUS.pairs())


@given(INDICES)
@settings(max_examples=300, deadline=None)
def test_a_pair_and_its_links(index: int) -> None:
    pair = CORPUS[index]
    assert (pair.source, pair.target) == CORPUS.text(index)
    for text, words in ((pair.source, pair.source_words), (pair.target, pair.target_words)):
        assert words == tuple(re.findall(r"\w+|[^\w\s]", text))
    assert pair.alignment <= pair.possible
    assert all(i < len(pair.source_words) and j < len(pair.target_words) for i, j in pair.possible)
    assert (len(pair.source_words) - 1, len(pair.target_words) - 1) in pair.alignment
    linked = {j for _, j in pair.alignment}
    alone = [word for j, word in enumerate(pair.target_words) if j not in linked]
    assert set(alone) <= {","}
    possible = {j for _, j in pair.possible}
    assert len(possible) == len(pair.target_words)  # even a comma has a word it may go with
    reached = {i for i, _ in pair.possible}
    assert len(reached) == len(pair.source_words)


def test_words_are_those_of_the_word_tokenizer() -> None:
    pairs = [CORPUS[index] for index in range(500)]
    source, target = build_tokenizers(
        [([pair.source for pair in pairs], [pair.target for pair in pairs])], TokenizersConfig(), DataConfig(), progress=False
    )
    for pair in pairs:
        assert tuple(source.encode(pair.source).words) == pair.source_words
        assert tuple(target.encode(pair.target).words) == pair.target_words


def test_writing(tmp_path: Path) -> None:
    path, gold = tmp_path / "pairs.tsv", tmp_path / "pairs.pharaoh"
    CORPUS.write(path, 100, 400, alignments=gold)
    pairs = [CORPUS[index] for index in range(100, 400)]
    assert path.read_text("utf-8") == "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    assert gold.read_text("utf-8") == "".join(f"{pair.pharaoh()}\n" for pair in pairs)
    with_links = path.read_bytes()
    CORPUS.write(path, 100, 400)
    assert path.read_bytes() == with_links
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pairs.pharaoh", "pairs.tsv"]


def test_writing_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing.pairs\.tsv: cannot be written: No such file.*: there is no folder"):
        CORPUS.write(tmp_path / "missing" / "pairs.tsv", 0, 10)


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("before\n")
    monkeypatch.setattr(DemoCorpus, "text", lambda self, index: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        CORPUS.write(path, 0, 10)
    assert path.read_text() == "before\n"
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.tsv"]
