"""Description of a run, from its folder alone: model, data, scores, vocabularies, and how it was trained."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from regard.analysis.history import read_metrics
from regard.bundle.bundle import SIGNATURE
from regard.bundle.folder import find, read_unsigned
from regard.bundle.load import Inspection, inspect_bundle
from regard.bundle.scores import score_rows
from regard.config import RunConfig
from regard.config.loading import dump_config, load_config
from regard.config.settings import changed_settings
from regard.disk import holder_of
from regard.errors import BundleError, ConfigError, DataError, RequestError, one_line, printable
from regard.evaluation.tables import finite
from regard.task import find_task
from regard.text.symbols import SPECIAL_TOKENS
from regard.text.tokenizers.tokenizer import Tokenizer

# Maximum number of frequent symbols, of characters in a line, and of labels in the text for a terminal.
_FREQUENT, _LONGEST, _MOST_LABELS = 10, 4000, 20
_LARGEST_FACTS = 1 << 20  # bytes
_VERSIONS = ("regard", "commit", "python", "torch", "tokenizers", "safetensors", "numpy", "spacy")
# Errors from a report of another version, or one that `fit` did not write.
_WRONG_FORM = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class ModelInfo:
    """The model's size and attention."""

    kind: dict[str, str]
    """Kinds of the model's parts by setting: `{"model": "recurrent", "decoder": "luong", …}`."""
    parameters: int
    """Number of parameters in the weights file; tied weights count once."""
    parts: dict[str, int]
    """Number of parameters of each part of the model, the largest first."""
    bytes: int
    """Size of the weights file in bytes."""
    sites: tuple[str, ...]
    """Attention sites; empty if the model is the user's own object, because such a model must be loaded to know its sites."""
    custom: str
    """`model` or `attention` if the model or its attention is the user's own object; otherwise empty."""


@dataclass(frozen=True)
class VocabularyInfo:
    """The symbols of one tokenizer."""

    kind: str
    lowercase: bool
    size: int
    """Total number of symbols."""
    special: tuple[str, ...]
    """Symbols that do not occur in texts: padding, unknown, start, end."""
    counts: dict[str, Any]
    """How often symbols occur in training: `tokens`, `unknown`, `seen_once`, `never_seen`, `most_frequent`. If both sides share
    the vocabulary, these counts for each side. Empty if the model's report has no counts."""


@dataclass(frozen=True)
class TrainingInfo:
    """Facts about the training of a model."""

    seed: int
    updates: int | None
    """Number of updates made so far; None if neither the model nor the logs record it."""
    epochs: float | None
    kept: tuple[int, ...]
    """Number of the update whose weights the model has; several if weights were averaged. Empty if this was not recorded."""
    seconds: float | None
    """Training time without validations, from the logs; None without logs."""
    settings: dict[str, Any]
    """Settings that differ from the defaults, nested as in a YAML file."""
    chosen: tuple[str, ...]
    """Descriptions of the settings that were chosen from the data; empty if none were."""
    versions: dict[str, str]
    machine: dict[str, Any]
    """Device, threads, precision and processes; empty for a folder without checkpoints."""
    data_hash: str


@dataclass(frozen=True, repr=False)
class RunInfo:
    """Description of a run, as `regard.info` returns it; printing it shows everything."""

    folder: str
    """Folder of the run."""
    task: str
    """Name of the task."""
    title: str
    """Short description of the model, such as `translator, en → de`."""
    state: str
    """`finished`, `unfinished`, `training` (a process writes to the folder now), or `unknown` (it was not recorded)."""
    model: ModelInfo | None
    """Size and attention of the model; None before the first validation, when there is no model yet."""
    data: dict[str, Any]
    """Report on the data: the files, and how many examples were read, kept and skipped. Before the first validation, it has
    only the files."""
    scores: dict[str, Any]
    """Scores on the dev set, or by cross-validation; empty if nothing was held out, or before the first validation."""
    vocabularies: dict[str, VocabularyInfo]
    """Vocabularies by use: `source` and `target`, `source and target` if both sides share one, or `text`."""
    labels: tuple[str, ...]
    """Labels of a classifier; empty for other models."""
    training: TrainingInfo
    """Length, settings, versions and machine of the training."""
    holder: str = field(default="", compare=False)
    """Process that is training in the folder; empty if the folder is not in use."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; numbers that are not finite are None."""
        return finite({name: value for name, value in asdict(self).items() if name != "holder"})

    def render(self) -> str:
        """Return the text for a terminal."""
        states = {
            "training": f"being trained now by {self.holder or 'a process'}; this is the state so far",
            "unfinished": f"unfinished: {'the model is the best so far' if self.model else 'there is no model yet'}; "
            f"`regard resume {self.folder}` continues the training",
            "finished": "training has finished",
        }
        more = f" … and {len(self.labels) - _MOST_LABELS:,} more" if len(self.labels) > _MOST_LABELS else ""
        settings = yaml.safe_dump(dict(self.training.settings), sort_keys=False, allow_unicode=True, width=110)
        held_out = ["none: nothing was held out to validate on"] if self.model else []
        scores = _table((name, value.strip("`")) for name, value in score_rows(self.scores)) if self.scores else held_out
        sections: list[tuple[str, Sequence[str]]] = [
            ("Model", _model(self.model) if self.model else ["not written yet: the run has not finished its first validation"]),
            ("Data", _data(self)),
            ("Scores by cross-validation" if "folds" in self.scores else "Scores on the dev set", scores),
            ("Vocabulary", [line for side, one in self.vocabularies.items() for line in _vocabulary(side, one)]),
            ("Labels", [", ".join(self.labels[:_MOST_LABELS]) + more] if self.labels else []),
            ("Training", _training(self.training)),
            ("Settings chosen from the data when the run began", self.training.chosen),
            ("Settings that differ from the defaults", settings.splitlines() if self.training.settings else ["none"]),
        ]
        head = f"{self.folder}: {self.title}\n{states.get(self.state, 'a trained model')}"
        parts = [f"{name}\n" + "\n".join(f"  {line}" for line in lines) for name, lines in sections if lines]
        # Cut long lines, and escape control characters, so that an untrusted file cannot control the terminal.
        return printable("\n".join(line[:_LONGEST] for line in "\n\n".join([head, *parts]).split("\n")))

    def __repr__(self) -> str:
        return self.render()


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
    # Before the first validation, there is no model yet, only what was recorded at the start.
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
    state = "finished" if is_finished is True else "unfinished" if is_finished is False else "unknown"
    data, (_, _, noun) = config.data, find_task(config.task).words.predictor.partition(" ")  # without its article
    languages = f", {data.source} → {data.target}" if hasattr(data, "source") and hasattr(data, "target") else ""
    return RunInfo(
        folder=str(folder),
        task=config.task,
        title=noun + languages,
        state="training" if holder else state,
        model=_read_model(inspection) if inspection else None,
        data={name: value for name, value in report.items() if name != "symbols"},
        scores=dict(scores) if isinstance(scores, Mapping) else {},
        vocabularies=_read_vocabularies(inspection) if inspection else {},
        labels=inspection.inventory.labels if inspection else (),
        training=_read_training(folder, config, signature, facts),
        holder=holder,
    )


def known_words(folder: str | Path) -> list[str]:
    """Return the symbols of the first tokenizer of a trained model, which reads its input, in alphabetical order.

    Raises:
        BundleError: If the folder holds no model, or is damaged.
        RequestError: If the model has no tokenizer.
    """
    tokenizers = [*inspect_bundle(Path(folder)).inventory.tokenizers.values()]
    if not tokenizers:
        raise RequestError(f"info: the model in {folder} has no words, because it has no tokenizer")
    symbols = set(tokenizers[0].vocabulary()) - set(SPECIAL_TOKENS)
    return sorted(map(one_line, symbols), key=lambda symbol: (symbol.casefold(), symbol))


def _facts(folder: Path) -> dict[str, Any]:
    """Return the facts that were recorded when the run started; empty if their file is missing or unreadable."""
    try:
        facts = json.loads(read_unsigned(folder, "checkpoints/run.json", _LARGEST_FACTS) or b"")
    except (ValueError, RecursionError):
        return {}
    return {**facts, **facts.get("environment", {})} if isinstance(facts, dict) else {}


def _read_model(inspection: Inspection) -> ModelInfo:
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


def _read_vocabularies(inspection: Inspection) -> dict[str, VocabularyInfo]:
    report = inspection.report.get("symbols")
    counts = report if isinstance(report, Mapping) else {}
    sides = inspection.inventory.tokenizers

    def describe(tokenizer: Tokenizer, counts: Any) -> VocabularyInfo:
        plain = dict(counts) if isinstance(counts, Mapping) else {}
        return VocabularyInfo(tokenizer.kind, tokenizer.lowercase, tokenizer.size, SPECIAL_TOKENS, plain)

    if len(sides) == 2 and sides.get("source") is sides.get("target"):
        return {"source and target": describe(sides["source"], counts)}
    return {side: describe(tokenizer, counts.get(side)) for side, tokenizer in sides.items()}


def _read_training(folder: Path, config: RunConfig, signature: Mapping[str, Any], facts: Mapping[str, Any]) -> TrainingInfo:
    def number(value: Any) -> float | None:
        return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None

    try:
        metrics = read_metrics(folder)
    except (BundleError, DataError):  # the model can be described without its logs
        metrics = {}
    logged, epoch, seconds = (
        next((value for value in reversed(metrics.get(name, [])) if value is not None and math.isfinite(value)), None)
        for name in ("step", "epoch", "seconds")
    )
    updates, epochs = number(signature.get("updates")), number(signature.get("epochs"))
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


def _model(model: ModelInfo) -> list[str]:
    named = [(name.rpartition(".")[2], value) for name, value in model.kind.items()]
    kinds = ", ".join(value if name in ("model", value) else f"{value} {name}" for name, value in named)
    custom = {"model": "custom Python object", "attention": f"{kinds}; the attention is a custom Python object"}
    size = f"{model.bytes / 1e6:,.1f} MB" if model.bytes >= 1e6 else f"{model.bytes / 1e3:,.1f} kB"
    sites = []  # the layers of each kind are shortened to `encoder.0 … encoder.5`
    for _, group in groupby(model.sites, key=lambda site: site.rpartition(".")[0] or site):
        first, *more = group
        sites.append(f"{first} … {more[-1]}" if len(more) > 1 else ", ".join([first, *more]))
    return _table(
        [
            ("kind", custom.get(model.custom, kinds)),
            ("parameters", f"{model.parameters:,} ({size})"),
            *(("", f"{count:,} in {name}") for name, count in model.parts.items()),
            ("attention sites", ", ".join(sites) or "load the model from Python to see them: model.sites"),
        ]
    )


def _data(run: RunInfo) -> list[str]:
    try:
        return find_task(run.task).bundle_format.render_report(run.data).splitlines()
    except _WRONG_FORM:
        files = run.training.settings.get("data", {}).get("train", [])
        counts = [(name.replace("_", " "), f"{value:,}") for name, value in run.data.items() if isinstance(value, int)]
        return _table([("files", ", ".join(map(str, files)) or "not recorded"), *counts])


def _vocabulary(side: str, vocabulary: VocabularyInfo) -> list[str]:
    case = ", lower case" if vocabulary.lowercase else ""
    special = f"{len(vocabulary.special)} special ({' '.join(vocabulary.special)})"
    lines = [f"{side}: {vocabulary.size:,} symbols of kind '{vocabulary.kind}'{case}, {special} among them"]
    by_side = vocabulary.counts if "tokens" not in vocabulary.counts else {"": vocabulary.counts}
    for name, counts in by_side.items():
        try:
            tokens, unknown = int(counts["tokens"]), int(counts["unknown"])
            frequent = [f"'{token:.40}' {count:,}" for token, count in counts["most_frequent"][:_FREQUENT]]
            rare = f"{int(counts['seen_once']):,} symbols seen once, {int(counts['never_seen']):,} never"
        except _WRONG_FORM:
            lines.append("  the counts of the symbols cannot be read")
            continue
        where = f"{name}: " if name else ""
        lines.append(f"  {where}{tokens:,} tokens in training, {unknown:,} unknown ({unknown / max(tokens, 1):.2%}); {rare}")
        lines.append(f"  most frequent: {', '.join(frequent)}")
    return lines


def _training(training: TrainingInfo) -> list[str]:
    rows = []
    if training.updates is not None:
        epochs = f" ({training.epochs:,.4g} epoch{'s' * (training.epochs != 1)})" if training.epochs is not None else ""
        rows.append(("updates", f"{training.updates:,}{epochs}"))
    if training.kept:
        mean = "mean of the weights after updates " if len(training.kept) > 1 else "weights after update "
        rows.append(("model", mean + ", ".join(f"{step:,}" for step in training.kept)))
    time = "not recorded (no logs)"
    if training.seconds is not None:
        minutes = round(training.seconds / 60)
        long = f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
        time = f"{long if training.seconds >= 100 else f'{training.seconds:.3g} s'} without validations"
    rows += [("time", time), ("seed", str(training.seed))]
    for name, facts in (("machine", training.machine), ("versions", training.versions)):
        if facts:
            rows.append((name, ", ".join(f"{fact} {value}" for fact, value in facts.items())))
    if training.data_hash:
        rows.append(("hash of data", training.data_hash))
    return _table(rows)


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = list(rows)
    width = max((len(name) for name, _ in lines), default=0)
    return [f"{name:<{width}}  {value}" for name, value in lines]
