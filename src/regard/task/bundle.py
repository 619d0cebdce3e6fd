"""The parts of a task that save and load a trained model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from regard.config.run import RunConfig

if TYPE_CHECKING:
    from torch import nn

    from regard.text.tokenizers.tokenizer import Tokenizer

Custom = Literal["", "model", "attention"]
ConfigT = TypeVar("ConfigT", bound=RunConfig)
ModelT = TypeVar("ModelT", bound="nn.Module")
PartsT = TypeVar("PartsT")


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A trained model and its origin. Each task has a subclass with the other parts of its models."""

    config: RunConfig
    model: nn.Module
    signature: dict[str, Any] = field(default_factory=dict)
    """Plain data: `seed`, `data` (hash of the data), `scores`, and further facts about the run. Saving adds the format,
    versions and checksums."""
    report: dict[str, Any] = field(default_factory=dict)
    """Report on the data, as plain data: what was read, kept and skipped."""
    custom: Custom = ""
    """`model` if the whole model is the user's own object, `attention` if only its mechanism is; else empty. If
    it is not empty, loading needs this object, because a configuration cannot build it.
    """


BundleT = TypeVar("BundleT", bound=Bundle)


@dataclass(frozen=True)
class BundleFiles:
    """The files of a trained model, with their checksums already checked."""

    content: Mapping[str, bytes]
    """Content of each signed file, by its name."""
    path: Callable[[str], Path]
    """Function that returns the path of a file by its name, for messages."""
    unsigned: Callable[[str, int], bytes | None] = lambda name, largest: None
    """Function of a name and a maximum size that returns the content of an unsigned file, which was added after training; the
    result is None if the file is missing or too large."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Checksum of each signed file."""


@dataclass(frozen=True)
class Inventory:
    """Vocabularies and labels of a trained model, for `regard info`."""

    tokenizers: Mapping[str, Tokenizer]
    """Tokenizers by use: `source` and `target` (the same object if the vocabulary is joint), or `text`."""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """The parts of a model card that depend on the task."""

    title: str
    summary: str
    """Sentence fragment such as `A text classifier with attention`; `, trained with regard 0.1.0.` follows."""
    pipeline_tag: str
    """Name of the task on the Hugging Face hub."""
    languages: Sequence[str]
    """Codes of the languages."""
    commands: Sequence[str]
    """Example commands."""
    code: Sequence[str]
    """Lines of Python that use the model; `LOAD` stands for the call that loads it."""
    model_rows: Sequence[tuple[str, str]]
    """Rows of the table about the model, such as its vocabulary and its labels."""
    data_rows: Sequence[tuple[str, str]]
    """Rows of the table about the data, shown before the rows that every task has."""
    examples: str
    """Plural noun of the examples, such as `pairs`."""
    limits: Sequence[str]
    """Sentences on what the model cannot do."""


class BundleFormat(ABC, Generic[ConfigT, PartsT, BundleT]):
    """The files of a task's models, in addition to the files that every model has (settings, weights, report, signature).

    `PartsT` is a class for the contents of these files (tokenizers, labels, …).
    """

    @abstractmethod
    def write_parts(self, bundle: BundleT, folder: Path) -> None:
        """Write the task's own files."""

    @abstractmethod
    def read_parts(self, files: BundleFiles) -> PartsT:
        """Read the task's own files.

        Raises:
            BundleError: If a file is damaged; the message names the file.
        """

    @abstractmethod
    def build_model(self, config: ConfigT, parts: PartsT, attention: Any = None) -> nn.Module:
        """Build the model that the configuration describes, with random weights.

        Args:
            config: Configuration of the run.
            parts: Output of `read_parts`.
            attention: The user's own mechanism, if the model has one.
        """

    @abstractmethod
    def vocabulary(self, parts: PartsT) -> str:
        """Return a hash of vocabularies and labels; if two hashes are equal, each id stands for the same token or label."""

    @abstractmethod
    def bundle(self, config: ConfigT, model: Any, parts: PartsT, files: BundleFiles, facts: Mapping[str, Any]) -> BundleT:
        """Build a bundle.

        Args:
            config: Configuration of the run.
            model: The model, with its weights.
            parts: Output of `read_parts`.
            files: The files that were read.
            facts: The fields `signature`, `report` and `custom` of `Bundle`.
        """

    @abstractmethod
    def inventory(self, parts: PartsT) -> Inventory:
        """Return the vocabularies and labels."""

    @abstractmethod
    def card(self, bundle: BundleT) -> Card:
        """Return the text of the model card."""

    def packages(self, config: ConfigT) -> tuple[str, ...]:
        """Return the names of further packages whose versions are recorded in the signature, such as `spacy`."""
        return ()

    @abstractmethod
    def render_report(self, report: dict[str, Any]) -> str:
        """Return the text of a report on the data, which is given as plain data.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: If the report has another form, because another version wrote it.
        """
