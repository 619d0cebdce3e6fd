"""Labelled texts after reading: the choice of training and dev texts, and checks of their labels."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.config import LabelledDataConfig
from regard.errors import DataError
from regard.plurals import counted
from regard.text.clean import Chunk
from regard.text.labelled.labels import Labels, show_names, sort_names
from regard.text.labelled.split import LabelRows, draw_dev, draw_fold, find_groups, take_first
from regard.text.report import BEYOND_MAX_TEXTS, REPEATED_TEXT, ReadingReport
from regard.text.schema import Selection
from regard.text.split import Hashes, first_occurrences, hash_pairs, mark
from regard.text.spool import Spool, spool_texts

_LAST_HEADER = 5
"""Number of the last line that an error message may suggest as a header."""


@dataclass(frozen=True)
class LabelledSpool(Spool):
    """Texts in a file on disk, and their labels."""

    names: list[str]
    """All labels, in natural order."""
    labels: LabelRows
    """The labels of each text, as indices into `names`."""
    multiple: bool
    """Whether texts may have several labels."""
    counts: tuple[int, ...] = ()
    """Number of training texts with each label; empty until the training texts are chosen."""

    @property
    def known(self) -> Labels:
        """The labels with their counts."""
        return Labels(tuple(self.names), self.multiple, self.counts)


def spool_labelled(chunks: Iterable[Chunk], path: Path) -> LabelledSpool:
    """Write texts to a file while they are read, and collect their labels."""
    coder = _Coder()
    spool = spool_texts(coder.pass_on(chunks), ("text",), path)
    names, rows = coder.finish()
    return LabelledSpool(spool.path, spool.hashes, spool.lines, names, rows, coder.multiple)


@dataclass
class _Coder:
    """A numbering of labels: first in the order in which they are read; in natural order once all labels are known."""

    multiple: bool = False
    _numbers: dict[str, int] = field(default_factory=dict)
    _flat: list[npt.NDArray[np.int32]] = field(default_factory=list)
    _counts: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def pass_on(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        numbers = self._numbers
        for chunk in chunks:
            self.multiple = chunk.multiple
            own = list(chain.from_iterable(chunk.labels))
            for name in dict.fromkeys(own):
                numbers.setdefault(name, len(numbers))
            self._flat.append(np.fromiter(map(numbers.__getitem__, own), np.int32, len(own)))
            self._counts.append(np.fromiter(map(len, chunk.labels), np.int32, len(chunk.labels)))
            yield chunk

    def finish(self) -> tuple[list[str], LabelRows]:
        names = sort_names(self._numbers)
        place = np.empty(len(names), np.int32)
        place[[self._numbers[name] for name in names]] = np.arange(len(names))
        flat = np.concatenate([np.zeros(0, np.int32), *self._flat])
        counts = np.concatenate([np.zeros(0, np.int32), *self._counts])
        return names, LabelRows(place[flat], np.r_[0, np.cumsum(counts, dtype=np.int64)])


def select(
    texts: LabelledSpool, data: LabelledDataConfig, seed: int, report: ReadingReport, known: Labels | None
) -> Selection[LabelledSpool]:
    """Drop duplicates, check the labels, hold out dev texts, and apply `max_texts`; the report counts the texts left out.

    Args:
        texts: All texts.
        data: The settings.
        seed: Seed for choosing the held-out texts.
        report: Report, in which texts that are left out are counted among the skipped ones.
        known: The labels of a model that training starts from; None without such a model. If they include all labels of the
            texts, each label keeps its number in that model.

    Raises:
        DataError: If no text has a label; if texts have one label each, and all have the same label or a label has only one
            text; if there are more folds than different texts; or if texts have several labels and those of the model have one
            each, or vice versa.
    """
    hashes, size = texts.hashes[0], len(texts)
    whole = hash_pairs(hashes, _label_sets(texts.labels))
    first = first_occurrences(whole)
    places = np.arange(size)
    if data.drop_repeats:
        report.withdraw(REPEATED_TEXT, texts.lines[~first])
        places = places[first]
    labels, kept = texts.labels.take(places), hashes[places]
    groups = find_groups(kept, labels, len(texts.names))
    _check_labels(texts, labels, groups.of, places, report)
    dev = np.zeros(len(places), np.bool_)
    if data.folds:
        if data.folds > len(groups.sizes):
            raise DataError(
                f"{' + '.join(report.files)}: holds {len(groups.sizes):,} different texts, too few for {data.folds:,} folds "
                "(data.folds); each fold needs a text to hold out"
            )
        dev = draw_fold(groups, folds=data.folds, fold=data.fold, seed=seed)
    elif not data.dev:
        dev = draw_dev(groups, labels, dev_size=data.dev_size, seed=seed)
    left = np.flatnonzero(~dev)
    taken = left
    if data.max_texts:
        taken = left[take_first(labels.take(left), groups.stratum[groups.of[left]], data.max_texts)]
        report.withdraw(BEYOND_MAX_TEXTS, texts.lines[places[np.setdiff1d(left, taken, assume_unique=True)]])
    contradictory = len(np.unique(whole)) - len(np.unique(hashes))
    counts = labels.take(taken).counts(len(texts.names))
    texts = number_as(texts, counts, known) if known else replace(texts, counts=tuple(counts.tolist()))
    notes = [f"duplicates with different labels, all kept: {contradictory:,}"] if contradictory else []
    return Selection(texts, mark(places[taken], size), mark(places[dev], size), notes)


def match_labels(dev: LabelledSpool, labels: Labels, report: ReadingReport) -> LabelledSpool:
    """Return the texts with their labels numbered as in training.

    Raises:
        DataError: If training lacks one of these labels, or only the dev texts or only the training texts have several labels.
    """
    if dev.multiple != labels.multiple:
        one, many = ("data.train", "data.dev") if dev.multiple else ("data.dev", "data.train")
        raise DataError(f"texts have several labels in {many} and one in {one}; write the labels of both in the same form")
    owners = dev.labels.owners()
    for number in np.flatnonzero([name not in labels.names for name in dev.names])[:1].tolist():
        line = dev.lines[owners[np.flatnonzero(dev.labels.flat == number)[0]]]
        labels.number(dev.names[number], f"{' + '.join(report.files)}, line {line}")
    return _renumber(dev, labels)


def number_as(texts: LabelledSpool, counts: npt.NDArray[np.int64], known: Labels) -> LabelledSpool:
    """Number the labels as in a trained model if it has all of them; else leave them unchanged.

    Args:
        texts: The texts with their own labels.
        counts: Number of training texts with each of these labels.
        known: Labels of the model.

    Returns:
        The texts with the new numbers of their labels, and the counts of all labels; labels that no text has get the count 0.

    Raises:
        DataError: If these texts have several labels each and the model's training texts have one each, or vice versa.
    """
    if texts.multiple != known.multiple:
        here, there = ("several labels", "one label") if texts.multiple else ("one label", "several labels")
        raise DataError(
            f"the texts have {here} each, but the training texts of the model had {there}; set "
            "data.label_separator as it was for that model, or train a new model"
        )
    if not set(texts.names) <= set(known.names):
        return replace(texts, counts=tuple(counts.tolist()))
    by_name = dict(zip(texts.names, counts.tolist(), strict=True))
    return replace(_renumber(texts, known), counts=tuple(by_name.get(name, 0) for name in known.names))


def _renumber(texts: LabelledSpool, known: Labels) -> LabelledSpool:
    """Return texts whose labels have the numbers of known labels."""
    numbers = np.array([known.number(name) for name in texts.names], np.int32)
    return replace(texts, names=list(known.names), labels=LabelRows(numbers[texts.labels.flat], texts.labels.offsets))


def _check_labels(
    texts: LabelledSpool, labels: LabelRows, groups: npt.NDArray[np.int64], places: npt.NDArray[np.int64], report: ReadingReport
) -> None:
    names, files = texts.names, " + ".join(report.files)
    column = f"column '{report.columns[1]}'" if len(report.columns) > 1 else "data"
    if not names:
        raise DataError(f"{files}: no text has a label; the {column} holds no label: name another with data.label")
    if texts.multiple:
        return
    if len(names) == 1:
        raise DataError(
            f"{files}: every text has the label '{names[0]}' ({counted(len(labels), 'text')}), expected at least two labels; "
            f"they were taken from the {column}: name another with data.label, or add texts with other labels"
        )
    different = np.unique(groups * len(names) + labels.flat) % len(names)
    single = np.flatnonzero(np.bincount(different, minlength=len(names)) < 2)
    if not len(single):
        return
    if len(single) > 1 and 2 * len(single) > len(names):
        raise DataError(
            f"{files}: {len(single):,} of {len(names):,} labels have one text each: {show_names([names[i] for i in single])}; "
            f"they were taken from the {column}: name another with data.label"
        )
    lines = texts.lines[places[[int(np.flatnonzero(labels.flat == number)[0]) for number in single[:5].tolist()]]]
    shown = ", ".join(
        f"'{names[number]}'" + (f" (line {line})" if report.locates else "")
        for number, line in zip(single[:5], lines, strict=True)
    )
    more = f" and {len(single) - 5:,} more" if len(single) > 5 else ""
    numbered = bool(report.columns) and all(name.isdigit() for name in report.columns)
    head = min(map(int, lines)) if numbered and report.locates else 0
    above = "remove the lines above it and " if head > 1 else ""
    headed = f"if line {head} is a header, {above}set data.header to yes; otherwise " if 0 < head <= _LAST_HEADER else ""
    raise DataError(
        f"{files}: only one text has the label {shown}{more}, expected at least two different texts, for training and"
        f" validation; {headed}add texts, merge the label with another, or remove it"
    )


def _label_sets(labels: LabelRows) -> Hashes:
    """Return a hash of each text's set of labels, independent of their order."""
    mixed = hash_pairs(labels.flat.astype(np.int64), np.zeros(len(labels.flat), np.int64)).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return (sums[labels.offsets[1:]] - sums[labels.offsets[:-1]]).astype(np.int64)
