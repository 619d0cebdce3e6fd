"""Losses of models that predict words, and the random choice of gold words as decoder input."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.capabilities import is_plain
from regard.layers.consistency import Consistency, consistent_cross_entropy, reading_twice
from regard.layers.cross_entropy import SoftTargets, called_cross_entropy, linear_cross_entropy
from regard.models.seq2seq import AttentionMaps, MapsWithLoss, Seq2Seq
from regard.text.batching import Batch
from regard.text.pairs.gold import AlignedBatch


def objective(
    model: Seq2Seq,
    batch: Batch,
    *,
    use_gold: Bool[Tensor, "B T"] | None = None,
    label_smoothing: float = 0.0,
    soft: SoftTargets | None = None,
    consistency: Consistency | None = None,
    alignment_weight: float = 0.0,
    attention_loss_weight: float = 0.0,
    report: Callable[[Tensor, Tensor], None] = lambda total, count: None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the loss for the gradient and −log p(word | earlier words, source), summed over a batch without padding.

    Args:
        model: The model.
        batch: Sentence pairs, or texts of a language model.
        use_gold: True where the decoder is fed the gold word, False where it is fed its own word; None for gold words only.
        label_smoothing: ε of the smoothed target (1 − ε)·gold + ε/V, from 0 to below 1.
        soft: Soft targets with a row for each of the B·T positions of the batch, including padding; None for gold words only.
        consistency: How two passes over the batch form the loss; None for one pass. Added losses are means over both.
        alignment_weight: Weight λ of `alignment_loss`, which is added if the batch is a `AlignedBatch`.
        attention_loss_weight: Weight λ of the loss that some mechanisms (coverage) add, summed over words.
        report: Function that is called if the mechanism adds a loss, with the sum of this loss over words and the number of
            words.

    Returns:
        The loss for the gradient, with label smoothing, soft targets and all added losses; and Σ −log p, for reports.
    """
    aligned = isinstance(batch, AlignedBatch) and alignment_weight > 0
    features, attention = _read(model, batch, use_gold, ("cross",) if aligned else (), consistency)
    gold = batch.target_out.flatten()
    words = features.flatten(0, 1) if consistency is None else features.flatten(0, 1).unflatten(0, (2, -1))
    # Without padding, the output layer has less to compute. On a GPU, padding is kept, because the CPU would have to wait until
    # the words are counted; the loss ignores it.
    if words.device.type == "cpu":
        real = batch.target_mask.flatten().nonzero().squeeze(1)
        words, gold = words.index_select(-2, real), gold.index_select(0, real)
        if soft is not None:
            soft = SoftTargets(soft.words.index_select(0, real), soft.probabilities.index_select(0, real), soft.weight)
    output = getattr(model, "output", None)
    # A map that computes more than its weight shows is called.
    is_called = model.copies or (isinstance(output, nn.Module) and not is_plain(output))
    targets: dict[str, Any] = {"label_smoothing": label_smoothing, "soft": soft}
    if consistency is not None:
        rows, weight, bias = (model.logits(words), None, None) if is_called else (words, *model.output_weight())
        loss, nll = consistent_cross_entropy(rows, weight, bias, gold, consistency, **targets)
    elif is_called:
        size = len(model.output_weight()[0]) if model.copies else None
        loss, nll = called_cross_entropy(model.logits, words, gold, num_words=size, **targets)
    else:
        loss, nll = linear_cross_entropy(words, *model.output_weight(), gold, **targets)
    if aligned:
        assert isinstance(batch, AlignedBatch)
        weights = attention["cross"].mean(1) if attention["cross"].ndim == 4 else attention["cross"]  # mean over heads
        links = batch.gold if consistency is None else batch.gold.repeat(2, 1, 1)
        loss = loss + alignment_weight * len(batch) / len(links) * alignment_loss(weights, links, model.alignment_step)
    if isinstance(attention, MapsWithLoss):
        count = batch.target_mask.sum()
        total = attention.loss * count  # `attention.loss` is a mean over words
        report(total.detach(), count)
        loss = loss + attention_loss_weight * total
    return loss, nll


def _read(
    model: Seq2Seq, batch: Batch, use_gold: Tensor | None, record: Sequence[str], consistency: Consistency | None
) -> tuple[Tensor, AttentionMaps]:
    """Return the features and the attention of a batch, or of the batch and then once more of the same batch."""
    if consistency is None:
        return model.decode(batch.target_in, model.encode(batch.source, batch.source_mask), use_gold=use_gold, record=record)
    source, mask, target_in = (torch.cat((one, one)) for one in (batch.source, batch.source_mask, batch.target_in))
    fed = None if use_gold is None else torch.cat((use_gold, use_gold))
    with reading_twice(model, consistency):
        return model.decode(target_in, model.encode(source, mask), use_gold=fed, record=record)


def alignment_loss(
    weights: Float[Tensor, "B T S"], gold: Float[Tensor, "B T S"], step: Literal["produce", "consume"]
) -> Float[Tensor, ""]:
    """Return −Σ_t Σ_s gold_ts log a_ts, where a_t is the attention at the step that produces word t or that consumes it.

    `gold` has the links as weights: row t sums to one, or to zero if word t has no known link.

    Reference:
        Garg, Peitz, Nallasamy, Paulik 2019, Jointly Learning to Align and Translate with Transformer Models, eq. 5.
        Differs from the paper: the decoder does not see later words. With `consume`, it has already read the word to align.
    """
    if step == "consume":
        weights, gold = weights[:, 1:], gold[:, :-1]
    least = torch.finfo(torch.float32).tiny  # so that a weight of zero has a large but finite loss
    return -(gold * weights.float().clamp_min(least).log()).sum()


def draw_gold(target_in: Tensor, probability: float, unit: Literal["sentence", "token"]) -> Bool[Tensor, "B T"] | None:
    """Draw the positions at which the decoder, whose input has the shape of `target_in`, is fed the gold word.

    It is fed everywhere in column 0. The result is None if it is fed everywhere.
    """
    if probability >= 1:
        return None
    rows, columns = target_in.shape
    # Drawn on the CPU, so that every device uses the same draws.
    drawn = torch.rand(rows, columns if unit == "token" else 1) < probability
    use_gold = drawn.expand(rows, columns).clone()
    use_gold[:, 0] = True
    return use_gold.to(target_in.device, non_blocking=True)
