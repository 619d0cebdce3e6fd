"""How translations are scored against references, the same in validation and in evaluation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.text.tokenizers.resolve import SAMPLE_SIZE, is_tokenised
from regard.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


def build_metrics(target: Tokenizer, references: Sequence[str]) -> "tuple[BLEU, CHRF]":
    """sacrebleu's BLEU and chrF, as they suit the references, and what a target tokenizer writes.

    Text that was tokenised already is taken as it is, other text by WMT's `13a`; a model that writes in lower case is compared
    without case. The metrics' signatures say so.

    Args:
        target: What wrote the translations. One of kind `whitespace` reads any text as tokenised.
        references: What they are compared with; whether they are tokenised is judged by the first some thousand.

    Reference:
        Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    from sacrebleu.metrics import BLEU, CHRF

    # `force` only silences a warning about text that looks tokenised.
    keeps_spaces = bool(target.scheme.space)  # others set punctuation by their own rules
    tokenised = target.kind == "whitespace" or (keeps_spaces and is_tokenised(references[:SAMPLE_SIZE]))
    tokenize = "none" if tokenised else "13a"
    return BLEU(tokenize=tokenize, lowercase=target.lowercase, force=True), CHRF(lowercase=target.lowercase)
