"""Records of any plain matrix with two lists of words."""

from collections.abc import Iterable, Mapping
from typing import Any

from regard.records import checks
from regard.records.data import NOTE, AttentionRecord


def record(
    weights: Any,
    source_words: Iterable[str],
    target_words: Iterable[str],
    *,
    source_text: str = "",
    target_text: str = "",
    score: float | None = None,
    reference: str | None = None,
    probabilities: dict[str, float] | None = None,
    target_is_read: bool = False,
    note: str = NOTE,
) -> AttentionRecord:
    """Make a record from any plain matrix and two lists of words.

    Args:
        weights: (T,S), or (H,T,S) with heads: a numpy array, a torch tensor, nested lists, or a dict of these by site.
        source_words: S words, the columns.
        target_words: T words, the rows.
        source_text: The sentence as it was written; by default its words with spaces between.
        target_text: Likewise.
        score: Score by which the output was ranked.
        reference: Reference text, written by a person.
        probabilities: For a classification, each label's; `target_words` is then the chosen label alone.
        target_is_read: For `decoder` sites whose rows and columns are both the words that the decoder reads.
        note: Statement of what the weights prove and what they do not prove; captions end with it.

    Returns:
        A record with one token a word and, unless `weights` is a dict, the one site `cross`, or `pool` of a classification.

    Raises:
        ShapeError: If the matrix has other sizes than the lists.
        DataError: If a weight is not a finite number.

    Example:
        >>> record([[0.9, 0.1], [0.2, 0.8]], ["good", "day"], ["guten", "tag"]).pharaoh()
        '0-0 1-1'
    """
    source, target = checks.strings("source_words", source_words), checks.strings("target_words", target_words)
    return AttentionRecord(
        source_tokens=source,
        target_tokens=target,
        source_words=source,
        target_words=target,
        source_word_of=tuple(range(len(source))),
        target_word_of=tuple(range(len(target))),
        weights=dict(weights) if isinstance(weights, Mapping) else {"pool" if probabilities else "cross": weights},
        source_text=source_text,
        target_text=target_text,
        score=score,
        reference=reference,
        probabilities={} if probabilities is None else probabilities,
        target_is_read=target_is_read,
        note=note,
    )
