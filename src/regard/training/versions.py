"""Versions of the packages that a run uses: recorded when it starts, compared when it is resumed."""

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from regard import disk
from regard.text.cache import MANIFEST
from regard.version import PACKAGE, __version__

_MAY_DIFFER = {
    "regard": "batches, defaults and formulas may differ, and therefore all results from now on",
    "torch": "sums may be rounded differently",
    "numpy": "batches may come in another order",
    "tokenizers": "text may be split differently when the model is used; the encoded data are unchanged",
    "python": "random numbers drawn for batches may differ",
    "device": "sums are rounded differently, and dropout differs",
    "threads": "sums are rounded differently",
    "precision": "products are rounded differently",
}


def versions() -> dict[str, str]:
    """Return the versions of regard (with a hash of its code), NumPy, Python and tokenizers; `Machine.to_dict` has torch's."""
    packages = {name: version(name) for name in ("tokenizers",)}
    return {
        "regard": f"{__version__} ({_code()})",
        "numpy": np.__version__,
        "python": platform.python_version(),
        **packages,
    }


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a line for each version or machine setting that has changed since the run began, with the possible effects."""
    return [
        f"{name} was {before[name]} and is {now[name]}: {_MAY_DIFFER.get(name, 'results may differ')}"
        for name in now
        if name in before and before[name] != now[name]
    ]


def symbols_of(corpus: Any) -> str:
    """Return a hash of the digests that the manifest of the prepared data has for the files of the tokenizers and labels.

    A resumed run compares it with the hash from its start, because another version of regard or of `tokenizers` may learn
    another vocabulary from the same data. The hash is empty if the manifest cannot be read.

    Args:
        corpus: Encoded examples, whose file is in the same folder as their tokenizers.
    """
    try:
        files = json.loads(disk.read(Path(corpus.path).parent / MANIFEST, 1 << 20))
    except (AttributeError, OSError, ValueError):
        return ""
    symbols = sorted((name, digest) for name, (_, digest) in files.items() if name.startswith(("tokenizer", "labels")))
    return hashlib.sha256(json.dumps(symbols).encode()).hexdigest()


@cache
def _code() -> str:
    """Return a hash of regard's modules."""
    root, digest = PACKAGE, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:10]
