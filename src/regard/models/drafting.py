"""Choose the words that a decoder reads in training if some are its own predictions (scheduled sampling)."""

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.models.seq2seq import Seq2Seq
from regard.reweight import ReweightBySite


@torch.no_grad()
def draft(
    model: Seq2Seq,
    target_in: Int[Tensor, "B T"],
    state: Any,
    use_gold: Bool[Tensor, "B T"],
    *,
    reweight: ReweightBySite | None = None,
) -> Int[Tensor, "B T"]:
    """Return the words to feed: the gold word, or the model's best word of the previous step, for each position.

    No gradient flows through the choice of words, so all words are chosen first, without dropout. The result is then used like
    any known target. Sentences with only gold words are skipped.

    Args:
        model: The model.
        target_in: The start symbol and the target.
        state: Result of `encode`.
        use_gold: True where the word of `target_in` is fed.
        reweight: Functions that replace attention weights, by site.
    """
    fed = target_in.clone()
    rows = (~use_gold[:, 1:]).any(dim=1).nonzero()[:, 0]
    if not len(rows):
        return fed
    training = model.training
    model.eval()
    try:
        drafted, gold, going = target_in[rows], use_gold[rows], state.keep(rows)
        for position in range(1, target_in.shape[1]):
            logits, _, going = model.step(drafted[:, position - 1, None], going, reweight=reweight)
            best = logits[:, 0].argmax(dim=-1)
            drafted[:, position] = torch.where(gold[:, position], drafted[:, position], best)
        fed[rows] = drafted
    finally:
        model.train(training)
    return fed
