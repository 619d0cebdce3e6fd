"""`regard info` and `regard curves` on runs of all three tasks, finished or not, and what training says of its scores."""

import json
import re
import shutil

import pytest
from end_to_end.conftest import REVIEWS_SMALL, SMALL
from end_to_end.test_language import SMALL as LANGUAGE_SMALL

import regard
from regard.bundle import save_bundle
from regard.cli.main import main
from regard.errors import BundleError
from regard.tasks.classification.config import ClassificationConfig


@pytest.fixture(scope="module")
def teller(tmp_path_factory, cache):
    """The folder of a trained language model."""
    folder = tmp_path_factory.mktemp("runs") / "stories"
    path = folder.parent / "stories.txt"
    path.write_text("".join(f"the cat sees {number % 7} trees and {number} dogs .\n" for number in range(60)))
    assert main(["train", "language", f"--data.train={path}", f"--out={folder}", *LANGUAGE_SMALL]) == 0
    return folder


def test_a_translator(run, call):
    text = call("info", run)
    for words in (
        f"{run}: translator, en → de\ntraining has finished\n",
        "kind             recurrent, ",
        " decoder, ",
        "attention sites  cross\n",
        "80 lines read",
        "BLEU (greedy)",
        "chrF (greedy)",
        "source: 13 symbols of kind '",
        ", 4 special (<pad> <unk> <s> </s>) among them",
        "0 unknown (0.00%)",
        "most frequent: ",
        "seed          1\n",
        "  model:\n    embedding_size: 16\n",
    ):
        assert words in text
    plain = json.loads(call("info", run, "--json"))
    config = (run / "config.yaml").read_text()
    weights = sum(parameter.numel() for parameter in regard.load(run).model.parameters())
    assert (plain["task"], plain["state"], plain["model"]["parameters"]) == ("translation", "finished", weights)
    assert sum(plain["model"]["parts"].values()) == weights
    assert plain["vocabularies"]["target"]["counts"]["tokens"] > 100
    assert plain["training"]["settings"]["training"]["max_epochs"] == 2
    assert "max_epochs: 2" in config
    assert plain["training"]["seconds"] > 0
    assert plain["training"]["epochs"] == 2
    assert plain["training"]["kept"][0] <= plain["training"]["updates"]


def test_the_words_that_a_translator_reads(run, call):
    tokenizer = regard.load(run).tokenizers.source
    words = call("info", run, "--words").splitlines()
    assert words == sorted(words, key=str.casefold)
    assert {*words} == {*tokenizer.vocabulary()[4:]}  # without the special symbols


def test_a_classifier(classifier, call):
    text = call("info", classifier)
    assert "classifier\ntraining has finished" in text
    assert "attention sites  pool\n" in text
    assert "Labels\n  negative, positive\n" in text
    assert "symbols of kind '" in text
    found = regard.info(classifier)
    assert found.labels == ("negative", "positive")
    assert found.scores["accuracy"] >= 0.5
    assert set(found.vocabularies) == {"text"}


def test_a_language_model(teller, call):
    text = call("info", teller)
    assert "language model\ntraining has finished" in text
    assert "attention sites  decoder.0, decoder.1\n" in text
    assert "perplexity" in text
    assert json.loads(call("info", teller, "--json"))["vocabularies"]["text"]["counts"]["unknown"] >= 0


def test_from_python_it_prints_itself(run):
    found = regard.info(run)
    assert isinstance(found, regard.RunInfo)
    assert repr(found) == str(found) == found.render()
    assert found.model.sites == ("cross",)


def test_a_model_without_its_run(run, tmp_path, capsys, call):
    alone = tmp_path / "alone"
    shutil.copytree(run, alone, ignore=shutil.ignore_patterns("checkpoints", "logs"))
    text = call("info", alone)
    assert "BLEU (greedy)" in text
    assert "time          not recorded (no logs)" in text
    assert main(["curves", str(alone)]) == 2
    assert "has no curves: " in capsys.readouterr().err


def test_a_model_of_another_version_tells_what_it_can(run, tmp_path):
    bundle = regard.load(run).bundle
    bundle.signature.pop("finished")
    bundle.report.clear()
    bundle.report.update(train={}, num_train=7)
    save_bundle(tmp_path / "old", bundle)
    text = regard.info(tmp_path / "old").render()
    assert "a trained model\n" in text
    assert "num train  7\n" in text


def test_an_unfinished_run(run, tmp_path, call):
    started = tmp_path / "started"
    (started / "checkpoints").mkdir(parents=True)
    shutil.copy(run / "checkpoints" / "run.json", started / "checkpoints" / "run.json")
    text = call("info", started)
    assert f"unfinished: there is no model yet; `regard resume {started}` continues the training" in text
    assert "not written yet" in text
    plain = json.loads(call("info", started, "--json"))
    assert (plain["state"], plain["model"], plain["training"]["updates"]) == ("unfinished", None, None)
    assert plain["training"]["machine"]["device"] == "cpu"


def test_a_run_that_another_process_trains(run, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    shutil.copytree(run, tmp_path / "busy")
    with (tmp_path / "busy" / "checkpoints" / "lock").open("w") as lock:
        lock.write("12345 elsewhere\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = regard.info(tmp_path / "busy")
    assert found.state == "training"
    assert "being trained now by process 12345 on elsewhere" in found.render()


def test_a_folder_of_something_else(tmp_path, capsys):
    assert main(["info", str(tmp_path)]) == 2
    assert "is not a trained model" in capsys.readouterr().err
    with pytest.raises(BundleError, match="there is no folder"):
        regard.info(tmp_path / "nowhere")


def test_nothing_of_a_strangers_file_reaches_the_terminal(run, tmp_path):
    bundle = regard.load(run).bundle
    bundle.report["train"]["files"] = ["evil\x1b[2J.tsv"]
    save_bundle(tmp_path / "evil", bundle)
    assert "\x1b" not in regard.info(tmp_path / "evil").render()


def test_every_bleu_says_how_it_was_searched_for(pairs, tmp_path, capsys, call):
    out = tmp_path / "mt"
    assert main(["train", "translation", f"--data.train={pairs}", f"--out={out}", *SMALL]) == 0
    shown = capsys.readouterr().err
    scores = re.findall(r"(?:BLEU|chrF) [\d.]+.*?(?=,|$)", shown, re.MULTILINE)
    assert len(scores) == 6, shown  # two validations and the end
    assert all("(greedy)" in score for score in scores)
    card = (out / "README.md").read_text()
    assert "| BLEU (greedy) |" in card
    assert "| chrF (greedy) |" in card
    for beam, words in ((1, "greedy"), (3, "beam 3")):
        lines = call("evaluate", out, pairs, "--beam", beam).splitlines()
        assert all(f"({words}; " in line for line in lines if line.startswith(("BLEU", "chrF")))


def test_a_classifier_that_answers_one_label_is_a_warning(tmp_path, capsys, call):
    file = tmp_path / "unbalanced.tsv"
    rows = [
        f"word{number % 11} word{number % 7} thing{number}\t{'rare' if number % 12 == 0 else 'usual'}" for number in range(240)
    ]
    file.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    settings = [*REVIEWS_SMALL, "--training.max_epochs=1", "--training.learning_rate=1e-5", "--data.dev_size=24"]
    assert main(["train", "classification", f"--data.train={file}", f"--out={tmp_path / 'run'}", *settings]) == 0
    warning = "whatever they say; the labels are unbalanced: train with training.class_weights balanced"
    shown = capsys.readouterr().err
    assert "(always answering 'usual' gives 91.7%)" in shown
    assert "warning: the model answers 'usual' for 100.0% of the 24 dev texts, " + warning in shown
    text = call("evaluate", tmp_path / "run", file)
    assert "baseline   91.67%   (always 'usual')" in text
    assert warning in text
    plain = json.loads(call("evaluate", tmp_path / "run", file, "--json"))
    assert plain["majority"] == {"label": "usual", "share": pytest.approx(220 / 240)}
    assert warning in plain["warning"]


def test_few_texts_get_scores_without_holding_any_out(tmp_path, capsys, call):
    file = tmp_path / "unbalanced.tsv"
    rows = [f"word{n % 11} word{n % 7} thing{n}\t{'rare' if n % 12 == 0 else 'usual'}" for n in range(120)]
    file.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    given = [f"--data.train={file}", f"--out={tmp_path / 'run'}", "--threads=1", "--training.max_epochs=1"]
    assert main(["train", "classification", *given, "--training.learning_rate=1e-5"]) == 0
    shown = capsys.readouterr().err
    assert "120 texts to train on, none held out to validate on" in shown
    assert "estimating the scores by cross-validation: 5 models, each scored on texts that were held out" in shown
    assert "  trained and scored model 1 of 5\n" in shown
    assert "estimate by cross-validation in 5 folds (± standard deviation of the folds): loss " in shown
    assert "(always answering 'usual' gives 91.7%)" in shown
    assert "warning: the model answers 'usual' for 100.0% of the 120 held-out texts" in shown
    text = call("info", tmp_path / "run")
    assert "Scores by cross-validation\n" in text
    assert re.search(r"kind +combined, recurrent, additive pooling, softmax normalizer\n", text)
    assert re.search(r"parameters +[\d,]+ \(.+\)\n +[\d,]+ in members\n", text)
    assert "Settings chosen from the data when the run began\n  120 texts of 3.0 words on average, with 2 labels\n" in text
    assert "  chosen:" not in text
    assert "By cross-validation, with models trained on a part of the texts:" in (tmp_path / "run" / "README.md").read_text(
        "utf-8"
    )
    assert main(["train", "classification", *given, "--overwrite", "--training.score_folds=0"]) == 0
    shown = capsys.readouterr().err
    assert f"nothing was held out; to score the model on other examples: `regard evaluate {tmp_path / 'run'} FILE`" in shown


def test_a_good_classifier_has_no_warning(classifier, reviews, call):
    assert isinstance(regard.load(classifier).config, ClassificationConfig)
    text = call("evaluate", classifier, reviews)
    assert "baseline   50.00%" in text
    assert "warning" not in text
