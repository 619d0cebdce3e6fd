"""Targets that read a trained model's folder: each of its files in turn, with a checksum that fits."""

import hashlib
import json
import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import yaml
from fuzz.engine import SEAM, Target
from fuzz.files import JSON, PAIRS, YAML
from fuzz.using import use

import regard.bundle.load as load
from regard.bundle import load_bundle, save_bundle
from regard.bundle.bundle import CONFIG, SIGNATURE
from regard.bundle.signature import checksum_of
from regard.config.loading import load_config
from regard.models.build import build_classifier, build_language_model, build_translator
from regard.task import Bundle
from regard.tasks.classification.data import ClassifierParts
from regard.tasks.files import TOKENIZER
from regard.tasks.translation.data import Tokenizers
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizers


def bundles(folder: Path) -> dict[str, Path]:
    """One small model of each task, saved."""
    torch.manual_seed(0)
    small = {"embedding_size": 4, "encoder": {"hidden_size": 2}, "decoder": {"hidden_size": 3}}
    translation = load_config({"model": small, "tokenizers": {"joint": True}})
    source, target = build_tokenizers([PAIRS], translation.tokenizers, translation.data)  # type: ignore[union-attr, arg-type]
    translator = build_translator(translation.model, source_size=source.size, target_size=target.size)  # type: ignore[arg-type]
    bag = {"kind": "bag", "embedding_size": 4, "num_buckets": 8}
    classification = load_config({"task": "classification", "model": bag})
    classifier = build_classifier(classification.model, vocabulary_size=source.size, num_labels=2)  # type: ignore[arg-type]
    tiny = {"hidden_size": 4, "num_heads": 1, "num_layers": 1, "feed_forward_size": 4}
    language = load_config({"task": "language", "model": tiny})
    model = build_language_model(language.model, vocabulary_size=source.size)  # type: ignore[arg-type]
    made: dict[str, Any] = {
        "translation": Bundle(
            config=translation,
            model=translator,
            parts=Tokenizers(source, source),  # type: ignore[arg-type]
        ),
        "classification": Bundle(
            config=classification,
            model=classifier,
            parts=ClassifierParts(source, Labels(("a", "b"), False, (1, 2))),  # type: ignore[arg-type]
        ),
        "language": Bundle(config=language, model=model, parts=source),  # type: ignore[arg-type]
    }
    brief = {"translation": {"model": small, "tokenizers": {"joint": True}}}
    brief |= {"classification": {"task": "classification", "model": bag}, "language": {"task": "language", "model": tiny}}
    for name, bundle in made.items():
        save_bundle(folder / name, bundle)
        # What is not a default is enough, and ten times as quick to read.
        (folder / name / "config.yaml").write_text(yaml.safe_dump(brief[name], sort_keys=False))
        resign(folder / name, ["config.yaml"])
    return {name: folder / name for name in made}


_DECODING = b"""decoding:
  beam_size: 3
  length_penalty: 0.5
  length_reward: 0.1
  min_length: 1
  no_repeat_ngrams: 2
  repetition_penalty: 1.5
data:
  max_tokens: 20
seed: 3
"""
_TASKS = ("translation", "classification", "language")


def resign(folder: Path, names: Sequence[str]) -> None:
    """Make the checksums fit, as somebody does who wants a changed file to be taken for the true one."""
    path = folder / "signature.json"
    signature = json.loads(path.read_bytes())
    for name in names:
        signature["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps({**signature, "checksum": checksum_of(signature)}) + "\n")


class _Remembered(ExitStack):
    """The parts of a bundle that are not under test take most of the time, so they are read once: same bytes, same part."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._known: dict[tuple[str, bytes], Any] = {}
        unread: list[tuple[Any, str, Callable[..., bytes]]] = []
        unread += [] if name == CONFIG else [(load, "read_config", lambda files, task: files.content[CONFIG])]
        unread += [] if name == TOKENIZER else [(Tokenizer, "load", lambda path, data: data)]
        unread += [(load, "read_tensors", lambda data, path: data)] if name in ("report.json", SIGNATURE) else []
        self._readers = unread

    def __enter__(self) -> "_Remembered":
        for home, reader, content in self._readers:
            self.enter_context(patch.object(home, reader, self._wrap(home, reader, content)))
        return self

    def _wrap(self, home: Any, reader: str, content: Callable[..., bytes]) -> Callable[..., Any]:
        read = getattr(home, reader)

        def remembered(*arguments: Any, **named: Any) -> Any:
            key = reader, content(*arguments, **named)
            if key not in self._known:
                self._known[key] = read(*arguments, **named)
            return self._known[key]

        return remembered


def _with_checksum(content: bytes) -> bytes:
    """A changed signature with the checksum that fits, where it is still one at all."""
    with suppress(ValueError, RecursionError):
        signature = json.loads(content)
        if isinstance(signature, dict):
            return json.dumps({**signature, "checksum": checksum_of(signature)}).encode() + b"\n"
    return content


def _bundle(name: str) -> Callable[[Path], Callable[[bytes], object]]:
    """One file of a bundle, in place of the true one; the first byte says of which task's."""

    def start(folder: Path) -> Callable[[bytes], object]:
        saved_bundles, true_parts = bundles(folder), _Remembered(name)

        def run(data: bytes) -> None:
            task = _TASKS[data[0] % 3 if data else 0]
            if name == "labels.json":
                task = "classification"
            bundle = saved_bundles[task]
            signature, path = bundle / "signature.json", bundle / name
            kept = {file: file.read_bytes() for file in {signature, path}}
            content = data[1:] if name != "model.safetensors" else assemble(data[1:])
            try:
                path.write_bytes(content)
                if name != "signature.json":
                    resign(bundle, [name])
                elif data and data[0] & 4:
                    path.write_bytes(_with_checksum(content))
                with true_parts:
                    loaded = load_bundle(bundle)
                assert not loaded.model.training
                assert not any(tensor.is_meta for tensor in loaded.model.state_dict().values())
                use(loaded, data, folder)
            finally:
                for file, true in kept.items():
                    file.write_bytes(true)

        return run

    return start


def assemble(data: bytes) -> bytes:
    """A safetensors file of a header's text and what follows behind `SEAM`, so that mutations need not mend its length."""
    if not data.startswith(b"{"):
        return data
    header, _, rest = data.partition(SEAM)
    return struct.pack("<Q", len(header)) + header + rest


def take_apart(content: bytes) -> bytes:
    """What `assemble` makes a file of."""
    (size,) = struct.unpack("<Q", content[:8])
    return content[8 : 8 + size] + SEAM + content[8 + size :]


def _bundle_seeds(name: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            made = bundles(Path(folder))
            found, first = [], (48, 60) if name == "signature.json" else (48,)
            for number, task in enumerate(_TASKS):
                path = made[task] / name
                if path.exists():
                    content = path.read_bytes()
                    own = [take_apart(content), content] if name == "model.safetensors" else [content]
                    own += [content + _DECODING] if name == "config.yaml" and task == "translation" else []
                    found += [bytes([bits + number]) + each for each in own for bits in first]
        return found

    return seeds


_FILES = ("signature.json", "config.yaml", "model.safetensors", "tokenizer.json", "labels.json", "report.json")
_WORDS = {"config.yaml": YAML, "model.safetensors": (*JSON, SEAM)}

BUNDLES = tuple(
    Target(f"bundle-{Path(name).stem}", _bundle(name), _bundle_seeds(name), _WORDS.get(name, JSON)) for name in _FILES
)
