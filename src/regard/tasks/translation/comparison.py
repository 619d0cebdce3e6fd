"""Comparison of two translators on the same pairs, with tests of significance."""

from collections.abc import Sequence
from typing import Any

from regard.evaluation.comparison import ComparedScore, Comparison, least_p
from regard.tasks.requests import check_same_length
from regard.tasks.translation.metrics import suitable_metrics
from regard.tasks.translation.predict import Translator


def compare_translators(
    first: Translator,
    second: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    names: tuple[str, str] = ("the first", "the second"),
    resamples: int = 1000,
    progress: bool = False,
    **settings: Any,
) -> Comparison:
    """Test whether one translator is better than another with sacrebleu's paired bootstrap of BLEU and chrF.

    Args:
        first: A translator.
        second: Another translator. If either of the two produces lower-case text, the scores ignore case.
        sources: Sources that are not in the training data of either translator.
        targets: A reference translation of each source.
        names: Names of the two translators.
        resamples: Number of samples of the bootstrap.
        progress: Whether to show bars on standard error.
        settings: Settings of the search, as for `Translator.translate`.

    Raises:
        RequestError: If there are no pairs, or the numbers of sources and targets differ.

    Reference:
        Koehn 2004, Statistical Significance Tests for Machine Translation Evaluation.
    """
    from sacrebleu.significance import PairedTest

    check_same_length("compare", sources=sources, targets=targets)
    found = [
        [one.text for one in each.translate(sources, record=(), progress=progress, **settings)] for each in (first, second)
    ]
    # Case is ignored if either output is in lower case, so the metrics are built for such a tokenizer.
    tokenizers = [each.tokenizers.target for each in (first, second)]
    bleu, chrf = suitable_metrics(tokenizers[tokenizers[1].lowercase and not tokenizers[0].lowercase], targets)
    test = PairedTest(
        [("first", found[0]), ("second", found[1])], {"BLEU": bleu, "chrF": chrf}, [list(targets)], "bs", n_samples=resamples
    )
    results: Any
    signatures, results = test()
    # sacrebleu calls chrF `chrF2`, because β is 2.
    scores = [(name.rstrip("2"), str(signature), *results[name]) for name, signature in signatures.items()]
    least = least_p(len(sources))
    searches = [each.decoding(**settings).describe() for each in (first, second)]
    return Comparison(
        names=names,
        examples=len(sources),
        noun="pair",
        scores=tuple(
            ComparedScore(
                name, float(one.score), float(two.score), max(float(two.p_value), least), margins=(float(one.ci), float(two.ci))
            )
            for name, _, one, two in scores
        ),
        notes=(
            f"search of the first: {searches[0]}, of the second: {searches[1]}",
            *(f"{name}: {signature}" for name, signature, _, _ in scores),
        ),
    )
