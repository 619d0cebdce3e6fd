"""Parts of the commands of several tasks: reading files, and the operation `faithfulness`. Nothing here imports torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.config.fields import Count
from regard.config.loading import dump_config, load_config, override_layer
from regard.errors import RequestError
from regard.rendering import PICTURES
from regard.task.operation import AttentionOperation, FileOperation, Files, Look, Sites, Text
from regard.terminal import show
from regard.text.opening import ending, fits_utf8

if TYPE_CHECKING:
    from regard.records import AttentionRecord
    from regard.text.report import ReadingReport

Reader = Callable[[list[str], Any, "ReadingReport"], Iterator[Any]]
"""Function that reads files with settings of `data`, and yields chunks of examples while it fills the report."""


def read_files(
    read: Reader, files: Files, config: Any, columns: Sequence[str] = (), *, like_training: bool = True
) -> tuple[Iterator[Any], ReadingReport]:
    """Return the chunks of files, and the report, which is complete after the last chunk.

    The files are read like the training data, unless their names or the user's options define another layout.

    Args:
        read: The reader of the task.
        files: The files.
        config: Configuration of the model's run.
        columns: Settings that describe the columns of the training file. They get their defaults for a file of another kind,
            which may have other columns.
        like_training: If False, `columns` get their defaults for every file.
    """
    from regard.text.report import ReadingReport

    paths, data, report = files.paths, config.data, ReadingReport()
    # Only a file of the same kind as the training file is likely to have the same columns.
    same = len(paths) == len(data.train) == 1 and ending(paths[0]) == ending(data.train[0])
    plain = type(data)()
    names = ["format"] * hasattr(data, "format") + ([] if same and like_training else list(columns))
    data = replace(data, **{name: getattr(plain, name) for name in names})
    if data.encoding != "auto" and all(Path(path).is_file() and fits_utf8(path) for path in paths):
        data = replace(data, encoding="auto")  # only the training data have another encoding
    for name in files.layout:
        if not hasattr(data, name):
            raise RequestError(
                f"--data.{name} cannot be used: the model's task is {config.task}, whose data has no such setting"
            )
    if files.layout:
        layer = override_layer({f"data.{name}": value for name, value in files.layout.items()})
        data = load_config(dump_config(replace(config, data=data)), layer).data
    return read(paths, data, report), report


def read_all(chunks: Iterator[Any], report: ReadingReport, *names: str) -> list[list[Any]]:
    """Return the columns of all chunks that have these names, and write the report to standard error."""
    columns: list[list[Any]] = [[] for _ in names]
    for chunk in chunks:
        for column, name in zip(columns, names, strict=True):
            column += getattr(chunk, name)
    show(report.render(), file=sys.stderr)
    return columns


@dataclass(frozen=True, kw_only=True)
class AttributingOperation(AttentionOperation):
    """Return the attention of predictions, and attributions as further sites."""

    attribution: tuple[str, ...] = ()
    """Attribution to show instead of attention: rollout, gradients, integrated, values or leave_one_out; may be given several
    times, or all for all, to write a page or data."""

    command_only: ClassVar = frozenset({"attribution"})  # it costs up to 256 times as much as a prediction

    def run(self, predictor: Any, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Look]:
        """Return the results of the task's first operation, with the attributions of the options."""
        looks, inputs = super().run(predictor, texts, record=record, progress=progress), [one.text for one in texts]
        return self.attributed(looks, lambda: predictor.attribute(inputs, self.attribution, record=self.sites or None))

    def attributed(self, looks: list[Look], attribute: Callable[[], list[AttentionRecord]]) -> list[Look]:
        """Return results with the attributions of the records that `attribute` returns; the first one is shown."""
        if not self.attribution:
            return looks
        found = []
        for look, one in zip(looks, attribute(), strict=True):
            recorded = () if look.record is None else look.record.sites
            shown = next((site for site in one.sites if site not in recorded), one.sites[0])
            found.append(replace(look, record=one, site=shown))
        return found


@dataclass(frozen=True, kw_only=True)
class Measure(FileOperation):
    """Measure whether a model attends to what its predictions depend on; print a table and sentences on its meaning."""

    texts: Count = 500
    """Maximum number of texts or sentences; if there are more, a random sample is measured."""
    permutations: Count = 100
    """Number of permutations of the weights of each text or sentence."""
    attribution: tuple[str, ...] = ()
    """Attribution to compare with attention: rollout, gradients, integrated, values, leave_one_out, or all; may be given
    several times."""
    picture: str = ""
    """File for a picture of the decreases in probability, as bars."""

    name: ClassVar[str] = "faithfulness"
    pictures: ClassVar = {"picture": PICTURES}

    @property
    def sizes(self) -> dict[str, Any]:
        """The arguments of a measuring function that all tasks share."""
        sizes = {"max_texts": self.texts, "permutations": self.permutations, "progress": True}
        return {**sizes, "attributions": self.attribution}

    def draw(self, predictor: Any, result: Any, *, caption: bool) -> None:
        """Draw the bars, if a file is named for them."""
        if self.picture:
            result.draw(self.picture, caption=caption)
