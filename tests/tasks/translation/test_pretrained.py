"""Translators with a pretrained encoder, from training to a bundle without a network."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from encoders import save_encoder, tiny_encoder

import regard
from regard.config.loading import load_config
from regard.errors import BundleError, ConfigError, Interrupted, RequestError
from regard.training.callbacks import Checkpointing

pytest.importorskip("transformers")
TEXTS = ["The film is good, very dull.", "", "a plot"]
TARGETS = ["der film ist gut", "", "ein plot"]


@pytest.fixture
def pairs(tmp_path) -> str:
    draw = random.Random(1)
    words = {
        "the": "der",
        "a": "ein",
        "film": "film",
        "plot": "plot",
        "is": "ist",
        "good": "gut",
        "dull": "fad",
        "fun": "spass",
    }
    rows = []
    for _ in range(48):
        text = [draw.choice(("the", "a")), draw.choice(("film", "plot")), "is", draw.choice(("good", "dull"))]
        text += draw.sample(list(words), draw.randrange(4))
        rows.append(f"{' '.join(text)}\t{' '.join(words[word] for word in text)}\n")
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(rows))
    return str(path)


def settings_of(pairs: str, out: Path, **settings) -> dict:
    chosen = {"task": "translation", "data.train": pairs, "out": str(out), "data.cache": str(out.parent / "cache")}
    chosen |= {"model.encoder.kind": "pretrained", "model.encoder.name": tiny_encoder(), "overwrite": True}
    chosen |= {"model.embedding_size": 8, "model.decoder.hidden_size": 8} if "model.kind" not in settings else {}
    chosen |= {
        "tokenizers.source.kind": "pretrained",
        "training.max_epochs": 2,
        "training.batch_tokens": 200,
        "data.dev_size": 6,
    }
    return chosen | settings


def train(pairs: str, out: Path, **settings) -> regard.Translator:
    return regard.fit(load_config(settings_of(pairs, out, **settings)), progress=False)


SMALL = {"hidden_size": 8, "num_heads": 2, "feed_forward_size": 8, "decoder_layers": 2}
TRANSFORMER = {"model.kind": "transformer"} | {f"model.{name}": size for name, size in SMALL.items()}


@pytest.mark.parametrize("settings", [{"model.encoder.tuning": "whole"}, TRANSFORMER | {"model.encoder.tuning": "lora"}])
def test_from_training_to_a_bundle(settings, pairs, tmp_path):
    translator = train(pairs, tmp_path / "run", **settings)
    config = translator.config
    assert config.tokenizers.source.name == config.model.encoder.name == tiny_encoder()
    assert config.tokenizers.target.kind == "words"
    loaded = regard.load(tmp_path / "run")
    before, after = ([one.log_probability for one in each.force(TEXTS, TARGETS)] for each in (translator, loaded))
    assert before == after
    results = loaded.translate(TEXTS, record=("cross", "encoder.1"), beam_size=3, max_length=5)
    record = results[0].attention
    assert record.source_words == ("The", "film", "is", "good", ",", "very", "dull", ".")
    assert record.source_word_of == (-1, *range(8), -1)
    assert record.weights["encoder.1"].shape == (2, 10, 10)
    assert record.weights["cross"].shape[1] == 10
    np.testing.assert_allclose(record.weights["cross"].sum(-1), 1, rtol=1e-5)
    assert results[1].text == ""


def test_the_encoders_symbols_are_around_each_part_and_stay(pairs, tmp_path):
    translator = train(pairs, tmp_path / "run", **{"data.max_tokens": 9, "training.max_epochs": 1})
    [result] = translator.translate(["the film is good . a plot is very dull , not fun . the actors"], max_length=2)
    assert result.attention.source_tokens.count("<s>") == result.attention.source_tokens.count("</s>") == 3
    assert len(result.attention.source_words) == 16
    assert max(index for index in result.attention.source_word_of) == 15
    assert result.attention.weights["cross"].shape[1] == 16 + 6
    [attributed] = translator.attribute(TEXTS[:1], ["leave_one_out"], targets=TARGETS[:1])
    lost = attributed.weights["leave_one_out"]
    assert not lost[:, [0, -1]].any()  # the encoder's symbols are never removed
    assert (lost[:, 1:-1] != 0).any()


def test_a_model_names_its_encoder_or_holds_it(pairs, tmp_path):
    folder = save_encoder(tmp_path / "encoder")
    for include in (False, True):
        settings = {"model.encoder.name": str(folder), "model.encoder.tuning": "frozen", "model.encoder.include": include}
        train(pairs, tmp_path / f"run{include}", **settings, **{"training.max_epochs": 1})
    shutil.rmtree(folder)
    regard.load(tmp_path / "runTrue").translate(TEXTS, max_length=2)
    with pytest.raises(BundleError, match="there is no encoder"):
        regard.load(tmp_path / "runFalse")


@pytest.mark.parametrize("tuning", [pytest.param("lora", marks=pytest.mark.slow), "frozen"])
def test_a_resumed_run_gives_the_same_bytes(tuning, pairs, tmp_path, monkeypatch):
    train(pairs, tmp_path / "whole", **{"model.encoder.tuning": tuning})
    after_update = Checkpointing.after_update

    def stop(self, run):
        if run.progress.step == 2:
            run.signals.received = 2
        after_update(self, run)

    monkeypatch.setattr(Checkpointing, "after_update", stop)
    with pytest.raises(Interrupted):
        train(pairs, tmp_path / "parts", **{"model.encoder.tuning": tuning})
    monkeypatch.undo()
    regard.resume(tmp_path / "parts", progress=False)
    assert (tmp_path / "parts/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_settings_that_conflict(pairs, tmp_path):
    for settings, message in (
        ({"tokenizers.source.kind": "bpe"}, r"a pretrained encoder needs its own tokenizer; set it to auto"),
        ({"tokenizers.target.kind": "pretrained"}, "a target is not read by the encoder"),
        ({"tokenizers.joint": True}, "shares one vocabulary"),
        ({"training.optimizer": "muon"}, "set training.optimizer to adamw"),
        ({"model.encoder.kind": "recurrent"}, "of kind 'recurrent' has no setting 'name'"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(settings_of(pairs, tmp_path / "run", **settings))
    with pytest.raises(ConfigError, match=r"needs model\.encoder\.kind pretrained"):
        load_config({"task": "translation", "tokenizers.source.kind": "pretrained"})
    with pytest.raises(ConfigError, match="reads at most 511 tokens"):
        train(pairs, tmp_path / "run", **{"data.max_tokens": 512})
    with pytest.raises(ConfigError, match="there is no encoder"):
        train(pairs, tmp_path / "run", **{"model.encoder.name": str(tmp_path / "none")})
    assert not (tmp_path / "run").exists()


def test_a_page_refuses_by_name(pairs, tmp_path):
    from regard.export.page.contents import read_contents

    translator = train(pairs, tmp_path / "run", **{"training.max_epochs": 1})
    with pytest.raises(RequestError, match="has a pretrained encoder, which an export or a page does not support"):
        read_contents(translator, "run")
