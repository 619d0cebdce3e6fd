"""The metrics of translators, the same in validation, evaluation and comparison."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.evaluation.words import build_metrics
from regard.text.tokenizers.resolve import SAMPLE_SIZE, is_tokenised
from regard.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


def suitable_metrics(target: Tokenizer, references: Sequence[str]) -> "tuple[BLEU, CHRF]":
    """Build BLEU and chrF with the options that suit the references and the target tokenizer.

    Tokenised text stays unchanged; other text is tokenised with WMT's `13a`. Case is ignored for a model with lower-case
    output.

    Args:
        target: Tokenizer of the translations. With kind `whitespace`, all text counts as tokenised.
        references: References. The first few thousand show whether they are tokenised.
    """
    keeps_spaces = bool(target.scheme.space)  # other tokenizers attach punctuation by their own rules
    tokenised = target.kind == "whitespace" or (keeps_spaces and is_tokenised(references[:SAMPLE_SIZE]))
    return build_metrics(tokenised=tokenised, lowercase=target.lowercase)
