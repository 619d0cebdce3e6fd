"""What training minimizes, and what the decoder is fed meanwhile."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.layers.cross_entropy import linear_cross_entropy
from regard.models.seq2seq import Seq2Seq
from regard.text.batching import Batch


def objective(
    model: Seq2Seq, batch: Batch, *, use_gold: Bool[Tensor, "B T"] | None = None, label_smoothing: float = 0.0
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum −log p(word | words before it, source) over the real positions of a batch.

    Padding is left out before the output layer, so that its cost is that of real words only.

    Args:
        model: The model.
        batch: Sentence pairs.
        use_gold: Where to feed the gold word; None: everywhere.
        label_smoothing: ε of the smoothed target (1 − ε)·gold + ε/V, from 0 to below 1.

    Returns:
        The sum with label smoothing, to be differentiated, and the sum without, to be reported.
    """
    state = model.encode(batch.source, batch.source_mask)
    features, _ = model.decode(batch.target_in, state, use_gold=use_gold)
    weight, bias = model.output_weight()
    real = batch.target_mask.flatten().nonzero().squeeze(1)
    return linear_cross_entropy(
        features.flatten(0, 1).index_select(0, real),
        weight,
        bias,
        batch.target_out.flatten().index_select(0, real),
        label_smoothing=label_smoothing,
    )


def draw_gold(target_in: Tensor, probability: float, unit: Literal["sentence", "token"]) -> Bool[Tensor, "B T"] | None:
    """Draw where the decoder is fed the gold word.

    Args:
        target_in: (B,T), for its shape and device.
        probability: Of the gold word, from 0 to 1.
        unit: Draw once for each sentence, or for each token.

    Returns:
        True where the gold word is fed, always so in column 0; None when it is fed everywhere.
    """
    if probability >= 1:
        return None
    rows, columns = target_in.shape
    # Drawn on the CPU, so that every device trains on the same draws.
    drawn = torch.rand(rows, columns if unit == "token" else 1) < probability
    use_gold = drawn.expand(rows, columns).clone()
    use_gold[:, 0] = True
    return use_gold.to(target_in.device)
