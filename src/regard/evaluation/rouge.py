"""ROUGE, the overlap of summaries with their references, computed by torchmetrics (extra `rouge`)."""

from collections.abc import Callable, Sequence
from typing import Any
from unicodedata import category, normalize

from regard.errors import RequestError, install_command

KEYS = ("rouge1", "rouge2", "rougeL")
"""Names of the scores: the overlap of words, of pairs of words, and the longest common subsequence."""


def rouge(texts: Sequence[str], references: Sequence[str], separate: Callable[[str], str]) -> dict[str, Any]:
    """Return ROUGE-1, ROUGE-2 and ROUGE-L: F1 from 0 to 100, the mean over texts, without stemming.

    Words are runs of letters, their marks and digits, of any script, in NFC and lower case. For ASCII text, the scores are
    those of Google's `rouge-score`.

    Args:
        texts: Texts that a model wrote.
        references: The reference of each text.
        separate: Function that puts spaces between the words of a text, such as the tokenizer of BLEU.

    Raises:
        RequestError: If torchmetrics is not installed.

    Reference: Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries, sections 2 and 3.
    """
    try:
        from torchmetrics.functional.text.rouge import rouge_score
    except ImportError as error:
        raise RequestError(f"ROUGE needs torchmetrics, which is not installed: {install_command('rouge')}") from error

    def words(text: str) -> list[str]:
        lower = separate(normalize("NFC", text)).lower()
        return "".join(each if category(each)[0] in "LMN" else " " for each in lower).split()

    scores = rouge_score(list(texts), list(references), normalizer=str, tokenizer=words, rouge_keys=KEYS)
    return {key: 100 * float(scores[f"{key}_fmeasure"]) for key in KEYS}
