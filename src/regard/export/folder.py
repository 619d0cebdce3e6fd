"""The folder of an exported model. It is created after its content has been checked.

An existing folder is replaced only if it is an export, and only on request.
"""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard import disk
from regard.errors import RequestError, install_command
from regard.export.quantization import Quality
from regard.tasks.loading import load
from regard.text.symbols import END, PAD, START, UNKNOWN
from regard.version import __version__

FORMAT_VERSION = 1
MANIFESTS = ("onnx.json", "ctranslate2.json")
"""Names of the files that describe an export, one for each format; a folder without such a file is not an export."""
# Names of the files of exports. A folder with other files is not replaced, because they would be lost.
_WRITTEN = re.compile(
    r"(onnx|ctranslate2|labels|config|tokenizer(\.\w+)?|\w+_vocabulary)\.(json|yaml|txt)"
    r"|(encoder|step|classifier)\.onnx|model\.bin|README\.md|example\.py"
)
_COPIED = ("config.yaml", "labels.json", "README.md")


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    folder: Path
    largest_difference: float
    """Largest difference of a log probability, score or weight from the model's own, over inputs of several sizes. For weights
    of 8 bits, it is measured before the weights are rounded."""
    quality: tuple[Quality, ...] = ()
    """Scores with the model and with weights of 8 bits; empty for float32."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files in the folder."""
        return tuple(sorted(path.name for path in self.folder.iterdir()))


def load_predictor(run: Any) -> Any:
    """Load a model from its folder on the CPU; a model that is already loaded is returned unchanged."""
    return load(run, device="cpu") if isinstance(run, str | Path) else run


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Check that the folder does not exist, or is an export without other files that may be replaced."""
    if not folder.exists():
        return
    if not any((folder / name).is_file() for name in MANIFESTS):
        raise RequestError(f"{folder} exists and is not an export; name a folder that does not exist yet")
    if others := sorted(path.name for path in folder.iterdir() if not _WRITTEN.fullmatch(path.name)):
        raise RequestError(f"{folder} also holds '{others[0]}', which no export wrote; move it, or name another folder")
    if not overwrite:
        raise RequestError(f"{folder} already holds an export; replace it with overwrite (--overwrite), or name another folder")


def check_packages(*names: str, extra: str) -> None:
    """Check that the packages of an extra are installed, before any work is done."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise RequestError(f"{', '.join(missing)} not installed; install the extra with: {install_command(extra)}")


@contextlib.contextmanager
def writing(predictor: Any, folder: Path) -> Iterator[Path]:
    """Yield a temporary folder with the model's tokenizers, labels, settings and card; without errors, it becomes `folder`."""
    with disk.whole_folder(folder, replace=True) as made:
        # A complete bundle first, of which only the files that a program needs stay.
        predictor.save(made)
        for path in made.iterdir():
            if path.name not in _COPIED and not path.name.startswith("tokenizer"):
                path.unlink() if path.is_file() else shutil.rmtree(path)
        yield made


def add_example(made: Path, name: str) -> None:
    """Copy a program that uses the export, as `example.py`; `name` is that of the format."""
    example = Path(__file__).with_name("examples") / f"{name}.py"
    disk.save(made / "example.py", example.read_text(encoding="utf-8"))


def add_manifest(made: Path, name: str, predictor: Any, worst: float, described: Mapping[str, Any]) -> None:
    """Write the manifest, one of `MANIFESTS`: the facts about the export that a program needs to use it.

    `worst` is the largest difference from the model, and `described` has further entries, which only this format has.
    """
    manifest = {
        "format_version": FORMAT_VERSION,
        "task": predictor.config.task,
        "model": type(predictor.model).__name__,
        "largest_difference": worst,
        "special": {"padding": PAD, "unknown": UNKNOWN, "start": START, "end": END},
        **described,
        "versions": {"regard": __version__, "torch": torch.__version__.partition("+")[0]},
    }
    disk.save(made / name, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
