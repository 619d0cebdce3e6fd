"""Names of the files of a bundle (the folder of a trained model), and hashes of vocabularies."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from regard.bundle.folder import read
from regard.config.plugins import BUILT_IN, is_task
from regard.errors import BundleError
from regard.task import find_task
from regard.text.tokenizers.tokenizer import Tokenizer

FORMAT_VERSION = 2

CONFIG, WEIGHTS, SIGNATURE, REPORT, CARD = "config.yaml", "model.safetensors", "signature.json", "report.json", "README.md"
_LARGEST_SIGNATURE = 1 << 26  # bytes


def fingerprint_vocabulary(tokenizers: Sequence[Tokenizer], labels: Sequence[str] = (), *, multiple: bool = False) -> str:
    """Return a hash of vocabularies and labels. If two models have equal hashes, each id has the same token or label in both.

    `labels` are in the order of their ids; `multiple` says whether a text can have several.
    """
    named = [[*labels], multiple] if labels else []
    return hashlib.sha256(json.dumps([[tokenizer.digest() for tokenizer in tokenizers], named]).encode()).hexdigest()


def file_names(folder: Path) -> list[str]:
    """Return all names that files of a model can have, for the built-in tasks and for the task of the model in `folder`."""
    tasks = [*BUILT_IN]
    try:
        named = json.loads(read(folder, SIGNATURE, largest=_LARGEST_SIGNATURE)).get("task")
        if isinstance(named, str) and named not in tasks and is_task(named):
            tasks.append(named)
    except (BundleError, ValueError, AttributeError, RecursionError):
        pass  # there is no model, or it is damaged
    own = {name for task in map(find_task, tasks) for name in (*frozenset().union(*task.files), *task.unsigned_files)}
    return [CONFIG, WEIGHTS, SIGNATURE, REPORT, CARD, *sorted(own)]
