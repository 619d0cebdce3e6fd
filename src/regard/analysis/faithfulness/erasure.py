"""Deletion of words: how a prediction changes without the most attended words, and with these words alone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from regard.analysis.faithfulness.probe import Probe, WordedText

SHARES = (1, 5, 10, 20, 50)
"""Percentages of a text's words that are deleted or kept."""


class Deletions:
    """Texts with deleted words. Equal texts are stored once, and the model runs on all texts together."""

    def __init__(self, probe: Probe, texts: Sequence[WordedText]) -> None:
        self._probe = probe
        self._texts = texts
        self._known: dict[tuple[int, bytes], int] = {}
        self._variants: list[np.ndarray] = []

    def ask(self, number: int, kept: np.ndarray) -> int:
        """Add text `number` with only the words marked by `kept` (W,), and return its row in the result of `run`."""
        key = (number, kept.tobytes())
        if key not in self._known:
            self._known[key] = len(self._variants)
            self._variants.append(self._texts[number].keep(kept))
        return self._known[key]

    def run(self) -> Float[np.ndarray, "V C"]:
        """Return the model's probabilities for all added texts."""
        return self._probe.probabilities(self._variants)


def num_deleted(words: int, share: int) -> int:
    """Return `share` percent of the number of words, rounded up, so that at least one word is deleted."""
    return -(-words * share // 100)


def rank(importance: Float[np.ndarray, " W"], generator: np.random.Generator) -> Int[np.ndarray, " W"]:
    """Return the indices of the words, the most important first; words of equal importance are in random order."""
    return np.lexsort((generator.random(len(importance)), -importance))


def erase(
    probe: Probe, texts: Sequence[WordedText], orders: Sequence[Sequence[np.ndarray]]
) -> tuple[Float[np.ndarray, "R N K"], Float[np.ndarray, "R N K"]]:
    """Return the comprehensiveness and sufficiency of the first 1, 5, 10, 20 and 50% of the words in given orders.

        comprehensiveness = m(x)_j − m(x \\ r)_j        sufficiency = m(x)_j − m(r)_j

    where m(x)_j is the probability of the label that the model predicts for the whole text x, and r are the first words of the
    order. Words are deleted, not masked. A good order has a high comprehensiveness and a low sufficiency. The mean over the
    five shares is the AOPC (area over the perturbation curve).

    Differs from the paper: its eq. 3 divides by the number of shares plus one. The authors' program divides by the number of
    shares, as does this function.

    Args:
        probe: The model.
        texts: N texts of at least one word.
        orders: R lists, each with one order for each text: the indices of its words, the most important word first.

    Returns:
        Comprehensiveness and sufficiency, each (R,N,K) for the K shares, from −1 to 1.

    Reference:
        DeYoung et al. 2020, ERASER: A Benchmark to Evaluate Rationalized NLP Models, eq. 1 to 3.
    """
    deletions = Deletions(probe, texts)
    whole = [deletions.ask(number, np.ones(text.num_words, bool)) for number, text in enumerate(texts)]
    rows = np.zeros((2, len(orders), len(texts), len(SHARES)), np.int64)
    for way, per_text in enumerate(orders):
        for number, (text, order) in enumerate(zip(texts, per_text, strict=True)):
            for place, share in enumerate(SHARES):
                rationale = np.zeros(text.num_words, bool)
                rationale[order[: num_deleted(text.num_words, share)]] = True
                rows[0, way, number, place] = deletions.ask(number, ~rationale)
                rows[1, way, number, place] = deletions.ask(number, rationale)
    probabilities = deletions.run()
    label = probabilities[whole].argmax(-1)
    whole_text = np.take_along_axis(probabilities[whole], label[:, None], 1)  # (N,1)
    comprehensiveness, sufficiency = whole_text - probabilities[rows, label[:, None]]
    return comprehensiveness, sufficiency


def leave_one_out(
    probe: Probe, texts: Sequence[WordedText]
) -> tuple[list[Float[np.ndarray, " W"]], list[Float[np.ndarray, " W"]]]:
    """Compute the effect of leaving out each word on the prediction.

    Returns:
        Two lists with an array (W,) for each text: the total variation distance between the predictions without the word and
        for the whole text (Jain and Wallace 2019, algorithm 1), and how much the predicted label's probability falls.
    """
    deletions = Deletions(probe, texts)
    whole = [deletions.ask(number, np.ones(text.num_words, bool)) for number, text in enumerate(texts)]
    rows = [
        [deletions.ask(number, np.arange(text.num_words) != word) for word in range(text.num_words)]
        for number, text in enumerate(texts)
    ]
    probabilities = deletions.run()
    moved, lost = [], []
    for whole_text, without in zip(probabilities[whole], rows, strict=True):
        moved.append(probe.distance(probabilities[without], whole_text[None]))
        lost.append(whole_text.max() - probabilities[without, whole_text.argmax()])
    return moved, lost
