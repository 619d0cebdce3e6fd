"""The contents of a bundle (the folder of a trained model), read and checked without building a model with weights."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from regard.bundle.bundle import CONFIG, WEIGHTS
from regard.bundle.load import check_sizes, plan_model, read_report, read_steadily, read_task
from regard.bundle.signature import read_signed
from regard.bundle.weights import read_shapes
from regard.config import RunConfig
from regard.task import Inventory


@dataclass(frozen=True)
class Inspection:
    """The contents of a bundle, with the shapes of its weights instead of their values."""

    config: RunConfig
    signature: dict[str, Any]
    report: dict[str, Any]
    inventory: Inventory
    shapes: dict[str, tuple[int, ...]]
    """Shapes of the tensors in the weights file; tied weights appear once."""
    weight_bytes: int
    model: nn.Module | None = field(repr=False)
    """The model without weights (on the meta device); None if the whole model is the user's own object."""


def inspect_bundle(folder: str | Path) -> Inspection:
    """Read and check everything in a bundle without building a model with weights.

    Raises:
        BundleError: If the folder is not a bundle, or is damaged.
    """
    return read_steadily(Path(folder), _inspect)


def _inspect(folder: Path) -> Inspection:
    signature, files = read_signed(folder)
    config, task = read_task(folder, signature, files.content[CONFIG])
    parts = task.bundle_format.read_parts(files)
    weights, model = files.content[WEIGHTS], None
    if signature["custom"] != "model":
        check_sizes(config, weights, files.path(WEIGHTS))
        model = plan_model(folder, config, task, parts)
    return Inspection(
        config=config,
        signature=signature,
        report=read_report(files),
        inventory=task.bundle_format.inventory(parts),
        shapes=read_shapes(weights, files.path(WEIGHTS)),
        weight_bytes=len(weights),
        model=model,
    )
