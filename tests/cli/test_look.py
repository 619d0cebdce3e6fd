"""`regard look` at the heads of models of several layers."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from bundle.conftest import PAIRS, make

from regard.bundle import save_bundle
from regard.cli import main as cli
from regard.config.loading import load_config
from regard.models.build import build_translator
from regard.records import load_record
from regard.task import Bundle
from regard.tasks.translation.data import Tokenizers
from regard.text.tokenizers.tokenizer import build_tokenizers

MODEL = {
    "kind": "transformer",
    "hidden_size": 8,
    "num_heads": 2,
    "feed_forward_size": 8,
    "encoder_layers": 2,
    "decoder_layers": 3,
}


@pytest.fixture
def transformer(tmp_path: Path) -> str:
    data = {"source": "en", "target": "de", "train": ["deu.txt"]}
    config = load_config({"data": data, "model": MODEL, "out": "runs/deu"})
    source, target = build_tokenizers([PAIRS], config.tokenizers, config.data)
    torch.manual_seed(0)
    model = build_translator(config.model, source_size=source.size, target_size=target.size)
    facts = {"signature": {"seed": 1, "data": "abc", "scores": {}}, "report": {}}
    bundle = Bundle(config=config, model=model, parts=Tokenizers(source, target), **facts)
    save_bundle(tmp_path / "model", bundle)
    return str(tmp_path / "model")


def look(*arguments: object) -> int:
    return cli.main(["look", *map(str, arguments)])


@pytest.mark.parametrize(("family", "maps"), [("cross", 3 * 2), ("encoder", 2 * 2), ("decoder", 3 * 2)])
def test_a_picture_of_all_heads(transformer, tmp_path, family, maps):
    assert look(transformer, "the cat", "--target", "die", "--heads", family, "--to", tmp_path / "heads.svg") == 0
    shown = ["".join(text.itertext()) for text in ET.parse(tmp_path / "heads.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert sum("· head" in text for text in shown) == maps


def test_data_of_one_kind_and_of_all(transformer, tmp_path):
    assert look(transformer, "the cat", "--target", "die", "--heads", "encoder", "--to", tmp_path / "a.json") == 0
    assert list(json.loads((tmp_path / "a.json").read_text())["weights"]) == ["cross", "encoder.0", "encoder.1"]
    assert look(transformer, "the cat", "--target", "die", "--heads", "all", "--to", tmp_path / "b.json") == 0
    assert len(json.loads((tmp_path / "b.json").read_text())["weights"]) == 1 + 3 + 3 + 2 + 3


def test_a_word_is_written_by_what_came_before_it(transformer, tmp_path):
    assert look(transformer, "the cat", "--target", "die die", "--heads", "decoder", "--to", tmp_path / "a.json") == 0
    record = load_record(tmp_path / "a.json")
    weights = record.weights["decoder.1"]
    matrix = record.matrix("decoder.1", 0)
    assert matrix[0].tolist() == [0, 0]  # the first is written from the start symbol alone
    assert matrix[1].tolist() == [weights[0, 1, 1], 0]


def test_a_file_that_cannot_be_written_is_named(transformer, tmp_path, capsys):
    assert look(transformer, "the cat", "--target", "die", "--to", tmp_path / "nowhere" / "map.html") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "nowhere" in said.err


@pytest.mark.slow
def test_the_file_is_there_though_nobody_reads_the_rest(transformer, tmp_path):
    command = [sys.executable, "-m", "regard", "look", transformer, "the cat", "--to", str(tmp_path / "map.html")]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        subprocess.run(command, stdout=closed, check=False)
    assert (tmp_path / "map.html").stat().st_size


def test_what_cannot_be_shown(transformer, tmp_path, capsys):
    recurrent = tmp_path / "recurrent"
    save_bundle(recurrent, make())
    for folder, arguments, message in (
        (transformer, ["--heads", "cross"], "look: --heads draws into a file; name it with --to"),
        (transformer, ["--heads", "crosses", "--to", "a.png"], "look: --heads is 'crosses', expected cross, decoder, encoder"),
        (transformer, ["--heads", "crosses", "--to", "a.png"], "; did you mean 'cross'?"),
        (transformer, ["--heads", "all", "--to", "a.png"], "a picture shows one kind of heads"),
        (recurrent, ["--heads", "cross", "--to", "a.png"], "look: --heads is for models with several layers"),
    ):
        assert look(folder, "the cat", *arguments) == 2
        assert message in capsys.readouterr().err


def test_unknown_words_are_named_as_in_the_command_translate(transformer, tmp_path, capsys):
    assert look(transformer, "the kangaroo sleeps .", "--to", tmp_path / "map.svg") == 0
    assert capsys.readouterr().err == "regard: not in the vocabulary: kangaroo\n"


def test_a_sentence_without_quotation_marks(transformer, capsys):
    assert look(transformer, "the", "cat") == 2
    assert "unexpected argument 'cat'; put the sentence in quotation marks" in capsys.readouterr().err


def test_special_tokens_and_no_captions_in_file_and_terminal(transformer, tmp_path, capsys):
    typed, file = (transformer, "the cat", "--target", "die"), tmp_path / "map.svg"
    for options, said in (
        ([], "are not drawn; they"),
        (["--special"], "Special tokens are drawn."),
        (["--no-caption"], ""),
    ):
        assert look(*typed, *options) == 0
        in_terminal = capsys.readouterr().out
        assert look(*typed, *options, "--to", file) == 0
        [line] = capsys.readouterr().out.splitlines()
        assert line.startswith(f"written to {file}: the cat · die   (log probability -")
        for text in (in_terminal, file.read_text()):
            assert said in text
            assert ("Each row shows" in text) == (options != ["--no-caption"])


def test_options_of_pictures_need_one(transformer, capsys):
    for command, option in (("translate", "--special"), ("classify", "--no-caption")):
        assert cli.main([command, transformer, "the cat", option]) == 2
        assert f"{command}: {option} is for pictures: name one with --heatmap" in capsys.readouterr().err
    for option, value in (("--no-caption", ()), ("--theme", ("dark",))):
        assert cli.main(["evaluate", transformer, "test.tsv", option, *value]) == 2
        assert f"evaluate: {option} is for pictures: add --confusion FILE or --reliability" in capsys.readouterr().err
    assert cli.main(["evaluate", transformer, "test.tsv", "--confusion", "a.png", "--reliability", "./a.png"]) == 2
    assert "evaluate: --confusion and --reliability name the same file; name one for each" in capsys.readouterr().err
    for option in (["--theme", "dark"], ["--scale", "1"]):
        assert cli.main(["look", transformer, "the cat", *option]) == 2
        assert f"look: {option[0]} is for pictures: name one with --to" in capsys.readouterr().err


def test_translate_draws_with_special_tokens(transformer, tmp_path):
    assert cli.main(["translate", transformer, "the cat", "--heatmap", str(tmp_path / "map.svg"), "--special"]) == 0
    assert "Special tokens are drawn." in (tmp_path / "map.svg").read_text()
