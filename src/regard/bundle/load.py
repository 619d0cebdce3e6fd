"""Read a bundle, the folder of a trained model. No code from the folder is run, and all contents are checked."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.bundle.bundle import CONFIG, REPORT, WEIGHTS
from regard.bundle.folder import version
from regard.bundle.signature import read_signed
from regard.bundle.weights import Uninitialised, fill, read_tensors, stored_tensors
from regard.config import RunConfig
from regard.config.fields import Role, walk
from regard.config.loading import load_config, parse_layer
from regard.errors import BundleError, ConfigError, RegardError, RequestError
from regard.task import Bundle, BundleFiles, Inventory, find_task

Found = TypeVar("Found")
# Maximum number of times that a folder is read again if a run replaces its model at the same time.
_TRIES = 20


def load_bundle(
    folder: str | Path,
    *,
    device: str | torch.device = "cpu",
    model: nn.Module | None = None,
    attention: nn.Module | None = None,
) -> Bundle:
    """Read a trained model, in evaluation mode.

    Args:
        folder: Output folder of `save_bundle`. If a run replaces the model at the same time, the bundle is either the complete
            old one or the complete new one.
        device: Device for the model.
        model: The model object, for a bundle whose model is the user's own; its weights are replaced.
        attention: The mechanism object, for a bundle whose mechanism is the user's own; its weights are replaced.

    Raises:
        BundleError: If the folder is not a bundle, is damaged, or was written by another version of regard.
        RequestError: If `model` or `attention` is needed but not given, or given but not needed.
    """
    return read_steadily(Path(folder), lambda path: _load_once(path, device, model, attention))


def read_steadily(folder: Path, read_once: Callable[[Path], Found]) -> Found:
    """Read a folder; if this fails while a run replaces the model in it, read it again, up to 20 times."""
    for _ in range(_TRIES):
        before = version(folder)  # taken first, so that a change during the reading cannot be missed
        try:
            return read_once(folder)
        except BundleError:
            if version(folder) == before:
                raise
    return read_once(folder)


def _load_once(folder: Path, device: str | torch.device, model: nn.Module | None, attention: nn.Module | None) -> Bundle:
    signature, files = read_signed(folder)
    custom, path = signature["custom"], files.path(WEIGHTS)
    _check_custom(folder, custom, model, attention)
    config = read_config(files, signature["task"])
    task = find_task(config.task)
    parts, tensors = task.bundle_format.read_parts(files), read_tensors(files.content[WEIGHTS], path)
    if model is None:
        if custom:
            check_sizes(config, tensors, path)
        else:
            plan_model(config, parts, tensors, path)  # sizes in config.yaml are not trusted, so memory is not taken before
        # The user's own code may draw random numbers while it builds the model; those of the caller stay the same.
        with _explained(path, given=bool(custom)), torch.random.fork_rng(devices=[]), Uninitialised():
            model = task.bundle_format.build_model(config, parts, attention)
    fill(model, tensors, path, given=custom)
    model.vocabulary = task.bundle_format.vocabulary(parts)  # type: ignore[assignment]
    facts = {"signature": signature, "report": read_report(files), "custom": custom}
    return Bundle(config=config, model=model.to(device).eval(), parts=parts, **facts)


def _check_custom(folder: Path, custom: str, model: object, attention: object) -> None:
    for name, given in {"model": model, "attention": attention}.items():
        if custom == name and given is None:
            raise RequestError(
                f"the {name} of {folder} is a Python object of the model's author, which cannot be built from the "
                f"files: load the model from Python with regard.load({str(folder)!r}, {name}=…), with "
                "an object built in the same way as for training"
            )
        if custom != name and given is not None:
            raise RequestError(f"load: {folder} builds its own {name} from its config.yaml; leave {name} out")


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
    """Read and check everything in a bundle without building a model with weights."""

    def read_once(folder: Path) -> Inspection:
        signature, files = read_signed(folder)
        config, path = read_config(files, signature["task"]), files.path(WEIGHTS)
        form = find_task(config.task).bundle_format
        parts, tensors = form.read_parts(files), read_tensors(files.content[WEIGHTS], path)
        model = None if signature["custom"] == "model" else plan_model(config, parts, tensors, path, signature["custom"])
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        size = len(files.content[WEIGHTS])
        return Inspection(config, signature, read_report(files), form.inventory(parts), shapes, size, model)

    return read_steadily(Path(folder), read_once)


def read_config(files: BundleFiles, task: str = "") -> RunConfig:
    """Read a model's settings; unless `task` is empty, they must be for this task, which the signature names."""
    path = files.path(CONFIG)
    try:
        config = load_config(parse_layer(files.content[CONFIG].decode(), str(path)))
    except ConfigError as error:
        raise BundleError(f"the model's settings cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise BundleError(f"{path} is damaged: {first_line(error)}") from error
    if task and config.task != task:
        raise BundleError(f"{path} is for {config.task}, but the model's signature is for {task}")
    return config


def read_report(files: BundleFiles) -> dict[str, Any]:
    """Read the report on the data."""
    path = files.path(REPORT)
    try:
        report = json.loads(files.content[REPORT])
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is damaged: it is not JSON ({error})") from error
    if not isinstance(report, dict):
        raise BundleError(f"{path} is damaged: expected a JSON object, got {type(report).__name__}")
    return report


def check_sizes(config: RunConfig, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Check that no size in the settings is larger than the tensors allow, before a model of these sizes is built.

    A complete file has at least one tensor per layer, and at least one number per hidden unit, head and filter.

    Raises:
        BundleError: If a size is larger than the file allows.
    """
    limits = {Role.DEPTH: (len(tensors), "tensors"), Role.WIDTH: (_count(tensors), "numbers")}
    for name, facts, value in walk(config.model, "model."):
        for role, (most, what) in limits.items():
            if role in facts.roles and value > most:
                raise BundleError(f"{path} holds {most:,} {what}, too few for config.yaml, where {name} is {value:,}")


def plan_model(config: RunConfig, parts: Any, tensors: Mapping[str, Tensor], path: Path, custom: str = "") -> nn.Module:
    """Build the model of a bundle on the meta device, where tensors of any size take no memory.

    If the attention is the user's own object (`custom`), it is left out, and the number of weights is not checked.

    Raises:
        BundleError: If the model cannot be built, or has more weights than the file.
    """
    check_sizes(config, tensors, path)
    with _explained(path), torch.random.fork_rng(devices=[]), torch.device("meta"), Uninitialised():
        model = find_task(config.task).bundle_format.build_model(config, parts)
    num_stored, num_planned = _count(tensors), _count(stored_tensors(model))
    if num_planned > num_stored and not custom:
        raise BundleError(f"{path} holds {num_stored:,} numbers, but config.yaml and the tokenizers need {num_planned:,}")
    return model


def _count(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


@contextmanager
def _explained(path: Path, *, given: bool = False) -> Iterator[None]:
    """Raise a BundleError for errors while the model is built; if the caller gave the attention, it is the probable cause."""
    try:
        yield
    except BundleError:
        raise
    except (RegardError, RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
        cause = "the given attention does not fit" if given else "config.yaml describes a model that cannot be built"
        raise BundleError(f"{path.parent}: {cause}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
