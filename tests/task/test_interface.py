"""What a task suggests to do with its models."""

import pytest

from regard import load_preset
from regard.task import find_task


@pytest.mark.parametrize(
    ("preset", "settings", "fits"),
    [
        ("luong", {}, True),
        ("luong", {"model.copy": True}, False),
        ("transformer-tiny", {"model.wait_k": 3, "decoding.beam_size": 1}, False),
        ("bag", {}, True),
        ("bag", {"tokenizer.kind": "spacy"}, False),
        ("language-tiny", {}, True),
        ("language-tiny", {"tokenizer.kind": "spacy"}, False),
    ],
)
def test_a_page_is_suggested_only_for_models_that_have_one(preset, settings, fits):
    config = load_preset(preset, settings)
    commands = find_task(config.task).commands(config)
    assert any(command.startswith("regard page") for command in commands) == fits
    assert "regard serve DIR" in commands
