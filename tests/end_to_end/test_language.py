"""The commands on a small trained language model, and what bad input gets."""

import json
import re

import pytest

from regard.cli.main import main
from regard.records import load_record

SMALL = [
    "--threads=1",
    "--device=cpu",
    "--model.hidden_size=16",
    "--model.num_layers=2",
    "--model.num_heads=2",
    "--model.feed_forward_size=16",
    "--tokenizer.kind=words",
    "--training.max_epochs=3",
    "--training.learning_rate=0.02",
    "--training.batch_sentences=8",
    "--training.tensorboard=false",
]
WHO, WHAT, WHOM = (
    ["the cat", "a dog", "my friend", "the bird"],
    ["sees", "likes", "hears"],
    ["a tree", "the sea", "an old house"],
)


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """A file of texts, no two alike."""
    path = tmp_path_factory.mktemp("data") / "stories.txt"
    path.write_text("".join(f"{who} {what} {whom}.\n" for who in WHO for what in WHAT for whom in WHOM), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def teller(tmp_path_factory, stories, cache):
    """The folder of a trained language model."""
    folder = tmp_path_factory.mktemp("runs") / "stories"
    assert main(["train", "language", f"--data.train={stories}", f"--out={folder}", *SMALL]) == 0
    return folder


def fails(capsys, message, *arguments):
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    _, err = capsys.readouterr()
    assert code == 2, err
    assert "Traceback" not in err
    assert re.search(message, err), err


def test_training_says_what_next(stories, tmp_path, capsys, call):
    out = call("train", "language", "--data.train", stories, "--out", tmp_path / "run", *SMALL, "--training.max_epochs=1")
    assert f'regard generate {tmp_path / "run"} "the beginning"' in out
    assert "usage: regard train language" in call("train", "language", "--help")


def test_generate(teller, tmp_path, call, monkeypatch):
    given = call("generate", teller, "the cat", "my friend", "--samples", 3, "--seed", 4, "--max-length", 9)
    lines = given.splitlines()
    assert [line.startswith(("the cat", "my friend")[place // 3]) for place, line in enumerate(lines)] == [True] * 6
    file = tmp_path / "prompts.txt"
    file.write_text("the cat\nmy friend\n")
    assert call("generate", teller, "--input", file, "--samples=3", "--seed=4", "--max-length=9") == given
    monkeypatch.setattr("regard.tasks.language.commands.Generate.block", 1)
    assert call("generate", teller, "--input", file, "--samples=3", "--seed=4", "--max-length=9") == given
    short = "--max-length=9"
    likely = call("generate", teller, "a dog", "--temperature", 0, short)
    assert call("generate", teller, "a dog", "--top-k", 1, short) == likely
    plain = json.loads(call("generate", teller, "a dog", "--temperature", 0, "--json", short))
    assert plain["text"] + "\n" == likely
    assert plain["prompt"] == "a dog"
    assert call("generate", teller, "--top-p", 0.5, short).strip()


def test_evaluate(teller, stories, call):
    plain = json.loads(call("evaluate", teller, stories, "--json"))
    assert (plain["texts"], plain["unknown"]) == (36, 0)
    assert 1 < plain["perplexity"] < 20
    assert f"perplexity  {plain['perplexity']:.3f}" in call("evaluate", teller, stories)


def test_look(teller, tmp_path, call):
    out = call("look", teller, "the cat sees the sea.", "--to", tmp_path / "map.json")
    assert "perplexity" in out
    assert "attended words across, attending words down" in call("look", teller, "the cat sees the sea.")
    record = load_record(tmp_path / "map.json")
    assert record.target_words == ("the", "cat", "sees", "the", "sea", ".")
    assert record.sites == ("decoder.0", "decoder.1")
    call("look", teller, "the cat sees", "--to", tmp_path / "map.svg")
    drawn = (tmp_path / "map.svg").read_text()
    assert all(f"decoder.{layer} · head {head}" in drawn for layer in (0, 1) for head in (0, 1))


def test_resume_an_ended_run(teller, call):
    assert "the beginning" in call("resume", teller)


def test_bad_input(teller, stories, tmp_path, capsys):
    train = ["train", "language", *SMALL, "--out", tmp_path / "new", "--data.train"]
    (tmp_path / "empty.txt").touch()
    (tmp_path / "blank.txt").write_text("\n \n")
    fails(capsys, "train language: nothing to train on; name a text file with --data.train FILE", *train[:-1])
    fails(capsys, "nowhere.txt: there is no such file", *train, tmp_path / "nowhere.txt")
    fails(capsys, "empty.txt: is empty, expected text", *train, tmp_path / "empty.txt")
    fails(capsys, "no usable text in .*blank.txt", *train, tmp_path / "blank.txt")
    fails(capsys, "data.unit is 'page', expected one of: auto, line, paragraph, block", *train, stories, "--data.unit=page")
    fails(capsys, "model.num_heads is 3, expected a divisor of model.hidden_size", *train, stories, "--model.num_heads=3")
    fails(capsys, "preset 'luong' is for translation", *train, stories, "--preset", "luong")
    assert not (tmp_path / "new").exists()
    fails(capsys, "is empty, expected text", "evaluate", teller, tmp_path / "empty.txt")
    fails(capsys, "there is no such file", "evaluate", teller, tmp_path / "nowhere.txt")
    fails(
        capsys,
        "--beam is for translators and captioners, and .* holds a language model",
        "evaluate",
        teller,
        stories,
        "--beam=2",
    )
    fails(capsys, "--length-reward is for translators and captioners, and", "evaluate", teller, stories, "--length-reward=0")
    fails(
        capsys,
        "--target is for translators and captioners, and .* holds a language model",
        "look",
        teller,
        "the cat",
        "--target=a",
    )
    whom = "--attribution is for translators, classifiers and captioners, and .* holds a language model"
    fails(capsys, whom, "look", teller, "the cat", "--attribution=values")
    fails(capsys, "holds a language model, expected a translator; `regard generate` uses it", "translate", teller, "a")
    fails(capsys, "'warm', expected a finite number", "generate", teller, "--temperature=warm")
    fails(capsys, "--top-p: 2, expected more than 0 and at most 1", "generate", teller, "--top-p=2")
    fails(capsys, "at temperature 0 all 2 samples would be the same", "generate", teller, "--temperature=0", "--samples=2")
    fails(capsys, "prompts and --input are both given", "generate", teller, "a", "--input", stories)
    fails(capsys, "nowhere.txt: cannot be read", "generate", teller, "--input", tmp_path / "nowhere.txt")
    fails(capsys, "expected two models of one kind, translators or classifiers", "compare", teller, teller, stories)


def test_other_models_do_not_generate(run, capsys):
    fails(capsys, "holds a translator, expected a language model; `regard translate` uses it", "generate", run, "one")


def test_a_file_of_one_line_trains_with_a_warning(tmp_path, capsys):
    (tmp_path / "one.txt").write_text("the cat sees a tree . " * 20)
    assert main(["train", "language", f"--data.train={tmp_path / 'one.txt'}", f"--out={tmp_path / 'run'}", *SMALL]) == 0
    said = capsys.readouterr().err
    assert "nothing is held out to validate on, because the data have only 1 text and 10 are needed to hold one out" in said
    assert "add more (each line is one text), or set data.dev to a file of your own" in said
