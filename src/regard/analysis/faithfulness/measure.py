"""Run the measures of faithfulness on a classifier; `translation.py` has those for translators."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import combinations

import numpy as np
from jaxtyping import Float

from regard.analysis.faithfulness.controls import divergence, kendall_tau, permuted_distance
from regard.analysis.faithfulness.erasure import erase, leave_one_out, rank
from regard.analysis.faithfulness.probe import Probe, WordedText
from regard.analysis.faithfulness.report import Erasure, Faithfulness, Report, Seeds, Spread, Uniform
from regard.errors import RequestError
from regard.evaluation import bootstrap_mean
from regard.reweight import flatten
from regard.tasks.classification.predictor import Classifier
from regard.tasks.translation.predictor import Translator

_RANDOM_ORDERS = 3
_AFFORDABLE = 6_000_000
"""Maximum number of tokens that the model reads in the measures that leave out single words or permute weights. If texts are
long, these measures use fewer texts, but at least `_AT_LEAST`.
"""
_AT_LEAST = 5


@singledispatch
def measure_faithfulness(
    classifier: Classifier | Translator,
    texts: Sequence[str],
    labels: Sequence[str | Collection[str]] = (),
    *,
    others: Sequence[Classifier] = (),
    max_texts: int = 500,
    permutations: int = 100,
    seed: int = 1,
    progress: bool = False,
) -> Report:
    """Measure how well a classifier's attention shows which words its predictions depend on.

    For a translator, this function calls `measure_translation_faithfulness`, which needs no labels.

    Args:
        classifier: The classifier.
        texts: Texts, preferably not from the training data. Texts without words are left out.
        labels: The label of each text, or a list of labels if texts have several.
        others: Classifiers with the same settings but other seeds; the attention of all classifiers is compared.
        max_texts: Maximum size of the random sample of texts that is measured.
        permutations: Number of permutations of each text's weights.
        seed: Seed of the sample and of all random choices.
        progress: Whether to show a bar on standard error.

    Raises:
        RequestError: If the model is no classifier or translator, the numbers of texts and labels differ, no text in the sample
            contains a word, or one of `others` has other labels or splits a text into another number of words.
        DataError: If a label did not occur in training.
    """
    raise RequestError(f"faithfulness: got a {type(classifier).__name__}, expected a classifier or a translator")


@measure_faithfulness.register
def _measure_classifier(
    classifier: Classifier,
    texts: Sequence[str],
    labels: Sequence[str | Collection[str]] = (),
    *,
    others: Sequence[Classifier] = (),
    max_texts: int = 500,
    permutations: int = 100,
    seed: int = 1,
    progress: bool = False,
) -> Faithfulness:
    if len(texts) != len(labels):
        raise RequestError(f"faithfulness: got {len(texts):,} texts and {len(labels):,} labels, expected the same number")
    chosen = np.random.default_rng(seed).permutation(len(texts))[:max_texts].tolist()
    sample = [texts[number] for number in chosen]
    worded = worded_texts(classifier, sample)
    kept = [number for number, text in zip(chosen, worded, strict=True) if text.num_words]
    if not kept:
        raise RequestError("faithfulness: no text contains a word, expected at least one text with words")
    gold = classifier.labels.encode([labels[number] for number in kept])
    probe = probe_of(classifier, progress=progress)
    report = examine(probe, [text for text in worded if text.num_words], gold, permutations=permutations, seed=seed)
    if others:
        report = replace(report, seeds=compare_seeds([classifier, *others], [texts[number] for number in kept]))
    return report


def examine(
    probe: Probe,
    texts: Sequence[WordedText],
    gold: np.ndarray,
    *,
    permutations: int = 100,
    seed: int = 1,
) -> Faithfulness:
    """Measure the faithfulness of a model on tokenised texts; see `measure_faithfulness`.

    Args:
        probe: The model.
        texts: N ≥ 1 texts of at least one word each, in random order.
        gold: The labels of the texts as numbers (N,), or as ones and zeros (N,C) if texts have several labels.
        permutations: Number of permutations of each text's weights.
        seed: Seed of all random choices.
    """
    ids = [text.ids for text in texts]
    tokens = np.cumsum([len(text.ids) * (text.num_words + permutations) for text in texts])
    light = min(len(texts), max(_AT_LEAST, int((tokens <= _AFFORDABLE).sum())))
    attention = [text.sum_words(row) for text, row in zip(texts, probe.attention(ids), strict=True)]
    probe.doing = "leaving out single words"
    moved, lost = leave_one_out(probe, texts[:light])
    probe.doing = "leaving out several words"
    comprehensiveness, sufficiency = _erasures(probe, texts, attention, lost, seed)
    probe.doing = "computing gradients"
    unchanged = probe.probabilities(ids)
    gradients = probe.gradients(ids, unchanged.argmax(-1))
    saliency = [abs(text.sum_words(row)) for text, row in zip(texts, gradients, strict=True)]
    probe.doing = "changing the weights"
    even = _uniform(probe, ids, unchanged, gold)
    permuted = permuted_distance(probe, ids[:light], permutations=permutations, seed=seed)
    return Faithfulness(
        texts=len(texts),
        comprehensiveness=comprehensiveness,
        sufficiency=sufficiency,
        leave_one_out=_spread([kendall_tau(*pair) for pair in zip(attention, moved, strict=False)]),
        gradient=_spread([kendall_tau(*pair) for pair in zip(attention, saliency, strict=True)]),
        uniform=even,
        permuted=_spread(permuted),
    )


def compare_seeds(classifiers: Sequence[Classifier], texts: Sequence[str]) -> Seeds:
    """Compare the attention and the predictions of models that differ in their seed.

    Args:
        classifiers: Two or more classifiers.
        texts: Texts with words.

    Raises:
        RequestError: If the models split a text into different numbers of words, or have different labels.

    Reference:
        Wiegreffe and Pinter 2019, Attention is not not Explanation, section 3.3.
    """
    attention, predictions, probes = [], [], [probe_of(one) for one in classifiers]
    for number, (classifier, probe) in enumerate(zip(classifiers, probes, strict=True)):
        if classifier.labels.names != classifiers[0].labels.names:
            raise RequestError(f"faithfulness: model {number + 1} has other labels than model 1")
        worded = worded_texts(classifier, texts)
        rows = probe.attention([text.ids for text in worded])
        attention.append([text.sum_words(row) for text, row in zip(worded, rows, strict=True)])
        if [len(one) for one in attention[-1]] != [len(one) for one in attention[0]]:
            raise RequestError(f"faithfulness: model {number + 1} splits a text into another number of words than model 1")
        predictions.append(probe.probabilities([text.ids for text in worded]))
    pairs = list(combinations(range(len(classifiers)), 2))
    apart = np.array([[divergence(attention[a][i], attention[b][i]) for a, b in pairs] for i in range(len(texts))]).mean(1)
    distances = np.mean([probes[0].distance(predictions[a], predictions[b]) for a, b in pairs], axis=0)
    return Seeds(models=len(classifiers), attention=_spread(apart), predictions=_spread(distances))


def worded_texts(classifier: Classifier, texts: Sequence[str]) -> list[WordedText]:
    """Return the ids of each text, at most `data.max_tokens` of them, with the word that each token belongs to."""
    longest = classifier.config.data.max_tokens
    encodings = (classifier.tokenizer.encode(text) for text in texts)
    return [WordedText(np.array(one.ids[:longest], np.int32), np.array(one.word_of[:longest], np.int64)) for one in encodings]


def probe_of(classifier: Classifier, *, progress: bool = False) -> Probe:
    """Build the probe that computes probabilities, attention and gradients of a classifier."""
    several, temperature = classifier.labels.multiple, classifier.temperature
    return Probe(classifier.model, several=several, temperature=temperature, progress=progress)


def _erasures(
    probe: Probe, texts: Sequence[WordedText], attention: list[np.ndarray], lost: list[np.ndarray], seed: int
) -> tuple[Erasure, Erasure]:
    """Return the comprehensiveness and sufficiency of words in three orders: by attention, random, and by leave-one-out.

    For texts whose loss without single words is not in `lost`, the last order is that by attention; `_erasure` leaves it out.
    """
    generator = np.random.default_rng(seed)
    orders = [[rank(row, generator) for row in attention]]
    orders += [[generator.permutation(text.num_words) for text in texts] for _ in range(_RANDOM_ORDERS)]
    orders += [[*(rank(row, generator) for row in lost), *orders[0][len(lost) :]]]
    return tuple(_erasure(losses, len(lost), seed) for losses in erase(probe, texts, orders))  # type: ignore[return-value]


def _erasure(losses: Float[np.ndarray, "R N K"], known: int, seed: int) -> Erasure:
    """Summarise a measure of three orders: by attention, random, and by leave-one-out (for the first `known` texts only)."""
    ways = np.stack([losses[0], losses[1:-1].mean(0), losses[-1]])  # (3,N,K)
    shares = np.stack([ways[0].mean(0), ways[1].mean(0), ways[2, :known].mean(0)], 1)
    compared = bootstrap_mean(ways[1].mean(-1), ways[0].mean(-1), seed=seed)
    return Erasure(
        attention=compared.second,
        random=compared.first,
        leave_one_out=float(shares[:, 2].mean()),
        low=compared.low,
        high=compared.high,
        p=compared.p,
        shares=tuple(tuple(row) for row in shares.tolist()),
    )


def _uniform(probe: Probe, ids: Sequence[np.ndarray], unchanged: np.ndarray, gold: np.ndarray) -> Uniform:
    even = probe.probabilities(ids, reweight=flatten)
    decided, otherwise = (probe.decide(one) for one in (unchanged, even))
    return Uniform(
        accuracy=_right(decided, gold),
        uniform_accuracy=_right(otherwise, gold),
        changed=1 - _right(otherwise, decided),
        distance=float(probe.distance(unchanged, even).mean()),
        exact_match=probe.several,
    )


def _right(decided: np.ndarray, gold: np.ndarray) -> float:
    same = decided == gold
    return float((same.all(-1) if same.ndim == 2 else same).mean())


def _spread(values: Sequence[float] | np.ndarray) -> Spread:
    known = np.array([value for value in values if not np.isnan(value)])
    return Spread(float(known.mean()), float(known.std()), len(known)) if len(known) else Spread(math.nan, math.nan, 0)
