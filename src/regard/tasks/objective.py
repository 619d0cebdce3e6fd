"""Objectives of models that predict words, the tokens that a decoder reads in training, and models of the user's own."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import ConfigError
from regard.layers.cross_entropy import linear_cross_entropy
from regard.machine import Machine
from regard.models.seq2seq import MapsWithLoss, Seq2Seq
from regard.task import Corpus
from regard.text.batching import Batch
from regard.text.pairs.gold import GuidedBatch
from regard.training.data import to_device


def objective(
    model: Seq2Seq,
    batch: Batch,
    *,
    use_gold: Bool[Tensor, "B T"] | None = None,
    label_smoothing: float = 0.0,
    alignment_weight: float = 0.0,
    attention_loss_weight: float = 0.0,
    report: Callable[[Tensor, Tensor], None] = lambda total, count: None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sum −log p(word | words before it, source) over the real positions of a batch.

    Padding is left out before the output layer, so that its cost is that of real words only.

    Args:
        model: The model.
        batch: Sentence pairs.
        use_gold: Where to feed the gold word; None: everywhere.
        label_smoothing: ε of the smoothed target (1 − ε)·gold + ε/V, from 0 to below 1.
        alignment_weight: λ of `alignment_loss`, for a `GuidedBatch`.
        attention_loss_weight: λ of the loss of the attention itself (coverage), summed over words.
        report: Called with the sum of the attention's own losses, and the number of words, if it has a loss.

    Returns:
        The sum with label smoothing, alignment and attention, to be differentiated, and the sum without, to be reported.
    """
    guided = isinstance(batch, GuidedBatch) and alignment_weight > 0
    state = model.encode(batch.source, batch.source_mask)
    features, attention = model.decode(batch.target_in, state, use_gold=use_gold, record=("cross",) if guided else ())
    weight, bias = model.output_weight()
    real = batch.target_mask.flatten().nonzero().squeeze(1)
    loss, nll = linear_cross_entropy(
        features.flatten(0, 1).index_select(0, real),
        weight,
        bias,
        batch.target_out.flatten().index_select(0, real),
        label_smoothing=label_smoothing,
    )
    if guided:
        assert isinstance(batch, GuidedBatch)
        loss = loss + alignment_weight * alignment_loss(_one_head(attention["cross"]), batch.gold, model.alignment_step)
    if isinstance(attention, MapsWithLoss):
        count = batch.target_mask.sum()
        total = attention.loss * count  # a mean over words
        report(total.detach(), count)
        loss = loss + attention_loss_weight * total
    return loss, nll


def _one_head(weights: Tensor) -> Float[Tensor, "B T S"]:
    """Return the mean of the heads, where there are some."""
    return weights.mean(1) if weights.ndim == 4 else weights


def mean_nll(
    model: Seq2Seq,
    corpus: Corpus,
    batches: Sequence[np.ndarray],
    machine: Machine,
    after_batch: Callable[[], None] = lambda: None,
) -> float:
    """Return −log p of a target word, in nats, over batches of targets; called without gradients."""
    total, count = 0.0, 0
    for indices in batches:
        batch = to_device(corpus.batch(indices), machine.device)
        with machine.autocast():
            total += objective(model, batch)[1].item()
        count += int(batch.target_mask.sum())
        after_batch()
    return total / count


def own_model(
    model: Seq2Seq | Callable[..., Seq2Seq], sizes: Sequence[int], *, kind: str, sizes_name: str, vocabulary: str
) -> Seq2Seq:
    """Return the user's own model, which may be given as a function that builds it.

    Args:
        model: The model, or a function of the sizes.
        sizes: Sizes of the vocabularies; that of the output is the last one.
        kind: What the model should be, for messages.
        sizes_name: Name of the sizes, for messages.
        vocabulary: Name of the output's vocabulary, for messages.

    Raises:
        ConfigError: If the object is no model, or is for a vocabulary of another size.
    """
    made = model if isinstance(model, Seq2Seq) else model(*sizes)
    if not isinstance(made, Seq2Seq):
        raise ConfigError(f"model is a {type(made).__name__}, expected a {kind}, or a function of {sizes_name} that makes one")
    words = made.output_weight()[0].shape[0]
    if words != sizes[-1]:
        raise ConfigError(
            f"model predicts {words:,} words, but {vocabulary} has {sizes[-1]:,}; give fit a function of {sizes_name} that "
            "makes the model"
        )
    return made


def alignment_loss(
    weights: Float[Tensor, "B T S"], gold: Float[Tensor, "B T S"], step: Literal["produce", "consume"]
) -> Float[Tensor, ""]:
    """Return −Σ_t Σ_s gold_ts log a_ts, where a_t is the attention at the step that produces word t or that consumes it.

    Args:
        weights: The model's site `cross`.
        gold: Rows sum to one, or to zero where nothing is known.
        step: Which row of the weights a word's attention is.

    Reference:
        Garg, Peitz, Nallasamy, Paulik 2019, Jointly Learning to Align and Translate with Transformer Models, eq. 5.
        Differs from the paper: the decoder sees no later words for it; the step that consumes a word knows it all the same.
    """
    if step == "consume":
        weights, gold = weights[:, 1:], gold[:, :-1]
    least = torch.finfo(torch.float32).tiny  # a weight of zero has a large loss, not an infinite one
    return -(gold * weights.float().clamp_min(least).log()).sum()


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
