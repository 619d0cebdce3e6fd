"""Minimum Bayes risk: choose the translation that is most similar to all others."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Float
from sacrebleu.metrics import BLEU
from sacrebleu.metrics.helpers import extract_all_char_ngrams, extract_word_ngrams
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from regard.tasks.translation.metrics import suitable_metrics
from regard.tasks.translation.results import Translation
from regard.text.tokenizers.tokenizer import Tokenizer

Utility = Literal["chrf", "bleu"]
_CHARACTERS, _WORDS, _BETA = 6, 4, 2
_13A = Tokenizer13a()


def least_risky(translation: Translation, utility: Utility, tokenizer: Tokenizer) -> Translation:
    """Return the translation most similar to all others, which become its alternatives by decreasing similarity.

    `tokenizer` is that of the target.
    """
    candidates = [translation, *translation.alternatives]
    texts = [one.text for one in candidates]
    bleu, _ = suitable_metrics(tokenizer, texts)
    gains = expected_utilities(texts, utility, tokenize=bleu.tokenizer)
    order = [candidates[place] for place in np.argsort(-gains, kind="stable")]
    return replace(order[0], alternatives=[replace(one, alternatives=[]) for one in order[1:]])


def expected_utilities(
    candidates: Sequence[str], utility: Utility, *, tokenize: Callable[[str], str] = _13A
) -> Float[np.ndarray, " N"]:
    """Compute the expected utility of each of N candidates, its mean similarity to all: (1/N) Σ_j u(candidate_i, candidate_j).

    Args:
        candidates: Translations of one source. Each is compared with all of them as references; duplicates count several times.
        utility: `chrf` (Popović 2015; β = 2, up to 6 characters) or `bleu` (smoothed, of a sentence), both as in sacrebleu.
        tokenize: Function that puts spaces between the words of a text, for BLEU; by default, WMT's rules `13a`.

    Returns:
        Values from 0 to 100.

    Reference:
        Kumar & Byrne 2004; Eikema & Aziz 2020, "Is MAP Decoding All You Need?", section 7.
    """
    counts = Counter(candidates)
    texts = list(counts)
    gains = sentence_chrf(texts) if utility == "chrf" else sentence_bleu(texts, tokenize)
    means = gains @ np.array([counts[text] for text in texts]) / len(candidates)
    of = dict(zip(texts, means, strict=True))
    return np.array([of[text] for text in candidates])


def sentence_chrf(texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """Return chrF of each text (rows) against each text (columns), equal to `sacrebleu.sentence_chrf`.

    chrF = 100·(1 + β²)·P·R / (β²·P + R), where P and R are the means of precision and recall over those n-gram orders (1 to 6)
    of which both texts have n-grams.
    """
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    each = [extract_all_char_ngrams(text, _CHARACTERS, False) for text in texts]
    for order in range(_CHARACTERS):
        matches, sizes = _matches([grams[order] for grams in each])
        both = (sizes[:, None] > 0) & (sizes > 0)
        orders += both
        precision += np.divide(matches, sizes[:, None], where=both, out=np.zeros_like(matches))
        recall += np.divide(matches, sizes, where=both, out=np.zeros_like(matches))
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    below = _BETA**2 * precision + recall
    return np.divide(100 * (1 + _BETA**2) * precision * recall, below, where=below > 0, out=np.zeros_like(below))


def sentence_bleu(texts: Sequence[str], tokenize: Callable[[str], str] = _13A) -> Float[np.ndarray, "N N"]:
    """Return BLEU of each text (rows) against each text (columns), equal to `sacrebleu.sentence_bleu`."""
    words = [tokenize(text.rstrip()).split() for text in texts]
    found = [_matches([extract_word_ngrams(own, order) for own in words]) for order in range(1, _WORDS + 1)]
    scores = np.zeros((len(texts), len(texts)))
    for one, other in np.ndindex(*scores.shape):
        correct = [int(matches[one, other]) for matches, _ in found]
        total = [int(sizes[one]) for _, sizes in found]
        lengths = len(words[one]), len(words[other])
        scores[one, other] = BLEU.compute_bleu(correct, total, *lengths, smooth_method="exp", effective_order=True).score
    return scores


def _matches(grams: Sequence[Counter[object]]) -> tuple[Float[np.ndarray, "N N"], Float[np.ndarray, " N"]]:
    """Count the n-grams that each pair of texts shares, and the n-grams of each text.

    An n-gram that occurs a times in one text and b times in another is shared min(a, b) = Σ_t [a ≥ t][b ≥ t] times. So one
    matrix product of zeros and ones counts the shared n-grams of all pairs.
    """
    number: dict[tuple[object, int], int] = {}
    rows = [
        [number.setdefault((gram, time), len(number)) for gram, count in own.items() for time in range(count)] for own in grams
    ]
    present = np.zeros((len(grams), len(number)), dtype=np.float32)
    for row, columns in enumerate(rows):
        present[row, columns] = 1
    return (present @ present.T).astype(np.float64), np.array([len(columns) for columns in rows], dtype=np.float64)
