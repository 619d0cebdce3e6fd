"""The commands on a small trained classifier, and what bad input gets."""

import io
import json
import re
import sys

import pytest

from regard.cli.main import main
from regard.records import load_record

TEXT = "the film is great , so is the plot"
SMALL = ["--threads=1", "--device=cpu", "--model.embedding_size=8", "--model.hidden_size=8", "--training.max_epochs=2"]


def train(*arguments):
    return main(["train", "classification", *SMALL, "--training.tensorboard=false", *map(str, arguments)])


def fails(capsys, code, message):
    out, err = capsys.readouterr()
    assert code == 2, err
    assert "Traceback" not in err
    assert re.search(message, err), err
    assert "regard: " in err
    return out


def test_training_leaves_a_run(classifier):
    names = {path.name for path in classifier.iterdir()}
    assert {"config.yaml", "model.safetensors", "tokenizer.json", "labels.json", "signature.json", "README.md"} <= names
    card = (classifier / "README.md").read_text()
    assert "Classification of texts as negative, positive" in card
    assert "regard classify DIR" in card


def test_classify_arguments_files_and_stdin_agree(classifier, tmp_path, call, monkeypatch):
    lines = [TEXT, "", "the book is dull"]
    given = call("classify", classifier, *lines)
    rows = [line.split("\t") for line in given.splitlines()]
    assert [row[0] for row in rows][::2] == ["positive", "negative"]
    assert all(0.5 <= float(row[1]) <= 1 for row in rows)
    file = tmp_path / "in.txt"
    file.write_bytes("\r\n".join(lines).encode() + b"\r\n")
    assert call("classify", classifier, "--input", file) == given
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    assert call("classify", classifier) == given


def test_classify_says_once_how_many_texts_were_cut(classifier, capsys):
    assert main(["classify", str(classifier), "film " * 5000, TEXT, "book " * 5000]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    wanted = r"texts truncated to their first 400 tokens \(data.max_tokens, set when the model was trained\): 2\n"
    assert len(re.findall(wanted, err)) == 1, err
    assert main(["classify", str(classifier), TEXT]) == 0
    assert "max_tokens" not in capsys.readouterr().err


def test_json_has_probabilities_and_weights(classifier, call):
    plain = json.loads(call("classify", classifier, TEXT, "--json"))
    assert plain["label"] == "positive"
    assert sum(plain["probabilities"].values()) == pytest.approx(1)
    assert plain["words"] == TEXT.split()
    assert sum(plain["weights"]) == pytest.approx(1, abs=1e-5)


def test_heatmaps(classifier, tmp_path, call):
    call("classify", classifier, TEXT, "the book is dull", "--heatmap", tmp_path / "maps")
    assert sorted(path.name for path in (tmp_path / "maps").iterdir()) == ["1.png", "2.png"]
    assert main(["classify", str(classifier), "", TEXT, "--heatmap", str(tmp_path / "more")]) == 0
    assert sorted(path.name for path in (tmp_path / "more").iterdir()) == ["1.png", "2.png"]  # the first says that it is empty
    shown = call("look", classifier, TEXT, "--to", tmp_path / "record.json")
    assert "positive" in shown
    record = load_record(tmp_path / "record.json")
    assert record.target_words == ("positive",)
    assert record.probabilities["positive"] > 0.5


def test_evaluate(classifier, reviews, tmp_path, call):
    pictures = [f"--confusion={tmp_path / 'matrix.png'}", f"--reliability={tmp_path / 'bins.png'}"]
    found = json.loads(call("evaluate", classifier, reviews, "--json", *pictures))
    assert found["accuracy"] > 0.8
    assert (tmp_path / "matrix.png").stat().st_size > 1000
    assert (tmp_path / "bins.png").stat().st_size > 1000
    assert "expected calibration error" in call("evaluate", classifier, reviews)


def test_folds(reviews, tmp_path, call):
    out = tmp_path / "folds"
    shown = call(
        "train", "classification", *SMALL, f"--data.train={reviews}", f"--out={out}", "--folds", 3,
        "--training.tensorboard=false",
    )  # fmt: skip
    assert [line.split()[0] for line in shown.splitlines()] == ["fold", "1", "2", "3", "mean", "sd"]
    assert len(json.loads((out / "folds.json").read_text())["folds"]) == 3


def test_word_vectors(reviews, tmp_path, call):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("film 1 0 0\nplot 0 1 0\ngreat 0 0 1\n")
    assert train(f"--data.train={reviews}", f"--out={tmp_path / 'run'}", "--vectors", vectors) == 0
    assert call("classify", tmp_path / "run", TEXT).startswith(("positive", "negative"))


@pytest.mark.parametrize("kind", ["bag", "hierarchical", "transformer"])
def test_every_kind_trains_and_classifies(reviews, tmp_path, capsys, kind, call):
    out = tmp_path / "run"
    size = [] if kind == "bag" else ["--model.hidden_size=8"] if kind == "hierarchical" else ["--model.num_heads=2"]
    settings = ["--threads=1", "--device=cpu", "--training.max_epochs=1", "--training.tensorboard=false"]
    model = [f"--model.kind={kind}", "--model.embedding_size=8", *size]
    code = main(["train", "classification", *settings, *model, f"--data.train={reviews}", f"--out={out}"])
    assert code == 0, capsys.readouterr().err
    assert call("classify", out, TEXT).startswith(("positive", "negative"))


def test_several_labels_for_a_text(tmp_path, capsys, call):
    file = tmp_path / "topics.tsv"
    rows = [(f"a {word} here {number}", label) for word, label in TOPICS for number in range(12)]
    file.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    settings = ["--data.label_separator=;", "--training.max_epochs=60", "--training.learning_rate=0.03", "--data.dev_size=0"]
    assert train(f"--data.train={file}", f"--out={tmp_path / 'run'}", *settings) == 0
    asked = ["a ball here 3", "a song and ball here 7", "a stone here 3"]
    one, both, none = call("classify", tmp_path / "run", *asked).splitlines()
    assert re.fullmatch(r"sport [01]\.\d{4}", one)
    assert re.fullmatch(r"(music|sport) [01]\.\d{4}, (music|sport) [01]\.\d{4}", both)
    assert re.fullmatch(r"\(none\)\t(music|sport) [01]\.\d{4}", none)
    found = json.loads(call("evaluate", tmp_path / "run", file, "--json"))
    assert found["micro_f1"] > 0.9
    picture = f"--confusion={tmp_path / 'matrix.png'}"
    assert not fails(capsys, main(["evaluate", str(tmp_path / "run"), str(file), picture]), r"needs texts with one label each")
    call("evaluate", tmp_path / "run", file, "--reliability", tmp_path / "bins.svg")
    picture = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "bins.svg").read_text()))  # a title may be broken
    assert "48 texts × 2 labels: expected calibration error" in picture
    assert "96 decisions" in picture


TOPICS = [("ball", "sport"), ("song", "music"), ("song and ball", "music;sport"), ("stone", "")]


# What bad input gets.


def test_models_of_the_other_task(run, classifier, reviews, capsys):
    fails(capsys, main(["translate", str(classifier), "a"]), r"holds a classifier, expected a translator; `regard classify`")
    fails(capsys, main(["classify", str(run), "a"]), r"holds a translator, expected a classifier; `regard translate`")
    fails(capsys, main(["evaluate", str(classifier), str(reviews), "--beam", "2"]), r"--beam is for translators")
    fails(capsys, main(["look", str(classifier), TEXT, "--target", "a"]), r"--target is for translators")
