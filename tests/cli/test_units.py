"""`--units` of the commands that draw attention or print words."""

import json

import pytest
from export.page_models import make_classifier, make_translator

from regard.cli import main as cli
from regard.records import load_record


@pytest.fixture(scope="module")
def spelling(tmp_path_factory):
    return str(make_translator(tmp_path_factory.mktemp("units") / "spelling", kind="characters"))


def lines(capsys, *arguments):
    assert cli.main(list(arguments)) == 0
    return capsys.readouterr().out.splitlines()


def test_a_model_of_characters_is_shown_in_characters(spelling, capsys, tmp_path):
    shown = lines(capsys, "look", spelling, "a dog")
    assert any(line.split()[:5] == ["a", "␣", "d", "o", "g"] for line in shown)
    lines(capsys, "look", spelling, "a dog", "--to", str(tmp_path / "a.json"))
    assert load_record(tmp_path / "a.json").source_scheme == "characters"
    shown = lines(capsys, "look", spelling, "a dog", "--units", "words")
    assert any(line.split()[:2] == ["a", "dog"] for line in shown)


def test_words_and_alignments_that_are_printed_are_of_the_same_units(spelling, capsys, tmp_path):
    (tmp_path / "pairs.tsv").write_text("a dog\tein\n", encoding="utf-8")
    assert all(
        link.endswith(("-0", "-1", "-2")) for link in lines(capsys, "align", spelling, str(tmp_path / "pairs.tsv"))[0].split()
    )
    assert lines(capsys, "align", spelling, str(tmp_path / "pairs.tsv"), "--units", "words")[0].split()[-1].endswith("-0")
    [plain] = map(json.loads, lines(capsys, "translate", spelling, "a dog", "--json"))
    assert plain["source_words"] == list("a dog")
    [plain] = map(json.loads, lines(capsys, "translate", spelling, "a dog", "--json", "--units", "words"))
    assert plain["source_words"] == ["a", "dog"]


def test_words_of_a_label(capsys, tmp_path):
    folder = str(make_classifier(tmp_path / "reviews"))
    [plain] = map(json.loads, lines(capsys, "classify", folder, "a film", "--json"))
    assert (plain["words"], len(plain["weights"])) == (list("a film"), 6)
    [plain] = map(json.loads, lines(capsys, "classify", folder, "a film", "--json", "--units", "words"))
    assert (plain["words"], len(plain["weights"])) == (["a", "film"], 2)


def test_subwords_are_not_divided(capsys, tmp_path):
    folder = str(make_translator(tmp_path / "bpe", kind="bpe"))
    assert cli.main(["look", folder, "a dog", "--units", "characters"]) == 2
    assert "the model's tokens are words or subwords" in capsys.readouterr().err
    shown = lines(capsys, "look", folder, "a dog", "--units", "tokens")
    assert any("▁" in line for line in shown)
