"""Read a bundle, the folder of a trained model. No code from the folder is run, and all contents are checked."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from regard.bundle.bundle import CONFIG, REPORT, WEIGHTS
from regard.bundle.folder import find, version
from regard.bundle.signature import read_signed
from regard.bundle.weights import Uninitialised, read_shapes, unpack
from regard.config import RunConfig
from regard.config.fields import Role, walk
from regard.config.loading import load_config, parse_layer
from regard.errors import BundleError, ConfigError, RegardError, RequestError
from regard.task import Bundle, BundleFiles, BundleFormat, Task, find_task

Found = TypeVar("Found")
_TRIES = 20
"""Maximum number of times that a folder is read again if a run replaces its model at the same time."""


def load_bundle(
    folder: str | Path,
    *,
    device: str | torch.device = "cpu",
    model: nn.Module | None = None,
    attention: nn.Module | None = None,
) -> Bundle:
    """Read a trained model.

    Args:
        folder: Output folder of `save_bundle`.
        device: Device for the model.
        model: The model object, for a bundle whose model is the user's own; its weights are replaced.
        attention: The mechanism object, for a bundle whose mechanism is the user's own; its weights are replaced.

    Returns:
        The bundle, of the class that the model's task defines, with the model in evaluation mode. If a run replaces the model
        at the same time, the bundle is either the complete old one or the complete new one.

    Raises:
        BundleError: If the folder is not a bundle, is damaged, or was written by a newer regard. The message names the file.
        RequestError: If `model` or `attention` is needed but not given, or given but not needed.
    """
    return read_steadily(Path(folder), lambda path: _load_once(path, device, model, attention))


def read_steadily(folder: Path, read_once: Callable[[Path], Found]) -> Found:
    """Read a folder; if this fails while a run replaces the model in it, read it again, up to 20 times.

    Raises:
        BundleError: As for `read_once`, if the folder did not change while it was read, or at the last attempt.
    """
    for _ in range(_TRIES):
        before = version(folder)
        try:
            return read_once(folder)
        except BundleError:
            if version(folder) == before:
                raise
    return read_once(folder)


def _load_once(folder: Path, device: str | torch.device, model: nn.Module | None, attention: nn.Module | None) -> Bundle:
    signature, files = read_signed(folder)
    _check_custom(folder, signature["custom"], model, attention)
    config, task = read_task(folder, signature, files.content[CONFIG])
    if signature["custom"] != "model":
        check_sizes(config, files.content[WEIGHTS], files.path(WEIGHTS))
    facts = {"signature": signature, "report": read_report(files), "custom": signature["custom"]}
    parts = task.bundle_format.read_parts(files)
    filled = _fill(files, task.bundle_format, config, parts, model, attention)
    return task.bundle_format.bundle(config, filled.to(device).eval(), parts, files, facts)


def _fill(
    files: BundleFiles,
    form: BundleFormat[Any, Any, Any],
    config: RunConfig,
    parts: Any,
    model: nn.Module | None,
    attention: nn.Module | None,
) -> nn.Module:
    """Return the given model, or a new one, with the weights of the file."""
    weights, path = files.content[WEIGHTS], files.path(WEIGHTS)
    filled = _build(lambda put: form.build_model(config, parts, put), attention, weights, path) if model is None else model
    given = "model" if model is not None else "attention" if attention is not None else ""
    unpack(filled, weights, path, given=given)
    filled.vocabulary = form.vocabulary(parts)  # type: ignore[assignment]
    return filled


def read_task(folder: Path, signature: dict[str, Any], settings: bytes) -> tuple[RunConfig, Task[Any, Any, Any, Any]]:
    """Read a model's settings, and find its task.

    Raises:
        BundleError: If the settings are damaged, or are for another task than the signature.
    """
    path = find(folder, CONFIG)
    config = read_config_file(settings, path)
    if config.task != signature["task"]:
        raise BundleError(f"{path} is for {config.task}, but the model's signature is for {signature['task']}")
    return config, find_task(config.task)


def _check_custom(folder: Path, custom: str, model: object, attention: object) -> None:
    given = {"model": model is not None, "attention": attention is not None}
    for name, has in given.items():
        if custom == name and not has:
            raise RequestError(
                f"the {name} of {folder} is a Python object of the model's author, which cannot be built from the "
                f"files: load the model from Python with regard.load({str(folder)!r}, {name}=…), with "
                "an object built in the same way as for training"
            )
        if custom != name and has:
            raise RequestError(f"load: {folder} builds its own {name} from its config.yaml; leave {name} out")


def read_config_file(data: bytes, path: Path) -> RunConfig:
    """Read a model's settings.

    Raises:
        BundleError: If the settings are damaged.
    """
    try:
        return load_config(parse_layer(data.decode(), str(path)))
    except ConfigError as error:
        raise BundleError(f"the model's settings cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise BundleError(f"{path} is damaged: {first_line(error)}") from error


def check_buildable(config: RunConfig, task: Task[Any, Any, Any, Any], parts: Any, data: bytes, path: Path) -> None:
    """Check that a file of weights is large enough for the configured model, before memory is allocated for the model.

    Raises:
        BundleError: If the file is too small, or the model cannot be built.
    """
    check_sizes(config, data, path)
    with _explained(path), torch.random.fork_rng(devices=[]):
        _check_size(lambda _: task.bundle_format.build_model(config, parts), data, path)


def plan_model(folder: Path, config: RunConfig, task: Task[Any, Any, Any, Any], parts: Any) -> nn.Module:
    """Build the model of a bundle on the meta device, where tensors take no memory.

    Raises:
        BundleError: If the model cannot be built.
    """
    with _explained(folder / CONFIG), torch.random.fork_rng(devices=[]), torch.device("meta"), Uninitialised():
        return task.bundle_format.build_model(config, parts)


def check_sizes(config: RunConfig, data: bytes, path: Path) -> None:
    """Check that no size in the settings is larger than the file of weights allows, before a model of these sizes is built.

    A complete file has at least one tensor per layer, and at least one number per hidden unit, head and filter.

    Raises:
        BundleError: If a size is larger than the file allows.
    """
    shapes = read_shapes(data, path)
    limits = {
        Role.DEPTH: (len(shapes), "tensors"),
        Role.WIDTH: (sum(map(math.prod, shapes.values())), "numbers"),
    }
    for name, facts, value in walk(config.model, "model."):
        for role, (most, what) in limits.items():
            if role in facts.roles and value > most:
                raise BundleError(f"{path} holds {most:,} {what}, too few for config.yaml, where {name} is {value:,}")


def read_report(files: BundleFiles) -> dict[str, Any]:
    """Read the report on the data.

    Raises:
        BundleError: If the report is damaged.
    """
    path = files.path(REPORT)
    try:
        report = json.loads(files.content[REPORT])
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is damaged: it is not JSON ({error})") from error
    if not isinstance(report, dict):
        raise BundleError(f"{path} is damaged: expected a JSON object, got {type(report).__name__}")
    return report


def _build(build: Callable[[Any], nn.Module], attention: nn.Module | None, data: bytes, path: Path) -> nn.Module:
    """Build the configured model without changing the state of the caller's random number generator."""
    with _explained(path, given=attention is not None), torch.random.fork_rng(devices=[]):
        if attention is None:
            _check_size(build, data, path)
        with Uninitialised():
            return build(attention)


def _check_size(build: Callable[[Any], nn.Module], data: bytes, path: Path) -> None:
    num_stored = sum(map(math.prod, read_shapes(data, path).values()))
    with torch.device("meta"), Uninitialised():  # on the meta device, even huge sizes need no memory
        num_planned = _count_stored(build(None))
    if num_planned > num_stored:
        raise BundleError(f"{path} holds {num_stored:,} numbers, but config.yaml and the tokenizers need {num_planned:,}")


@contextmanager
def _explained(path: Path, *, given: bool = False) -> Iterator[None]:
    """Raise a BundleError, which names the model's folder, for errors that occur while the model is built.

    Args:
        path: A file of the model.
        given: Whether the model is built with the caller's own attention, which is then the probable cause.
    """
    try:
        yield
    except BundleError:
        raise
    except (RegardError, RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
        cause = "the given attention does not fit" if given else "config.yaml describes a model that cannot be built"
        raise BundleError(f"{path.parent}: {cause}: {first_line(error)}") from error


def _count_stored(model: nn.Module) -> int:
    """Return the number of values that the weights file of a model needs: tied weights count once; buffers are included."""
    kept = model.state_dict(keep_vars=True).values()
    return sum(tensor.numel() for tensor in {id(tensor): tensor for tensor in kept}.values())


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
