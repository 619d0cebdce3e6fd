"""The container file fits the package: its options exist, and what it copies is there."""

import json
import re
from pathlib import Path

from regard.cli.main import main

ROOT = Path(__file__).parents[2]


def test_the_entry_point_is_a_command_that_parses(monkeypatch):
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    program, command, *options = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1])
    assert (program, command) == ("regard", "serve")
    served = []
    monkeypatch.setattr("regard.cli.serve._serve", served.append)
    assert main([command, *options, "/models/deu"]) == 0
    [parsed] = served
    assert f":{parsed.port}/readyz" in text
    assert f"EXPOSE {parsed.port}" in text
    assert (ROOT / "constraints.txt").exists()
    assert "[serve]" in text
