"""Facts about a run: model, vocabularies, training, data and scores, as data and as text for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

import yaml

from regard.bundle.scores import score_rows
from regard.errors import printable
from regard.evaluation.tables import finite
from regard.task import find_task

_FREQUENT = 10
_LONGEST = 4000
_MOST_LABELS = 20


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
    groups: dict[str, int]
    """Number of ordinary symbols in each group: `with letters`, `numbers`, `punctuation and other`."""
    first: tuple[str, ...]
    """The first ten ordinary symbols; in a vocabulary of whole words, they are the most frequent ones."""
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
        more = f" … and {len(self.labels) - _MOST_LABELS:,} more" if len(self.labels) > _MOST_LABELS else ""
        settings = yaml.safe_dump(dict(self.training.settings), sort_keys=False, allow_unicode=True, width=110)
        sections = [
            ("Model", _model(self.model) if self.model else ["not written yet: the run has not finished its first validation"]),
            ("Data", _data(self)),
            ("Scores by cross-validation" if "folds" in self.scores else "Scores on the dev set", _scores(self)),
            ("Vocabulary", _vocabularies(self.vocabularies)),
            ("Labels", [", ".join(self.labels[:_MOST_LABELS]) + more] if self.labels else []),
            ("Training", _training(self.training)),
            ("Settings chosen from the data when the run began", self.training.chosen),
            ("Settings that differ from the defaults", settings.splitlines() if self.training.settings else ["none"]),
        ]
        head = f"{self.folder}: {self.title}\n{_state(self)}"
        parts = [f"{name}\n" + "\n".join(f"  {line}" for line in lines) for name, lines in sections if lines]
        # Cut long lines, and escape control characters, so that an untrusted file cannot control the terminal.
        return printable("\n".join(line[:_LONGEST] for line in "\n\n".join([head, *parts]).split("\n")))

    def __repr__(self) -> str:
        return self.render()


def _state(info: RunInfo) -> str:
    if info.state == "training":
        return f"being trained now by {info.holder or 'a process'}; this is the state so far"
    if info.state == "unfinished":
        model = "the model is the best so far" if info.model else "there is no model yet"
        return f"unfinished: {model}; `regard resume {info.folder}` continues the training"
    if info.state == "finished":
        return "training has finished"
    return "a trained model"


def _model(model: ModelInfo) -> list[str]:
    named = [(name.rpartition(".")[2], value) for name, value in model.kind.items()]
    kinds = ", ".join(value if name in ("model", value) else f"{value} {name}" for name, value in named)
    custom = {"model": "custom Python object", "attention": f"{kinds}; the attention is a custom Python object"}
    rows = [("kind", custom.get(model.custom, kinds))]
    size = f"{model.bytes / 1e6:,.1f} MB" if model.bytes >= 1e6 else f"{model.bytes / 1e3:,.1f} kB"
    rows.append(("parameters", f"{model.parameters:,} ({size})"))
    rows += [("", f"{count:,} in {name}") for name, count in model.parts.items()]
    if model.sites:
        sites = []  # the layers of each kind are shortened to `encoder.0 … encoder.5`
        for _, group in groupby(model.sites, key=lambda site: site.rpartition(".")[0] or site):
            first, *more = group
            sites.append(f"{first} … {more[-1]}" if len(more) > 1 else ", ".join([first, *more]))
        rows.append(("attention sites", ", ".join(sites)))
    elif model.custom == "model":
        rows.append(("attention sites", "load the model from Python to see them: model.sites"))
    return _table(rows)


def _data(info: RunInfo) -> list[str]:
    try:
        return find_task(info.task).bundle_format.render_report(info.data).splitlines()
    except (KeyError, TypeError, ValueError, AttributeError):  # a report of another version, or one that `fit` did not write
        files = info.training.settings.get("data", {}).get("train", [])
        counts = [(name.replace("_", " "), f"{value:,}") for name, value in info.data.items() if isinstance(value, int)]
        return _table([("files", ", ".join(map(str, files)) or "not recorded"), *counts])


def _scores(info: RunInfo) -> list[str]:
    if not info.scores:
        return [] if info.model is None else ["none: nothing was held out to validate on"]
    return _table([(name, value.strip("`")) for name, value in score_rows(info.scores)])


def _vocabularies(vocabularies: Mapping[str, VocabularyInfo]) -> list[str]:
    lines: list[str] = []
    for side, vocabulary in vocabularies.items():
        case = ", lower case" if vocabulary.lowercase else ""
        groups = ", ".join(f"{count:,} {name}" for name, count in vocabulary.groups.items())
        special = f"{len(vocabulary.special)} special ({' '.join(vocabulary.special)})"
        lines.append(f"{side}: {vocabulary.size:,} symbols of kind '{vocabulary.kind}'{case}: {special}, {groups}")
        nested = vocabulary.counts if "tokens" not in vocabulary.counts else {"": vocabulary.counts}
        for name, counts in nested.items():
            lines += [f"  {line}" for line in _counts(name, counts)]
        if not nested:
            lines.append(f"  first symbols: {_quoted(vocabulary.first)} (how often symbols occur was not recorded)")
    return lines


def _counts(side: str, counts: Mapping[str, Any]) -> list[str]:
    try:
        tokens, unknown = int(counts["tokens"]), int(counts["unknown"])
        frequent = [f"{_quoted([token])} {count:,}" for token, count in counts["most_frequent"][:_FREQUENT]]
        rare = f"{int(counts['seen_once']):,} symbols seen once, {int(counts['never_seen']):,} never"
    except (KeyError, TypeError, ValueError):
        return ["the counts of the symbols cannot be read"]
    where = f"{side}: " if side else ""
    share = f"{unknown:,} unknown ({unknown / max(tokens, 1):.2%})"
    return [f"{where}{tokens:,} tokens in training, {share}; {rare}", f"most frequent: {', '.join(frequent)}"]


def _quoted(symbols: Iterable[str]) -> str:
    return " ".join(f"'{symbol:.40}'" for symbol in symbols)


def _training(training: TrainingInfo) -> list[str]:
    rows = []
    if training.updates is not None:
        epochs = f" ({training.epochs:,.4g} epoch{'s' * (training.epochs != 1)})" if training.epochs is not None else ""
        rows.append(("updates", f"{training.updates:,}{epochs}"))
    if training.kept:
        mean = "mean of the weights after updates " if len(training.kept) > 1 else "weights after update "
        rows.append(("model", mean + ", ".join(f"{step:,}" for step in training.kept)))
    time = f"{_duration(training.seconds)} without validations" if training.seconds is not None else "not recorded (no logs)"
    rows.append(("time", time))
    rows.append(("seed", str(training.seed)))
    if training.machine:
        rows.append(("machine", ", ".join(f"{name} {value}" for name, value in training.machine.items())))
    if training.versions:
        rows.append(("versions", ", ".join(f"{name} {value}" for name, value in training.versions.items())))
    if training.data_hash:
        rows.append(("hash of data", training.data_hash))
    return _table(rows)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:<{width}}  {value}" for name, value in rows]
