"""Measure whether a classifier's attention shows which words its predictions depend on."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Float

from regard.errors import RequestError
from regard.models.text_classifier import TextClassifier
from regard.plurals import counted
from regard.tasks.classification.predict import Classifier
from regard.tasks.classification.probe import TextProbe, WordedText
from regard.tasks.faithfulness import CERTAIN, SHARES, VISIBLE, Removal, Report, Spread, measure_all, removal, spread
from regard.tasks.requests import check_same_length
from regard.viz.numbers import fixed, percent

# Maximum number of tokens that the model reads in the measures that leave out single words or permute weights. If texts are
# long, these measures use fewer texts, but at least `_AT_LEAST`.
_AFFORDABLE = 6_000_000
_AT_LEAST = 5
# Verdicts by the least value of `Removal.reached`: how much better than chance the most attended words are, and how far from
# the best order tried.
_VERDICTS = ((0.65, "are those"), (0.3, "are partly those"))
# A change of predictions counts as small below this share.
_STEADY = 0.02
_NONE = 1e-6


@dataclass(frozen=True)
class Seeds:
    """Comparison of models with the same settings but different seeds."""

    models: int
    attention: Spread
    """Jensen–Shannon divergence of the attention over words, from 0 to log 2 = 0.69; the mean over pairs of models."""
    predictions: Spread
    """Total variation distance of the predictions, from 0 to 1; the mean over pairs of models."""


@dataclass(frozen=True, kw_only=True)
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

    comprehensiveness: Removal
    """Loss of the predicted label's probability when words are deleted; the mean over the shares of words (AOPC)."""
    sufficiency: Removal
    """Loss of the predicted label's probability when only these words are kept."""
    accuracy: float
    """Share of texts labelled correctly with the model's own attention; if texts have several labels, all must be right."""
    uniform_accuracy: float
    exact_match: bool = False
    """Whether texts have several labels. Then a text counts as correct only if all its labels are correct."""
    seeds: Seeds | None = None

    def measures(self) -> list[tuple[str, Spread | str]]:
        rows: list[tuple[str, Spread | str]] = [
            (self._score_name, f"{100 * self.accuracy:.2f}%"),
            (f"{self._score_name} under uniform weights", f"{100 * self.uniform_accuracy:.2f}%"),
        ]
        if self.seeds is not None:
            rows += [
                (f"attention of {self.seeds.models} seeds (JS divergence)", self.seeds.attention),
                (f"predictions of {self.seeds.models} seeds (total variation)", self.seeds.predictions),
            ]
        return [*super().measures(), *rows]

    @property
    def _score_name(self) -> str:
        return "exact match of all labels" if self.exact_match else "accuracy"

    @property
    def sentence(self) -> str:
        """Return sentences that explain what the numbers mean for this model, without terms of statistics."""
        need, tau = self.comprehensiveness, self.leave_one_out.mean
        if self.uniform.mean < _NONE:
            return (
                "With equal weights on all words this model predicts the same, so its heatmaps do not show which words matter "
                "to it."
            )
        attended, random, best = (fixed(value) for value in (need.attention, need.random, need.best))
        evidence = (
            f"Deleting them (the top {SHARES[0]} to {SHARES[-1]}% of a text's words, mean of {len(SHARES)} shares) lowers the "
            f"probability of the predicted label by {attended}; deleting as many random words, by {random}; words in "
            f"the best order found (leaving out one word at a time), by {best}"
        )
        is_needed = need.p < CERTAIN and need.attention - need.random >= VISIBLE
        evidence += f": attention goes {need.reached:.0%} of the way." if is_needed else "."
        pairs = (
            f"In {(1 + tau) / 2:.0%} of word pairs, the word with more attention also matters more when left out (50% is "
            "chance)."
        )
        changed = f"With equal weights on all words, {percent(self.uniform_changed)} of the predictions change"
        scores = f"{self._score_name} from {self.accuracy:.1%} to {self.uniform_accuracy:.1%}"
        changed += ": the weights decide little." if self.uniform_changed < _STEADY else f" ({scores})."
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
        which = next((which for least, which in _VERDICTS if need.reached >= least), "")
        verdict = f"{which} that this model's predictions depend on"
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
    attributions: Sequence[str] = (),
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
        attributions: Attributions to compare with attention: `rollout`, `gradients`, `integrated`, `values`, `leave_one_out`,
            or `all`; see `Classifier.attribute`.

    Raises:
        RequestError: If the numbers of texts and labels differ, no text in the sample contains a word, or one of `others` has
            other labels or splits a text into another number of words.
        DataError: If a label did not occur in training.
    """
    check_same_length("faithfulness", texts=texts, labels=labels)
    chosen = np.random.default_rng(seed).permutation(len(texts))[:max_texts].tolist()
    worded = dict(zip(chosen, _worded_texts(classifier, [texts[number] for number in chosen]), strict=True))
    worded = {number: text for number, text in worded.items() if text.num_words}
    if not worded:
        raise RequestError("faithfulness: no text contains a word, expected at least one text with words")
    gold = classifier.labels.encode([labels[number] for number in worded])
    several, temperature = classifier.labels.multiple, classifier.temperature
    report = examine(
        classifier.model,
        list(worded.values()),
        gold,
        several=several,
        temperature=temperature,
        permutations=permutations,
        seed=seed,
        progress=progress,
        attributions=attributions,
    )
    if others:
        report = replace(report, seeds=compare_seeds([classifier, *others], [texts[number] for number in worded]))
    return report


def examine(
    model: TextClassifier,
    texts: Sequence[WordedText],
    gold: np.ndarray,
    *,
    several: bool = False,
    temperature: float = 1.0,
    permutations: int = 100,
    seed: int = 1,
    progress: bool = False,
    attributions: Sequence[str] = (),
) -> Faithfulness:
    """Measure the faithfulness of a model on tokenised texts, in random order; see `measure_faithfulness`.

    `gold` has the labels of the texts as numbers (N,), or as ones and zeros (N,C) if texts have `several` labels.
    """
    tokens = np.cumsum([len(text.ids) * (text.num_words + permutations) for text in texts])
    # The costly measures use the first texts, which are a random sample, because texts come in random order.
    shared, values = measure_all(
        (TextProbe(model.eval(), text, several=several, temperature=temperature) for text in texts),
        len(texts),
        affordable=max(_AT_LEAST, int((tokens <= _AFFORDABLE).sum())),
        permutations=permutations,
        seed=seed,
        progress=progress,
        attributions=attributions,
    )
    gold = gold.reshape(len(texts), -1)
    return Faithfulness(
        **shared,
        comprehensiveness=removal(values["comprehensiveness"], seed=seed),
        sufficiency=removal(values["sufficiency"], seed=seed),
        accuracy=float((values["decided"] == gold).all(-1).mean()),
        uniform_accuracy=float((values["uniform_decided"] == gold).all(-1).mean()),
        exact_match=several,
    )


def compare_seeds(classifiers: Sequence[Classifier], texts: Sequence[str]) -> Seeds:
    """Compare the attention and the predictions of models that differ in their seed, on texts with words.

    Raises:
        RequestError: If the models split a text into different numbers of words, or have different labels.

    Reference:
        Wiegreffe and Pinter 2019, Attention is not not Explanation, section 3.3.
    """
    attention, predictions = [], []
    for number, classifier in enumerate(classifiers):
        if classifier.labels.names != classifiers[0].labels.names:
            raise RequestError(f"faithfulness: model {number + 1} has other labels than model 1")
        model, several, temperature = classifier.model.eval(), classifier.labels.multiple, classifier.temperature
        worded = _worded_texts(classifier, texts)
        probes = [TextProbe(model, text, several=several, temperature=temperature) for text in worded]
        attention.append([probe.attention[0] for probe in probes])
        if [len(one) for one in attention[-1]] != [len(one) for one in attention[0]]:
            raise RequestError(f"faithfulness: model {number + 1} splits a text into another number of words than model 1")
        predictions.append([probe.keep(np.ones((1, len(probe.attention[0])), bool))[0, 0] for probe in probes])
    pairs = list(combinations(range(len(classifiers)), 2))
    apart = np.array([[divergence(attention[a][i], attention[b][i]) for a, b in pairs] for i in range(len(texts))]).mean(1)
    distances = [
        float(np.mean([float(probe.distance(predictions[a][i], predictions[b][i])) for a, b in pairs]))
        for i, probe in enumerate(probes)
    ]
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
    return [WordedText.of(classifier.tokenizer.encode(text).first(longest)) for text in texts]
