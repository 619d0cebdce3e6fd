"""The parts of a task that the command line uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from regard.records import AttentionRecord

PredictorT = TypeVar("PredictorT")


@dataclass(frozen=True)
class Option:
    """An option that `regard look`, `regard evaluate` or `regard compare` has for a task."""

    flag: str
    help: str
    metavar: str = "VALUE"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `argparse.ArgumentParser.add_argument`."""
    endings: Sequence[str] = ()
    """Endings of file names that the option accepts, if its value is a file for a picture; empty for other options."""

    @property
    def name(self) -> str:
        """Name of the option's value in the parsed arguments."""
        return self.flag.lstrip("-").replace("-", "_")

    def add_to(self, parser: ArgumentParser) -> None:
        """Add the option to a command's parser."""
        parser.add_argument(self.flag, metavar=self.metavar, help=self.help, **self.settings)


@dataclass(frozen=True)
class Look:
    """A prediction with its attention, as `regard look` shows it."""

    headline: str
    """The prediction, as text."""
    record: AttentionRecord | None
    """The attention; None if the model has no attention that can be drawn."""
    site: str | None = None
    """Attention site to show; None for the main site of the record."""


class Result(Protocol):
    """A result that can be printed, as text or as JSON."""

    def render(self) -> str: ...

    def to_dict(self) -> dict[str, Any]: ...


class Commands(ABC, Generic[PredictorT]):
    """The part of a task that connects its predictors to the commands that all tasks share.

    The argument `options` of the methods has the options of the command, parsed by argparse.
    """

    look_options: ClassVar[Sequence[Option]] = ()
    evaluate_options: ClassVar[Sequence[Option]] = ()
    compares: ClassVar[bool] = False
    """Whether `regard compare` compares two models of the task."""
    compare_options: ClassVar[Sequence[Option]] = ()
    layout: ClassVar[Sequence[str]] = ()
    """Settings under `data` that describe the layout of a file, such as `columns`. Commands that read files have them as
    options.
    """

    @abstractmethod
    def look(self, predictor: PredictorT, options: Namespace, sites: list[str] | None) -> Look:
        """Predict for `options.sentence`, and return the attention of the prediction.

        Args:
            predictor: The model.
            options: Parsed options, with `sentence`.
            sites: Attention sites that `--heads` names; None without this option: the task then chooses the sites.
        """

    @abstractmethod
    def evaluate(self, predictor: PredictorT, options: Namespace) -> Result:
        """Score the model on the files that `options.files` names."""

    def after_evaluation(self, predictor: PredictorT, result: Any, options: Namespace) -> None:
        """Draw the pictures that the options request, after the result has been printed."""

    def compare(self, first: PredictorT, second: PredictorT, options: Namespace) -> Result:
        """Compare two models on the files that `options.files` names; only called if `compares` is True.

        Args:
            first: A model, from `options.first`.
            second: Another model, from `options.second`.
            options: Parsed options. `resamples` is None if the user did not set it; then the task chooses the number.
        """
        raise NotImplementedError
