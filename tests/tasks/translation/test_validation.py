"""Validation of a translator on its dev pairs."""

import pytest
import torch

import regard
from regard.machine import Machine
from regard.tasks.translation.train import TranslationTraining


@pytest.mark.parametrize("pairs", [1, 2, 3, 7])
def test_samples_are_different_pairs(tmp_path, pairs):
    lines = [f"a dog {number}\tein Hund {number}\n" for number in range(20)]
    for name, rows in (("train", lines), ("dev", lines[:pairs])):
        (tmp_path / f"{name}.tsv").write_text("".join(rows))
    settings = {"data.train": [str(tmp_path / "train.tsv")], "data.dev": [str(tmp_path / "dev.tsv")]}
    settings |= {"data.cache": str(tmp_path / "cache"), "out": str(tmp_path / "run"), "data.header": "no"}
    config = regard.load_preset("demo", settings)
    task = TranslationTraining().prepare(config, model=None, attention=None, start=None, progress=False)
    scores = task.validator(Machine(torch.device("cpu"), 1)).validate()
    shown = [sample.source for sample in scores.samples]
    assert len({*shown}) == len(shown) == min(pairs, 3)
    assert shown[0] == "a dog 0"
