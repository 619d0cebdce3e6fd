"""Strict loading and dumping of configurations."""

from dataclasses import replace
from pathlib import PurePosixPath

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from regard.config import BagClassifierConfig, BahdanauDecoderConfig, DotConfig, LuongDecoderConfig, TrainingConfig
from regard.config.loading import (
    LARGEST,
    check_config,
    dump_config,
    load_config,
    override_layer,
    parse_layer,
    read_config,
    render_config,
    setting_names,
)
from regard.errors import ConfigError
from regard.tasks.translation.config import TranslationConfig


def fails(*layers) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(*layers)
    return str(caught.value)


def test_yaml_aliases_are_refused():
    text = "out: &a x\ndata: {cache: *a}\n"
    with pytest.raises(ConfigError, match=r"run.yaml:2: settings cannot contain YAML aliases; write out what \*a stands for"):
        parse_layer(text, "run.yaml")
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(ConfigError, match="settings cannot contain YAML aliases"):
        parse_layer("\n".join(lines), "run.yaml")


def test_defaults_load_and_dump_without_loss():
    config = TranslationConfig()
    assert load_config({}) == load_config(dump_config(config)) == config
    assert load_config(parse_layer(render_config(config), "x.yaml")) == config
    assert load_config(yaml.safe_load(render_config(config))) == config


@given(
    out=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    rate=st.floats(1e-12, 1e3),
    columns=st.sampled_from([(), ("0", "1"), ("en", "de"), ("no", "yes"), ("null", "1e-3")]),
    language=st.sampled_from(["no", "en", "null", "~", "on", "007", "1e3", "true"]),
)
def test_any_values_survive_yaml(out, rate, columns, language):
    config = TranslationConfig(out=out)
    config = replace(config, training=replace(config.training, learning_rate=rate))
    config = replace(config, data=replace(config.data, columns=columns, source=language))
    assert load_config(parse_layer(render_config(config), "x.yaml")) == config


def test_strings_become_what_the_setting_is():
    config = load_config(
        parse_layer(
            "training: {learning_rate: 1e-3, betas: [0.9, 1e-1]}\ndata: {columns: [0, 1], target: no, header: no}", "x"
        ),
        override_layer({"data.train": "a.txt, b.txt", "training.max_epochs": "3", "training.tensorboard": "False"}),
    )
    assert config.training.learning_rate == 1e-3
    assert config.training.betas == (0.9, 0.1)
    assert config.data.columns == ("0", "1")
    assert config.data.target == config.data.header == "no"
    assert config.data.train == ("a.txt", "b.txt")
    assert config.training.max_epochs == 3
    assert config.training.tensorboard is False
    assert load_config({"data": {"train": ""}}).data.train == ()


def test_later_layers_win():
    preset = {"training": {"max_epochs": 3, "learning_rate": 0.5}}
    config = load_config(preset, {"training": {"max_epochs": 4}}, override_layer({"training.max_epochs": "5"}))
    assert (config.training.max_epochs, config.training.learning_rate) == (5, 0.5)


def test_a_changed_kind_resets_its_part():
    preset = {"model": {"decoder": {"hidden_size": 512, "readout": "deep", "attention": {"kind": "dot", "scaled": True}}}}
    assert load_config(preset).model.decoder == BahdanauDecoderConfig(
        hidden_size=512, readout="deep", attention=DotConfig(scaled=True)
    )
    changed = load_config(preset, override_layer({"model.decoder.num_layers": "2", "model.decoder.kind": "luong"}))
    assert changed.model.decoder == LuongDecoderConfig(num_layers=2)
    same = load_config(preset, override_layer({"model.decoder.kind": "bahdanau"}))
    assert same.model.decoder.hidden_size == 512


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"training": {"lerning_rate": 1}},
            "unknown setting 'training.lerning_rate'; did you mean 'training.learning_rate'?",
        ),
        ({"learning_rate": 1}, "unknown setting 'learning_rate'; did you mean 'training.learning_rate'?"),
        ({"beam_size": 1}, "unknown setting 'beam_size'; did you mean 'decoding.beam_size'?"),
        ({"modle": {}}, "unknown setting 'modle'; did you mean 'model'?"),
        (
            {"zzz": {}},
            "unknown setting 'zzz'; known here: task, training, out, start_from, overwrite, seed, device, threads, chosen, "
            "data, tokenizers, model, distillation, decoding",
        ),
        (
            {"model": {"decoder": {"input_feeding": True}}},
            "model.decoder of kind 'bahdanau' has no setting 'input_feeding'; it belongs to kind: luong",
        ),
        (
            {"model": {"decoder": {"kind": "loung"}}},
            "model.decoder.kind is 'loung', expected one of: bahdanau, luong; did you mean 'luong'?",
        ),
        (
            {"model": {"decoder": "luong"}},
            "model.decoder is 'luong', expected settings below it (write 'model.decoder.kind' to choose one of: "
            "bahdanau, luong)",
        ),
        ({"model": 3}, "model is 3, expected settings below it (write 'model.kind' to choose one of: recurrent, transformer)"),
        (
            {"model": {"bridge": "copi"}},
            "model.bridge is 'copi', expected one of: zeros, copy, linear, mean; did you mean 'copy'?",
        ),
        ({"training": {"learning_rate": "fast"}}, "training.learning_rate is 'fast', expected a finite number"),
        ({"training": {"learning_rate": "nan"}}, "training.learning_rate is 'nan', expected a finite number"),
        ({"training": {"learning_rate": True}}, "training.learning_rate is True, expected a finite number"),
        ({"training": {"learning_rate": 0}}, "training.learning_rate is 0, expected more than 0"),
        ({"training": {"learning_rate": -1e-3}}, "training.learning_rate is -0.001, expected more than 0"),
        ({"training": {"max_epochs": True}}, "training.max_epochs is True, expected a whole number"),
        ({"training": {"max_epochs": 1.5}}, "training.max_epochs is 1.5, expected a whole number"),
        ({"training": {"max_epochs": 2**63}}, "training.max_epochs is 9223372036854775808, expected a whole number"),
        ({"training": {"max_epochs": None}}, "training.max_epochs is empty, expected a whole number"),
        ({"training": {"max_epochs": 0}}, "training.max_epochs is 0, expected 1 or more"),
        ({"training": {"tensorboard": "maybe"}}, "training.tensorboard is 'maybe', expected true or false"),
        ({"training": {"betas": "0.9"}}, "training.betas is '0.9', expected 2 values separated by commas"),
        ({"training": {"betas": [0.9, 1]}}, "training.betas is 1, expected 0 or more and less than 1"),
        ({"training": {"patience": -1}}, "training.patience is -1, expected 0 or more"),
        ({"training": {"schedule": {"kind": "cosine", "final": 2}}}, "training.schedule.final is 2, expected from 0 to 1"),
        (
            {"model": {"decoder": {"readout_dropout": 1}}},
            "model.decoder.readout_dropout is 1, expected 0 or more and less than 1",
        ),
        ({"model": {"encoder": {"hidden_size": 0}}}, "model.encoder.hidden_size is 0, expected 1 or more"),
        ({"decoding": {"beam_size": 0}}, "decoding.beam_size is 0, expected from 1 to 1000"),
        ({"decoding": {"length_penalty": 1e308}}, "decoding.length_penalty is 1e+308, expected from 0 to 10"),
        ({"decoding": {"batch_tokens": 1 << 40}}, "decoding.batch_tokens is 1.09951e+12, expected from 0 to 1048576"),
        ({"data": {"max_tokens": 65537}}, "data.max_tokens is 65537, expected from 1 to 65536"),
        (
            {"model": {"encoder": {"hidden_size": 4611686018427387904}}},
            "model.encoder.hidden_size is 4.61169e+18, expected 1 or more, and at most 1,000,000,000",
        ),
        ({"training": {"clip_norm": 1e10}}, "training.clip_norm is 1e+10, expected 0 or more, and at most 1,000,000,000"),
        ({"decoding": {"length_reward": 101}}, "decoding.length_reward is 101, expected from 0 to 100"),
        ({"data": {"train": 3.5}}, "data.train is 3.5, expected values separated by commas, or a list"),
        ({"data": {"source": [1]}}, "data.source is [1], expected text"),
        ({"data": {"train": "a,b,c"}}, "data.train names 3 files, expected one file of pairs or two parallel files"),
        ({"data": {"columns": "1"}}, "data.columns names 1, expected two: the source's and the target's"),
        ({"device": "gpu"}, "device is 'gpu', expected auto, cpu, cuda, cuda:N, or mps"),
        (
            {"training": {"optimizer": "adam", "weight_decay": 0.1}},
            "training.weight_decay is 0.1, which is too large for adam: the model would learn nothing; set training.optimizer "
            "to adamw, or weight_decay to 0",
        ),
        (
            {"tokenizers": {"joint": True, "source": {"kind": "bpe"}}},
            "tokenizers.joint is true, so tokenizers.target must have the settings of tokenizers.source",
        ),
        (
            {"model": {"tie_embeddings": "all"}},
            "model.tie_embeddings is 'all', which needs one vocabulary: set tokenizers.joint to true",
        ),
        (
            {"model": {"decoder": {"kind": "luong", "readout": "output"}}},
            "model.decoder.readout is 'output', which a decoder of kind 'luong' computes before it attends: the attention "
            "would have no effect; expected one of: concat, attentional, deep",
        ),
    ],
)
def test_mistakes_are_named(settings, message):
    assert fails(settings) == message


@pytest.mark.parametrize(
    ("part", "settings", "message"),
    [
        ("training", {"optimizer": "sgd"}, "training.optimizer is 'sgd', expected one of: adam, adamw, muon"),
        ("training", {"learning_rate": "1e-3"}, "training.learning_rate is '1e-3', expected 0.001"),
        ("training", {"max_epochs": True}, "training.max_epochs is True, expected a whole number"),
        ("training", {"monitor": "acc"}, "training.monitor is 'acc', expected one of: auto, bleu, chrf, exact_match, loss"),
        ("data", {"train": "a.tsv"}, "data.train is 'a.tsv', expected ('a.tsv',)"),
        ("data", {"columns": (0, 1)}, "data.columns is (0, 1), expected ('0', '1')"),
        ("", {"out": PurePosixPath("x")}, "out is PurePosixPath('x'), expected text; convert the path with str(…)"),
        ("", {"model": BagClassifierConfig()}, "model is BagClassifierConfig(), expected RecurrentConfig or TransformerConfig"),
        ("", {"training": TrainingConfig()}, "training is TrainingConfig(), expected TranslationTrainingConfig"),
    ],
)
def test_settings_made_in_python_have_their_types(part, settings, message):
    config = TranslationConfig()
    changed = replace(config, **{part: replace(getattr(config, part), **settings)} if part else settings)
    with pytest.raises(ConfigError) as caught:
        check_config(changed)
    assert str(caught.value) == message


def test_settings_made_in_python_may_have_whole_numbers_and_lists():
    config = TranslationConfig()
    training, data = replace(config.training, learning_rate=1), replace(config.data, train=["a.tsv"])
    check_config(replace(config, training=training, data=data))


def test_mistakes_say_file_and_line(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("data:\n  source: en\ntraining:\n  learning_rate: fast\n")
    with pytest.raises(ConfigError, match=r"run.yaml:4: training.learning_rate is 'fast', expected a finite number"):
        read_config(path)
    path.write_text("training:\n  patience: -2\n")
    with pytest.raises(ConfigError, match=r"run.yaml:2: training.patience is -2, expected 0 or more"):
        read_config(path)
    path.write_text("training:\n\n  lerning_rate: 1\n")
    with pytest.raises(ConfigError, match=r"run.yaml:3: unknown setting 'training.lerning_rate'"):
        read_config(path)
    path.write_text("\n\ntraining: {max_epochs: 1,\n max_epochs: 2}\n")
    with pytest.raises(ConfigError, match=r"run.yaml:4: the setting 'training.max_epochs' is given twice"):
        read_config(path)


def test_a_place_is_that_of_the_last_layer():
    file = parse_layer("training:\n  patience: -2\n", "run.yaml")
    assert fails(file) == "run.yaml:2: training.patience is -2, expected 0 or more"
    assert fails(file, override_layer({"training.patience": "-3"})) == "training.patience is -3, expected 0 or more"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "x.yaml:1: not valid YAML"),
        ("- a", "x.yaml: expected settings as `name: value` lines, got ['a']"),
        ("[a, b]: 1", "x.yaml:1: expected a setting's name, got a list or a mapping"),
        ("a: &x [*x]", "x.yaml:1: settings cannot contain YAML aliases"),
    ],
)
def test_text_that_is_no_configuration(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_layer(text, "x.yaml")
    assert message in str(caught.value)


def test_yaml_tags_run_nothing():
    layer = parse_layer("out: !!python/object/apply:os.system ['true']", "x")
    assert layer.values == {"out": ["true"]}


def test_unreadable_files(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*none.yaml: No such file or directory"):
        read_config(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        read_config(tmp_path / "bytes.yaml")


def test_the_size_of_a_file_is_limited_in_characters(tmp_path):
    """A letter has two bytes, so the file has more bytes than the largest number of characters."""
    path = tmp_path / "run.yaml"
    path.write_text(f"out: {'é' * (LARGEST - 5)}", encoding="utf-8-sig")
    assert read_config(path).out == "é" * (LARGEST - 5)
    path.write_text(f"out: {'é' * (LARGEST - 4)}", encoding="utf-8-sig")
    with pytest.raises(ConfigError, match=r"run.yaml: has more than 262,144 characters, too many for a configuration"):
        read_config(path)


def test_setting_names_reach_every_kind():
    names = set(setting_names(TranslationConfig))
    assert {"out", "model.decoder.attention.scaled", "tokenizers.target.language", "training.schedule.patience"} <= names


def test_dotted_and_nested_names_are_equal():
    nested = load_config({"training": {"patience": 3}, "data": {"train": ["a", "b"]}})
    assert load_config({"training.patience": 3, "data.train": ["a", "b"]}) == nested
    assert load_config({"training.patience": 3, "data": {"train": ["a", "b"]}}) == nested
    assert load_config(parse_layer("training.patience: 3\ndata: {train: [a, b]}", "run.yaml")) == nested
    assert (
        fails(parse_layer("data.trian: x", "run.yaml"))
        == "run.yaml:1: unknown setting 'data.trian'; did you mean 'data.train'?"
    )
    assert fails({"data": {"source": "x"}, "data.source": "y"}) == "the setting 'data.source' is given twice"
    with pytest.raises(ConfigError, match=r"^run.yaml:2: the setting 'data.source' is given twice$"):
        parse_layer("data: {source: x}\ndata.source: y", "run.yaml")


def test_a_wrong_value_is_not_blamed_on_the_file_that_it_overrides():
    file = parse_layer("training:\n  patience: 3", "run.yaml")
    for layer in ({"training.patience": "x"}, {"training": {"patience": "x"}}):
        with pytest.raises(ConfigError, match=r"^training.patience is 'x', expected a whole number"):
            load_config(file, layer)


def test_a_minimum_length_must_leave_room_for_the_end_symbol():
    assert load_config({"decoding.min_length": 5, "decoding.max_length": 6}).decoding.min_length == 5
    for longest in (3, 5):
        assert fails({"decoding.min_length": 5, "decoding.max_length": longest}) == (
            f"decoding: min_length is 5 tokens, but max_length is {longest} tokens including the end symbol; raise "
            "max_length or lower min_length"
        )


def test_a_file_is_read_by_another_function():
    assert fails("run.yaml") == (
        "load_config: settings are 'run.yaml', expected a mapping of names to values; read a file of settings with "
        "regard.read_config"
    )


def test_kinds_are_suggested_in_another_case():
    assert fails({"model.decoder.attention.kind": "MoChA"}).endswith("; did you mean 'mocha'?")


def test_dotted_and_nested_names_meet():
    scan = load_config({"model.decoder.attention": {"kind": "mocha", "chunk_size": 3}})
    assert (
        load_config({"model": {"decoder": {"attention": {"chunk_size": 3}}}, "model.decoder.attention.kind": "mocha"}) == scan
    )
    assert load_config({"model": {"decoder.attention.kind": "mocha"}, "model.decoder": {"attention.chunk_size": 3}}) == scan
    schedule = {"warmup_steps": 5}
    load_config({"training.schedule": schedule, "training.schedule.kind": "cosine"})
    assert schedule == {"warmup_steps": 5}
    assert fails({"training": 5, "training.patience": 3}) == "training is 5, expected settings below it"
    assert (
        fails({"training.patience.x": 3})
        == "unknown setting 'training.patience.x'; 'training.patience' has no settings below it"
    )
    for name in (".training", "training..patience", "training."):
        assert fails({name: 3}) == f"unknown setting '{name}': a part of its name is empty"
    assert fails(parse_layer("out: x\ntraining.schedule.kinds: x", "run.yaml")).startswith("run.yaml:2: ")


@pytest.mark.parametrize("task", ["language", "captioning"])
def test_only_tasks_that_read_with_an_encoder_have_its_tokenizer(task):
    with pytest.raises(ConfigError, match=r"tokenizer\.kind is 'pretrained', expected one of: words, .*auto"):
        load_config({"task": task, "data": {"train": ["x"]}, "tokenizer": {"kind": "pretrained"}})
