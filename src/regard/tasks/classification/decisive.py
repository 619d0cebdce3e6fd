"""Share of a classifier's attention on the words that are known to decide the label."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.tasks.classification.predict import Classifier


def decisive_share(
    classifier: "Classifier", texts: Sequence[str], decisive: Sequence[Sequence[int]], *, words: Sequence[Sequence[str]]
) -> float:
    """Return the share of attention on the decisive words, from 0 to 1, as a mean over texts.

    Args:
        classifier: The classifier.
        texts: The texts.
        decisive: For each text, the positions of the words that decide its label.
        words: The words of each text, to which these positions refer.

    Raises:
        RequestError: If there are no texts, or the classifier splits a text into words that differ from `words`.
    """
    if not texts:
        raise RequestError("decisive_share: there are no texts, expected at least one")
    shares = []
    for result, positions, corpus_words in zip(classifier.classify(texts), decisive, words, strict=True):
        record = result.attention
        assert record is not None
        if list(record.source_words) != list(corpus_words):
            raise RequestError(
                f"decisive_share: the classifier splits {result.text!r:.80} into other words than the corpus; train it with "
                "tokenizer.kind whitespace"
            )
        weights = record.in_units("words").word_weights()
        shares.append(float(weights[list(positions)].sum() / max(float(weights.sum()), 1e-12)))
    return float(np.mean(shares))
