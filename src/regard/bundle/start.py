"""A trained model that another run starts from: its checked files in memory, and their conversion for a checkpoint."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.bundle.bundle import REPORT, WEIGHTS
from regard.bundle.forms import describe_mismatch
from regard.bundle.load import plan_model, read_config, read_steadily
from regard.bundle.signature import ORIGIN, read_signed
from regard.bundle.weights import fill, read_tensors
from regard.config import RunConfig
from regard.errors import BundleError
from regard.task import BundleFiles, find_task


@dataclass(frozen=True)
class StartFiles:
    """A trained model as it was when its files were read. Later changes to its folder have no effect."""

    folder: str
    """Folder that the model was read from."""
    files: Mapping[str, bytes]
    custom: str
    """The part of the model that is the user's own object; see `Bundle.custom`."""
    origin: Mapping[str, Any]
    """Plain data about the model, for the signature of the run that starts from it."""

    @cached_property
    def config(self) -> RunConfig:
        """Settings of the run that trained the model."""
        return read_config(self._bundle_files)

    @cached_property
    def parts(self) -> Any:
        """Output of the task's `BundleFormat.read_parts`."""
        return find_task(self.config.task).bundle_format.read_parts(self._bundle_files)

    @property
    def _bundle_files(self) -> BundleFiles:
        return BundleFiles(self.files, lambda name: Path(self.folder, name))

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by name."""
        return read_tensors(self.files[WEIGHTS], Path(self.folder, WEIGHTS))

    def load_into(self, model: nn.Module, adapt: Callable[[dict[str, Tensor]], None] | None = None) -> None:
        """Copy the weights into a new model.

        `adapt` is called with a dictionary of the tensors before they are copied, and may replace tensors in it.

        Raises:
            BundleError: If the names, shapes or types of the tensors do not fit the new model.
        """
        tensors = self.tensors()
        if adapt is not None:
            adapt(tensors)
        fill(model, tensors, Path(self.folder, WEIGHTS))

    def pack(self) -> dict[str, Any]:
        """Return the model as tensors and plain values, for a checkpoint."""
        return {
            "folder": self.folder,
            "custom": self.custom,
            "origin": json.dumps(dict(self.origin)),
            "files": {name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in self.files.items()},
        }

    @classmethod
    def unpack(cls, state: Mapping[str, Any]) -> "StartFiles":
        """Rebuild the model from the output of `pack`, which is not trusted."""
        try:
            files: Mapping[str, Tensor] = state["files"]
            whole = {name: data.numpy().tobytes() for name, data in files.items()}
            start = cls(state["folder"], whole, state["custom"], json.loads(state["origin"]))
            plain = {"folder": start.folder, "custom": start.custom, "origin": start.origin}
            if wrong := describe_mismatch(plain, {"folder": "", "custom": "", "origin": ORIGIN}, "start"):
                raise ValueError(wrong)
            return start
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise BundleError(f"start.ckpt holds no model to start from ({error}); copy an intact one again") from error


def read_start(folder: str | Path) -> StartFiles:
    """Read a trained model from which another run starts."""
    return read_steadily(Path(folder), _read_once)


def _read_once(folder: Path) -> StartFiles:
    signature, files = read_signed(folder)
    read_config(files, signature["task"])
    # The report on the data describes those of the old run.
    kept = {name: data for name, data in files.content.items() if name != REPORT}
    origin = {
        "folder": str(folder),
        "weights": hashlib.sha256(kept[WEIGHTS]).hexdigest(),
        "data": signature.get("data", ""),
        "updates": signature.get("updates", 0),
    }
    start = StartFiles(str(folder), kept, signature["custom"], origin)
    if not start.custom:
        plan_model(start.config, start.parts, start.tensors(), files.path(WEIGHTS))
    return start
