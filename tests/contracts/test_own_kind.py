"""A mechanism of another package, offered as an entry point: commands train with it, load it, and take its settings."""

import sys
from pathlib import Path

import pytest

from regard.cli.main import main
from regard.config.loading import load_config, override_layer, read_layer
from regard.errors import ConfigError

MODULE = '''
from typing import Literal

import torch
from torch import nn
from regard.attention import ScoredAttention
from regard.config import AttentionConfig


class Nearest(ScoredAttention):
    """−β ‖W q − k‖²."""

    def __init__(self, query_size, *, key_size=None, beta=0.1):
        super().__init__(query_size, key_size=key_size)
        self.project = nn.Linear(query_size, self.key_size, bias=False)
        self.beta = nn.Parameter(torch.tensor(beta))

    def scores(self, query, memory):
        return -self.beta * (self.project(query)[:, :, None] - memory.key[:, None]).square().sum(-1)


class NearestConfig(AttentionConfig, kind="nearest_key"):
    """−β ‖W q − k‖²."""

    beta: float = 0.1
    """β at the start of training."""

    def build(self, *, query_size, key_size):
        return Nearest(query_size, key_size=key_size, beta=self.beta)
'''

PLAIN = '''
from regard.config import AttentionConfig, GeneralConfig


class PlainConfig(AttentionConfig, kind="plain_key"):
    """The general score under another name."""


    def build(self, *, query_size, key_size):
        return GeneralConfig().build(query_size=query_size, key_size=key_size)
'''


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Return a function that installs the package with an entry point, and returns the folders for PYTHONPATH."""

    def install(name: str, value: str) -> list[str]:
        code, installed = tmp_path / "code", tmp_path / "site"
        info = installed / "nearest-1.0.dist-info"
        for folder in (code, info):
            folder.mkdir(parents=True)
        (code / "nearest_keys.py").write_text(MODULE, encoding="utf-8")
        (code / "plain_keys.py").write_text(PLAIN, encoding="utf-8")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[regard.kinds]\n{name} = {value}\n")
        paths = [str(code), str(installed)]
        for path in paths:
            monkeypatch.syspath_prepend(path)
        return paths

    return install


def test_commands_use_it(offer, tmp_path, capsys):
    offer("nearest_key", "nearest_keys:NearestConfig")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a} {b} .\t{b.upper()} {a.upper()} .\n" for a in "abcdefg" for b in "hijklmn"))
    options = ["--model.decoder.attention.kind", "nearest_key", "--model.decoder.attention.beta", "0.5"]
    settings = ["--data.train", str(pairs), "--out", str(tmp_path / "run"), "--training.max_epochs", "1"]
    assert main(["train", "translation", "--preset", "demo", *settings, *options]) == 0
    assert "kind: nearest_key\n      beta: 0.5" in (tmp_path / "run" / "config.yaml").read_text()

    assert main(["look", str(tmp_path / "run"), "a h ."]) == 0
    assert "Weights in hundredths" in capsys.readouterr().out
    sys.modules.pop("nearest_keys")


def test_the_package_is_imported_only_for_its_kind(offer):
    offer("nearest_key", "nearest_keys:NearestConfig")
    load_config(override_layer({"model.decoder.attention.kind": "general"}))
    assert "nearest_keys" not in sys.modules
    meant = r"model\.decoder\.attention\.kind is 'nearest_kex', expected one of: additive.*; did you mean 'nearest_key'\?"
    with pytest.raises(ConfigError, match=meant):
        load_config(override_layer({"model.decoder.attention.kind": "nearest_kex"}))
    assert "nearest_keys" not in sys.modules


def test_a_package_that_is_missing_is_asked_for():
    with pytest.raises(ConfigError, match=r"expected one of: additive.*; if another package defines this kind, install it"):
        load_config(override_layer({"model.decoder.attention.kind": "qqqqqqqq"}))


def test_another_package_may_use_the_name_for_another_family(offer):
    paths = offer("plain_key", "fractions:Fraction")
    info = Path(paths[1], "other-1.0.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[regard.kinds]\nplain_key = plain_keys:PlainConfig\n")
    try:
        config = load_config(override_layer({"model.decoder.attention.kind": "plain_key"}))
        assert type(config.model.decoder.attention).__name__ == "PlainConfig"
        meant = r"unknown setting 'model\.decoder\.attention\.bet'"
        with pytest.raises(ConfigError, match=meant):
            load_config(override_layer({"model.decoder.attention.kind": "plain_key", "model.decoder.attention.bet": 1}))
    finally:
        sys.modules.pop("plain_keys").PlainConfig.kind = "plain-of-a-test"  # its class stays a subclass of AttentionConfig


def test_an_error_names_the_line_of_the_file(offer, tmp_path):
    offer("broken", "no_such_package:Config")
    file = tmp_path / "run.yaml"
    file.write_text("model:\n  decoder:\n    attention:\n      kind: broken\n")
    with pytest.raises(ConfigError, match=r"run\.yaml:4: model\.decoder\.attention\.kind is 'broken', whose entry point"):
        load_config(read_layer(file))


def test_help_lists_installed_kinds(offer, capsys):
    offer("nearest_key", "nearest_keys:NearestConfig")
    assert main(["train", "translation", "--help"]) == 0
    assert "kinds of installed packages: nearest_key" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("fractions:Nothing", r"kind is 'broken', whose entry point .* cannot be loaded: AttributeError: .*Nothing"),
        (
            "no_such_package:Config",
            r"whose entry point 'no_such_package:Config' cannot be loaded: ModuleNotFoundError: No module",
        ),
        ("fractions:Fraction", r"expected one of: additive.*; its entry point 'fractions:Fraction' defines no such kind"),
        (
            "fractions:Fraction[",
            r"kind is 'broken', whose entry point 'fractions:Fraction\[' cannot be loaded: AttributeError: ",
        ),
    ],
)
def test_a_broken_entry_point_is_explained(offer, value, message):
    offer("broken", value)
    with pytest.raises(ConfigError, match=message):
        load_config(override_layer({"model.decoder.attention.kind": "broken"}))
