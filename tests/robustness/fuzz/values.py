"""Targets whose inputs are models that mostly load: each puts some hard values in place of those of a bundle's files."""

import copy
import json
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from fuzz.bundles import _TASKS, bundles, resign
from fuzz.engine import Target
from fuzz.using import use

from regard.bundle import load_bundle
from regard.config.loading import dump_config, read_config
from regard.export import export_onnx
from regard.task import find_task

VALUES: tuple[Any, ...] = (
    *(0, 1, 2, 3, 7, -1, 64, 1000, 99_999, 2**31 - 1, 2**53, 2**62, 2**63, True, False, None),
    *(0.5, -0.5, 0.1, 1.5, 1e-300, 1e-3, 1e3, 1e38, 1e300, -1e300, [], {}, [0], ["x"], [1, 2]),
    *("", "x", "auto", "none", "\x1b]0;x\x07", "<b>東京", "\u202e", "\ud7ff", " ", "./..", "é" * 300),
)
WEIGHTS = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0, 1e19, -1.0)
_FILES = ("labels.json", "tokenizer.json", "report.json")


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in plain data that holds a value: its container, and its key or position."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _leaves(value[key])


def _change(files: dict[str, Any], weights: bytearray, data: bytes) -> None:
    """Put values in: five bytes say into which file, where (two bytes), which, and how often a weight is repeated."""
    names = [*files, "weights"]
    for at in range(0, len(data) - 4, 5):
        name, place, value = names[data[at] % len(names)], int.from_bytes(data[at + 1 : at + 3], "little"), data[at + 3]
        if name == "weights":
            packed = struct.pack("<f", WEIGHTS[value % len(WEIGHTS)]) * (1 + data[at + 4] % 64)
            (header,) = struct.unpack("<Q", weights[:8])
            begin = 8 + header + 4 * (place % ((len(weights) - 8 - header) // 4))
            weights[begin : begin + len(packed)] = packed[: len(weights) - begin]
        elif places := list(_leaves(files[name])):
            holder, key = places[place % len(places)]
            holder[key] = copy.deepcopy(VALUES[value % len(VALUES)])


def _start(folder: Path, use: Callable[[Any, bytes, Path], None] = use) -> Callable[[bytes], object]:
    saved = bundles(folder)
    true: dict[str, dict[str, bytes]] = {}
    settings: dict[str, Any] = {}
    for task, bundle in saved.items():
        settings[task] = dump_config(read_config(bundle / "config.yaml"))  # all of them, not only those that are no defaults
        (bundle / "config.yaml").write_text(yaml.safe_dump(settings[task], sort_keys=False))
        true[task] = {path.name: path.read_bytes() for path in bundle.iterdir() if path.is_file()}

    def run(data: bytes) -> None:
        task = _TASKS[data[0] % 3 if data else 0]
        bundle, content = saved[task], true[task]
        files = {name: json.loads(content[name]) for name in _FILES if name in content}
        files["config.yaml"] = copy.deepcopy(settings[task])
        weights = bytearray(content["model.safetensors"])
        _change(files, weights, data[1:])
        try:
            for name, value in files.items():
                (bundle / name).write_text(
                    yaml.safe_dump(value, sort_keys=False) if name.endswith("yaml") else json.dumps(value)
                )
            (bundle / "model.safetensors").write_bytes(weights)
            resign(bundle, [*files, "model.safetensors"])
            use(load_bundle(bundle), data, folder)
        finally:
            for name, own in content.items():
                (bundle / name).write_bytes(own)

    return run


def _seeds() -> list[bytes]:
    return [bytes([task, *step]) for task in range(3) for step in ((), (0, 9, 0, 3, 0), (9, 2, 1, 0, 5), (1, 3, 0, 40, 0))]


def _export(bundle: Any, data: bytes, folder: Path) -> None:
    predictor: Any = find_task(bundle.config.task).predictor(bundle)
    made = export_onnx(predictor, folder / "exported", overwrite=True)
    assert {path.suffix for path in made.folder.iterdir()} >= {".onnx", ".json"}


VALUES_TARGET = Target("bundle-values", _start, _seeds)
EXPORT_TARGET = Target("bundle-export", partial(_start, use=_export), lambda: _seeds()[::4], seconds=60.0)
