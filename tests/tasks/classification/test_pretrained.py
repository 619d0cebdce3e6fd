"""Classifiers with a pretrained encoder, from training to a bundle without a network."""

import math
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import save_encoder, tiny_encoder
from safetensors.torch import load_file

import regard
from regard.config.loading import load_config, read_config
from regard.errors import BundleError, ConfigError, Interrupted, RequestError
from regard.text.symbols import END
from regard.training.callbacks import Checkpointing

pytest.importorskip("transformers")


@pytest.fixture
def texts(tmp_path) -> str:
    draw = random.Random(1)
    rows = []
    for number in range(48):
        label = number % 2
        words = [
            draw.choice(("the film", "a plot", "the actors")),
            "is",
            draw.choice((("bad", "dull", "sad"), ("good", "great", "fun"))[label]),
        ]
        rows.append(
            f"{' '.join(words)} {draw.choice(('.', ',', 'very'))} {draw.choice(('a', 'the', 'plot', 'film'))}\t{label}\n"
        )
    path = tmp_path / "texts.tsv"
    path.write_text("".join(rows))
    return str(path)


def train(texts: str, out: Path, **settings) -> regard.Classifier:
    chosen = {
        "data.train": texts,
        "out": str(out),
        "data.cache": str(out.parent / "cache"),
        "model.encoder.name": tiny_encoder(),
    }
    chosen |= {"model.kind": "pretrained", "training.max_epochs": 3, "training.learning_rate": 0.02, "data.dev_size": 4}
    chosen |= {"training.batch_sentences": 16, "overwrite": True}
    return regard.fit(load_config({"task": "classification"} | chosen | settings), progress=False)


@pytest.mark.parametrize("tuning", ["frozen", "lora", "whole"])
def test_from_training_to_a_bundle(tuning, texts, tmp_path):
    classifier = train(texts, tmp_path / "run", **{"model.encoder.tuning": tuning})
    config = classifier.config
    assert config.model.kind == config.tokenizer.kind == "pretrained"
    assert config.tokenizer.name == config.model.encoder.name == tiny_encoder()
    given = ["the film is good", "a dull plot , very sad", ""]
    loaded = regard.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.scores(given), classifier.scores(given))
    [result, _, _] = loaded.classify(given, record=("pool", "encoder.1"))
    assert result.attention.source_words == ("the", "film", "is", "good")
    assert result.attention.source_word_of == (-1, 0, 1, 2, 3, -1)
    assert result.attention.weights["encoder.1"].shape == (2, 6, 6)
    assert "encoder.0" in loaded.model.sites


def test_a_cut_text_is_shown_attributed_and_measured_as_the_model_reads_it(texts, tmp_path):
    classifier = train(texts, tmp_path / "run", **{"data.max_tokens": 6})
    long = "the film is good . the plot very"
    [read], words = classifier.encode([long]), classifier.tokenizer.encode(long).first(6)
    assert words.ids == read.tolist()
    assert (words.ids[-1], words.word_of) == (END, [-1, 0, 1, 2, 3, -1])
    for [result] in (classifier.attribute([long], ["leave_one_out"]), [classifier.classify([long])[0].attention]):
        assert (result.source_words, result.source_word_of) == (("the", "film", "is", "good"), (-1, 0, 1, 2, 3, -1))
    [found] = classifier.classify([long])
    [shown] = classifier.attribute([long], ["leave_one_out"])
    [without] = classifier.classify(["film is good"])
    share = shown.weights["leave_one_out"][0, 1]
    assert share == pytest.approx(math.log(found.probability) - math.log(without.probabilities[found.label]), abs=1e-5)


def test_predictions_read_the_unicode_form_of_training(texts, tmp_path):
    classifier = train(texts, tmp_path / "run", **{"data.normalization": "nfkc", "training.max_epochs": 1})
    assert regard.load(tmp_path / "run").tokenizer.encode("the ｆｉｌｍ").ids == classifier.tokenizer.encode("the film").ids


def test_training_starts_from_the_weights_of_the_encoder(texts, tmp_path):
    settings = {"model.encoder.tuning": "whole", "training.learning_rate": 1e-12, "training.max_epochs": 1}
    model = train(texts, tmp_path / "run", **settings).model
    [expected] = (
        weight
        for name, weight in load_file(Path(tiny_encoder()) / "model.safetensors").items()
        if name.endswith("word_embeddings.weight")
    )
    torch.testing.assert_close(model.encoder.body.get_input_embeddings().weight.detach(), expected)


def test_the_encoder_of_a_trained_model_keeps_its_weights(texts, tmp_path):
    settings = {"model.encoder.tuning": "whole", "model.encoder.rate": 1.0}
    model = train(texts, tmp_path / "run", **settings).model
    trained = model.encoder.body.get_input_embeddings().weight.detach().clone()
    config = replace(read_config(tmp_path / "run/config.yaml"), out=str(tmp_path / "again"))
    config = replace(config, training=replace(config.training, learning_rate=1e-9, max_epochs=1))
    again = regard.fit(config, model=model, progress=False)
    np.testing.assert_allclose(again.model.encoder.body.get_input_embeddings().weight.detach(), trained, atol=1e-6)


def test_a_model_names_its_encoder_or_holds_it(texts, tmp_path):
    folder = save_encoder(tmp_path / "encoder")
    for include in (False, True):
        settings = {"model.encoder.name": str(folder), "model.encoder.tuning": "frozen", "model.encoder.include": include}
        train(texts, tmp_path / f"run{include}", **settings)
    size = [(tmp_path / f"run{include}" / "model.safetensors").stat().st_size for include in (False, True)]
    assert size[0] < 2000 < size[1]
    shutil.rmtree(folder)
    regard.load(tmp_path / "runTrue")
    with pytest.raises(BundleError, match="there is no encoder"):
        regard.load(tmp_path / "runFalse")


def test_a_resumed_run_gives_the_same_bytes(texts, tmp_path, monkeypatch):
    train(texts, tmp_path / "whole", **{"model.encoder.tuning": "lora"})
    after_update = Checkpointing.after_update

    def stop(self, run):
        if run.progress.step == 4:
            run.signals.received = 2
        after_update(self, run)

    monkeypatch.setattr(Checkpointing, "after_update", stop)
    with pytest.raises(Interrupted):
        train(texts, tmp_path / "parts", **{"model.encoder.tuning": "lora"})
    monkeypatch.undo()
    regard.resume(tmp_path / "parts", progress=False)
    assert (tmp_path / "parts/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_settings_that_conflict(texts, tmp_path):
    for settings, message in (
        ({"tokenizer.kind": "words"}, "a pretrained encoder needs its own tokenizer; set it to auto"),
        ({"data.vectors": texts}, "has its own embeddings"),
        ({"training.optimizer": "muon"}, "set training.optimizer to adamw"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config({"task": "classification", "model.kind": "pretrained", **settings})
    with pytest.raises(ConfigError, match="reads at most 512 tokens"):
        train(texts, tmp_path / "run", **{"data.max_tokens": 513})
    with pytest.raises(ConfigError, match="there is no encoder"):
        train(texts, tmp_path / "run", **{"model.encoder.name": str(tmp_path / "none")})
    assert not (tmp_path / "run").exists()


def test_a_page_refuses_by_name(texts, tmp_path):
    classifier = train(texts, tmp_path / "run", **{"training.max_epochs": 1})
    from regard.export.page.contents import read_contents

    with pytest.raises(RequestError, match="the rules of a pretrained tokenizer, which cannot run in a browser"):
        read_contents(classifier, "run")


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["lora", "whole"])
def test_exported_to_onnx_and_attributed(tuning, texts, tmp_path):
    from regard.export.onnx import export_onnx

    classifier = train(texts, tmp_path / "run", **{"training.max_epochs": 1, "model.encoder.tuning": tuning})
    assert export_onnx(classifier, tmp_path / "onnx").largest_difference < 1e-5
    [record] = classifier.attribute(["the film is good"], ["all"])
    assert {"gradients", "integrated", "values", "leave_one_out", "pool.rollout"} <= set(record.weights)


@pytest.mark.slow
def test_as_an_estimator(texts):
    rows = [line.split("\t") for line in Path(texts).read_text().splitlines()]
    settings = {"model.encoder.name": tiny_encoder(), "model.encoder.tuning": "frozen"}
    estimator = regard.RegardClassifier(settings=settings).fit([text for text, _ in rows], [label for _, label in rows])
    assert set(estimator.predict(["the film is good"])) <= {"0", "1"}
    assert estimator.model_.model.sites == ("pool", "encoder.0", "encoder.1")
