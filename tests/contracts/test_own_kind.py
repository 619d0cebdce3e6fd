"""A mechanism of another package, offered as an entry point: commands train with it, load it, and take its settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.config import AttentionConfig
from regard.config.loading import load_config, override_layer
from regard.errors import ConfigError

MODULE = '''
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class NearestConfig(AttentionConfig):
    """−β ‖W q − k‖²."""

    kind: Literal["nearest_key"] = "nearest_key"
    beta: float = 0.1
    """β at the start of training."""

    def build(self, *, query_size, key_size):
        return Nearest(query_size, key_size=key_size, beta=self.beta)
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
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[regard.kinds]\n{name} = {value}\n")
        paths = [str(code), str(installed)]
        for path in paths:
            monkeypatch.syspath_prepend(path)
        return paths

    return install


def run(paths: list[str], *arguments: str) -> tuple[int, str, str]:
    """Run `regard`, and return its exit code and what it printed."""
    search = os.pathsep.join([*paths, str(Path(regard.__file__).parent.parent)])
    environment = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    command = [sys.executable, "-m", "regard", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return result.returncode, result.stdout, result.stderr


def test_commands_use_it(offer, tmp_path):
    paths = offer("nearest_key", "nearest_keys:NearestConfig")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a} {b} .\t{b.upper()} {a.upper()} .\n" for a in "abcdefg" for b in "hijklmn"))
    options = ["--model.decoder.attention.kind", "nearest_key", "--model.decoder.attention.beta", "0.5"]
    settings = ["--data.train", str(pairs), "--out", str(tmp_path / "run"), "--training.max_epochs", "1"]
    code, _, err = run(paths, "train", "translation", "--preset", "demo", *settings, *options)
    assert code == 0, err
    assert "kind: nearest_key\n      beta: 0.5" in (tmp_path / "run" / "config.yaml").read_text()

    code, out, err = run(paths, "look", str(tmp_path / "run"), "a h .")
    assert code == 0, err
    assert "Weights in hundredths" in out

    code, _, err = run(
        paths, "train", "translation", "--preset", "demo", *settings, *options[:2], "--model.decoder.attention.bet", "1"
    )
    assert code != 0
    assert "unknown setting 'model.decoder.attention.bet'; did you mean 'model.decoder.attention.beta'?" in err


def test_the_package_is_imported_only_for_its_kind(offer):
    offer("nearest_key", "nearest_keys:NearestConfig")
    load_config(override_layer({"model.decoder.attention.kind": "general"}))
    assert "nearest_keys" not in sys.modules
    with pytest.raises(ConfigError, match=r"model\.decoder\.attention\.kind is 'nearest_kex', expected one of: additive"):
        load_config(override_layer({"model.decoder.attention.kind": "nearest_kex"}))
    assert "nearest_keys" not in sys.modules


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "nearest_keys:Nothing",
            r"model\.decoder\.attention\.kind is 'broken', whose entry point .* cannot be loaded: .*Nothing",
        ),
        ("no_such_package:Config", r"whose entry point 'no_such_package:Config' cannot be loaded: No module named"),
        ("fractions:Fraction", r"model\.decoder\.attention\.kind is 'broken', expected one of: additive"),
    ],
)
def test_a_broken_entry_point_is_explained(offer, value, message):
    offer("broken", value)
    try:
        with pytest.raises(ConfigError, match=message):
            load_config(override_layer({"model.decoder.attention.kind": "broken"}))
    finally:
        if module := sys.modules.pop("nearest_keys", None):
            module.NearestConfig.kind = "nearest-of-a-test"  # its class stays a subclass of AttentionConfig
            assert "nearest-of-a-test" in AttentionConfig.kinds()
