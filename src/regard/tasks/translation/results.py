"""One translation: text, scores and attention."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np

from regard.decoding import Hypothesis
from regard.plurals import counted
from regard.records import AttentionRecord
from regard.tasks.notebook import shortened, table
from regard.tasks.translation.sources import Source
from regard.text.symbols import END, UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class Translation:
    """One translation of one source."""

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
    alternatives: list["Translation"] = field(default_factory=list, repr=False)
    """The other translations: those of `n_best` by decreasing score, samples in the order drawn, and with `minimum_risk` by
    decreasing similarity to all.
    """
    _origin: "Origin | None" = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> AttentionRecord | None:
        """Record of the attention, built at the first access; None if no attention was recorded."""
        return None if self._origin is None else self._origin.record(self)

    def __repr__(self) -> str:
        rest = f", {counted(len(self.alternatives), 'alternative')}" if self.alternatives else ""
        cut = "" if self.finished else ", unfinished"
        return f"Translation({shortened(self.source)} → {shortened(self.text)}, log p {self.log_probability:.2f}{cut}{rest})"

    def _repr_html_(self) -> str:
        rows = [("source", self.source), ("translation", self.text), ("log p", f"{self.log_probability:.2f}")]
        rows += [(f"{one.log_probability:.2f}", one.text) for one in self.alternatives]
        cut = "" if self.finished else "The length limit cut the translation off. "
        return table("", rows, cut + (".attention shows which words the model attended to" if self._origin is not None else ""))


@dataclass(frozen=True)
class ScoredPair:
    """Probability of a given translation."""

    source: str
    target: str
    score: float
    """(`log_probability` + `length_reward` · length), divided by a length penalty; see `regard.decoding.score_of`."""
    log_probability: float
    """log p(target | source), natural logarithm."""
    token_log_probabilities: np.ndarray
    """Log probabilities of the T tokens of the target and of the end symbol, (T + 1)."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens of the target, including the end symbol."""
        return len(self.token_log_probabilities)


@dataclass(frozen=True)
class Origin:
    """Data from which the attention record of a translation is built."""

    hypothesis: Hypothesis
    source: Source
    tokenizers: tuple[Tokenizer, Tokenizer]
    replaced: dict[int, str]
    """Words shown instead of symbols of the output, by the position of the symbol. If a word replaces several symbols, the
    position of the first has the word, and the other positions have an empty text.
    """
    given: str | None = None
    """Text of the target if the caller gave it; None if the model produced it. The record shows the original words of this
    text, even if the model does not know them.
    """

    def record(self, translation: Translation) -> AttentionRecord:
        """Build the attention record. End symbols are among its tokens, but belong to no word."""
        source_tokens, source_words, source_word_of = self.source.describe(self.tokenizers[0])
        tokens = self.hypothesis.tokens
        ended = len(self.hypothesis.token_log_probabilities) > len(tokens)
        output = self.tokenizers[1].describe([*tokens, END] if ended else tokens)
        target_words, target_word_of = list(output.words), list(output.word_of)
        if self.given is not None:
            encoding = self.tokenizers[1].encode(self.given)
            target_words, target_word_of = list(encoding.words), [*encoding.word_of, -1]
        # One word of the output may contain several replaced symbols.
        for number, parts in groupby(sorted(self.replaced.items()), key=lambda item: output.word_of[item[0]]):
            target_words[number] = "".join(part for _, part in parts)
        return AttentionRecord(
            source_tokens=tuple(source_tokens),
            target_tokens=tuple(output.tokens),
            source_words=tuple(source_words),
            target_words=tuple(target_words),
            source_word_of=tuple(source_word_of),
            target_word_of=tuple(target_word_of),
            source_scheme=self.tokenizers[0].record_scheme,
            target_scheme=self.tokenizers[1].record_scheme,
            weights=self.hypothesis.attention,
            source_text=translation.source,
            target_text=translation.text,
            score=translation.score,
            log_probability=translation.log_probability,
        )


def translation_of(
    source: Source,
    hypotheses: Sequence[Hypothesis],
    tokenizers: tuple[Tokenizer, Tokenizer],
    *,
    replace_unknown: str | None,
    text: str | None = None,
    held: Callable[[Sequence[int]], dict[int, str]] | None = None,
) -> Translation:
    """Build a translation with its alternatives from the hypotheses for a source.

    Args:
        source: The source.
        hypotheses: The hypotheses. The first one becomes the translation, and the others become its alternatives.
        tokenizers: Tokenizers of source and target.
        replace_unknown: Site whose attention chooses the source word that replaces an unknown symbol; None for no replacement.
        text: Text of the target if the caller gave it; None if the model produced it.
        held: Function from the tokens of a translation to the words that replace its symbols, for required words that the
            vocabulary does not contain; see `TargetConstraints.unknown`.
    """
    made = []
    for hypothesis in hypotheses:
        replaced = _replacements(hypothesis, source, tokenizers[0], replace_unknown) if replace_unknown else {}
        replaced |= {} if held is None else held(hypothesis.tokens)
        made.append(
            Translation(
                source=source.text,
                text=tokenizers[1].decode(hypothesis.tokens, replace=replaced) if text is None else text,
                score=hypothesis.score,
                log_probability=hypothesis.log_probability,
                finished=hypothesis.finished,
                _origin=Origin(hypothesis, source, tokenizers, replaced, text) if hypothesis.attention else None,
            )
        )
    made[0].alternatives.extend(made[1:])
    return made[0]


def _replacements(hypothesis: Hypothesis, source: Source, tokenizer: Tokenizer, site: str) -> dict[int, str]:
    """Return the source word for each unknown symbol, by the symbol's position (Luong et al. 2015b).

    It is the word that got the most attention when the symbol was predicted.
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
