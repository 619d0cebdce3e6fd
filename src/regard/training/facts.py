"""The settings of a run and further facts that affect its result, as run.json stores them for `resume`."""

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
from regard.bundle.forms import misfit, misfit_in
from regard.bundle.signature import ORIGIN
from regard.config import RunConfig
from regard.config.loading import dump_config
from regard.machine import Machine
from regard.task import Trainable
from regard.text.cache import MANIFEST
from regard.training.schedule import Change
from regard.version import PACKAGE, __version__

_FORMS = {"settings": {}, "threads": 0, "processes": 0, "estimated": {}}
"""Example values of the entries that are not texts."""
_NESTED = {"started_from", "change", "checksum"}
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


def collect_facts(config: RunConfig, task: Trainable, machine: Machine) -> dict[str, Any]:
    """Return the settings and facts of a run at its start."""
    return {
        "settings": dump_config(config),
        "fingerprint": task.data.fingerprint,
        "symbols": symbols_of(task.data.train),
        "custom": task.custom,
        "started_from": dict(task.started_from),
        "estimated": dict(task.estimated),
        "change": None,
        **versions(),
        **machine.to_dict(),
    }


def render_facts(facts: Mapping[str, Any]) -> bytes:
    """Return the content of run.json, with its checksum."""
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return (json.dumps({**facts, "checksum": digest}, indent=1) + "\n").encode()


def parse_facts(data: bytes) -> dict[str, Any]:
    """Return the settings and facts in the content of run.json, which is not trusted.

    Raises:
        ValueError: If the file is damaged, or an entry does not have the form that a run writes.
    """
    facts = json.loads(data)
    if not isinstance(facts, dict) or "settings" not in facts:
        raise ValueError("it does not contain the settings of a run")
    facts.pop("checksum", None)
    if render_facts(facts) != data:
        raise ValueError("its content does not match its checksum")
    texts = {name: "" for name in facts if name not in _FORMS.keys() | _NESTED}  # hashes and versions
    origin = facts.get("started_from")
    wrong = misfit_in(facts, texts | _FORMS) or (misfit(origin, ORIGIN, "started_from") if origin else "")
    if wrong:
        raise ValueError(wrong)
    if facts.get("change") is not None:
        Change.from_dict(facts["change"])
    return facts


def versions() -> dict[str, str]:
    """Return the versions of regard (with a hash of its code), NumPy, Python and tokenizers; `Machine.to_dict` has torch's."""
    return {
        "regard": f"{__version__} ({_code()})",
        "numpy": np.__version__,
        "python": platform.python_version(),
        "tokenizers": version("tokenizers"),
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
