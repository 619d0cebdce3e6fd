"""Operations of a task: what its models do with texts or files, and the options.

An operation is a frozen dataclass, whose fields are its options: type, default, range (`annotated-types`) and, below the field,
the help text. It can also have settings of the run as options, such as those of the search (`decoding`); an option that is
not given then has the value of the run's configuration. Python, the command line, the service and the documentation are made
from these facts. A service sets limits on top of the ranges.

    @dataclass(frozen=True, kw_only=True)
    class Tag(TextOperation):
        '''Tag each word of a sentence.'''

        name = "tag"        # regard tag DIR TEXT …, and POST /v1/tag

        def run(self, predictor, texts, *, record=(), progress=False):
            return predictor.tag([one.text for one in texts])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from regard.config.fields import FieldFacts, facts_of
from regard.config.plugins import locate_task
from regard.errors import ArgumentError, RequestError, nearest

if TYPE_CHECKING:
    from regard.records import AttentionRecord

Sites = Collection[str] | None
"""Attention sites to record; None for the model's main sites."""


class Result(Protocol):
    """A result that can be printed, as text or as JSON."""

    def render(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Look:
    """A prediction with its attention."""

    headline: str
    """The prediction, as text."""
    record: AttentionRecord | None
    """The attention; None if the model has no attention that can be drawn."""
    site: str | None = None
    """Attention site to show; None for the main site of the record."""


@dataclass(frozen=True)
class Text:
    """A text to process, with the values of options that belong to this text alone."""

    text: str
    number: int = 0
    """Number of the text, which is combined with a seed, so that each text gets its own random numbers."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Options of this text, by name; see `TextOperation.per_text`."""
    follow: Callable[[int, str], None] | None = None
    """Function that is called after each generated token with the number of a sample and its text so far."""

    @property
    def size(self) -> int:
        """Length in characters, with the texts among `values`."""
        return len(self.text) + sum(len(value) for value in self.values.values() if isinstance(value, str))


@dataclass(frozen=True)
class Files:
    """Files that a command reads, and how."""

    names: str
    """`FILE`, or `FILE,FILE`."""
    layout: Mapping[str, str] = field(default_factory=dict)
    """Settings under `data` that the user gave for these files, such as `columns`, as text."""

    @property
    def paths(self) -> list[str]:
        """The names, split at commas, unless the whole text is the name of an existing file."""
        single = "," not in self.names or Path(self.names).exists()
        return [self.names] if single else [name.strip() for name in self.names.split(",")]


@dataclass(frozen=True, kw_only=True)
class Operation(ABC):
    """What the models of a task can do, with its options."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """The options among the settings of the run that were given; see `part`."""

    name: ClassVar[str]
    """Name of the operation; operations of several tasks may have the same name."""
    part: ClassVar[str] = ""
    """Part of the run's configuration whose settings are options, such as `decoding`; empty for none."""
    part_class: ClassVar[type | None] = None
    """Class of this part."""
    chosen: ClassVar[Sequence[str] | None] = None
    """The settings of the part that are options; None for all."""
    flags: ClassVar[Mapping[str, str]] = {}
    """Command-line options whose name is not that of the field, by field: `{"beam_size": "--beam"}`."""
    ensembles: ClassVar[bool] = False
    """Whether several models can be averaged."""
    examples: ClassVar[str] = ""
    """Examples for the help of the command, one per line."""

    @classmethod
    def own_options(cls) -> dict[str, FieldFacts]:
        """Return the facts about the fields of the class."""
        return {name: facts for name, facts in facts_of(cls).items() if name != "settings"}

    @classmethod
    def run_options(cls) -> dict[str, FieldFacts]:
        """Return the facts about the settings of the run that are options."""
        found = {} if cls.part_class is None else facts_of(cls.part_class)
        return {name: facts for name, facts in found.items() if cls.chosen is None or name in cls.chosen}

    @classmethod
    def options(cls) -> dict[str, FieldFacts]:
        """Return the facts about all options."""
        return {**cls.run_options(), **cls.own_options()}

    @classmethod
    def create(cls, **given: Any) -> Self:
        """Build an operation from its options; those that are None get their defaults.

        Raises:
            ArgumentError: If there is no such option.
            RequestError: If options conflict.
        """
        given = {name: value for name, value in given.items() if value is not None}
        own, settings = cls.own_options(), cls.run_options()
        for name in given.keys() - own.keys() - settings.keys():
            raise ArgumentError(f"{cls.name} has no option {name!r}{nearest(name, cls.options())}")
        return cls(
            **{name: value for name, value in given.items() if name in own},
            settings={name: value for name, value in given.items() if name in settings},
        )


@dataclass(frozen=True, kw_only=True)
class TextOperation(Operation):
    """An operation on texts. It is a command (`regard NAME DIR TEXT …`) and an endpoint of the service (`POST /v1/NAME`).

    The docstring of a class is the description of its endpoint.
    """

    help: ClassVar[str] = ""
    """Description of the command."""
    text: ClassVar[str] = "text"
    """Noun for an input."""
    verb: ClassVar[str] = ""
    """What is done with an input, for messages; empty for the name."""
    inputs: ClassVar[str] = "texts"
    """Field of a request that has the inputs."""
    answers: ClassVar[str] = "results"
    """Field of an answer that has the results."""
    answer: ClassVar[Any] = dict[str, Any]
    """Type of a result in an answer, for the description of the service."""
    example: ClassVar[str] = "a text"
    """Example of an input."""
    per_text: ClassVar[Mapping[str, str]] = {}
    """Options of which each text may have a value of its own, and the field of a request that lists them; empty for none."""
    caps: ClassVar[Mapping[str, str]] = {}
    """Names of the limits of a service (`regard.serve.limits.Limits`) for options, by option."""
    longest: ClassVar[str] = "characters"
    """Name of the limit for the length of a text."""
    most_together: ClassVar[int] = 1 << 30
    """Maximum number of texts that a service processes together."""
    block: ClassVar[int] = 2048
    """Number of lines that a command processes together."""
    kept: ClassVar[int] = 1 << 16
    """Number of characters that a command keeps of a line with more than 65,536."""
    command_only: ClassVar[frozenset[str]] = frozenset()
    """Options that only the command has."""
    service_only: ClassVar[frozenset[str]] = frozenset()
    """Options that only the service has."""
    streams: ClassVar[bool] = False
    """Whether results can be followed while they are written (`Text.follow`)."""
    reads_stdin: ClassVar[bool] = True
    """Whether the command reads standard input if no text is given; if not, the text is empty."""
    columns: ClassVar[Sequence[str]] = ()
    """Names of the columns that the command adds to a table; empty if it reads no tables."""
    picture: ClassVar[str] = ""
    """Content of a picture of a result's attention, for help texts; empty if there is none."""

    @abstractmethod
    def run(self, predictor: Any, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Any]:
        """Return a result for each text.

        Args:
            predictor: The model.
            texts: The texts.
            record: Attention sites that the results need.
            progress: Whether to show a bar on standard error.
        """

    @classmethod
    def require_text(cls, texts: Sequence[str]) -> None:
        """Raise a `RequestError` if all texts are empty and the operation needs one."""
        if cls.reads_stdin and not any(text.strip() for text in texts):
            raise RequestError(f"{cls.name}: the {cls.text} is empty, so there is nothing to {cls.verb or cls.name}")

    @classmethod
    def check_sent(cls, text: str) -> None:
        """Raise a `RequestError` if a service must not process a text that a client sends, such as the name of a file."""

    def plain(self, result: Any, units: str = "auto") -> Any:
        """Return a result as data for JSON, or a list of several results; `units` are those of `AttentionRecord.in_units`."""
        return result

    def render(self, result: Any, number: int) -> str:
        """Return a result as the command prints it; `number` is that of the text, from 1."""
        return str(result)

    @property
    def reads_words(self) -> bool:
        """Whether the command processes lines of standard input while their words arrive, with `process_words`."""
        return False

    def process_words(self, predictor: Any, words: Iterator[str], write: Callable[[str], object]) -> None:
        """Process a text whose words are still arriving, and write each part of the result as soon as it is known."""
        raise NotImplementedError

    def check_cells(self) -> None:
        """Raise a `RequestError` if the options ask for results that do not fit into the cells of a row."""

    def cells(self, result: Any) -> Sequence[Any]:
        """Return the values of `columns` for a result."""
        raise NotImplementedError

    def text_columns(self, config: Any) -> Any:
        """Return the `regard.text.column_rules.ColumnRules` of a table, whose first column has the texts."""
        raise NotImplementedError

    def headline(self, result: Any) -> str:
        """Return the text above a picture of the result's attention."""
        return self.render(result, 1)

    def remark(self, predictor: Any, results: int) -> str:
        """Return a remark on a number of results for which `is_cut` was True."""
        return ""

    def is_cut(self, result: Any) -> bool:
        """Return whether the text of this result was too long for the model."""
        return False

    def within(self, predictor: Any, limits: Mapping[str, int]) -> Self:
        """Return the operation with settings of the run lowered to the limits of a service, whose names are in `caps`."""
        options = self.run_options()  # the schema of requests limits the other options
        lowered = {
            name: min(self.setting(predictor, name), limits[limit]) for name, limit in self.caps.items() if name in options
        }
        return replace(self, settings={**self.settings, **lowered})

    def setting(self, predictor: Any, name: str) -> Any:
        """Return the value of a setting: the given one, or that of the run."""
        return self.settings.get(name, getattr(getattr(predictor.config, self.part), name))

    def cost(self, predictor: Any, text: Text, limits: Mapping[str, int]) -> int:
        """Estimate the maximum work for a text: hypotheses × steps × (characters + steps); without a search, its size."""
        if "beam_size" not in self.run_options():
            return text.size
        steps = self.settings.get("max_length") or limits["tokens"]
        return self.setting(predictor, "beam_size") * steps * (text.size + steps)


@dataclass(frozen=True, kw_only=True)
class AttentionOperation(TextOperation):
    """Return the attention of predictions."""

    sites: tuple[str, ...] = ()
    """Attention sites, such as `cross`; empty for the main ones."""

    name: ClassVar[str] = "attention"
    verb: ClassVar[str] = "look at"
    answers: ClassVar[str] = "records"
    answer: ClassVar[Any] = dict[str, Any] | None
    longest: ClassVar[str] = "attention_characters"
    most_together: ClassVar[int] = 8

    def run(self, predictor: Any, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Look]:
        """Return the results of the task's first operation, which have an attribute `attention`."""
        operations = locate_task(predictor.config.task).operations
        first = next(one for one in operations if issubclass(one, TextOperation) and not issubclass(one, AttentionOperation))()
        return [Look(first.headline(one), one.attention) for one in first.run(predictor, texts, record=self.sites or None)]


@dataclass(frozen=True, kw_only=True)
class FileOperation(Operation):
    """An operation on files: a command (`regard NAME DIR FILE`), whose help text is the docstring."""

    files: ClassVar[str] = "one file of examples"
    """Help text of the argument that names the files."""
    pictures: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Options that name files of pictures, with the endings of these files."""

    @abstractmethod
    def run(self, predictor: Any, files: Files) -> Any:
        """Return the result of a model on files: a `Result`, or, from a `LineOperation`, `Lines`."""

    def draw(self, predictor: Any, result: Any, *, caption: bool) -> None:
        """Draw the pictures that the options name, after the result has been printed."""

    def keep(self, folder: str, predictor: Any, result: Any) -> None:
        """Keep a result in the model's folder, after it has been printed; nothing by default."""


@dataclass(frozen=True, kw_only=True)
class CompareOperation(Operation):
    """An operation on two models and files: a command (`regard NAME DIR DIR FILE`), whose help text is the docstring."""

    files: ClassVar[str] = "one file of examples"
    """Help text of the argument that names the files."""

    @abstractmethod
    def run(self, models: tuple[Any, Any], names: tuple[str, str], files: Files) -> Result:
        """Return the comparison of two models, which have these names, on files."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(FileOperation):
    """Score a model on files, which are read and scored as the dev examples of a run are."""

    name: ClassVar[str] = "evaluate"

    def run(self, predictor: Any, files: Files) -> Evaluated:
        """Return the scores of the task's validator."""
        from regard.machine import resolve_machine
        from regard.processes.ranks import read_ranks

        config, training = predictor.config, locate_task(predictor.config.task).training
        paths = tuple(files.paths)
        config = replace(config, data=replace(config.data, train=paths, dev=paths), device=str(predictor.device))
        config, data, parts = training.read(config, predictor.bundle.parts, progress=False)
        task = training.trainable(config, data, predictor.model, parts)
        scores = task.validator_class(task, resolve_machine(config, read_ranks())).validate().to_dict()
        return Evaluated(scores, task.describe_scores(scores))


@dataclass(frozen=True)
class Evaluated:
    """Scores of a model on files."""

    scores: Mapping[str, Any]
    text: str

    def render(self) -> str:
        """Return one line of text."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, for JSON."""
        return dict(self.scores)


@dataclass(frozen=True)
class Lines:
    """Results for the lines of files, which a command prints one by one (`LineOperation`)."""

    rows: Iterator[tuple[int, str]]
    """Numbers of lines, from 1 and in ascending order, with the text to print for each line."""
    report: Any
    """Report on the files (`regard.text.report.ReadingReport`), which is complete after the last row."""
    padded: bool = True
    """Whether to print an empty line for each line of the file without a result."""
    remark: Callable[[], str] = lambda: ""
    """Function that returns a remark for the end, on standard error; empty for none."""


@dataclass(frozen=True, kw_only=True)
class LineOperation(FileOperation):
    """An operation on each line of a file, whose result is `Lines`."""

    files: ClassVar[str] = "one file of pairs, or two parallel text files"
