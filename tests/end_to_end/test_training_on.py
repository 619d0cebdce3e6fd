"""Training longer and fine-tuning, by the real commands."""

import json
import shutil

import pytest
from end_to_end.conftest import WORDS, write_pairs

from regard.cli.main import main
from regard.cli.train import read_arguments
from regard.config.loading import read_config
from regard.training.folder import RunFolder


@pytest.fixture
def own(run, tmp_path):
    """A copy of the run, which a test may change."""
    return shutil.copytree(run, tmp_path / "own")


@pytest.fixture
def others(tmp_path):
    """Other pairs, with a word that the run has not seen."""
    path = write_pairs(tmp_path / "others.tsv", 40)
    text = path.read_text(encoding="utf-8").replace("cat", "hen").replace(WORDS["cat"], "Henne")
    path.write_text(text, encoding="utf-8")
    return path


def test_resume_trains_longer(own, capsys):
    assert main(["resume", str(own), "--training.max_epochs", "3", "--threads=1"]) == 0
    out, err = capsys.readouterr()
    assert "settings changed: training.max_epochs 2 → 3" in err
    assert "trained 3 epochs" in err
    assert f"The model is in {own}" in out
    assert RunFolder(own).read_start()[0].training.max_epochs == 3
    assert main(["resume", str(own)]) == 0
    assert "has ended; writing its model again" in capsys.readouterr().err


def test_train_from_a_run(run, others, tmp_path, capsys):
    folder = tmp_path / "tuned"
    options = ["--model.freeze", "encoder", "--training.max_epochs", "2", "--threads=1", "--data.dev_size=4"]
    assert main(["train", "translation", "--from", str(run), f"--data.train={others}", f"--out={folder}", *options]) == 0
    err = capsys.readouterr().err
    assert "settings chosen from the data" not in err
    assert f"starting from the model in {run} (" in err
    assert "the vocabulary comes from another model and doesn't know " in err
    assert "frozen (model.freeze): " in err
    tuned, old = (read_config(path / "config.yaml") for path in (folder, run))
    assert tuned.model.encoder == old.model.encoder
    assert tuned.training.learning_rate == old.training.learning_rate / 4
    signature = json.loads((folder / "signature.json").read_text())
    assert signature["started_from"]["folder"] == str(run)
    assert main(["translate", str(folder), "one red dog .", "--threads=1"]) == 0
    assert main(["resume", str(folder), "--training.max_epochs=3", "--threads=1"]) == 0


def test_the_folder_is_named_after_both(run, others):
    config = read_arguments("translation", ["--from", str(run), f"--data.train={others}"], choose=True)
    assert config.out == f"runs/others-from-{run.name}"


def test_train_a_classifier_from_a_run(classifier, tmp_path, capsys):
    path = tmp_path / "new.tsv"
    rows = [
        f"the {noun} is {word} , so is the end\t{label}\n"
        for noun in ("film", "plot", "cast", "book", "score")
        for word, label in (("fine", "positive"), ("dull", "negative"), ("odd", "mixed"), ("so so", "mixed"))
    ]
    path.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    given = ["--from", str(classifier), f"--data.train={path}", f"--out={tmp_path / 'new'}", "--threads=1", "--data.dev_size=2"]
    assert main(["train", "classification", *given, "--training.max_epochs=1"]) == 0
    err = capsys.readouterr().err
    assert "labels: 2 kept (matched by name); new, with random weights in the output layer: 'mixed'" in err
    assert main(["classify", str(tmp_path / "new"), "the film is fine", "--threads=1"]) == 0
