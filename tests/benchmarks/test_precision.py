"""The comparison of precisions: its figures on a small model, and what it says of files that it cannot read."""

import json

from benchmarks import precision


def test_figures(capsys, tmp_path, monkeypatch):
    class Translator:
        def translate(self, texts, *, beam_size, precision, record):
            text = type("Text", (), {"text": "ein Hund bellt laut ."})()
            other = type("Text", (), {"text": "eine Katze ."})()
            return [other if precision == "bfloat16" and number == 1 else text for number in range(len(texts))]

    monkeypatch.setattr("regard.load", lambda folder, device: Translator())
    sources, references = tmp_path / "a.en", tmp_path / "a.de"
    sources.write_text("a dog barks .\na cat .\na man .\na bird .\n")
    references.write_text("ein Hund bellt laut .\n" * 4)
    precision.main(["model", str(sources), "--references", str(references), "--rounds", "2", "--alone", "2", "--beams", "3"])
    found = json.loads(capsys.readouterr().out)["by_beam"]["3"]
    assert found["same"] == {"bfloat16": 0.75, "int8": 1.0}
    assert found["bleu"]["float32"] == 100 > found["bleu"]["bfloat16"]
    for ratio in found["ratio"].values():
        assert ratio["lowest"] <= ratio["median"] <= ratio["highest"]
    assert set(found["one"]) == {"float32", "bfloat16", "int8"}
