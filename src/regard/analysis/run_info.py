"""Description of a run, from its folder alone: model, data, scores, vocabularies, and how it was trained."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.analysis.history import read_metrics
from regard.analysis.run_facts import ModelInfo, RunInfo, TrainingInfo, VocabularyInfo
from regard.bundle.bundle import SIGNATURE
from regard.bundle.folder import find, read_unsigned
from regard.bundle.load import Inspection, inspect_bundle
from regard.config import RunConfig
from regard.config.loading import dump_config, load_config
from regard.config.settings import changed_settings
from regard.disk import holder_of
from regard.errors import BundleError, ConfigError, DataError
from regard.task import find_task
from regard.text.symbols import SPECIAL_TOKENS
from regard.text.tokenizers.tokenizer import Tokenizer

_FIRST = 10
"""Number of first symbols of a vocabulary that `info` returns; `render` shows them if no frequencies were recorded."""
_LARGEST_FACTS = 1 << 20  # bytes
_VERSIONS = ("regard", "commit", "python", "torch", "tokenizers", "safetensors", "numpy", "spacy")


def info(folder: str | Path) -> RunInfo:
    """Describe a run, finished or not, or a trained model without its checkpoints.

    The model is not run, and no memory is allocated for its weights.

    Args:
        folder: The folder that training made.

    Returns:
        Sizes, data, scores, vocabularies and settings; printing the result shows everything.

    Raises:
        BundleError: If the folder holds neither a run nor a model, or is damaged.
    """
    folder = Path(folder)
    holder, facts = holder_of(folder / "checkpoints" / "lock"), _facts(folder)
    inspection: Inspection | None = None
    signature: Mapping[str, Any] = {"finished": False}
    if find(folder, SIGNATURE).exists() or "settings" not in facts:
        inspection = inspect_bundle(folder)
        config, signature, report = inspection.config, inspection.signature, inspection.report
    else:
        try:
            config = load_config(facts["settings"])
        except ConfigError as error:
            raise BundleError(f"{folder / 'checkpoints' / 'run.json'} is damaged: {error}") from error
        report = {"train": {"files": list(config.data.train)}}
    is_finished, scores = signature.get("finished"), signature.get("scores")
    return RunInfo(
        folder=str(folder),
        task=config.task,
        title=_title(config),
        state="training" if holder else {True: "finished", False: "unfinished"}.get(is_finished, "unknown"),  # type: ignore[arg-type]
        model=_model(inspection) if inspection else None,
        data={name: value for name, value in report.items() if name != "symbols"},
        scores=dict(scores) if isinstance(scores, Mapping) else {},
        vocabularies=_vocabularies(inspection) if inspection else {},
        labels=inspection.inventory.labels if inspection else (),
        training=_training(folder, config, signature, facts),
        holder=holder,
    )


def _title(config: RunConfig) -> str:
    data, (_, _, noun) = config.data, find_task(config.task).words.predictor.partition(" ")  # without its article
    languages = f", {data.source} → {data.target}" if hasattr(data, "source") and hasattr(data, "target") else ""
    return noun + languages


def _model(inspection: Inspection) -> ModelInfo:
    parts: Counter[str] = Counter()
    for name, shape in inspection.shapes.items():
        parts[name.partition(".")[0]] += math.prod(shape)
    custom = inspection.signature["custom"]
    return ModelInfo(
        kind={} if custom == "model" else _kinds(dump_config(inspection.config.model)),
        parameters=sum(parts.values()),
        parts=dict(parts.most_common()),
        bytes=inspection.weight_bytes,
        sites=tuple(getattr(inspection.model, "sites", ())),
        custom=custom,
    )


def _kinds(settings: Mapping[str, Any], path: str = "model") -> dict[str, str]:
    """Return the `kind` of the model, and of each of its parts that has one, by the dotted name of the part."""
    kinds = {path: str(settings["kind"])} if "kind" in settings else {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            kinds |= _kinds(value, name if path == "model" else f"{path}.{name}")
    return kinds


def _vocabularies(inspection: Inspection) -> dict[str, VocabularyInfo]:
    counts = inspection.report.get("symbols")
    counts = counts if isinstance(counts, Mapping) else {}
    sides = inspection.inventory.tokenizers
    if len(sides) == 2 and sides.get("source") is sides.get("target"):
        both = {side: side_counts for side, side_counts in counts.items() if isinstance(side_counts, Mapping)}
        return {"source and target": _vocabulary(sides["source"], both)}
    return {side: _vocabulary(tokenizer, counts.get(side)) for side, tokenizer in sides.items()}


def _vocabulary(tokenizer: Tokenizer, counts: Any) -> VocabularyInfo:
    ordinary = tokenizer.vocabulary()[len(SPECIAL_TOKENS) :]
    groups: Counter[str] = Counter()
    for symbol in ordinary:
        has_letters, has_digits = any(map(str.isalpha, symbol)), any(map(str.isnumeric, symbol))
        groups["with letters" if has_letters else "numbers" if has_digits else "punctuation and other"] += 1
    return VocabularyInfo(
        kind=tokenizer.kind,
        lowercase=tokenizer.lowercase,
        size=tokenizer.size,
        special=SPECIAL_TOKENS,
        groups=dict(groups.most_common()),
        first=ordinary[:_FIRST],
        counts=dict(counts) if isinstance(counts, Mapping) else {},
    )


def _training(folder: Path, config: RunConfig, signature: Mapping[str, Any], facts: Mapping[str, Any]) -> TrainingInfo:
    try:
        metrics = read_metrics(folder)
    except (BundleError, DataError):  # the model can be described without its logs
        metrics = {}
    logged, epoch, seconds = (
        next((value for value in reversed(metrics.get(name, [])) if value is not None and math.isfinite(value)), None)
        for name in ("step", "epoch", "seconds")
    )
    updates, epochs = _number(signature.get("updates")), _number(signature.get("epochs"))
    if logged is not None and logged > (updates or 0):  # the run has gone on since its best model was written
        updates, epochs = logged, epoch
    kept, versions = signature.get("kept"), signature.get("versions", facts)
    return TrainingInfo(
        seed=config.seed,
        updates=None if updates is None else int(updates),
        epochs=epochs,
        kept=tuple(step for step in kept if isinstance(step, int)) if isinstance(kept, list) else (),
        seconds=seconds,
        settings={name: value for name, value in changed_settings(config).items() if name != "chosen"},
        chosen=config.chosen,
        versions={name: str(versions[name]) for name in _VERSIONS if name in versions},
        machine={name: facts[name] for name in ("device", "threads", "precision", "processes") if name in facts},
        data_hash=str(signature.get("data") or facts.get("fingerprint") or ""),
    )


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _facts(folder: Path) -> dict[str, Any]:
    """Return the facts that were recorded when the run started; empty if their file is missing or unreadable."""
    try:
        facts = json.loads(read_unsigned(folder, "checkpoints/run.json", _LARGEST_FACTS) or b"")
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}
