"""`regard compare` and `regard faithfulness` on saved models."""

import json
from pathlib import Path

import pytest
import torch
from bundle.conftest import make as make_translation_bundle

import regard
from regard.bundle import save_bundle
from regard.cli import main as cli
from regard.config import LabelledDataConfig, LinearPoolingConfig, RecurrentClassifierConfig, WhitespaceConfig
from regard.models.build import build_classifier
from regard.task import Bundle
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.data import ClassifierParts
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import build_tokenizer

TEXTS = ["a gripping , honest film", "dull and long", "honest acting", "a long , dull film", "gripping"]
LABELS = ["good", "bad", "good", "bad", "good"]


def save(folder: Path, *, seed: int = 1, names: tuple[str, ...] = ("bad", "good")) -> Path:
    torch.manual_seed(seed)
    tokenizer = build_tokenizer([TEXTS], WhitespaceConfig(min_count=1))
    model = RecurrentClassifierConfig(embedding_size=8, hidden_size=6, pooling=LinearPoolingConfig())
    config = ClassificationConfig(
        data=LabelledDataConfig(train=("reviews.tsv",)), tokenizer=WhitespaceConfig(min_count=1), model=model, out=str(folder)
    )
    built = build_classifier(model, vocabulary_size=tokenizer.size, num_labels=len(names))
    labels = Labels(names, False, (2,) * len(names))
    signature = {"seed": seed, "data": "abc", "scores": {}}
    save_bundle(folder, Bundle(config=config, model=built, parts=ClassifierParts(tokenizer, labels), signature=signature))
    return folder


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in zip(TEXTS * 4, LABELS * 4, strict=True)))
    return path


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    return [str(save(tmp_path / f"model-{seed}", seed=seed)) for seed in (1, 2, 3)]


def test_faithfulness_prints_and_keeps_what_it_found(models, reviews, capsys):
    assert (
        cli.main(
            [
                "faithfulness",
                models[0],
                str(reviews),
                "--permutations",
                "5",
                "--seeds",
                models[1],
                "--seeds",
                models[2],
                "--picture",
                str(reviews.with_suffix(".pdf")),
            ]
        )
        == 0
    )
    assert reviews.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    out = capsys.readouterr().out
    found = json.loads((Path(models[0]) / "faithfulness.json").read_text())
    assert out.rstrip().endswith(found["sentence"])
    assert "attention of 3 seeds (JS divergence)" in out
    assert found["seeds"]["models"] == 3
    [result] = regard.load(models[0]).classify(["an honest film"])
    assert found["sentence"] in result.attention.to_json()


def test_attributions_are_compared_and_drawn(models, reviews, capsys):
    arguments = ["--permutations", "2", "--texts", "4", "--attribution", "gradients", "--attribution", "integrated"]
    assert cli.main(["faithfulness", models[0], str(reviews), *arguments]) == 0
    assert "\nintegrated" in capsys.readouterr().out
    assert cli.main(["look", models[0], "an honest film", "--attribution", "leave_one_out"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "falls if that word is left out (leave-one-out)" in shown
    assert "Attention weights do not prove" not in shown
    picture = reviews.with_suffix(".svg")
    assert cli.main(["look", models[0], "an honest film", "--attribution", "integrated", "--to", str(picture)]) == 0
    assert "compared with a text of unknown" in " ".join(picture.read_text().split())
    for wrong, message in (("integral", "did you mean 'integrated'?"), ("rollout", "no layers of self-attention")):
        assert cli.main(["look", models[0], "an honest film", "--attribution", wrong]) == 2
        assert message in capsys.readouterr().err


def test_faithfulness_as_json_is_the_same_twice(models, reviews, capsys):
    printed = []
    for _ in range(2):
        assert cli.main(["faithfulness", models[0], str(reviews), "--permutations", "5", "--texts", "7", "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["texts"] == 7


def test_comparing_two_classifiers(models, reviews, capsys):
    assert cli.main(["compare", models[0], models[1], str(reviews)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("20 texts")
    assert "McNemar's exact test" in out
    assert cli.main(["compare", models[0], models[1], str(reviews), "--json", "--resamples", "50"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == models[:2]
    assert "with 50 samples" in found["notes"][1]


def test_comparing_two_translators(tmp_path, capsys):
    for seed in (1, 2):
        save_bundle(tmp_path / f"{seed}", make_translation_bundle(seed=seed))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("she kissed him .\tsie küsste ihn .\na cat sleeps .\teine Katze schläft .\n")
    arguments = ["compare", str(tmp_path / "1"), str(tmp_path / "2"), str(pairs), "--beam", "1", "--resamples", "20", "--json"]
    assert cli.main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert [score["name"] for score in found["scores"]] == ["BLEU", "chrF"]
    assert "conclusion" in found


def test_what_bad_input_gets(models, reviews, tmp_path, capsys):
    translator, others = tmp_path / "translator", save(tmp_path / "others", names=("bad", "good", "odd"))
    save_bundle(translator, make_translation_bundle())
    unseen = tmp_path / "unseen.tsv"
    unseen.write_text("a film\tgoood\nanother film\tbad\n")
    cases = [
        (["compare", models[0], str(translator), str(reviews)], "expected two models of one kind"),
        (["compare", str(translator), models[0], str(reviews)], "translator holds a translator and"),
        (["compare", models[0], str(others), str(reviews)], "know different labels ('odd' is known to one of them only)"),
        (["compare", models[0], models[1], str(reviews), "--beam", "2"], "compare: --beam is for translators, and"),
        (["compare", models[0], models[1]], "compare: the following arguments are required: FILE"),
        (["compare", models[0], models[1], str(unseen)], "'goood'"),
        (["compare", models[0], str(tmp_path / "nothing"), str(reviews)], "there is no folder"),
        (["compare", models[0], models[1], str(tmp_path / "none.tsv")], "none.tsv"),
        (["faithfulness", str(translator), str(reviews), "--seeds", models[0]], "--seeds is for classifiers, and"),
        (
            ["faithfulness", models[0], str(reviews), "--seeds", str(translator)],
            "does not hold a classifier, expected one with another seed",
        ),
        (["faithfulness", models[0], str(reviews), "--seeds", str(others)], "model 2 has other labels than model 1"),
        (["faithfulness", models[0], str(unseen)], "did you mean 'good'?"),
        (["faithfulness", models[0], str(reviews), "--texts", "0"], "argument --texts: 0, expected 1 or more"),
        (["faithfulness", models[0], str(reviews), "--picture", "bars.gif"], "bars.gif"),
        (["faithfulness", models[0], str(reviews), "--no-caption"], "--no-caption is for pictures: add --picture FILE"),
    ]
    for arguments, message in cases:
        assert cli.main(arguments) == 2, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert message in err, arguments
        assert "Traceback" not in err
    assert not (Path(models[0]) / "faithfulness.json").exists()


def test_faithfulness_of_a_translator(tmp_path, capsys):
    translator, pairs = tmp_path / "translator", tmp_path / "pairs.tsv"
    save_bundle(translator, make_translation_bundle())
    pairs.write_text("a film is good\tein Film\nthe other film\tder andere\n")
    arguments = ["faithfulness", str(translator), str(pairs), "--data.format", "tsv", "--permutations", "3"]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "2 sentences" in shown
    assert "token deleted from the source" in shown
    assert "With equal weights" in shown
    picture = tmp_path / "bars.svg"
    assert cli.main([*arguments, "--json", "--picture", str(picture), "--no-caption"]) == 0
    assert json.loads(capsys.readouterr().out)["texts"] == 2
    assert "Token deleted from the source" in picture.read_text()
