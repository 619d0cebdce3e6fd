"""Runs that start from a trained model: its vocabulary and weights, parts that are frozen, and labels that differ."""

import json
import pickle
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from training.test_resume import Stop, stop_at  # noqa: F401 (a fixture)

import regard
from regard.bundle import StartFiles, read_start
from regard.config import (
    BahdanauDecoderConfig,
    CombinedClassifierConfig,
    CountedClassifierConfig,
    EncoderConfig,
    LabelledDataConfig,
    LanguageModelConfig,
    LinearDecayConfig,
    RecurrentClassifierConfig,
    RecurrentConfig,
    TextDataConfig,
    WordsConfig,
)
from regard.errors import BundleError, ConfigError
from regard.tasks.classification.config import ClassificationConfig, ClassificationTrainingConfig
from regard.tasks.language.config import LanguageConfig, LanguageTrainingConfig
from regard.training import cross_validate, fit, resume
from regard.training.starting import load_fine_tuning

SMALL = RecurrentConfig(embedding_size=8, encoder=EncoderConfig(hidden_size=8), decoder=BahdanauDecoderConfig(hidden_size=8))


@pytest.fixture
def base(trained, change, tmp_path):
    """The folder of a trained translator, which a test may remove."""
    made = trained("base", lambda config: fit(change(replace(config, model=SMALL), max_epochs=1), progress=False))
    return Path(shutil.copytree(made, tmp_path / "base"))


@pytest.fixture
def other(tmp_path):
    """Pairs of which some letters are unknown to the base."""
    draw, path = random.Random(3), tmp_path / "other.tsv"
    lines = sorted({" ".join(draw.choices("hgfedcbaXY", k=draw.randint(2, 6))) for _ in range(120)})
    path.write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    return path


def settings(other, tmp_path, **more):
    return {
        "data.train": str(other),
        "data.dev_size": 10,
        "data.cache": str(tmp_path / "cache"),
        "out": str(tmp_path / "new"),
    } | more


def test_the_old_vocabulary_and_weights_are_where_it_starts(base, other, tmp_path, capfd):
    old = regard.load(base, device="cpu")
    given = settings(other, tmp_path, **{"training.max_steps": 1, "training.learning_rate": 1e-9, "training.ema_decay": 0})
    new = fit(given, start_from=base)
    assert new.bundle.parts.source.vocabulary() == old.bundle.parts.source.vocabulary()
    for name, weights in old.model.state_dict().items():
        assert torch.allclose(new.model.state_dict()[name], weights, atol=1e-6), name
    said = capfd.readouterr().err
    assert "source tokens in training (" in said
    assert "the vocabulary comes from another model and doesn't know " in said
    assert f"starting from the model in {base} (" in said
    origin = json.loads((tmp_path / "new" / "signature.json").read_text())["started_from"]
    assert origin["weights"] == json.loads((base / "signature.json").read_text())["files"]["model.safetensors"]
    assert "started from" in (tmp_path / "new" / "README.md").read_text()


def test_unknown_tokens_are_counted(base, other, tmp_path):
    new = fit(settings(other, tmp_path, **{"training.max_steps": 1}), start_from=base, progress=False)
    tokenizer = new.bundle.parts.source
    lines = [line.split("\t")[0] for line in other.read_text().splitlines()]
    [note] = [note for note in new.bundle.report["notes"] if "source tokens" in note]
    in_all = sum(tokenizer.encode(line).ids.count(1) for line in lines)
    count = int(note.partition("know ")[2].split(" of ")[0].replace(",", ""))
    assert 0 < count <= in_all
    assert "a model whose vocabulary is learned from these texts (without --from or --distill) may be better" in note


def test_defaults_of_fine_tuning(base, tmp_path):
    config = load_fine_tuning(base, {"data.train": "x.tsv"})
    old = regard.read_config(base / "config.yaml")
    assert config.start_from == str(base)
    assert (config.model, config.tokenizers, config.decoding) == (old.model, old.tokenizers, old.decoding)
    assert config.training.learning_rate == old.training.learning_rate / 4
    assert (config.training.schedule.kind, config.training.max_epochs, config.training.max_steps) == ("linear_decay", 20, 0)
    assert config.training.schedule.warmup_steps <= 50
    assert config.training.batch_tokens == old.training.batch_tokens
    assert config.training.teacher_forcing.start == old.training.teacher_forcing.end
    assert config.data.source == old.data.source
    assert config.data.train == ("x.tsv",)


def test_the_rate_falls_to_zero_if_that_of_the_model_did_not(trained, change):
    def train(config):
        schedule = LinearDecayConfig(final=0.5)
        fit(change(replace(config, model=SMALL), max_epochs=1, max_steps=1, schedule=schedule), progress=False)

    config = load_fine_tuning(trained("final", train), {"data.train": "x.tsv"})
    assert config.training.schedule == LinearDecayConfig(warmup_steps=20, final=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [1, 5])
def test_it_resumes_bit_for_bit_when_the_old_model_is_gone(base, other, tmp_path, stop_at, killed):  # noqa: F811
    given = settings(other, tmp_path, **{"training.max_steps": 8, "training.validate_every": 3, "model.freeze": "encoder"})
    whole = fit(given | {"out": str(tmp_path / "whole")}, start_from=base, progress=False)
    go_on = stop_at(killed)
    with pytest.raises(Stop):
        fit(given, start_from=base, progress=False)
    go_on()
    shutil.rmtree(base)
    shutil.rmtree(tmp_path / "cache")
    again = resume(tmp_path / "new", progress=False)
    for name, weights in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weights), name


def test_a_frozen_part_stays_and_the_rest_moves(base, other, tmp_path, capfd):
    old = regard.load(base, device="cpu")
    new = fit(settings(other, tmp_path, **{"training.max_steps": 2, "model.freeze": "encoder,embeddings"}), start_from=base)
    moved = {name for name, weights in old.model.state_dict().items() if not torch.equal(new.model.state_dict()[name], weights)}
    assert moved
    assert not [name for name in moved if name.startswith(("encoder.", "source_embedding", "target_embedding"))]
    assert any(name.startswith("decoder.") for name in moved)
    assert all(weights.requires_grad for weights in new.model.parameters())
    assert "frozen (model.freeze): " in capfd.readouterr().err


def test_what_cannot_be_started_from(base, other, tmp_path):
    given = settings(other, tmp_path)
    with pytest.raises(
        ConfigError, match=r"model.encoder.hidden_size is 9, but 8 in the model of '.*', which the run starts from"
    ):
        fit(given | {"model.encoder.hidden_size": 9}, start_from=base, progress=False)
    with pytest.raises(ConfigError, match=r"tokenizers.source.lowercase is True, but False in the model of"):
        fit(given | {"tokenizers.source.lowercase": True}, start_from=base, progress=False)
    with pytest.raises(
        ConfigError, match=r"out is '.*', the folder of the model that the run starts from; name another folder"
    ):
        fit(given | {"out": str(base), "overwrite": True}, start_from=base, progress=False)
    with pytest.raises(BundleError, match=r"there is no folder .*nowhere"):
        fit(given, start_from=tmp_path / "nowhere", progress=False)
    with pytest.raises(ConfigError, match=r"start_from is '.*', a model for translation; this run is for language"):
        fit(LanguageConfig(data=TextDataConfig(train=(str(other),)), out=given["out"]), start_from=base, progress=False)
    with pytest.raises(ConfigError, match=r"fit was given a mapping of settings without start_from"):
        fit(given, start_from="", progress=False)
    with pytest.raises(ConfigError, match=r"fit was given your own model, but the model in '.*' was trained without"):
        fit(given, start_from=base, model=lambda source, target: None, progress=False)


@pytest.mark.parametrize("given", [["a", "b"], ("text" for _ in "ab"), "classification", None])
def test_texts_are_no_configuration(given):
    for train, name in ((fit, "fit"), (cross_validate, "cross_validate")):
        message = rf"^{name}: got '{type(given).__name__}', expected a configuration, such as .* files that it names$"
        with pytest.raises(ConfigError, match=message):
            train(given)


def test_what_it_starts_from_goes_to_other_processes_and_into_a_checkpoint(base):
    start = read_start(base)
    assert start.parts.source.size > 4
    assert start.parts.target.size > 4
    for again in (pickle.loads(pickle.dumps(start)), StartFiles.unpack(start.pack())):
        assert again == start
        assert again.config == start.config


def test_a_model_with_another_vocabulary_of_equal_size_is_refused(base, config, change, tmp_path):
    """By size alone the model would fit, and take one letter for another."""
    translator = regard.load(base, device="cpu")
    path = tmp_path / "renamed.tsv"
    letters = str.maketrans("abcdefgh", "bcdefghi")
    path.write_text(Path(config.data.train[0]).read_text().translate(letters))
    mine = change(replace(config, model=SMALL, out=str(tmp_path / "mine")), max_epochs=1)
    mine = replace(mine, data=replace(mine.data, train=(str(path),)))
    message = r"the model given to fit was trained with another vocabulary.* start_from='runs/…'\), or `regard train … --from"
    with pytest.raises(ConfigError, match=message):
        fit(mine, model=translator.model, progress=False)
    assert not (tmp_path / "mine").exists()
    same = replace(mine, data=config.data, out=str(tmp_path / "same"))
    fit(same, model=translator.model, progress=False)  # the very data it was trained on
    with pytest.raises(ConfigError, match="trained with another vocabulary"):
        fit(mine, model=lambda source, target: translator.model, progress=False)


# Classifiers


def reviews(path, labels, shift=0):
    words = {"good": ["fine", "great", "warm"], "bad": ["dull", "poor", "flat"], "odd": ["weird", "queer", "mad"]}
    nouns = ["film", "plot", "cast", "score", "end", "book", "song", "tale"]
    lines = [
        f"the {noun} is {word} and the {nouns[(place + shift + 1) % 8]} is {word}\t{label}\n"
        for label in labels
        for word in words[label]
        for place, noun in enumerate(nouns)
    ]
    path.write_text("text\tlabel\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """The folder of a trained classifier of good and bad."""
    folder = tmp_path_factory.mktemp("classifier")
    data = LabelledDataConfig(train=(str(reviews(folder / "a.tsv", ["good", "bad"])),), cache=str(folder / "cache"), dev_size=6)
    config = ClassificationConfig(
        data=data,
        tokenizer=WordsConfig(),
        model=RecurrentClassifierConfig(embedding_size=8, hidden_size=8, embedding_dropout=0.0, output_dropout=0.0),
        training=ClassificationTrainingConfig(
            max_epochs=6, learning_rate=0.02, batch_sentences=8, tensorboard=False, precision="float32", average_last=1
        ),
        out=str(folder / "classifier"),
        threads=1,
    )
    fit(config, progress=False)
    return Path(config.out)


def fine_tune(classifier, path, tmp_path, **more):
    given = {"data.train": str(path), "data.cache": str(tmp_path / "cache"), "out": str(tmp_path / "new"), "data.dev_size": 4}
    return fit(given | {"training.max_steps": 1, "training.learning_rate": 1e-9} | more, start_from=classifier)


def test_the_same_labels_keep_their_numbers(classifier, tmp_path):
    old = regard.load(classifier, device="cpu")
    new = fine_tune(classifier, reviews(tmp_path / "b.tsv", ["bad", "good"], 3), tmp_path)
    assert new.bundle.parts.labels.names == old.bundle.parts.labels.names
    texts = ["the film is great", "the plot is dull"]
    for one, other in zip(old.classify(texts), new.classify(texts), strict=True):
        assert one.label == other.label
    assert torch.allclose(old.model.output.weight, new.model.output.weight, atol=1e-6)


def test_new_labels_have_new_rows_and_known_ones_keep_theirs(classifier, tmp_path, capfd):
    """As many labels as before, so that a copy by number would fit, and be wrong."""
    old = regard.load(classifier, device="cpu")
    new = fine_tune(classifier, reviews(tmp_path / "b.tsv", ["good", "odd"]), tmp_path)
    assert old.bundle.parts.labels.names == ("bad", "good")
    assert new.bundle.parts.labels.names == ("good", "odd")
    assert torch.allclose(new.model.output.weight[0], old.model.output.weight[1], atol=1e-6)
    assert torch.allclose(new.model.output.bias[0], old.model.output.bias[1], atol=1e-6)
    assert not torch.allclose(new.model.output.weight[1], old.model.output.weight[0], atol=1e-2)
    assert "labels: 1 kept (matched by name); new, with random weights in the output layer: 'odd'; removed: 'bad'" in (
        capfd.readouterr().err
    )


def test_fewer_labels_keep_all_that_the_model_knows(classifier, tmp_path):
    first = fine_tune(classifier, reviews(tmp_path / "b.tsv", ["good", "odd", "bad"]), tmp_path)
    assert len(first.bundle.parts.labels.names) == 3
    second = fine_tune(tmp_path / "new", reviews(tmp_path / "c.tsv", ["odd", "bad"], 2), tmp_path, out=str(tmp_path / "newer"))
    assert second.bundle.parts.labels.names == ("bad", "good", "odd")
    assert second.bundle.parts.labels.counts[1] == 0


def test_a_combined_classifier_learns_from_new_texts_and_labels(classifier, tmp_path):
    """Its linear member too, which is fitted rather than trained."""
    shape = RecurrentClassifierConfig(embedding_size=8, hidden_size=8)
    model = CombinedClassifierConfig(counted=CountedClassifierConfig(num_buckets=4099), recurrent=shape)
    old = replace(regard.load(classifier, device="cpu").config, model=model, out=str(tmp_path / "combined"))
    fit(old, progress=False)
    texts = ["the film is great", "the plot is dull", "the cast is weird and the song is mad"]
    assert [one.label for one in regard.load(old.out, device="cpu").classify(texts[:2])] == ["good", "bad"]
    new = fine_tune(old.out, reviews(tmp_path / "b.tsv", ["odd", "good"]), tmp_path)
    assert [one.label for one in new.classify(texts)[::2]] == ["good", "odd"]
    again = fine_tune(old.out, reviews(tmp_path / "c.tsv", ["good", "bad"], 3), tmp_path, out=str(tmp_path / "newer"))
    assert [one.label for one in again.classify(texts[:2])] == ["good", "bad"]


def test_a_table_of_ngrams_that_depends_on_the_number_of_labels_is_refused(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.models.classifiers.counted._MOST_NUMBERS", 9000)  # 4,099 buckets for 2 labels, 3,000 for 3
    model = CombinedClassifierConfig(
        counted=CountedClassifierConfig(num_buckets=4099), recurrent=RecurrentClassifierConfig(embedding_size=8, hidden_size=8)
    )
    old = replace(regard.load(classifier, device="cpu").config, model=model, out=str(tmp_path / "combined"))
    fit(old, progress=False)
    with pytest.raises(ConfigError, match=r"has 2 labels, but the run has 3. The size of '.*evidence' depends"):
        fine_tune(old.out, reviews(tmp_path / "b.tsv", ["good", "odd", "bad"]), tmp_path)


def test_language_models(tmp_path):
    song, tale = tmp_path / "song.txt", tmp_path / "tale.txt"
    song.write_text("".join(f"one two {word} three four\n" for word in ("red", "blue", "green", "black") * 10))
    tale.write_text("".join(f"one {word} two five\n" for word in ("red", "blue", "six") * 10))
    shape = LanguageModelConfig(hidden_size=16, num_layers=1, num_heads=2, feed_forward_size=16)
    config = LanguageConfig(
        data=TextDataConfig(train=(str(song),), dev_size=0, drop_repeats=False, cache=str(tmp_path / "cache")),
        tokenizer=WordsConfig(),
        model=shape,
        training=LanguageTrainingConfig(max_epochs=1, tensorboard=False, precision="float32"),
        out=str(tmp_path / "song"),
        threads=1,
    )
    old = fit(config, progress=False)
    given = {"data.train": str(tale), "data.cache": str(tmp_path / "cache"), "out": str(tmp_path / "tale"), "data.dev_size": 0}
    new = fit(
        given | {"model.freeze": "decoder.layers.0.attention", "training.max_epochs": 2},
        start_from=tmp_path / "song",
        progress=False,
    )
    assert new.tokenizer.vocabulary() == old.tokenizer.vocabulary()
    changed = [name for name, value in old.model.state_dict().items() if not torch.equal(value, new.model.state_dict()[name])]
    assert changed
    assert not [name for name in changed if name.startswith("decoder.layers.0.attention.")]
    assert "doesn't know 40 of " in " ".join(new.bundle.report["notes"])  # six, five
