"""Reading a bundle. Nothing in it is run, and everything in it is checked."""

import json
from pathlib import Path

import torch

from regard.attention.base import Attention
from regard.bundle.bundle import CONFIG, JOINT_TOKENIZER, REPORT, SOURCE_TOKENIZER, TARGET_TOKENIZER, WEIGHTS, Bundle
from regard.bundle.folder import find, version
from regard.bundle.signature import read_signed
from regard.bundle.weights import read_shapes, unpack
from regard.config import TranslationConfig
from regard.config.loading import load_config, parse_layer
from regard.errors import BundleError, ConfigError, RegardError, RequestError
from regard.models.seq2seq import Seq2Seq
from regard.text.tokenizer import Tokenizer

_TRIES = 20
"""How often a folder is read anew because a run was replacing its model meanwhile."""


def load_bundle(
    folder: str | Path,
    *,
    device: str | torch.device = "cpu",
    model: Seq2Seq | None = None,
    attention: Attention | None = None,
) -> Bundle:
    """Read a trained model.

    Args:
        folder: What `save_bundle` wrote.
        device: Where the model goes.
        model: The model object, for a bundle whose model is the user's own; its weights are replaced.
        attention: The mechanism, for a bundle whose mechanism is the user's own; its weights are replaced.

    Returns:
        The bundle; its model is in evaluation mode. Where a run replaces it meanwhile: the old one or the new one, whole.

    Raises:
        BundleError: If the folder is not a bundle, is damaged, or was written by a newer regard. The message names the file.
        RequestError: If `model` or `attention` is needed and not given, or given and not needed.
    """
    folder = Path(folder)
    for _ in range(_TRIES):
        before = version(folder)
        try:
            return _load_once(folder, device, model, attention)
        except BundleError:
            if version(folder) == before:
                raise
    return _load_once(folder, device, model, attention)


def _load_once(folder: Path, device: str | torch.device, model: Seq2Seq | None, attention: Attention | None) -> Bundle:
    signature, files = read_signed(folder)
    _check_custom(folder, signature["custom"], model, attention)
    config = _read_config(files[CONFIG], find(folder, CONFIG))
    source, target = _read_tokenizers(folder, files)
    path = find(folder, WEIGHTS)
    if model is None:
        model = _build(config, source, target, attention, files[WEIGHTS], path)
    unpack(model, files[WEIGHTS], path)
    return Bundle(
        config=config,
        model=model.to(device).eval(),
        source_tokenizer=source,
        target_tokenizer=target,
        signature=signature,
        report=_read_report(files[REPORT], find(folder, REPORT)),
        custom=signature["custom"],
    )


def _check_custom(folder: Path, custom: str, model: object, attention: object) -> None:
    given = {"model": model is not None, "attention": attention is not None}
    for name, has in given.items():
        if custom == name and not has:
            raise RequestError(
                f"the {name} of {folder} is its maker's own Python object, which its files cannot build: load it from Python "
                f"with regard.load({str(folder)!r}, {name}=…), giving an object made as it was for training"
            )
        if custom != name and has:
            raise RequestError(f"load: {folder} builds its own {name} from its config.yaml; leave {name} out")


def _read_config(data: bytes, path: Path) -> TranslationConfig:
    try:
        return load_config(parse_layer(data.decode(), str(path)))
    except ConfigError as error:
        raise BundleError(f"the model's settings cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise BundleError(f"{path} is damaged: {_first_line(error)}") from error


def _read_tokenizers(folder: Path, files: dict[str, bytes]) -> tuple[Tokenizer, Tokenizer]:
    if JOINT_TOKENIZER in files:
        both = _read_tokenizer(folder, files, JOINT_TOKENIZER)
        return both, both
    return _read_tokenizer(folder, files, SOURCE_TOKENIZER), _read_tokenizer(folder, files, TARGET_TOKENIZER)


def _read_tokenizer(folder: Path, files: dict[str, bytes], name: str) -> Tokenizer:
    """From the bytes whose checksum was right, whatever the file holds by now."""
    return Tokenizer.load(find(folder, name), data=files[name])


def _read_report(data: bytes, path: Path) -> dict[str, object]:
    try:
        report = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is damaged: it is not JSON ({error})") from error
    if not isinstance(report, dict):
        raise BundleError(f"{path} is damaged: expected a JSON object, got {type(report).__name__}")
    return report


def _build(
    config: TranslationConfig, source: Tokenizer, target: Tokenizer, attention: Attention | None, data: bytes, path: Path
) -> Seq2Seq:
    """Build the model that the configuration describes; the caller's random numbers are left alone."""
    from regard.models.build import build_translator

    num_stored = sum(_product(shape) for shape in read_shapes(data, path).values())
    try:
        with torch.random.fork_rng(devices=[]):
            with torch.device("meta"):  # so that a config that claims huge sizes costs nothing
                planned = build_translator(config.model, source_size=source.size, target_size=target.size)
            num_planned = sum(parameter.numel() for parameter in planned.parameters())
            if attention is None and num_planned > num_stored:
                raise BundleError(
                    f"{path} holds {num_stored:,} numbers, expected {num_planned:,} by config.yaml and the tokenizers"
                )
            return build_translator(config.model, source_size=source.size, target_size=target.size, attention=attention)
    except BundleError:
        raise
    except (RegardError, RuntimeError, ValueError, OverflowError, MemoryError) as error:
        raise BundleError(f"{path.parent}: config.yaml describes a model that cannot be built: {_first_line(error)}") from error


def _product(shape: tuple[int, ...]) -> int:
    size = 1
    for axis in shape:
        size *= axis
    return size


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
