"""Word alignments: the Pharaoh format, and the alignment error rate."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.errors import DataError, ShapeError
from regard.pharaoh import Link, parse_pharaoh

_LONGEST_LINE = 1 << 24


def alignment_error_rate(
    predicted: Iterable[Link] | Sequence[Iterable[Link]],
    sure: Iterable[Link] | Sequence[Iterable[Link]],
    possible: Iterable[Link] | Sequence[Iterable[Link]] | None = None,
) -> float:
    """Return the alignment error rate of predicted links against gold links, for one or more sentences.

        AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    where the counts are summed over the sentences, and P always includes S.

    Args:
        predicted: A, the links (source, target) of one sentence, or a list with such links for each of several sentences.
        sure: S, in the same form.
        possible: P, in the same form; None if P equals S.

    Returns:
        A number from 0 (all sure links and only possible links are predicted) to 1; 0 if A and S are empty.

    Raises:
        ShapeError: If the numbers of sentences differ.

    Reference:
        Och and Ney 2003, A Systematic Comparison of Various Statistical Alignment Models, eq. 20.

    Example:
        >>> alignment_error_rate([(0, 0), (1, 1)], sure=[(0, 0)], possible=[(1, 2)])
        0.3333333333333333
    """
    predictions, golds = _sentences(predicted), _sentences(sure)
    possibles = golds if possible is None else _sentences(possible)
    if not len(predictions) == len(golds) == len(possibles):
        raise ShapeError(
            f"alignment_error_rate: predicted has {len(predictions)} sentences, sure {len(golds)}, possible {len(possibles)}: "
            "expected the same number of each"
        )
    agreed = total = 0
    for a, s, p in zip(predictions, golds, possibles, strict=True):
        agreed += len(a & s) + len(a & (p | s))
        total += len(a) + len(s)
    return 1 - agreed / total if total else 0.0


def _sentences(links: Iterable) -> list[set[Link]]:
    """Return the set of links of each sentence, given the links of one sentence or a list of such collections."""
    items = list(links)
    if items and np.shape(items[0]) == (2,):  # a link, and not a sentence
        return [{tuple(link) for link in items}]
    if isinstance(links, set | frozenset) or not items:
        return [set(items)]
    return [{tuple(link) for link in sentence} for sentence in items]


def format_pharaoh(links: Iterable[Link]) -> str:
    """Return sorted links in Pharaoh format, such as `"0-0 1-2"`, with the source first."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_pharaoh(path: str | Path) -> Iterator[tuple[set[Link], set[Link]]]:
    """Read a file of alignments: for each line, yield the sure links, and all links including the sure ones."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), 1):
                if len(line) == _LONGEST_LINE:
                    raise DataError(
                        f"{path}, line {number}: has more than {_LONGEST_LINE:,} characters, too many for an alignment"
                    )
                yield parse_pharaoh(line, where=f"{path}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"{path}: alignments cannot be read: {reason}") from error
