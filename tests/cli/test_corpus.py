"""`regard corpus`, and the demo of translators with what it leaves in its folder."""

import pytest
from quick import quick

import regard
from regard.cli import demo
from regard.cli.main import main
from regard.demo import DemoCorpus, ReviewCorpus
from regard.presets import load_preset, preset_names


def test_pairs_and_their_alignments_are_those_of_the_corpus(tmp_path, capsys):
    pairs, links = tmp_path / "pairs.tsv", tmp_path / "pairs.align"
    assert main(["corpus", "--pairs", "7", "--start", "5", "--to", str(pairs), "--alignments", str(links)]) == 0
    assert capsys.readouterr().out == f"7 pairs are in {pairs}, and their alignments in {links}.\n"
    corpus = DemoCorpus(seed=1)
    written = [tuple(line.split("\t")) for line in pairs.read_text("utf-8").splitlines()]
    assert written == list(corpus.pairs(5, 12))
    assert links.read_text("utf-8").splitlines() == [corpus[index].pharaoh() for index in range(5, 12)]


def test_reviews(tmp_path, capsys):
    file = tmp_path / "reviews.tsv"
    assert main(["corpus", "--reviews", "3", "--to", str(file)]) == 0
    header, *lines = file.read_text("utf-8").splitlines()
    assert header == "text\tlabel"
    assert [tuple(line.split("\t")) for line in lines] == list(ReviewCorpus(seed=1).texts(0, 3))
    assert "3 reviews are in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "x.tsv"], "corpus: one of the arguments --pairs --reviews --digits is required"),
        (["--pairs", "5"], "corpus: the following arguments are required: --to"),
        (["--pairs", "0", "--to", "x.tsv"], "argument --pairs: '0' is not a whole number of 1 or more"),
        (
            ["--reviews", "5", "--to", "x.tsv", "--alignments", "x.align"],
            "corpus: --alignments belongs to sentence pairs; other data have no alignments, so leave it out",
        ),
        (
            ["--pairs", "100", "--start", "59950", "--to", "x.tsv"],
            "corpus: 100 pairs from number 59,950 on were requested, but the corpus ends at number 59,999; "
            "lower --pairs or --start",
        ),
        (
            ["--pairs", "5", "--to", "x.tsv", "--alignments", "./x.tsv"],
            "--to and --alignments both name x.tsv; give them different files",
        ),
        (["--pairs", "5", "--to", "/nowhere/x.tsv"], "/nowhere/x.tsv: cannot be written: "),
    ],
)
def test_mistakes_are_explained(arguments, message, capsys):
    assert main(["corpus", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    quick(
        {name: name for name in preset_names() if name.startswith("tutorial-")},
        lambda name: name == "tutorial-gru",
    ),
)
def test_every_tutorial_preset_trains_on_a_written_corpus(name, tmp_path):
    config = load_preset(name)
    kind = "pairs" if config.task == "translation" else "reviews"
    file = tmp_path / "data.tsv"
    assert main(["corpus", f"--{kind}", "400", "--to", str(file)]) == 0
    settings = {"data.train": [str(file)], "out": str(tmp_path / "run"), "training.max_epochs": 1, "threads": 1}
    model = regard.fit(load_preset(name, settings), progress=False)
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert isinstance(model, regard.Translator) == (kind == "pairs")


@pytest.mark.parametrize("kind", quick(dict.fromkeys(demo.PRESETS), lambda kind: kind == "recurrent", key=True))
def test_the_demo_keeps_its_pairs_and_draws_what_it_shows(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "_HELD_OUT", 12)
    out = tmp_path / "demo"
    assert main(["demo", "--model", kind, "--pairs", "300", "--out", str(out), "--threads", "1", "--seed", "2"]) == 0
    lines = (out / "train.tsv").read_text("utf-8").splitlines()
    assert lines == ["\t".join(pair) for pair in DemoCorpus(seed=2).pairs(stop=300)]
    trained = {text for line in lines for text in line.split("\t")}
    held_out = (out / "held-out.tsv").read_text("utf-8").splitlines()
    assert len(held_out) == 12
    assert not trained & {text for line in held_out for text in line.split("\t")}
    assert {"attention.png", "attention.html", "model.safetensors"} <= {path.name for path in out.iterdir()}
    printed = capsys.readouterr().out
    assert "AER" in printed
    assert f"--data.train {out / 'train.tsv'}" in printed
    config = regard.load(out).config
    assert (config.model.kind, config.seed) == (kind, 2)


def test_the_demo_of_classifiers_has_no_choice_of_translator(capsys):
    assert main(["demo", "--task", "classification", "--model", "transformer"]) == 2
    assert "demo: --model chooses a translator; the demo of classifiers trains one for each preset" in capsys.readouterr().err
