"""One translation: text, scores and attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from regard.decoding import Hypothesis
from regard.plurals import counted
from regard.records import AttentionRecord, views
from regard.records.data import P_GEN
from regard.tasks.results import Prediction, record_side, shortened, table, target_side
from regard.tasks.translation.data import Tokenizers
from regard.tasks.translation.sources import Source
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class Translation(Prediction):
    """One translation of one source, by the model or given by the caller."""

    source: str
    """The original text."""
    text: str
    """The translation."""
    score: float
    """Score that ranks hypotheses: (`log_probability` + `length_reward` · length), divided by a length penalty; see
    `regard.decoding.score_of`.
    """
    log_probability: float
    """log p(translation | source), natural logarithm, including the end symbol if `finished`."""
    finished: bool = True
    """Whether the model ended the translation; False if the length limit cut it off."""
    alternatives: list["Translation"] = field(default_factory=list)
    """The other translations: those of `n_best` by decreasing score, samples in the order drawn, and with `minimum_risk` by
    decreasing similarity to all.
    """
    token_log_probabilities: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32), compare=False)
    """Log probabilities of the tokens of the translation, and of the end symbol if `finished`."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens, including the end symbol if `finished`."""
        return len(self.token_log_probabilities)

    def __repr__(self) -> str:
        rest = f", {counted(len(self.alternatives), 'alternative')}" if self.alternatives else ""
        cut = "" if self.finished else ", unfinished"
        return f"Translation({shortened(self.source)} → {shortened(self.text)}, log p {self.log_probability:.2f}{cut}{rest})"

    def _repr_html_(self) -> str:
        rows = [("source", self.source), ("translation", self.text), ("log p", f"{self.log_probability:.2f}")]
        rows += [(f"{one.log_probability:.2f}", one.text) for one in self.alternatives]
        cut = "" if self.finished else "The length limit cut the translation off. "
        return table("", rows, cut + (".attention shows which words the model attended to" if self._build else ""))


def build_record(
    hypothesis: Hypothesis,
    source: Source,
    tokenizers: Tokenizers,
    replaced: Mapping[int, str],
    text: str,
    reference: str | None,
    copied: Mapping[int, str],
) -> AttentionRecord:
    """Build the attention record of a translation.

    Args:
        hypothesis: The translation as tokens, with its attention.
        source: The source.
        tokenizers: Tokenizers of source and target.
        replaced: Words shown instead of symbols of the output, as from `TargetConstraints.unknown`.
        text: The translation.
        reference: The target if the caller gave it, whose words are shown even if the model does not know them; else None.
        copied: Words that the model copied from the source, by the position of their symbols in the output.
    """
    weights = dict(hypothesis.attention)
    generated = weights.pop(P_GEN, np.zeros((0, 1)))  # of a source in parts, each part has a column
    known = replace(hypothesis, tokens=[UNKNOWN if place in copied else token for place, token in enumerate(hypothesis.tokens)])
    target = target_side(known, tokenizers.target, replaced, text, reference)
    tokens = [copied.get(place, token) for place, token in enumerate(target.pop("target_tokens"))]
    return AttentionRecord(
        **record_side("source", tokenizers.source, *source.describe(tokenizers.source), source.text),
        **target,
        target_tokens=tuple(tokens),
        weights=weights,
        p_gen=tuple(generated.sum(-1).tolist()),
        score=hypothesis.score,
        log_probability=hypothesis.log_probability,
    )


def disagreement(found: Translation, others: Sequence[Translation]) -> float:
    """Return how far attention and decision are apart, for the token of a translation where they are most.

    `others` are the same translation of the source without each of its words. See `Predictor.disagreement`.
    """
    assert found.attention is not None
    record, sizes = found.attention.in_units("words"), (len(found.token_log_probabilities), len(others))
    weights = views.pick_head(record.weights[record.site()], record.site(), None)
    attended = views.merge(weights, range(sizes[0]), record.source_word_of, sizes).argmax(axis=1)
    lost = np.exp(found.token_log_probabilities) - np.exp([other.token_log_probabilities for other in others])
    return float((lost.max(axis=0) - lost[attended, np.arange(sizes[0])]).max())


def replace_unknown(hypothesis: Hypothesis, source: Source, tokenizer: Tokenizer, site: str) -> dict[int, str]:
    """Return the source word for each unknown symbol, by the symbol's position (Luong et al. 2015b).

    It is the word that got the most attention at `site` when the symbol was predicted.
    """
    unknown = [position for position, token in enumerate(hypothesis.tokens) if token == UNKNOWN]
    if not unknown:
        return {}
    _, words, word_of = source.describe(tokenizer)
    if not words:  # an empty source whose translation has required words
        return {}
    weights = hypothesis.attention[site]
    weights = weights if weights.ndim == 2 else weights.mean(0)
    ordinary = np.array(word_of) >= 0
    best = np.where(ordinary, weights[unknown], -1.0).argmax(-1)
    return {position: words[word_of[place]] for position, place in zip(unknown, best.tolist(), strict=True)}
