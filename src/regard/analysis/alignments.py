"""How well a translator's attention aligns words, where the right alignment is known."""

from collections.abc import Iterable, Sequence

from regard.errors import DataError, RequestError
from regard.predict import Translator
from regard.record import Link, alignment_error_rate

_AT_ONCE = 1024
"""Pairs whose attention records are held at once."""


def evaluate_alignment(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    sure: Sequence[Iterable[Link]],
    possible: Sequence[Iterable[Link]] | None = None,
    *,
    words: Sequence[tuple[Sequence[str], Sequence[str]]] | None = None,
) -> float:
    """Feed the model given translations, link each target word to the source word it attends to most, and compare.

    Args:
        translator: A trained model.
        sources: Sentences.
        targets: A translation of each.
        sure: The right links (source word, target word) of each pair, from 0.
        possible: Links that are not wrong either.
        words: The words of each pair that the links count, to be compared with those of the model.

    Returns:
        The alignment error rate, from 0 to 1 (see `regard.record.alignment_error_rate`).

    Raises:
        RequestError: If the model has no attention.
        DataError: If the model sees other words in a pair than the links count.
    """
    predicted: list[set[Link]] = []
    for start in range(0, len(sources), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        for result in translator.force(sources[part], targets[part]):
            record = result.attention
            if record is None:
                raise RequestError("evaluate_alignment: this model has no attention over the source, so it aligns nothing")
            if words is not None:
                _check_words(words[len(predicted)], (record.source_words, record.target_words))
            predicted.append(set(record.alignment()))
    allowed = None if possible is None else [set(links) for links in possible]
    return alignment_error_rate(predicted, [set(links) for links in sure], allowed)


def _check_words(given: tuple[Sequence[str], Sequence[str]], found: tuple[Sequence[str], Sequence[str]]) -> None:
    for side, wanted, words in zip(("source", "target"), given, found, strict=True):
        if [word.casefold() for word in wanted] != [word.casefold() for word in words]:
            raise DataError(
                f"evaluate_alignment: the links count the {side} words {' '.join(wanted)!r}, but the model's tokenizer finds "
                f"{' '.join(words)!r}; use a tokenizer that finds the same words"
            )
