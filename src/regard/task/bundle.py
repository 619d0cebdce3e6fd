"""The parts of a task that save and load a trained model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from regard.config.fields import walk
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
    """A trained model and facts about its run."""

    config: RunConfig
    model: nn.Module
    signature: dict[str, Any] = field(default_factory=dict)
    """Facts about the run, as plain data: `seed`, `data` (hash of the data), `scores` and others. `save_bundle` adds the
    version of the format, versions of packages, and checksums."""
    report: dict[str, Any] = field(default_factory=dict)
    """Report on the data, as plain data: what was read, kept and skipped."""
    parts: Any = None
    """Content of the task's own files (`BundleFormat.read_parts`). A task's subclass can have fields of its own instead."""
    custom: Custom = ""
    """`model` if the whole model is the user's own object, `attention` if only its attention mechanism is; else empty. If it
    is not empty, loading needs this object, because a configuration cannot build it.
    """


BundleT = TypeVar("BundleT", bound=Bundle)


@dataclass(frozen=True)
class BundleFiles:
    """The files of a trained model. The checksums of signed files have already been checked."""

    content: Mapping[str, bytes]
    """Content of each signed file, by the file's name."""
    path: Callable[[str], Path]
    """Function from the name of a file to its path, for messages."""
    unsigned: Callable[[str, int], bytes | None] = lambda name, largest: None
    """Function that returns the content of an unsigned file, which was added after training. Its arguments are the file's
    name and the maximum size in bytes. The result is None if the file is missing, too large or unreadable."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """Checksum of each signed file, by the file's name."""


@dataclass(frozen=True)
class Inventory:
    """Vocabularies and labels of a trained model, for `regard info`."""

    tokenizers: Mapping[str, Tokenizer]
    """Tokenizers by the text that they split: `source` and `target` (the same object if the vocabulary is joint), or `text`."""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """The parts of a model card that depend on the task."""

    title: str
    summary: str
    """Beginning of a sentence, such as `A text classifier with attention`. The card adds `, trained with regard 0.1.0.`"""
    pipeline_tag: str
    """Name of the task on the Hugging Face hub."""
    languages: Sequence[str] = ()
    """Codes of the languages of the texts, such as `en`."""
    commands: Sequence[str] = ()
    """Example commands that use the model, with `DIR` in place of its folder."""
    code: Sequence[str] = ()
    """Lines of Python that use the model. The card replaces `LOAD` with the call that loads it."""
    model_rows: Sequence[tuple[str, str]] = ()
    """Rows (name, value) of the table about the model, such as its vocabulary and its labels."""
    data_rows: Sequence[tuple[str, str]] = ()
    """Rows (name, value) of the table about the data, shown before the rows of every task."""
    examples: str = "examples"
    """Plural noun for the training examples, such as `pairs`."""
    limits: Sequence[str] = ()
    """Sentences on what the model cannot do."""


class BundleFormat(ABC, Generic[ConfigT, PartsT, BundleT]):
    """The part of a task that writes and reads the files that only its models have, such as tokenizers and labels.

    Every model also has settings, weights, a report, a card and a signature, which are the same for all tasks. `PartsT` is the
    class of the content of the task's own files.
    """

    @abstractmethod
    def write_parts(self, bundle: BundleT, folder: Path) -> None:
        """Write the task's own files into a folder."""

    @abstractmethod
    def read_parts(self, files: BundleFiles) -> PartsT:
        """Return the content of the task's own files.

        Raises:
            BundleError: If a file is damaged; the message names the file.
        """

    @abstractmethod
    def build_model(self, config: ConfigT, parts: PartsT, attention: Any = None) -> nn.Module:
        """Build the model that the configuration describes, with random weights.

        Args:
            config: Configuration of the run.
            parts: Output of `read_parts`.
            attention: The user's own attention mechanism, if the model has one; else None.
        """

    @abstractmethod
    def vocabulary(self, parts: PartsT) -> str:
        """Return a hash of vocabularies and labels. Two models with equal hashes have the same token or label for each id."""

    def bundle(self, config: ConfigT, model: Any, parts: PartsT, files: BundleFiles, facts: Mapping[str, Any]) -> BundleT:
        """Build the bundle of a model from its parts.

        Args:
            config: Configuration of the run.
            model: The model, with its weights.
            parts: Output of `read_parts`.
            files: The files that were read.
            facts: Values of the fields `signature`, `report` and `custom` of `Bundle`.
        """
        return cast(BundleT, Bundle(config=config, model=model, parts=parts, **facts))

    def inventory(self, parts: PartsT) -> Inventory:
        """Return the tokenizers with their vocabularies, and the labels; none by default."""
        return Inventory({})

    @abstractmethod
    def card(self, bundle: BundleT) -> Card:
        """Return the texts of the model card that depend on the task."""

    def packages(self, config: ConfigT) -> tuple[str, ...]:
        """Return the names of further packages whose versions the signature must record: `spacy` if a tokenizer is spaCy's."""
        return ("spacy",) * any(getattr(value, "kind", "") == "spacy" for _, _, value in walk(config))

    def render_report(self, report: dict[str, Any]) -> str:
        """Return the text of a report on the data.

        Args:
            report: The report as plain data (`Bundle.report`).

        Raises:
            KeyError, TypeError, ValueError, AttributeError: If the report has another form, because another version wrote it.
        """
        return Counts(report).render()


@dataclass(frozen=True)
class Counts:
    """A report on data that consists of numbers with their names, such as `{"training sentences": 60}`."""

    numbers: Mapping[str, Any]

    def render(self) -> str:
        """Return the numbers in one line."""
        return ", ".join(f"{number:,} {name}" for name, number in self.numbers.items())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return dict(self.numbers)
