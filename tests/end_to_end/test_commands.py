"""Each command on a small trained model."""

import io
import json
import subprocess
import sys

import pytest

import regard
from regard.records import load_record

SENTENCE = "one red cat ."


def test_training_leaves_a_run(run):
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "model.safetensors", "signature.json", "report.json", "README.md", "checkpoints", "logs"} <= names


def test_translate_arguments_files_and_stdin_agree(run, tmp_path, call, monkeypatch):
    lines = [SENTENCE, "", "two blue dog ."]
    given = call("translate", run, *lines)
    assert len(given.splitlines()) == 3
    assert given.splitlines()[1] == ""
    file = tmp_path / "in.txt"
    file.write_bytes("\r\n".join(lines).encode() + b"\r\n")
    assert call("translate", run, "--input", file) == given
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    assert call("translate", run) == given


def test_a_pipe_gets_each_answer_at_once(run):
    command = [sys.executable, "-m", "regard", "translate", str(run), "--threads", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(2):  # the second question waits for the first answer
            process.stdin.write(SENTENCE + "\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")
        process.stdin.close()
        assert process.wait() == 0


def test_translate_n_best(run, call):
    rows = [line.split("\t") for line in call("translate", run, SENTENCE, "red", "--n-best", "3", "--beam", "4").splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    scores = [float(row[1]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)
    # A beam is widened to find as many as are asked for.
    assert len(call("translate", run, SENTENCE, "--n-best", "7").splitlines()) == 7


def test_translate_json(run, call):
    plain = json.loads(call("translate", run, SENTENCE, "--json", "--n-best", "2"))
    assert plain["source"] == SENTENCE
    assert plain["source_words"] == SENTENCE.split()
    assert plain["log_probability"] < 0
    [found] = regard.load(run).translate([SENTENCE], n_best=2)
    assert [one["text"] for one in plain["alternatives"]] == [found.alternatives[0].text]
    assert [one["finished"] for one in (plain, *plain["alternatives"])] == [found.finished, found.alternatives[0].finished]


def test_translate_heatmaps(run, tmp_path, call):
    call("translate", run, SENTENCE, "--heatmap", tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_text().startswith("<?xml")
    call("translate", run, SENTENCE, "two dog .", "--heatmap", tmp_path / "maps")
    assert {path.name for path in (tmp_path / "maps").iterdir()} == {"1.png", "2.png"}


def test_evaluate(run, pairs, call):
    text = call("evaluate", run, pairs)
    assert all(word in text for word in ("loss", "perplexity", "BLEU", "chrF", "version:"))
    scores = json.loads(call("evaluate", run, pairs, "--json", "--beam", "2"))
    assert scores["beam_size"] == 2
    assert scores["pairs"] == 80
    assert scores["perplexity"] == pytest.approx(2.718281828459045 ** scores["loss"])


def test_look(run, tmp_path, call):
    target = "eins rot Katze ."
    text = call("look", run, SENTENCE, "--target", target, "--to", tmp_path / "map.json")
    assert "Katze" in text
    record = load_record(tmp_path / "map.json")
    assert record.source_words == tuple(SENTENCE.split())
    assert record.target_words == tuple(target.split())
    call("look", run, SENTENCE, "--target", target, "--to", tmp_path / "map.html")
    assert "<html" in (tmp_path / "map.html").read_text()
    assert call("look", run, SENTENCE).startswith(SENTENCE)


def test_align_has_a_line_for_every_line(run, tmp_path, call):
    file = tmp_path / "pairs.tsv"
    file.write_text("one .\teins .\n\nred cat .\trot Katze .\nno pair\n\n")
    first, second, third, *last = call("align", run, file).splitlines()
    assert len(first.split()) == 2
    assert [second, *last] == [""] * 3
    assert [link.split("-")[1] for link in sorted(third.split(), key=lambda link: link.split("-")[1])] == ["0", "1", "2"]


def test_resume_of_a_finished_run(run, call):
    before = (run / "model.safetensors").read_bytes()
    call("resume", run)
    assert (run / "model.safetensors").read_bytes() == before
