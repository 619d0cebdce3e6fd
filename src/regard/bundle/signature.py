"""The signature of a bundle: its format, its origin, and the checksums of its files."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.bundle.bundle import CONFIG, FORMAT_VERSION, REPORT, SIGNATURE, WEIGHTS
from regard.bundle.folder import find, read, read_unsigned
from regard.bundle.forms import describe_mismatches
from regard.config.plugins import is_task, task_names
from regard.errors import BundleError, install_command
from regard.task import Bundle, BundleFiles, find_task
from regard.version import PACKAGE, __version__

_CHECKSUM = "checksum"
_SMALL = 1 << 26  # maximum size in bytes of every file except the weights
_EVERY = {CONFIG, WEIGHTS, REPORT}
ORIGIN = {"folder": "", "weights": "", "data": "", "updates": 0}
"""Names and types of the facts in `started_from`, which describes the model that a run started from."""
_FORM = {"versions": {}, "scores": {}, "started_from": ORIGIN, "kept": [], "updates": 0, "epochs": 0.0, "data": "", "seed": 0}
_FORM |= {"finished": False}


def sign(bundle: Bundle, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the signature: facts about the bundle, version of the format, versions of packages, and checksums.

    It has no date, so equal runs give equal bytes. `files` has the content of each file that is read when the bundle is loaded;
    the model card is not among them, because users may edit it.
    """
    known = {name: value for name, value in bundle.signature.items() if name not in ("files", "versions", _CHECKSUM)}
    signature = known | {
        "format_version": FORMAT_VERSION,
        "task": bundle.config.task,
        "custom": bundle.custom,
        "versions": _versions(bundle),
        "files": {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)},
    }
    return signature | {_CHECKSUM: checksum_of(signature)}


def checksum_of(signature: Mapping[str, Any]) -> str:
    """Return the checksum of a signature's content. It detects damage, but not forgery."""
    content = {name: value for name, value in signature.items() if name != _CHECKSUM}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_signed(folder: Path) -> tuple[dict[str, Any], BundleFiles]:
    """Read a bundle's signature and the files it names, and check their checksums."""
    signature = read_signature(folder)
    files = {}
    for name, checksum in sorted(signature["files"].items()):
        files[name] = read(folder, name) if name == WEIGHTS else read(folder, name, largest=_SMALL)
        if hashlib.sha256(files[name]).hexdigest() != checksum:
            raise BundleError(
                f"{find(folder, name)} is damaged: its content does not match the checksum in {SIGNATURE}; "
                "copy the whole folder again from where it was trained"
            )
    return signature, BundleFiles(files, partial(find, folder), partial(read_unsigned, folder), signature["files"])


def read_signature(folder: Path) -> dict[str, Any]:
    """Read a bundle's signature, and check it without reading the files that it names.

    Raises:
        BundleError: If the folder is not a bundle, the signature is damaged, or another version of regard wrote it.
    """
    _check_folder(folder)
    path = find(folder, SIGNATURE)
    data = read(folder, SIGNATURE, largest=_SMALL)
    try:
        signature = json.loads(data)
        _check_signature(signature, path)
        is_whole = data.endswith(b"}\n") and signature.get(_CHECKSUM) == checksum_of(signature)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is damaged: it is not JSON ({error}); copy the model again") from error
    if not is_whole:
        raise BundleError(f"{path} is damaged: its content does not match its checksum; copy the model again")
    return signature


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        raise BundleError(f"there is no folder {folder}; expected one that `regard train` made")
    if not folder.is_dir():
        raise BundleError(f"{folder} is a file, expected the folder of a trained model, which `regard train` makes")
    if os.path.lexists(find(folder, SIGNATURE)):
        return
    if (folder / "checkpoints").is_dir():
        raise BundleError(
            f"{folder} holds a run without a model yet: its training has not finished its first validation; wait for it, "
            f"or continue with `regard resume {folder}`"
        )
    inside = sorted(path.parent.name for path in folder.glob(f"*/{SIGNATURE}"))  # of a cross-validation or of several runs
    where = f"; it contains the model {inside[0]}: name {folder / inside[0]}" if inside else ""
    raise BundleError(
        f"{folder} is not a trained model: it has no {SIGNATURE}; expected a folder that `regard train` made{where}"
    )


def _check_signature(signature: Any, path: Path) -> None:
    if not isinstance(signature, dict) or "format_version" not in signature:
        raise BundleError(f"{path} is not the signature of a regard model: it has no format_version")
    number, versions = signature["format_version"], signature.get("versions")
    if type(number) is not int or number < 1:
        raise BundleError(f"{path} is damaged: format_version is {number!r:.60}, expected a number; copy the model again")
    if number != FORMAT_VERSION:
        maker = versions.get("regard") if isinstance(versions, dict) else "of another version"
        remedy = f"upgrade with: {install_command()}" if number > FORMAT_VERSION else "train the model again"
        raise BundleError(
            f"{path}: the model has format {number}, written by regard {maker}; this regard, {__version__}, reads format "
            f"{FORMAT_VERSION}: {remedy}"
        )
    task, files = signature.get("task"), signature.get("files")
    if not isinstance(task, str) or not is_task(task):
        raise BundleError(f"{path} is damaged: task is {task!r:.60}, expected one of: {', '.join(task_names())}")
    expected = [own | _EVERY for own in find_task(task).files]
    if not isinstance(files, dict) or set(files) not in expected or not all(isinstance(x, str) for x in files.values()):
        raise BundleError(
            f"{path} is damaged: it does not name the files of a model, with their checksums; copy the model again"
        )
    if signature.get("custom") not in ("", "model", "attention"):
        raise BundleError(f"{path} is damaged: custom is {signature.get('custom')!r:.60}, expected '', 'model' or 'attention'")
    wrong = describe_mismatches(signature, _FORM)
    if wrong := wrong or describe_mismatches(
        versions := signature.get("versions", {}), dict.fromkeys(versions, ""), "versions"
    ):
        raise BundleError(f"{path} is damaged: {wrong}; copy the model again")


def _versions(bundle: Bundle) -> dict[str, str]:
    further = find_task(bundle.config.task).bundle_format.packages(bundle.config)
    versions = {name: version(name) for name in ("torch", "tokenizers", "safetensors", *further)}
    commit = {"commit": _commit()} if _commit() else {}
    return {"regard": __version__, **commit, "python": platform.python_version(), **versions}


@cache
def _commit() -> str:
    """Return the Git commit of regard if it runs from a clone of its repository; else an empty string."""
    root = PACKAGE.parents[1]
    if not (root / ".git").exists() or not (root / "pyproject.toml").exists():
        return ""
    try:
        answer = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
