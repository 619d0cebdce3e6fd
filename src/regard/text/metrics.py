"""How translations are scored against references, the same in validation and in evaluation."""

from typing import TYPE_CHECKING

from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


def build_metrics(target: Tokenizer) -> "tuple[BLEU, CHRF]":
    """sacrebleu's BLEU and chrF, as they suit what a target tokenizer reads and writes.

    Text that was tokenised already is taken as it is, other text by WMT's `13a`; a model that writes in lower case is compared
    without case. The metrics' signatures say so.

    Reference:
        Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    from sacrebleu.metrics import BLEU, CHRF

    # `force` only silences a warning about text that looks tokenised.
    tokenize = "none" if target.kind == "whitespace" else "13a"
    return BLEU(tokenize=tokenize, lowercase=target.lowercase, force=True), CHRF(lowercase=target.lowercase)
