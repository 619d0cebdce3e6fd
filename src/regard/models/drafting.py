"""The words that a model feeds itself in training, where not every word is gold."""

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
    """Return the words that are fed where not every word is gold: elsewhere the model's best word of the step before.

    No gradient flows through a choice of words, so they are chosen first, without dropout; the target so drafted is then as
    known as any other. Sentences that are all gold take no part.

    Args:
        model: The model.
        target_in: The start symbol and the target.
        state: From `encode`, fresh.
        use_gold: Where to feed the word of `target_in`.
        reweight: Maps attention weights to those used in their place, by site.
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
