"""How translations are scored against references, the same in validation and in evaluation."""

from typing import TYPE_CHECKING

from regard.config import TokenizersConfig, WhitespaceConfig

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


def build_metrics(tokenizers: TokenizersConfig) -> "tuple[BLEU, CHRF]":
    """sacrebleu's BLEU and chrF, as they suit the target's text.

    Text that was tokenised already is taken as it is, other text by WMT's `13a`; a model that writes in lower case is compared
    without case. The metrics' signatures say so.

    Reference:
        Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    from sacrebleu.metrics import BLEU, CHRF

    lowercase = tokenizers.target.lowercase
    tokenized = isinstance(tokenizers.target, WhitespaceConfig)
    # `force` only silences a warning about text that looks tokenised.
    return BLEU(tokenize="none" if tokenized else "13a", lowercase=lowercase, force=True), CHRF(lowercase=lowercase)
