"""The metrics that suit a translator, the same in validation, evaluation and comparison."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.evaluation.words import build_metrics
from regard.text.tokenizers.resolve import SAMPLE_SIZE, is_tokenised
from regard.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


def suitable_metrics(target: Tokenizer, references: Sequence[str]) -> "tuple[BLEU, CHRF]":
    """Build BLEU and chrF as they suit the references, and what a target tokenizer writes.

    Text that is tokenised already is taken as it is, other text is tokenised by WMT's `13a`. A model that writes in lower case
    is compared without case.

    Args:
        target: Tokenizer of the translations. One of kind `whitespace` reads any text as tokenised.
        references: References to compare with; whether they are tokenised is judged by the first few thousand.
    """
    keeps_spaces = bool(target.scheme.space)  # others set punctuation by their own rules
    tokenised = target.kind == "whitespace" or (keeps_spaces and is_tokenised(references[:SAMPLE_SIZE]))
    return build_metrics(tokenised=tokenised, lowercase=target.lowercase)
