"""A trained model that another run starts from: its checked files in memory, and a form that a checkpoint can hold."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from regard.bundle.bundle import CONFIG, LABELS, SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER, WEIGHTS
from regard.bundle.folder import find, version
from regard.bundle.load import check_buildable, read_config_file, read_labels
from regard.bundle.signature import read_signed
from regard.bundle.weights import unpack
from regard.config import AnyConfig
from regard.errors import BundleError
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import Tokenizer

_NEEDED = frozenset((CONFIG, WEIGHTS, TOKENIZER, SOURCE_TOKENIZER, TARGET_TOKENIZER, LABELS))
_TRIES = 20
"""Number of times a folder is read again if a run replaces its model at the same time."""


@dataclass(frozen=True)
class Start:
    """A trained model as it was when it was read; later changes to its folder have no effect."""

    folder: str
    """Folder that the model was read from."""
    files: Mapping[str, bytes]
    custom: str
    """As `Bundle.custom`."""
    origin: Mapping[str, Any]
    """Plain data about the model, for the signature of the run that starts from it."""

    def __reduce__(self) -> tuple[type["Start"], tuple[Any, ...]]:
        """Send only the files to another process, without the objects that were built from them."""
        return Start, (self.folder, self.files, self.custom, self.origin)

    @cached_property
    def config(self) -> AnyConfig:
        """Return the settings of the run that trained the model."""
        return read_config_file(self.files[CONFIG], Path(self.folder, CONFIG))

    @cached_property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Return the tokenizers of source and target; the same object twice if there is only one."""
        if TOKENIZER in self.files:
            both = self._tokenizer(TOKENIZER)
            return both, both
        return self._tokenizer(SOURCE_TOKENIZER), self._tokenizer(TARGET_TOKENIZER)

    @cached_property
    def labels(self) -> Labels:
        """Return a classifier's labels."""
        return read_labels(self.files[LABELS], Path(self.folder, LABELS))[0]

    def load_into(self, model: nn.Module) -> None:
        """Copy the weights into a model of the same shapes.

        Raises:
            BundleError: If the model has other tensors.
        """
        unpack(model, self.files[WEIGHTS], Path(self.folder, WEIGHTS))

    def load_into_with_labels(self, model: nn.Module, axes: Mapping[str, int], names: Sequence[str]) -> None:
        """Copy the weights into a classifier with other labels, matching labels by their names.

        The weights of labels that the trained model doesn't know stay as they are.

        Args:
            model: The classifier.
            axes: Names of the classifier's tensors that have an axis of labels, with the number of that axis.
            names: Labels of the classifier.

        Raises:
            BundleError: If the model differs in more than its labels.
        """
        old = self.labels.names
        shared = [(number, old.index(name)) for number, name in enumerate(names) if name in old]
        here, there = (torch.tensor([pair[side] for pair in shared], dtype=torch.int64) for side in (0, 1))
        tensors, own = safetensors.torch.load(self.files[WEIGHTS]), model.state_dict()
        for name, axis in axes.items():
            if name in tensors and name in own:
                known = tensors[name].index_select(axis, there).to(own[name].dtype)
                tensors[name] = own[name].detach().cpu().clone().index_copy_(axis, here, known)
        unpack(model, safetensors.torch.save(tensors), Path(self.folder, WEIGHTS))

    def pack(self) -> dict[str, Any]:
        """Return the model as tensors and plain values, for a checkpoint."""
        return {
            "folder": self.folder,
            "custom": self.custom,
            "origin": json.dumps(dict(self.origin)),
            "files": {name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in self.files.items()},
        }

    @classmethod
    def unpack(cls, state: Mapping[str, Any]) -> "Start":
        """Rebuild the model from the output of `pack`."""
        files: Mapping[str, Tensor] = state["files"]
        whole = {name: data.numpy().tobytes() for name, data in files.items()}
        return cls(state["folder"], whole, state["custom"], json.loads(state["origin"]))

    def _tokenizer(self, name: str) -> Tokenizer:
        return Tokenizer.load(Path(self.folder, name), data=self.files[name])


def read_start(folder: str | Path) -> Start:
    """Read a trained model to start another run from.

    Raises:
        BundleError: If the folder is not a trained model, is damaged, or was written by a newer regard.
    """
    folder = Path(folder)
    for _ in range(_TRIES):
        before = version(folder)
        try:
            return _read_once(folder)
        except BundleError:
            if version(folder) == before:
                raise
    return _read_once(folder)


def _read_once(folder: Path) -> Start:
    signature, files = read_signed(folder)
    kept = {name: data for name, data in files.items() if name in _NEEDED}
    origin = {
        "folder": str(folder),
        "weights": hashlib.sha256(files[WEIGHTS]).hexdigest(),
        "data": signature.get("data", ""),
        "updates": signature.get("updates", 0),
    }
    start = Start(str(folder), kept, signature["custom"], origin)
    if start.config.task != signature["task"]:
        raise BundleError(
            f"{find(folder, CONFIG)} is for {start.config.task}, but the model's signature is of {signature['task']}"
        )
    labels = start.labels if LABELS in kept else None
    if not start.custom:
        check_buildable(start.config, start.tokenizers, labels, files[WEIGHTS], find(folder, WEIGHTS))
    return start
