"""A model's scores on the dev set as text; BLEU and chrF are shown with the search that found the translations."""

from collections.abc import Mapping
from typing import Any

_NAMES = {"bleu": "BLEU", "chrf": "chrF", "macro_f1": "macro F1", "accuracy_sd": "standard deviation of accuracy"}
_SEARCHED = ("bleu", "chrf", "exact_match")
_FIRST = ("loss", "perplexity", "bleu", "chrf", "exact_match", "accuracy", "macro_f1")
_NOT_RECORDED = "search not recorded"


def score_rows(scores: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name and the value of each score in a bundle's signature, for a table.

    The entry `decoding` of the scores is the search, such as `greedy` or `beam 5`.
    """
    how = scores.get("decoding")
    how = how if isinstance(how, str) and how else _NOT_RECORDED
    rows = []
    # A signature keeps its names in alphabetical order, which is not the order to show them in.
    names = [*(name for name in _FIRST if name in scores), *(name for name in scores if name not in _FIRST)]
    for name, value in ((name, scores[name]) for name in names):
        if name == "decoding":
            continue
        shown = _NAMES.get(name, str(name).replace("_", " "))
        rows.append((f"{shown} ({how})" if name in _SEARCHED else shown, _show(value)))
    return rows


def _show(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "`" + " ".join(str(value).split()).replace("`", "'") + "`"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
