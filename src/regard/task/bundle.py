"""The parts of a task that save and load a trained model."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.config.fields import facts_of, walk
from regard.errors import BundleError

if TYPE_CHECKING:
    from torch import nn

    from regard.text.tokenizers.tokenizer import Tokenizer

Custom = Literal["", "model", "attention"]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A trained model and facts about its run."""

    config: Any
    """Settings of the run."""
    model: nn.Module
    parts: Any = None
    """Content of the task's own files, such as tokenizers and labels (`BundleFormat.read_parts`)."""
    signature: dict[str, Any] = field(default_factory=dict)
    """Facts about the run, as plain data: `seed`, `data` (hash of the data), `scores` and others. `save_bundle` adds the
    version of the format, versions of packages, and checksums."""
    report: dict[str, Any] = field(default_factory=dict)
    """Report on the data, as plain data: what was read, kept and skipped."""
    custom: Custom = ""
    """`model` if the whole model is the user's own object, `attention` if only its attention mechanism is; else empty. If it
    is not empty, loading needs this object, because a configuration cannot build it.
    """


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
    multiple: bool = False
    """Whether a text can have several labels."""


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
    code: Sequence[str] = ()
    """Lines of Python that use the model. The card replaces `LOAD` with the call that loads it."""
    model_rows: Sequence[tuple[str, str]] = ()
    """Rows (name, value) of the table about the model, such as its vocabulary and its labels."""
    examples: str = "examples"
    """Plural noun for the training examples, such as `pairs`."""
    limits: Sequence[str] = ()
    """Sentences on what the model cannot do, besides those about every model."""
    inputs: Sequence[str] = ()
    """English texts that `regard page` offers as examples if the model reads English and knows their words."""


class BundleFormat(ABC):
    """The part of a task that writes and reads the files that only its models have, such as tokenizers and labels.

    Every model also has settings, weights, a report, a card and a signature, which are the same for all tasks. If the task has
    one file of plain data, it is enough to name the file and the class of its content, and to build the model.

    Attributes:
        file: Name of the file.
        parts_class: Frozen dataclass with the content of the file: numbers, texts, and tuples of these.
    """

    file: str = ""
    parts_class: type[Any] | None = None

    @abstractmethod
    def build_model(self, config: Any, parts: Any, attention: Any = None) -> nn.Module:
        """Build the model that the configuration describes, with random weights.

        Args:
            config: Configuration of the run.
            parts: Output of `read_parts`.
            attention: The user's own attention mechanism, if the model has one; else None.
        """

    def write_parts(self, parts: Any, folder: Path) -> None:
        """Write the task's own files into a folder; by default, `file` as JSON."""
        (folder / self.file).write_text(json.dumps(asdict(parts), ensure_ascii=False), encoding="utf-8")

    def read_parts(self, files: BundleFiles) -> Any:
        """Return the content of the task's own files; by default, an object of `parts_class`.

        Raises:
            BundleError: If a file is damaged; the message names the file.
        """
        assert self.parts_class is not None, "a BundleFormat needs a parts_class, or a read_parts of its own"
        try:
            plain = json.loads(files.content[self.file])
            return self.parts_class(**{name: facts.parse(plain[name]) for name, facts in facts_of(self.parts_class).items()})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BundleError(f"{files.path(self.file)} is damaged ({error}); copy the model again") from error

    def vocabulary(self, parts: Any) -> str:
        """Return a hash of vocabularies and labels. Two models with equal hashes have the same token or label for each id."""
        known = self.inventory(parts)
        labels = [[*known.labels], known.multiple] if known.labels else []
        plain = [[tokenizer.digest() for tokenizer in known.tokenizers.values()], labels] if known.tokenizers else asdict(parts)
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()

    def inventory(self, parts: Any) -> Inventory:
        """Return the tokenizers with their vocabularies, and the labels; none by default."""
        return Inventory({})

    def card(self, bundle: Bundle) -> Card:
        """Return the texts of the model card that depend on the task."""
        return Card(f"A model for {bundle.config.task}", "A model with attention", "other")

    def packages(self, config: Any) -> tuple[str, ...]:
        """Return the names of further packages whose versions the signature must record: `spacy` if a tokenizer is spaCy's."""
        return ("spacy",) * any(getattr(value, "kind", "") == "spacy" for _, _, value in walk(config))

    def render_report(self, report: dict[str, Any]) -> str:
        """Return the text of a report on the data (`Bundle.report`): of a `DataReport`, or of `Counts`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: If the report has another form, because another version wrote it.
        """
        from regard.text.data_report import DataReport

        return DataReport.from_dict(report).render() if "train" in report else Counts(report).render()


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
