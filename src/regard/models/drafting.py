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
    any known target. The arguments are those of `Seq2Seq.decode`.
    """
    fed, rows = target_in.clone(), torch.arange(len(target_in), device=target_in.device)
    if fed.device.type == "cpu":  # sentences with only gold words are skipped; other devices would wait for their number
        rows = (~use_gold[:, 1:]).any(dim=1).nonzero()[:, 0]
        if not len(rows):
            return fed
        state = state.keep(rows)
    words, gold, training = fed[rows], use_gold[rows], model.training
    model.eval()
    try:
        for position in range(1, words.shape[1]):
            logits, _, state = model.step(words[:, position - 1, None], state, reweight=reweight)
            best = logits[:, 0].argmax(dim=-1)
            words[:, position] = torch.where(gold[:, position], words[:, position], best)
    finally:
        model.train(training)
    fed[rows] = words
    return fed
