"""Names of the files of a bundle, the folder of a trained model."""

import json
from pathlib import Path

from regard.bundle.folder import read
from regard.config.plugins import BUILT_IN, is_task
from regard.errors import BundleError
from regard.task import find_task

FORMAT_VERSION = 2

CONFIG, WEIGHTS, SIGNATURE, REPORT, CARD = "config.yaml", "model.safetensors", "signature.json", "report.json", "README.md"
_LARGEST_SIGNATURE = 1 << 26  # bytes


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
