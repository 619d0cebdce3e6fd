"""`regard translate` and `regard score` on saved models: draws, prefixes, constraints, ensembles, scores."""

import json

import pytest
import torch

import regard
from regard.bundle import save_bundle
from regard.cli.main import main
from regard.config.loading import load_config
from regard.errors import RequestError
from regard.models.build import build_translator
from regard.task import Bundle
from regard.tasks.translation.data import Tokenizers
from regard.text.tokenizers.tokenizer import build_tokenizers

TEXTS = ["a blue car stops .", "two men see a dog .", "she sees the blue house ."]
TARGETS = ["ein blaues Auto hält .", "zwei Männer sehen einen Hund .", "sie sieht das blaue Haus ."]


def make(folder, seed, targets=TARGETS):
    kinds = {"source": {"kind": "whitespace"}, "target": {"kind": "whitespace"}}
    model = {"kind": "transformer", "hidden_size": 8, "num_heads": 2, "feed_forward_size": 8}
    settings = {"model": {**model, "encoder_layers": 1, "decoder_layers": 1}, "decoding": {"max_length": 12}}
    config = load_config({"data": {"source": "en", "target": "de"}, "tokenizers": kinds}, settings)
    source, target = build_tokenizers([(TEXTS, targets)], config.tokenizers, config.data)
    torch.manual_seed(seed)
    built = build_translator(config.model, source_size=source.size, target_size=target.size)
    save_bundle(
        folder,
        Bundle(config=config, model=built, parts=Tokenizers(source, target), custom="", signature={"seed": seed}),
    )
    return str(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [make(folder / str(seed), seed) for seed in range(2)]


def run(capsys, *arguments):
    assert main(["translate", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_draws(models, capsys):
    lines = run(capsys, models[0], *TEXTS[:2], "--sample", "3", "--seed", "4")
    assert [line.split("\t")[0] for line in lines] == ["1", "1", "1", "2", "2", "2"]
    assert lines == run(capsys, models[0], *TEXTS[:2], "--sample", "3", "--seed", "4")
    assert lines != run(capsys, models[0], *TEXTS[:2], "--sample", "3", "--seed", "5")
    assert len(run(capsys, models[0], TEXTS[0], "--sample", "1", "--top-k", "5", "--top-p", "0.9", "--temperature", "0.7")) == 1
    [found] = run(capsys, models[0], TEXTS[0], "--sample", "3", "--json")
    assert len(json.loads(found)["alternatives"]) == 2


def test_minimum_risk_prints_one_line(models, capsys):
    drawn = run(capsys, models[0], TEXTS[0], "--sample", "6")
    [chosen] = run(capsys, models[0], TEXTS[0], "--sample", "6", "--minimum-risk", "chrf")
    assert chosen in {line.split("\t")[2] for line in drawn}
    assert len(run(capsys, models[0], TEXTS[0], "--n-best", "4", "--minimum-risk", "bleu")) == 1


def test_prefix_and_constraints(models, capsys):
    for line in run(capsys, models[0], *TEXTS, "--prefix", "ein Hund", "--constraint", "das Haus", "--constraint", "blaue"):
        assert line.startswith("ein Hund")
        assert "das Haus" in line
        assert "blaue" in line.split()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--temperature", "0.5"], "temperature is for sampling; set sample to the number of samples"),
        (["--sample", "2", "--top-p", "2"], "argument --top-p: 2, expected more than 0 and at most 1"),
        (["--sample", "2", "--beam", "5"], "samples are drawn instead of a search; leave out beam_size and n_best"),
        (["--minimum-risk", "chrf"], "minimum_risk chooses among several translations; draw 32 samples"),
        (["--sample", "2", "--constraint", "Hund"], "sampling does not support phrases that targets must contain"),
    ],
)
def test_what_does_not_go_together(models, capsys, options, message):
    assert main(["translate", models[0], "a car", *options]) == 2
    assert message in capsys.readouterr().err


def test_ensembles(models, capsys, tmp_path):
    alone = run(capsys, models[0], *TEXTS, "--json")
    for line, other in zip(run(capsys, models[0], *TEXTS, "--json", "--ensemble", models[0]), alone, strict=True):
        one, two = json.loads(line), json.loads(other)
        assert one["text"] == two["text"]
        assert one["log_probability"] == pytest.approx(two["log_probability"], abs=1e-5)
    both = regard.load(models, device="cpu")
    assert run(capsys, models[0], *TEXTS, "--ensemble", models[1]) == [one.text for one in both.translate(TEXTS)]
    with pytest.raises(RequestError, match="save: this is an ensemble of saved models"):
        both.save(tmp_path / "m")


def test_members_share_their_vocabularies(models, capsys, tmp_path):
    other = make(tmp_path / "other", 1, [*TARGETS[:2], "anders ."])
    assert main(["translate", models[0], "a car", "--ensemble", other]) == 2
    error = capsys.readouterr().err
    assert "ensemble: the target vocabulary of model 2" in error
    assert "differs from that of model 1" in error
    assert "train them on the same data with the same tokenizers" in error


def test_lengths(models, capsys, tmp_path):
    translator = regard.load(models[0], device="cpu")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in zip(TEXTS, TARGETS, strict=True)), "utf-8")
    for asked in ({"length_penalty": 0.0}, {"length_reward": 2.0}, {"length_penalty": 0.0, "length_reward": 2.0}):
        options = [word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        [line] = run(capsys, models[0], TEXTS[0], "--json", *options)
        [truth] = translator.translate(TEXTS[:1], **asked)
        assert (json.loads(line)["text"], json.loads(line)["score"]) == (truth.text, pytest.approx(truth.score, abs=1e-6))
        assert main(["evaluate", models[0], str(pairs), "--json", *options]) == 0
        assert json.loads(capsys.readouterr().out) == translator.evaluate(TEXTS, TARGETS, **asked).to_dict()
    [far] = run(capsys, models[0], TEXTS[0], "--json", "--length-reward", "50")
    assert not json.loads(far)["finished"]  # all go to the limit
    assert main(["translate", models[0], "a car", "--length-penalty", "-1"]) == 2
    assert "-1, expected from 0 to 10" in capsys.readouterr().err
    assert main(["translate", models[0], "a car", "--length-reward", "much"]) == 2
    assert "'much', expected a finite number" in capsys.readouterr().err


def test_restrictions(models, capsys):
    free = run(capsys, models[0], *TEXTS, "--beam", "4", "--n-best", "4")
    found = run(capsys, models[0], *TEXTS, "--no-repeat-ngrams", "1", "--min-length", "4", "--suppress-unknown")
    assert all(len(set(line.split())) == len(line.split()) >= 4 and "<unk>" not in line for line in found)
    diverse = run(capsys, models[0], *TEXTS, "--beam", "4", "--n-best", "4", "--groups", "4", "--diversity", "50")
    firsts = [line.split("\t")[2].split()[:1] for line in diverse]
    assert diverse != free
    assert all(len({tuple(first) for first in firsts[start : start + 4]}) == 4 for start in range(0, 12, 4))
    assert all(len(line.split()) <= 2 for line in run(capsys, models[0], *TEXTS, "--max-length", "2"))
    long = ("--min-length", "6", "--beam", "1")
    assert run(capsys, models[0], *TEXTS, *long, "--repetition-penalty", "100") != run(capsys, models[0], *TEXTS, *long)


def test_log_probabilities_are_printed_and_not_scores(models, capsys):
    """A length reward makes scores positive; log probabilities are not."""
    best = ["--length-penalty", "0", "--length-reward", "9", "--beam", "4", "--n-best", "4"]
    lines = run(capsys, models[0], TEXTS[0], *best)
    [found] = [json.loads(line) for line in run(capsys, models[0], TEXTS[0], *best, "--json")]
    listed = [found, *found["alternatives"]]
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx([one["log_probability"] for one in listed], abs=1e-4)
    assert all(float(line.split("\t")[1]) <= 0 for line in lines)
    assert all(one["score"] > 0 for one in listed)


def test_score(models, capsys, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in [(TEXTS[0], TARGETS[0]), ("", "x"), (TEXTS[1], TARGETS[1])]), "utf-8")
    assert main(["score", models[0], str(pairs)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    truth = regard.load(models[0], device="cpu").force(TEXTS[:2], TARGETS[:2])
    for line, one, tokens in zip((lines[0], lines[2]), truth, (6, 7), strict=True):
        log_probability, count = line.split("\t")
        assert float(log_probability) == pytest.approx(one.log_probability, abs=1e-5)
        assert int(count) == tokens
    total = sum(one.log_probability for one in truth)
    assert f"2 pairs, 13 tokens: log p {total:.4f}, perplexity {2.718281828459045 ** (-total / 13):.4f}" in err
    assert "score in --json: (log p + 0 · tokens) / ((5 + tokens) / 6)^1\n" in err
    assert main(["score", models[0], str(pairs), "--json", "--ensemble", models[0]]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["line"], one["target"], one["tokens"]) for one in found] == [(1, TARGETS[0], 6), (3, TARGETS[1], 7)]
    assert sum(found[0]["token_log_probabilities"]) == pytest.approx(found[0]["log_probability"], abs=1e-4)
    assert found[0]["log_probability"] == pytest.approx(truth[0].log_probability, abs=1e-5)


def test_words_that_are_not_in_the_vocabulary_are_named(models, tmp_path, capsys):
    assert regard.load(models[0]).unknown_words(["a quokka stops .", *TEXTS, "a zyx , a quokka ."]) == ["quokka", "zyx", ","]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join([*TEXTS, "a quokka stops .", "a zyx stops ."]))
    for arguments in (["a quokka stops .", "a zyx stops ."], ["--input", str(file)]):
        assert main(["translate", models[0], *arguments]) == 0
        assert capsys.readouterr().err == "regard: not in the vocabulary: quokka, zyx\n"
    assert main(["translate", models[0], TEXTS[0]]) == 0
    assert capsys.readouterr().err == ""


def test_tables_in_and_out(models, tmp_path, capsys):
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text(f"id,source\n1,{TEXTS[0]}\n2,{TEXTS[1]}\n")
    plain = run(capsys, models[0], *TEXTS[:2])
    assert run(capsys, models[0], "--input", str(table), "--output", str(out)) == []
    assert out.read_text().splitlines() == [
        "id,source,translation",
        *(f"{n},{a},{b}" for n, a, b in zip("12", TEXTS, plain, strict=False)),
    ]
    assert [json.loads(line)["text"] for line in run(capsys, models[0], "--input", str(table), "--json")] == plain
    for arguments, message in (
        (["--output", str(tmp_path / "out.tsv")], "expected the format of --input (csv)"),
        (["--n-best", "2"], "a row of a table has one translation"),
        (["--column", "texts"], "there is no column 'texts'"),
    ):
        assert main(["translate", models[0], "--input", str(table), *arguments]) == 2
        shown = capsys.readouterr()
        assert message in shown.err
        assert shown.out == ""
    assert main(["translate", models[0], TEXTS[0], "--column", "a"]) == 2
    assert "--column is for tables" in capsys.readouterr().err
