"""Evaluation of models that predict words: perplexity of texts, and quality of translations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.config import DecodingConfig
from regard.config.training import SearchPrecision
from regard.evaluation.rouge import rouge
from regard.evaluation.tables import Result
from regard.plurals import counted

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


@dataclass(frozen=True)
class LanguageEvaluation(Result):
    """Scores of a language model on texts. The model predicts an end symbol after each text."""

    texts: int
    tokens: int
    """Number of tokens, including end symbols."""
    unknown: int
    """Number of tokens that the vocabulary does not contain. They make perplexities too low."""
    loss: float
    """Mean of −log p per token, in nats."""
    perplexity: float
    """exp(loss) per token, which is comparable only between models with the same vocabulary."""
    word_perplexity: float
    """Perplexity per word: exp(L / (W + N)) with the total loss L, W words (separated by spaces), and N texts, whose ends
    count as words.
    """
    bits_per_character: float
    """Total loss in bits, divided by the number of characters. The end of each text counts as a character. Consecutive spaces
    count as one, unless the model predicts white space. Comparable between all models without unknown tokens.
    """

    def render(self) -> str:
        """Return a few lines for a terminal."""
        unknown = f", {self.unknown:,} of them unknown to the model ({self.unknown / self.tokens:.2%})" if self.unknown else ""
        per_word = f"{self.word_perplexity:,.3f}" if self.word_perplexity < 1e6 else f"{self.word_perplexity:.3g}"
        return (
            f"{counted(self.texts, 'text')}, {counted(self.tokens, 'token')}{unknown}\n"
            f"loss        {self.loss:.4f}   (nats per token)\n"
            f"perplexity  {self.perplexity:,.3f}   (per token; {per_word} per word)\n"
            f"bits        {self.bits_per_character:.4f}   (per character)"
        )


def evaluate_language(
    texts: Sequence[str], *, log_probability: float, num_tokens: int, num_unknown: int, shown: Sequence[str] | None = None
) -> LanguageEvaluation:
    """Return the scores of a language model, from the sum of the log probabilities of the tokens of texts, with end symbols.

    `shown` are the texts whose characters are counted, with white space written as symbols; by default `texts`.

    perplexity = exp(−Σ log p(token | tokens before it) / number of tokens)
    """
    words = sum(len(text.split()) for text in texts) + len(texts)
    characters = sum(len(" ".join(text.split())) for text in (texts if shown is None else shown)) + len(texts)
    return LanguageEvaluation(
        texts=len(texts),
        tokens=num_tokens,
        unknown=num_unknown,
        loss=-log_probability / num_tokens,
        perplexity=_exp(-log_probability / num_tokens),
        word_perplexity=_exp(-log_probability / words),
        bits_per_character=-log_probability / math.log(2) / characters,
    )


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


@dataclass(frozen=True)
class Evaluation(Result):
    """Scores of a model's translations, and its loss on the references."""

    loss: float
    """Mean of −log p per token of the references, including end symbols, in nats."""
    perplexity: float
    """exp(loss)."""
    bleu: float
    """BLEU of the model's translations, from 0 to 100."""
    chrf: float
    """chrF of the model's translations, from 0 to 100."""
    length_ratio: float
    """Number of words in the translations divided by the number of words in the references, as BLEU counts words."""
    exact_match: float
    """Share of translations that equal their references, from 0 to 1."""
    character_error_rate: float
    """Number of characters to insert, delete or replace, divided by the number of characters in the references."""
    word_error_rate: float
    """The same for words, split as for BLEU; for phonemes that are separated by spaces, this is the phoneme error rate."""
    bleu_signature: str
    """sacrebleu's signature of BLEU, which describes how the score was computed (`tok:` how texts are split); quote it."""
    chrf_signature: str
    pairs: int
    beam_size: int
    length_penalty: float
    length_reward: float = 0.0
    precision: SearchPrecision = "float32"
    """Number format of the matrix products in the search."""
    search: str = ""
    """All settings of the search that affect the translations, in words."""
    rouge1: float | None = None
    """ROUGE-1 of the model's translations, F1 from 0 to 100; None if it was not requested."""
    rouge2: float | None = None
    """ROUGE-2, the same for pairs of words."""
    rougeL: float | None = None
    """ROUGE-L, by the longest common subsequence."""

    def render(self) -> str:
        """Return a few lines for a terminal."""
        beam = "greedy" if self.beam_size == 1 else f"beam {self.beam_size}"
        warning = warn_of_zero(self.bleu, self.chrf)
        rouge = "" if self.rouge1 is None else f"ROUGE      {self.rouge1:.2f} / {self.rouge2:.2f} / {self.rougeL:.2f}"
        rouge += f"   ({beam}; F1 of ROUGE-1 / 2 / L, without stemming)\n" if rouge else ""
        return (
            f"{counted(self.pairs, 'pair')}, {self.search}\n"
            f"loss       {self.loss:.4f}   (perplexity {self.perplexity:.3f})\n"
            f"BLEU       {self.bleu:.2f}   ({beam}; {self.bleu_signature})\n"
            f"chrF       {self.chrf:.2f}   ({beam}; {self.chrf_signature})\n{rouge}"
            f"exact      {self.exact_match:.2%}   ({beam}; translations that equal their references)\n"
            f"errors     {self.character_error_rate:.2%} of characters, {self.word_error_rate:.2%} of words   ({beam})\n"
            f"length     {self.length_ratio:.3f}   (words in the translations / words in the references)"
        ) + (f"\n{warning}" if warning else "")


@dataclass(frozen=True)
class CaptionEvaluation(Evaluation):
    """Scores of a model's texts about images, and its loss on the references."""

    weight_on_regions: float | None = None
    """Share of a word's attention on the cells of its region, averaged over the words of the references; None without
    regions."""
    words: int = 0
    """Number of words with a region."""

    def render(self) -> str:
        if self.weight_on_regions is None:
            return super().render()
        shown = f"{self.weight_on_regions:.2%}   (mean weight of a word on its region; {counted(self.words, 'word')})"
        return f"{super().render()}\nregions    {shown}"


def warn_of_zero(bleu: float, chrf: float) -> str:
    """Return a warning if BLEU is 0 although the translations share characters with the references; else an empty text."""
    if bleu > 0 or chrf <= 0:
        return ""
    return (
        f"warning: BLEU is 0 although chrF is {chrf:.1f}, because BLEU compares sequences of up to four words; compare models "
        "by chrF, the loss, exact match or error rates"
    )


def build_metrics(tokenisation: str, *, lowercase: bool) -> "tuple[BLEU, CHRF]":
    """Build sacrebleu's BLEU and chrF (Post 2018, "A Call for Clarity in Reporting BLEU Scores").

    The tokenisation is a name of sacrebleu, such as `13a`, or `none` if texts are tokenised. `lowercase` ignores case.
    """
    from sacrebleu.metrics import BLEU, CHRF

    # `force` only silences a warning about text that looks tokenised.
    try:
        bleu = BLEU(tokenize=tokenisation, lowercase=lowercase, force=True)
    except (ImportError, RuntimeError):  # MeCab or its dictionary is not installed; the signature shows the replacement
        bleu = BLEU(tokenize={"ja-mecab": "char", "ko-mecab": "13a"}[tokenisation], lowercase=lowercase, force=True)
    return bleu, CHRF(lowercase=lowercase)


def quality(translations: Sequence[str], references: Sequence[str], metrics: "tuple[BLEU, CHRF]") -> dict[str, Any]:
    """Return the scores of translations, by the names of the fields of `Evaluation`; all are 0 without translations."""
    bleu, chrf = metrics
    texts, expected = (_normalise(each, lowercase=bleu.lowercase) for each in (translations, references))
    if not texts:
        numbers = dict.fromkeys(("bleu", "chrf", "length_ratio", "exact_match"), 0.0)
        return {**numbers, "bleu_signature": "", "chrf_signature": ""}
    score = bleu.corpus_score(list(translations), [list(references)])
    return {
        "bleu": score.score,
        "chrf": chrf.corpus_score(list(translations), [list(references)]).score,
        "length_ratio": score.sys_len / max(score.ref_len, 1),
        "exact_match": sum(map(str.__eq__, texts, expected)) / len(texts),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }


def _normalise(texts: Sequence[str], *, lowercase: bool) -> list[str]:
    return [" ".join((text.lower() if lowercase else text).split()) for text in texts]


def evaluate_translations(
    translations: Sequence[str],
    references: Sequence[str],
    *,
    log_probability: float,
    num_tokens: int,
    metrics: "tuple[BLEU, CHRF]",
    decoding: DecodingConfig,
    with_rouge: bool = False,
) -> Evaluation:
    """Score translations against references, to whose `num_tokens` tokens, with end symbols, the model gives a probability.

    The result also reports the settings of the search, and ROUGE if `with_rouge`.
    """
    bleu, _ = metrics
    both = [_normalise(texts, lowercase=bleu.lowercase) for texts in (translations, references)]
    words = [[bleu.tokenizer(text).split() for text in texts] for texts in both]
    loss = -log_probability / num_tokens
    return Evaluation(
        loss=loss,
        perplexity=_exp(loss),
        **quality(translations, references, metrics),
        character_error_rate=error_rate(*both),
        word_error_rate=error_rate(*words),
        pairs=len(translations),
        beam_size=decoding.beam_size,
        length_penalty=decoding.length_penalty,
        length_reward=decoding.length_reward,
        precision=decoding.precision,
        search=decoding.describe(),
        **(rouge(translations, references, bleu.tokenizer) if with_rouge else {}),
    )


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the smallest number of insertions, deletions and substitutions that turn one sequence into another.

    Reference:
        Levenshtein 1966, "Binary codes capable of correcting deletions, insertions, and reversals".
    """
    number: dict[str, int] = {}
    ids = np.array([number.setdefault(item, len(number)) for item in second], np.int64)
    # One row of the table of distances at a time, each computed by vector operations.
    places = np.arange(len(ids) + 1)
    row = places  # distances of the items read so far from each beginning of the second sequence
    for count, item in enumerate(first, 1):
        edited = np.minimum(row[1:] + 1, row[:-1] + (ids != number.get(item, -1)))
        # Each further insertion costs 1, so the minimum over all numbers of insertions is a running minimum.
        row = np.minimum.accumulate(np.append(count, edited) - places) + places
    return int(row[-1])


def error_rate(texts: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Return the number of edits that turn all sequences into their references, divided by the length of the references."""
    edits = sum(edit_distance(one, other) for one, other in zip(texts, references, strict=True) if one != other)
    return edits / max(sum(map(len, references)), 1)
