"""The metrics of translators, the same in validation, evaluation and comparison."""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from regard.config import DecodingConfig
from regard.evaluation.words import Evaluation, build_metrics, evaluate_translations
from regard.scripts import is_spaceless
from regard.text.tokenizers.resolve import SAMPLE_SIZE, is_tokenised
from regard.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF

# sacrebleu's tokenisation of letters, by a word of their Unicode names; `char` for others without spaces between words.
_SCRIPTS = {"CJK": "zh", "IDEOGRAPH": "zh", "HIRAGANA": "ja-mecab", "KATAKANA": "ja-mecab", "HANGUL": "ko-mecab"}


def score_outputs(
    forced: Sequence[Any],
    found: Sequence[Any],
    references: Sequence[str],
    tokenizer: Tokenizer,
    decoding: DecodingConfig,
    *,
    with_rouge: bool = False,
) -> Evaluation:
    """Score the texts that a model found, and the loss of the references, which the model was forced to write."""
    return evaluate_translations(
        [one.text for one in found],
        references,
        log_probability=math.fsum(one.log_probability for one in forced),
        num_tokens=sum(len(one.token_log_probabilities) for one in forced),
        metrics=suitable_metrics(tokenizer, references),
        decoding=decoding,
        with_rouge=with_rouge,
    )


def suitable_metrics(target: Tokenizer, references: Sequence[str]) -> "tuple[BLEU, CHRF]":
    """Build BLEU and chrF with the options that suit the references and the target tokenizer.

    Tokenised text stays unchanged; other text is tokenised by the rules for the script of most of its letters. Case is ignored
    for a model with lower-case output.
    """
    references = references[:SAMPLE_SIZE]
    keeps_spaces = bool(target.scheme.space)  # other tokenizers attach punctuation by their own rules
    tokenised = target.kind == "whitespace" or (keeps_spaces and is_tokenised(references))
    return build_metrics("none" if tokenised else _tokenisation(references), lowercase=target.lowercase)


def suitable_monitor(target: Tokenizer, references: Sequence[str]) -> Literal["bleu", "chrf", "loss"]:
    """Return the score that can tell models apart.

    It is BLEU; chrF if most references have fewer than 4 words, which BLEU compares; or the loss if there are no references.
    """
    if not references:
        return "loss"
    tokenize = suitable_metrics(target, references)[0].tokenizer
    short = sum(len(tokenize(text).split()) < 4 for text in references)
    return "chrf" if 2 * short > len(references) else "bleu"


def _tokenisation(references: Sequence[str]) -> str:
    """Return the name of the tokenisation for the script of most letters in the references."""
    counts = Counter[str]()
    for letter, count in Counter("".join(references)).items():
        if letter.isalpha():
            name, other = unicodedata.name(letter, ""), "char" if is_spaceless(letter) else "13a"
            counts[next((kind for script, kind in _SCRIPTS.items() if script in name), other)] += count
    if 2 * counts["13a"] >= counts.total():
        return "13a"
    if 10 * counts["ja-mecab"] >= counts.total():  # most Japanese text has more kana, and Chinese text has almost none
        return "ja-mecab"
    return max(counts, key=lambda kind: (counts[kind], kind))
