"""Facts about a run: model, vocabularies, training, data and scores."""

from dataclasses import dataclass, field
from typing import Any


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


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run."""

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
