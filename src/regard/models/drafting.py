"""Choice of the words that a decoder reads in training if some are the model's own predictions (scheduled sampling)."""

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
    """Return the words to feed: at each position, the gold word or the model's best word of the previous step.

    No gradient flows through the choice of words, so all words are chosen first, without dropout. The result is then used like
    any known target. Sentences with only gold words are skipped on a CPU. On other devices all sentences are computed, because
    the CPU would have to wait for the number of skipped ones; the result is the same.

    Args:
        model: The model.
        target_in: The start symbol, then the words of the target.
        state: Result of `encode`.
        use_gold: True where the word of `target_in` is fed. Column 0 is ignored, because the start symbol is always fed.
        reweight: Functions that replace attention weights, by site.
    """
    fed = target_in.clone()
    if fed.device.type == "cpu":
        rows = (~use_gold[:, 1:]).any(dim=1).nonzero()[:, 0]
        if len(rows):
            fed[rows] = _draft(model, target_in[rows], state.keep(rows), use_gold[rows], reweight)
        return fed
    return _draft(model, fed, state, use_gold, reweight)


def _draft(
    model: Seq2Seq, target_in: Int[Tensor, "B T"], state: Any, use_gold: Bool[Tensor, "B T"], reweight: ReweightBySite | None
) -> Int[Tensor, "B T"]:
    """Write the model's best words into `target_in` where `use_gold` is False, and return it."""
    training = model.training
    model.eval()
    try:
        for position in range(1, target_in.shape[1]):
            logits, _, state = model.step(target_in[:, position - 1, None], state, reweight=reweight)
            best = logits[:, 0].argmax(dim=-1)
            target_in[:, position] = torch.where(use_gold[:, position], target_in[:, position], best)
    finally:
        model.train(training)
    return target_in
