import json

import pytest
from benchmarks.alignment import choose, main, prepare


def test_held_out_pairs_share_no_sentence_with_training(tmp_path):
    held_out = prepare(tmp_path, 200)
    written = (tmp_path / "pairs.tsv").read_text().splitlines()
    assert len(written) == len((tmp_path / "all.links").read_text().splitlines()) == 200
    assert (tmp_path / "half.links").read_text().splitlines() == (tmp_path / "all.links").read_text().splitlines()[:100]
    seen = {text for line in written for text in line.split("\t")}
    assert len(held_out) == 1000
    assert not any({pair.source, pair.target} & seen for pair in held_out)


def test_the_least_error():
    assert choose({"cross.0 produce": 0.3, "cross.1 produce": 0.1, "norm.1 consume": 0.9}) == "cross.1 produce"


@pytest.mark.slow
def test_prints_one_line_of_figures(capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.alignment._HELD_OUT", 5)
    main(["--pairs", "40", "--epochs", "1"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(found["unguided"]["error"]) == len(found["guided"]["error"]) == 1
    assert found["unguided"]["at"][0] in found["all"]["unguided"]
    assert all(0 <= error <= 1 for errors in found["all"].values() for error in errors.values())
