"""Measure whether a classifier's attention shows which words its predictions depend on."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Float

from regard.errors import RequestError
from regard.plurals import counted
from regard.reweight import flatten
from regard.tasks.classification.predict import Classifier
from regard.tasks.classification.probe import Probe, WordedText, erase, leave_one_out, permuted_distance, rank
from regard.tasks.faithfulness import CERTAIN, SHARES, VISIBLE, Removal, Report, Spread, kendall_tau, removal, spread
from regard.tasks.requests import check_alike
from regard.viz.numbers import fixed, percent

_RANDOM_ORDERS = 3
_AFFORDABLE = 6_000_000
"""Maximum number of tokens that the model reads in the measures that leave out single words or permute weights. If texts are
long, these measures use fewer texts, but at least `_AT_LEAST`.
"""
_AT_LEAST = 5
_VERDICTS = ((0.5, "those"), (0.2, "among those"))
"""Verdicts by the least effect of the most attended words, as a share of the effect of the best order tried, after subtracting
the effect of random words from both.
"""
_STEADY = 0.02
"""A change of predictions counts as small below this share."""
_NONE = 1e-6


@dataclass(frozen=True)
class Uniform:
    """Comparison of a model's own attention with equal weights on all tokens."""

    accuracy: float
    """Share of texts labelled correctly with the model's own attention; if texts have several labels, all must be right."""
    uniform_accuracy: float
    changed: float
    """Share of the predictions that change to another label with equal weights."""
    distance: float
    """Mean total variation distance between the predictions with the model's own and with equal weights."""
    exact_match: bool = False
    """Whether texts have several labels. Then a text counts as correct only if all its labels are correct."""

    @property
    def score_name(self) -> str:
        """Name of `accuracy` in reports."""
        return "exact match of all labels" if self.exact_match else "accuracy"


@dataclass(frozen=True)
class Seeds:
    """Comparison of models with the same settings but different seeds."""

    models: int
    attention: Spread
    """Jensen–Shannon divergence of the attention over words, from 0 to log 2 = 0.69; the mean over pairs of models."""
    predictions: Spread
    """Total variation distance of the predictions, from 0 to 1; the mean over pairs of models."""


@dataclass(frozen=True)
class Faithfulness(Report):
    """Measures of how well a classifier's attention shows which words its predictions depend on."""

    noun = "text"
    meaning = (
        "Bars: how much the probability of the predicted label falls if words are deleted, or if only these words are kept: "
        "the most attended words, random words, or the best order tried; mean of 1, 5, 10, 20 and 50% of the words. "
        "This does not prove the same for other texts."
    )
    ways = {  # noqa: RUF012
        "comprehensiveness": "without these words (comprehensiveness)",
        "sufficiency": "with these alone (sufficiency)",
    }

    texts: int
    comprehensiveness: Removal
    """Loss of the predicted label's probability when words are deleted; the mean over the shares of words (AOPC)."""
    sufficiency: Removal
    """Loss of the predicted label's probability when only these words are kept."""
    leave_one_out: Spread
    """Kendall τ, over the words of a text, of attention and the change of the prediction when the word is left out."""
    gradient: Spread
    """Kendall τ, over the words of a text, of attention and |gradient × input|."""
    uniform: Uniform
    permuted: Spread
    """Total variation distance of predictions under permuted weights; the median over permutations."""
    seeds: Seeds | None = None

    def measures(self) -> list[tuple[str, Spread | str]]:
        """Return the measures under equal weights, and those of several seeds."""
        rows: list[tuple[str, Spread | str]] = [
            ("total variation distance under uniform weights", f"{self.uniform.distance:.3f}"),
            (self.uniform.score_name, f"{100 * self.uniform.accuracy:.2f}%"),
            (f"{self.uniform.score_name} under uniform weights", f"{100 * self.uniform.uniform_accuracy:.2f}%"),
        ]
        if self.seeds is not None:
            rows += [
                (f"attention of {self.seeds.models} seeds (JS divergence)", self.seeds.attention),
                (f"predictions of {self.seeds.models} seeds (total variation)", self.seeds.predictions),
            ]
        return rows

    @property
    def sentence(self) -> str:
        """Return sentences that explain what the numbers mean for this model, without terms of statistics."""
        need, tau, uniform = self.comprehensiveness, self.leave_one_out.mean, self.uniform
        if uniform.distance < _NONE:
            return (
                "With equal weights on all words this model predicts the same, so its heatmaps do not show which words matter "
                "to it."
            )
        attended, random, best = (fixed(value) for value in (need.attention, need.random, need.best))
        evidence = (
            f"Deleting them (the top {SHARES[0]} to {SHARES[-1]}% of a text's words, mean of {len(SHARES)} shares) lowers the "
            f"probability of the predicted label by {attended}; deleting as many random words, by {random}; deleting words in "
            f"the best order found (by leaving out one word at a time), by {best}."
        )
        pairs = (
            f"In {(1 + tau) / 2:.0%} of all word pairs, the word with more attention also matters more when left out (50% is "
            "chance)."
        )
        changed = f"With equal weights on all words, {percent(uniform.changed)} of the predictions change"
        scores = f"{uniform.score_name} from {uniform.accuracy:.1%} to {uniform.uniform_accuracy:.1%}"
        changed += ": the weights decide little." if uniform.changed < _STEADY else f" ({scores})."
        return " ".join([self._verdict(), evidence, *([] if math.isnan(tau) else [pairs]), changed])

    def _verdict(self) -> str:
        need, enough = self.comprehensiveness, self.sufficiency
        margin, spared = need.attention - need.random, enough.random - enough.attention
        refused = "Do not read this model's heatmaps as reasons: the words with the most attention matter"
        if need.p < CERTAIN and -margin >= VISIBLE:
            return f"{refused} less than random ones."
        is_needed = need.p < CERTAIN and margin >= VISIBLE
        is_enough = enough.p < CERTAIN and spared >= VISIBLE
        if not is_needed and not is_enough:
            return f"{refused} no more than random ones, as far as {counted(self.texts, 'text')} can show."
        if not is_needed:
            return "The words with the most attention are enough for many predictions of this model, but it does not need them."
        reached = margin / max(need.best - need.random, _NONE)
        which = next((which for least, which in _VERDICTS if reached >= least), "")
        verdict = f"are {which} that this model's predictions depend on"
        verdict = verdict if which else "matter only a little more to this model than random ones"
        words = f"The words with the most attention {verdict}"
        return f"{words}." if is_enough else f"{words}, but they are not enough for the predictions."


def measure_faithfulness(
    classifier: Classifier,
    texts: Sequence[str],
    labels: Sequence[str | Collection[str]],
    *,
    others: Sequence[Classifier] = (),
    max_texts: int = 500,
    permutations: int = 100,
    seed: int = 1,
    progress: bool = False,
) -> Faithfulness:
    """Measure how well a classifier's attention shows which words its predictions depend on.

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
        RequestError: If the numbers of texts and labels differ, no text in the sample contains a word, or one of `others` has
            other labels or splits a text into another number of words.
        DataError: If a label did not occur in training.
    """
    check_alike("faithfulness", texts=texts, labels=labels)
    chosen = np.random.default_rng(seed).permutation(len(texts))[:max_texts].tolist()
    worded = dict(zip(chosen, _worded_texts(classifier, [texts[number] for number in chosen]), strict=True))
    worded = {number: text for number, text in worded.items() if text.num_words}
    if not worded:
        raise RequestError("faithfulness: no text contains a word, expected at least one text with words")
    gold = classifier.labels.encode([labels[number] for number in worded])
    report = examine(
        _probe_of(classifier, progress=progress), list(worded.values()), gold, permutations=permutations, seed=seed
    )
    if others:
        report = replace(report, seeds=compare_seeds([classifier, *others], [texts[number] for number in worded]))
    return report


def examine(
    probe: Probe, texts: Sequence[WordedText], gold: np.ndarray, *, permutations: int = 100, seed: int = 1
) -> Faithfulness:
    """Measure the faithfulness of a model on tokenised texts, in random order; see `measure_faithfulness`.

    `gold` has the labels of the texts as numbers (N,), or as ones and zeros (N,C) if texts have several labels.
    """
    ids = [text.ids for text in texts]
    tokens = np.cumsum([len(text.ids) * (text.num_words + permutations) for text in texts])
    # The costly measures use the first texts, which are a random sample, because texts come in random order.
    light = min(len(texts), max(_AT_LEAST, int((tokens <= _AFFORDABLE).sum())))
    attention = [text.sum_words(row) for text, row in zip(texts, probe.attention(ids), strict=True)]
    probe.doing = "leaving out single words"
    moved, lost = leave_one_out(probe, texts[:light])
    probe.doing = "leaving out several words"
    generator = np.random.default_rng(seed)
    by_attention = [rank(row, generator) for row in attention]
    orders = [by_attention, *([generator.permutation(text.num_words) for text in texts] for _ in range(_RANDOM_ORDERS))]
    orders.append([*(rank(row, generator) for row in lost), *by_attention[light:]])  # `_removal` leaves out the last ones
    comprehensiveness, sufficiency = (_removal(losses, light, seed) for losses in erase(probe, texts, orders))
    probe.doing = "computing gradients"
    unchanged = probe.probabilities(ids)
    gradients = probe.gradients(ids, unchanged.argmax(-1))
    saliency = [abs(text.sum_words(row)) for text, row in zip(texts, gradients, strict=True)]
    probe.doing = "changing the weights"
    even = probe.probabilities(ids, reweight=flatten)
    decided, otherwise = probe.decide(unchanged), probe.decide(even)
    return Faithfulness(
        texts=len(texts),
        comprehensiveness=comprehensiveness,
        sufficiency=sufficiency,
        leave_one_out=spread([kendall_tau(*pair) for pair in zip(attention, moved, strict=False)]),
        gradient=spread([kendall_tau(*pair) for pair in zip(attention, saliency, strict=True)]),
        uniform=Uniform(
            accuracy=_agreement(decided, gold),
            uniform_accuracy=_agreement(otherwise, gold),
            changed=1 - _agreement(otherwise, decided),
            distance=float(probe.distance(unchanged, even).mean()),
            exact_match=probe.several,
        ),
        permuted=spread(permuted_distance(probe, ids[:light], permutations=permutations, seed=seed)),
    )


def compare_seeds(classifiers: Sequence[Classifier], texts: Sequence[str]) -> Seeds:
    """Compare the attention and the predictions of models that differ in their seed, on texts with words.

    Raises:
        RequestError: If the models split a text into different numbers of words, or have different labels.

    Reference:
        Wiegreffe and Pinter 2019, Attention is not not Explanation, section 3.3.
    """
    attention, predictions, probes = [], [], [_probe_of(one) for one in classifiers]
    for number, (classifier, probe) in enumerate(zip(classifiers, probes, strict=True)):
        if classifier.labels.names != classifiers[0].labels.names:
            raise RequestError(f"faithfulness: model {number + 1} has other labels than model 1")
        worded = _worded_texts(classifier, texts)
        rows = probe.attention([text.ids for text in worded])
        attention.append([text.sum_words(row) for text, row in zip(worded, rows, strict=True)])
        if [len(one) for one in attention[-1]] != [len(one) for one in attention[0]]:
            raise RequestError(f"faithfulness: model {number + 1} splits a text into another number of words than model 1")
        predictions.append(probe.probabilities([text.ids for text in worded]))
    pairs = list(combinations(range(len(classifiers)), 2))
    apart = np.array([[divergence(attention[a][i], attention[b][i]) for a, b in pairs] for i in range(len(texts))]).mean(1)
    distances = np.mean([probes[0].distance(predictions[a], predictions[b]) for a, b in pairs], axis=0)
    return Seeds(models=len(classifiers), attention=spread(apart), predictions=spread(distances))


def divergence(first: Float[np.ndarray, " W"], second: Float[np.ndarray, " W"]) -> float:
    """Return the Jensen–Shannon divergence of two distributions of attention: ½ KL(p ‖ m) + ½ KL(q ‖ m), m = ½ (p + q).

    The weights are first divided by their sum. The result is from 0 to log 2; NaN if all weights of a distribution are zero.
    """
    if not first.sum() or not second.sum():
        return math.nan
    p, q = first / first.sum(), second / second.sum()
    m = (p + q) / 2
    return float(sum((one[one > 0] * np.log(one[one > 0] / m[one > 0])).sum() for one in (p, q)) / 2)


def _worded_texts(classifier: Classifier, texts: Sequence[str]) -> list[WordedText]:
    """Return the ids of each text, at most `data.max_tokens` of them, with the word that each token belongs to."""
    longest = classifier.config.data.max_tokens
    encodings = (classifier.tokenizer.encode(text) for text in texts)
    return [WordedText(np.array(one.ids[:longest], np.int32), np.array(one.word_of[:longest], np.int64)) for one in encodings]


def _probe_of(classifier: Classifier, *, progress: bool = False) -> Probe:
    several, temperature = classifier.labels.multiple, classifier.temperature
    return Probe(classifier.model, several=several, temperature=temperature, progress=progress)


def _removal(losses: Float[np.ndarray, "R N K"], known: int, seed: int) -> Removal:
    """Summarise the losses in three orders: by attention, random, and by leave-one-out (for the first `known` texts only)."""
    ways = np.stack([losses[0], losses[1:-1].mean(0), losses[-1]])  # (3,N,K)
    shares = np.stack([ways[0].mean(0), ways[1].mean(0), ways[2, :known].mean(0)], 1)
    rows = tuple(tuple(row) for row in shares.tolist())
    return removal(ways[0].mean(-1), ways[1].mean(-1), float(shares[:, 2].mean()), seed=seed, shares=rows)


def _agreement(decided: np.ndarray, gold: np.ndarray) -> float:
    same = decided == gold
    return float((same.all(-1) if same.ndim == 2 else same).mean())
