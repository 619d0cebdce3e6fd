"""Alignment error of a translator's attention, measured on pairs whose correct alignment is known."""

from collections.abc import Iterable, Sequence

from regard.errors import DataError, RequestError
from regard.records import Link, alignment_error_rate
from regard.records.data import Step
from regard.tasks.translation.predict import Translator

# Number of pairs whose attention records are in memory at the same time.
_AT_ONCE = 1024


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
    """Link each word of given translations to the source word it attends to most, and compare the links with known ones.

    Which attention aligns best depends on the model. For a Transformer, the default is the mean over the heads of its alignment
    layer (the last but one), at the step that produces the word. `norm.i` is the attention of layer i, weighted by the norms
    of the value vectors. To choose site and step, measure the error on a few pairs with known links.

    Args:
        translator: A trained model.
        sources: Sentences.
        targets: A translation of each source.
        sure: The correct links of each pair: (source word, target word), counted from 0.
        possible: For each pair, further links that do not count as errors.
        words: The source and target words of each pair, to which the links refer. If given, they must be the words that the
            model's tokenizer finds, apart from upper and lower case.
        site: The attention to use, such as `cross.2` or `norm.2`; `cross` by default.
        head: A head of that site, from 0; by default the mean over heads.
        step: `produce` for the step that predicts the word, or `consume` for the next step, which reads the word. The default
            is the model's `alignment_step`, which is `produce` for every model of regard.

    Returns:
        The alignment error rate, from 0 to 1 (see `regard.alignment_error_rate`).

    Raises:
        RequestError: If the model has no attention, or no such site or head.
        DataError: If the words of the model and the words that the links refer to differ.

    Reference:
        Kobayashi et al. 2020, section 5; Chen et al. 2020, Accurate Word Alignment Induction from Neural Machine Translation,
        section 3.2. There, the step that consumes a word aligns it much better (error 29.8 against 47.7 for German–English); on
        regard's built-in corpus, the step that produces it aligns better (`benchmarks/log.md`).
    """
    step = translator.model.alignment_step if step is None else step
    sites = None if site is None else (site,)
    predicted: list[set[Link]] = []
    for start in range(0, len(sources), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        for result in translator.force(sources[part], targets[part], record=sites):
            record = result.attention
            if record is None:
                raise RequestError("evaluate_alignment: this model has no attention over the source, so it cannot align words")
            if words is not None:
                _check_words(words[len(predicted)], (record.source_words, record.target_words))
            predicted.append(set(record.alignment(site, head, step=step, units="words")))
    allowed = None if possible is None else [set(links) for links in possible]
    return alignment_error_rate(predicted, [set(links) for links in sure], allowed)


def _check_words(link_words: tuple[Sequence[str], Sequence[str]], model_words: tuple[Sequence[str], Sequence[str]]) -> None:
    for side, expected, words in zip(("source", "target"), link_words, model_words, strict=True):
        if [word.casefold() for word in expected] != [word.casefold() for word in words]:
            raise DataError(
                f"evaluate_alignment: the links refer to the {side} words {' '.join(expected)!r}, but the model's tokenizer "
                f"finds {' '.join(words)!r}; use a tokenizer that finds the same words"
            )
