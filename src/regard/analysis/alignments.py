"""How well a translator's attention aligns words, where the right alignment is known."""

from collections.abc import Iterable, Sequence

from regard.errors import DataError, RequestError
from regard.records import Link, alignment_error_rate
from regard.records.data import Step
from regard.tasks.translation.predictor import Translator

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
    site: str | None = None,
    head: int | None = None,
    step: Step | None = None,
) -> float:
    """Feed the model given translations, link each target word to the source word it attends to most, and compare.

    Of a Transformer, what is best depends on the model: by default the heads' mean of its alignment layer (the last but one) is
    read at the step that produces the word, and `norm.i` weighs layer i by norms. One pass over few pairs with known links
    tells which layer, site and step to take.

    Args:
        translator: A trained model.
        sources: Sentences.
        targets: A translation of each.
        sure: The right links (source word, target word) of each pair, from 0.
        possible: Links that are not wrong either.
        words: The words of each pair that the links count, to be compared with those of the model.
        site: The attention that is read, such as `cross.2` or `norm.2`; `cross` if left out.
        head: One head of it, from 0; the mean over heads if left out.
        step: `produce`: the step that predicts the word; `consume`: the next, which is fed it. If left out, the model's own:
            `produce`, unless a model of yours says otherwise.

    Returns:
        The alignment error rate, from 0 to 1 (see `regard.alignment_error_rate`).

    Raises:
        RequestError: If the model has no attention, or no such site or head.
        DataError: If the model sees other words in a pair than the links count.

    Reference:
        Kobayashi et al. 2020, section 5; Chen et al. 2020, Accurate Word Alignment Induction from Neural Machine Translation,
        section 3.2 (the step that consumes a word aligns it much better: error 29.8 against 47.7 for German–English; on
        regard's built-in corpus it is the other way round, see `benchmarks/log.md`).
    """
    step = translator.model.alignment_step if step is None else step
    sites = None if site is None else (site,)
    predicted: list[set[Link]] = []
    for start in range(0, len(sources), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        for result in translator.force(sources[part], targets[part], record=sites):
            record = result.attention
            if record is None:
                raise RequestError("evaluate_alignment: this model has no attention over the source, so it aligns nothing")
            if words is not None:
                _check_words(words[len(predicted)], (record.source_words, record.target_words))
            predicted.append(set(record.alignment(site, head, step=step)))
    allowed = None if possible is None else [set(links) for links in possible]
    return alignment_error_rate(predicted, [set(links) for links in sure], allowed)


def _check_words(given: tuple[Sequence[str], Sequence[str]], found: tuple[Sequence[str], Sequence[str]]) -> None:
    for side, wanted, words in zip(("source", "target"), given, found, strict=True):
        if [word.casefold() for word in wanted] != [word.casefold() for word in words]:
            raise DataError(
                f"evaluate_alignment: the links count the {side} words {' '.join(wanted)!r}, but the model's tokenizer finds "
                f"{' '.join(words)!r}; use a tokenizer that finds the same words"
            )
