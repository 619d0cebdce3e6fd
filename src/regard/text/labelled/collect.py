"""The labelled texts of one reading: the texts on disk, and in memory about 30 bytes for each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.text.labelled.labels import Labels, sort_names
from regard.text.labelled.readers import LabelledChunk
from regard.text.labelled.split import LabelRows
from regard.text.spool import Spool, spool_texts


@dataclass(frozen=True)
class LabelledSpool(Spool):
    """Texts that were read once, and their labels."""

    names: list[str]
    """All labels, in natural order."""
    labels: LabelRows
    """The labels of each text, by their places in `names`."""
    multiple: bool
    """Whether texts may have several labels."""
    counts: tuple[int, ...] = ()
    """Number of training texts with each label; empty until the training texts are chosen."""

    @property
    def known(self) -> Labels:
        """The labels with their counts."""
        return Labels(tuple(self.names), self.multiple, self.counts)


def spool_labelled(chunks: Iterable[LabelledChunk], path: Path) -> LabelledSpool:
    """Write texts to a file while they are read, and collect their labels."""
    coder = _Coder()
    spool = spool_texts(coder.pass_on(chunks), ("text",), path)
    names, rows = coder.finish()
    return LabelledSpool(spool.path, spool.hashes, spool.lines, names, rows, coder.multiple)


@dataclass
class _Coder:
    """Numbers for labels: in the order in which they are read, then in natural order when all are known."""

    multiple: bool = False
    _numbers: dict[str, int] = field(default_factory=dict)
    _flat: list[npt.NDArray[np.int32]] = field(default_factory=list)
    _counts: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def pass_on(self, chunks: Iterable[LabelledChunk]) -> Iterator[LabelledChunk]:
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
