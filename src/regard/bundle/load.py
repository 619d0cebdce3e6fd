"""Reading a bundle. Nothing in it is run, and everything in it is checked."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.bundle.bundle import (
    CONFIG,
    FAITHFULNESS,
    LABELS,
    REPORT,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
    ClassificationBundle,
    LanguageBundle,
    TranslationBundle,
    fingerprint_vocabulary,
)
from regard.bundle.folder import find, read, version
from regard.bundle.signature import read_signed
from regard.bundle.weights import Uninitialised, read_shapes, unpack
from regard.config import AnyConfig, ClassificationConfig, LanguageConfig, TranslationConfig
from regard.config.loading import load_config, parse_layer
from regard.errors import BundleError, ConfigError, DataError, RegardError, RequestError
from regard.models.build import build_classifier, build_language_model, build_translator
from regard.text.labelled.labels import Labels
from regard.text.labelled.sentences import sentence_ends
from regard.text.tokenizers.tokenizer import Tokenizer

AnyBundle = TranslationBundle | ClassificationBundle | LanguageBundle
_LONGEST_SENTENCE = 2000
_DEPTHS = ("num_layers", "encoder_layers", "decoder_layers", "num_recurrent")
_TRIES = 20
"""How often a folder is read anew because a run was replacing its model meanwhile."""


def load_bundle(
    folder: str | Path,
    *,
    device: str | torch.device = "cpu",
    model: nn.Module | None = None,
    attention: nn.Module | None = None,
) -> AnyBundle:
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


def _load_once(folder: Path, device: str | torch.device, model: nn.Module | None, attention: nn.Module | None) -> AnyBundle:
    signature, files = read_signed(folder)
    _check_custom(folder, signature["custom"], model, attention)
    config = read_config_file(files[CONFIG], find(folder, CONFIG))
    if config.task != signature["task"]:
        raise BundleError(f"{find(folder, CONFIG)} is for {config.task}, but the model's signature is of {signature['task']}")
    if signature["custom"] != "model":
        _check_depth(config, files[WEIGHTS], find(folder, WEIGHTS))
    report = _read_report(files[REPORT], find(folder, REPORT))
    facts: dict[str, Any] = {"signature": signature, "report": report, "custom": signature["custom"]}
    if isinstance(config, TranslationConfig):
        source, target = _read_tokenizers(folder, files)
        sizes = {"source_size": source.size, "target_size": target.size}
        built = _fill(folder, files, model, lambda put: build_translator(config.model, **sizes, attention=put), attention)
        built.vocabulary = fingerprint_vocabulary((source, target))
        return TranslationBundle(
            config=config, model=built.to(device).eval(), source_tokenizer=source, target_tokenizer=target, **facts
        )
    if isinstance(config, LanguageConfig):
        return _load_language_model(folder, files, config, device, model, facts)
    return _load_classifier(folder, files, config, device, model, attention, facts)


def _load_classifier(
    folder: Path,
    files: dict[str, bytes],
    config: ClassificationConfig,
    device: str | torch.device,
    model: nn.Module | None,
    attention: nn.Module | None,
    facts: dict[str, Any],
) -> ClassificationBundle:
    tokenizer = _read_tokenizer(folder, files, TOKENIZER)
    labels, temperature = read_labels(files[LABELS], find(folder, LABELS))

    def build(pooling: Any) -> nn.Module:
        return build_classifier(
            config.model,
            vocabulary_size=tokenizer.size,
            num_labels=len(labels.names),
            sentence_ends=sentence_ends(tokenizer),
            embedding_size=config.data.vectors_size,
            pooling=pooling,
        )

    built = _fill(folder, files, model, build, attention)
    built.vocabulary = fingerprint_vocabulary((tokenizer,), labels)
    return ClassificationBundle(
        config=config,
        model=built.to(device).eval(),
        tokenizer=tokenizer,
        labels=labels,
        temperature=temperature,
        faithfulness=_read_faithfulness(folder, facts["signature"]["files"][WEIGHTS]),
        **facts,
    )


def _load_language_model(
    folder: Path,
    files: dict[str, bytes],
    config: LanguageConfig,
    device: str | torch.device,
    model: nn.Module | None,
    facts: dict[str, Any],
) -> LanguageBundle:
    tokenizer = _read_tokenizer(folder, files, TOKENIZER)
    built = _fill(folder, files, model, lambda _: build_language_model(config.model, vocabulary_size=tokenizer.size), None)
    built.vocabulary = fingerprint_vocabulary((tokenizer,))
    return LanguageBundle(config=config, model=built.to(device).eval(), tokenizer=tokenizer, **facts)


def _fill(
    folder: Path,
    files: dict[str, bytes],
    model: nn.Module | None,
    build: Callable[[Any], nn.Module],
    attention: nn.Module | None,
) -> Any:
    """The given model, or the one that is built, with the weights of the file."""
    path = find(folder, WEIGHTS)
    made = _build(build, attention, files[WEIGHTS], path) if model is None else model
    unpack(made, files[WEIGHTS], path)
    return made


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


def read_config_file(data: bytes, path: Path) -> AnyConfig:
    """Read a model's settings.

    Raises:
        BundleError: If they are damaged.
    """
    try:
        return load_config(parse_layer(data.decode(), str(path)))
    except ConfigError as error:
        raise BundleError(f"the model's settings cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise BundleError(f"{path} is damaged: {_first_line(error)}") from error


def check_buildable(
    config: AnyConfig, tokenizers: tuple[Tokenizer, Tokenizer], labels: Labels | None, data: bytes, path: Path
) -> None:
    """Check that a file of weights is large enough for the configured model, before memory is allocated for the model.

    Raises:
        BundleError: If it is too small, or the model cannot be built.
    """
    _check_depth(config, data, path)

    def build(_: Any) -> nn.Module:
        source, target = tokenizers
        if isinstance(config, TranslationConfig):
            return build_translator(config.model, source_size=source.size, target_size=target.size)
        if isinstance(config, LanguageConfig):
            return build_language_model(config.model, vocabulary_size=source.size)
        return build_classifier(
            config.model,
            vocabulary_size=source.size,
            num_labels=len(labels or ()),
            sentence_ends=sentence_ends(source),
            embedding_size=config.data.vectors_size,
        )

    with _explained(path), torch.random.fork_rng(devices=[]):
        _check_size(build, data, path)


def _check_depth(config: AnyConfig, data: bytes, path: Path) -> None:
    """Layers take time and memory before a weight of theirs is looked for: no more of them than there are tensors."""
    tensors = len(read_shapes(data, path))
    for name in _DEPTHS:
        depth = getattr(config.model, name, 0)
        if depth > tensors:
            raise BundleError(f"{path} holds {tensors:,} tensors, too few for config.yaml, where model.{name} is {depth:,}")


def _read_tokenizers(folder: Path, files: dict[str, bytes]) -> tuple[Tokenizer, Tokenizer]:
    if TOKENIZER in files:
        both = _read_tokenizer(folder, files, TOKENIZER)
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


def read_labels(data: bytes, path: Path) -> tuple[Labels, float]:
    """Read a classifier's labels and temperature.

    Raises:
        BundleError: If they are damaged.
    """
    try:
        plain = json.loads(data)
        labels, temperature = Labels.from_dict(plain["labels"]), float(plain["temperature"])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError, DataError) as error:
        raise BundleError(f"{path} is damaged: it does not hold labels ({_first_line(error)}); copy the model again") from error
    if not 0 < temperature < float("inf"):
        raise BundleError(f"{path} is damaged: temperature is {temperature}, expected a finite number above 0")
    return labels, temperature


def _read_faithfulness(folder: Path, weights: str) -> str:
    """Not signed, since it is measured later; a file that is not what it should be, or of other weights, counts as none."""
    if not os.path.lexists(find(folder, FAITHFULNESS)):
        return ""
    try:
        found = json.loads(read(folder, FAITHFULNESS, largest=1 << 20))
        sentence, measured = found["sentence"], found["weights"]
    except (BundleError, ValueError, RecursionError, KeyError, TypeError):
        return ""
    return sentence if isinstance(sentence, str) and len(sentence) <= _LONGEST_SENTENCE and measured == weights else ""


def _build(build: Callable[[Any], nn.Module], attention: nn.Module | None, data: bytes, path: Path) -> nn.Module:
    """Build the model that the configuration describes; the caller's random numbers are left alone."""
    with _explained(path), torch.random.fork_rng(devices=[]):
        _check_size(build, data, path, complete=attention is None)
        with Uninitialised():
            return build(attention)


def _check_size(build: Callable[[Any], nn.Module], data: bytes, path: Path, *, complete: bool = True) -> None:
    num_stored = sum(_product(shape) for shape in read_shapes(data, path).values())
    with torch.device("meta"), Uninitialised():  # so that a config that claims huge sizes costs nothing
        num_planned = _count_stored(build(None))
    if complete and num_planned > num_stored:
        raise BundleError(f"{path} holds {num_stored:,} numbers, expected {num_planned:,} by config.yaml and the tokenizers")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors into a BundleError that names the model that cannot be built."""
    try:
        yield
    except BundleError:
        raise
    except (RegardError, RuntimeError, ValueError, OverflowError, MemoryError) as error:
        raise BundleError(f"{path.parent}: config.yaml describes a model that cannot be built: {_first_line(error)}") from error


def _count_stored(model: nn.Module) -> int:
    """How many numbers a model's file holds at least: weights that are tied once, and the buffers that are kept."""
    kept = model.state_dict(keep_vars=True).values()
    return sum(tensor.numel() for tensor in {id(tensor): tensor for tensor in kept}.values())


def _product(shape: tuple[int, ...]) -> int:
    size = 1
    for axis in shape:
        size *= axis
    return size


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
