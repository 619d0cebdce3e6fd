"""What a first look at training files finds."""

import gzip
import json
from dataclasses import replace

import pytest

from regard.choose.survey import SAMPLE_SIZE, survey_labelled, survey_pairs, survey_plain
from regard.config import DataConfig, LabelledDataConfig, TextDataConfig
from regard.errors import DataError
from regard.text.pairs.readers import read_pairs


@pytest.fixture
def write(tmp_path):
    def write(name, lines):
        path = tmp_path / name
        text = "".join(f"{line}\n" for line in lines)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return write


def test_pairs_are_counted_and_measured(write):
    path = write("pairs.tsv", ["a dog runs\tein Hund läuft schnell", "a cat\teine Katze"])
    survey = survey_pairs(DataConfig(train=(path,)))
    assert survey.pairs == 2
    assert survey.source.words == 2.5
    assert survey.target.words == 3
    assert survey.source.characters == (10 + 5) / 2
    assert survey.related
    assert not survey.source.unspaced
    assert not survey.target.tokenised


def test_sorted_files_are_measured_as_a_whole(write):
    short = [f"we go {n}\twir gehen {n}" for n in range(SAMPLE_SIZE)]
    long = [f"один два {n}\tone two three four {n}" for n in range(2 * SAMPLE_SIZE)]
    survey = survey_pairs(DataConfig(train=(write("sorted.tsv.gz", short + long),)))
    assert survey.pairs == 3 * SAMPLE_SIZE
    assert survey.source.words == pytest.approx((3 + 2 * 3) / 3)
    assert survey.target.words == pytest.approx((3 + 2 * 5) / 3)
    assert "д" in survey.source.alphabet  # of the file's later part
    assert "g" in survey.source.alphabet  # of its beginning


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_max_pairs_bounds_the_count(write, limit):
    path = write("pairs.tsv", [f"the dog sees cat {n} .\tder Hund sieht Katze {n} ." for n in range(5)])
    assert survey_pairs(DataConfig(train=(path,), max_pairs=limit)).pairs == min(limit, 5)


@pytest.mark.parametrize(
    ("text", "unspaced"),
    [
        ("彼女は彼にキスをした。", True),
        ("她吻了他。", True),
        ("เธอจูบเขา", True),
        ("그녀는 그에게 키스했다.", False),
        ("она поцеловала его", False),
        ("she kissed him 他", False),
        ("12 34 !", False),
        ("DerHundsiehtdiegroßeKatzeimGarten.", False),
        ("Donaudampfschifffahrtsgesellschaft zahlt der Stadt", False),
        ("Hund", False),
    ],
)
def test_scripts_without_spaces(write, text, unspaced):
    survey = survey_pairs(DataConfig(train=(write("pairs.tsv", [f"she kissed him\t{text}"] * 3),)))
    assert survey.target.unspaced is unspaced


def test_units_of_a_script_without_spaces_are_pairs_of_characters(write):
    survey = survey_pairs(DataConfig(train=(write("pairs.tsv", ["go\t她吻了他吗好"]),)))
    assert survey.target.units == 3
    assert survey.source.units == 1


def test_languages_of_other_letters_are_not_related(write):
    assert not survey_pairs(DataConfig(train=(write("ru.tsv", ["she kissed him\tона поцеловала его"]),))).related


def test_labels_are_counted(write):
    rows = [json.dumps({"text": "a good film", "label": name}) for name in ("good", "bad", "good", "good")]
    data = LabelledDataConfig(train=(write("texts.jsonl", rows),))
    survey = survey_labelled(data)
    assert (survey.texts, survey.labels, survey.text.words) == (2, 2, 3)
    assert survey_labelled(replace(data, drop_repeats=False)).texts == 4


def test_duplicates_that_training_drops_do_not_count(write):
    rows = [f"the dog sees cat {n} .\tder Hund sieht Katze {n} ." for n in range(1000)]
    for order in (rows * 30, [row for row in rows for _ in range(30)]):
        data = DataConfig(train=(write("pairs.tsv", order),))
        survey = survey_pairs(data)
        assert (survey.pairs, survey.source.words) == (1000, 6)
        assert survey_pairs(replace(data, drop_repeats=False)).pairs == 30_000
        for most in (10, 900, 1000, 1001):
            assert survey_pairs(replace(data, max_pairs=most)).pairs == min(most, 1000)
    survey = survey_plain(TextDataConfig(train=(write("a.txt", rows * 3),)))
    assert survey.texts == 1000
    assert survey.characters == sum(map(len, rows))


def test_only_as_much_is_read_as_needed(write, monkeypatch):
    monkeypatch.setattr("regard.text.opening.BLOCK_BYTES", 1000)
    path, read = write("pairs.tsv", [f"the dog {n}\tder Hund {n}" for n in range(20_000)] * 2), []

    def count(*arguments):
        for chunk in read_pairs(*arguments):
            read.append(len(chunk.line))
            yield chunk

    monkeypatch.setattr("regard.choose.survey.read_pairs", count)
    assert survey_pairs(DataConfig(train=(path,), max_pairs=5000)).pairs == 5000
    assert 5000 <= sum(read) < 5100
    read.clear()
    assert survey_pairs(DataConfig(train=(path,), max_pairs=20_000)).pairs == 20_000
    assert 20_000 <= sum(read) < 20_100


def test_plain_texts(write):
    survey = survey_plain(TextDataConfig(train=(write("a.txt", ["one two", "", "three"]), write("b.txt", ["four"]))))
    assert (survey.texts, survey.characters) == (3, 7 + 5 + 4)


def test_what_is_wrong_with_a_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.tsv"):
        survey_pairs(DataConfig(train=(str(tmp_path / "nowhere.tsv"),)))
