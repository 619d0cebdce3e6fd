"""Taggers on a tiny pretrained encoder: its symbols, training, saving and attention, and settings that do not fit."""

import itertools

import numpy as np
import pytest
from encoders import tiny_encoder

import regard
from regard.config.loading import load_config
from regard.errors import ConfigError
from regard.text.symbols import END, START
from regard.text.tagged.prepare import encode_words
from regard.text.tokenizers.pretrained import PretrainedScheme
from regard.text.tokenizers.tokenizer import Tokenizer


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_each_part_is_between_the_symbols_of_the_encoder(family):
    scheme = PretrainedScheme.of(tiny_encoder(family))
    tokenizer = Tokenizer(scheme.symbols, scheme=scheme, normalization="none")
    words = encode_words(tokenizer, [["the", "filmly", "is", "good"], [], ["\x01", "not"]], 6)
    (ids, offsets), (places, bounds) = words.tokens, words.places
    rows = [ids[start:stop].tolist() for start, stop in itertools.pairwise(offsets)]
    assert [(row[0], row[-1]) for row in rows] == [(START, END)] * 3
    assert rows[0] == [*tokenizer.encode("the filmly is").ids]  # as a text
    assert [places[start:stop].tolist() for start, stop in itertools.pairwise(bounds)] == [
        [1, 2, 4],
        [1],
        [1, 2],
    ]
    assert words.word_of.tolist() == [-1, 0, 1, 1, 2, -1, -1, 3, -1, -1, 4, 5, -1]
    assert words.sentence.tolist() == [0, 0, 2]


@pytest.fixture
def settings(tmp_path):
    rows = ["the\tO\nfilmly\tB-X\nis\tO\ngood\tI-X", "a\tO\nplot\tB-X\nis\tO\nnot\tO\ndull\tI-X"]
    (tmp_path / "train.conll").write_text("\n\n".join(rows * 2))
    encoder = {"name": tiny_encoder(), "tuning": "whole"}
    training = {"max_epochs": 1, "tensorboard": False, "precision": "float32", "optimizer": "adamw"}
    data = {"train": [str(tmp_path / "train.conll")], "dev_size": 0, "cache": str(tmp_path / "cache")}
    model = {"kind": "pretrained", "encoder": encoder}
    return {"task": "tagging", "data": data, "model": model, "training": training, "out": str(tmp_path / "run"), "threads": 1}


@pytest.mark.parametrize("tuning", ["whole", "frozen"])
def test_it_trains_saves_and_shows_the_attention_of_words(settings, tuning):
    config = load_config(settings, {"model": {"encoder": {"tuning": tuning}}})
    tagger = regard.fit(config, progress=False)
    [found] = tagger.tag([["The", "filmly", "is", "not"]], record=["tag", "encoder.1"])
    record = found.attention
    assert record.source_tokens == ("<s>", "the", "film", "##ly", "is", "not", "</s>")
    assert record.source_word_of == (-1, 0, 1, 1, 2, 3, -1)
    assert record.weights["tag"].shape == (4, 7)
    assert record.weights["encoder.1"].shape == (2, 7, 7)
    assert record.matrix("tag").shape == (4, 4)
    [again] = regard.load(settings["out"]).tag([["The", "filmly", "is", "not"]])
    np.testing.assert_allclose(again.probabilities, found.probabilities, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tokenizer": {"kind": "words"}},
            "tokenizer.kind is 'words', but a pretrained encoder needs its own tokenizer; set it to auto",
        ),
        ({"training": {"optimizer": "muon"}}, "training.optimizer is 'muon', but each layer"),
        (
            {"model": {"kind": "recurrent"}, "tokenizer": {"kind": "pretrained"}},
            "tokenizer.kind is 'pretrained', but the model is",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, changes, message):
    with pytest.raises(ConfigError, match=message):
        load_config(settings, changes)


def test_settings_are_chosen_for_the_encoder_or_recommend_one(settings):
    data = settings["data"]
    chosen = regard.choose_config("tagging", {"data.train": data["train"], "model.encoder.name": tiny_encoder()})
    assert (chosen.model.kind, chosen.training.optimizer, chosen.tokenizer.kind) == ("pretrained", "adamw", "bpe")
    assert chosen.chosen[:2] == ("4 sentences of 4.5 words on average", "model: pretrained")
    plain = regard.choose_config("tagging", {"data.train": data["train"]})
    assert plain.model.kind == "recurrent"
    assert "a pretrained encoder finds more names" in plain.chosen[1]
