"""Which mechanisms the hand-written loop knows, by their weights."""

import torch
from torch import Tensor

from regard.attention.additive import Additive, Concat, SumConcat
from regard.attention.base import Attention
from regard.attention.multiplicative import Dot, General, ScaledDot
from regard.attention.normalizers import Softmax

ScoreWeights = tuple[Tensor, Tensor | None]
"""W (A,Dq), and v (A,) where the score is additive."""


def score_weights(attention: Attention) -> ScoreWeights | None:
    """W (A,Dq) and, for an additive score, v (A,): weights = softmax(v·tanh(W q + k)) or softmax(k·W q), k prepared keys.

    None for any other mechanism: a subclass may have changed the formula, and another normalizer does.
    """
    if type(getattr(attention, "normalizer", None)) is not Softmax:
        return None
    # Each class itself, and no subclass.
    kind = type(attention)
    if isinstance(attention, Additive) and kind is Additive:
        return attention.query_projection.weight, attention.score_weight
    if isinstance(attention, Concat) and kind is Concat:
        return attention.projection.weight[:, : attention.query_size], attention.score_weight
    if isinstance(attention, SumConcat) and kind is SumConcat:
        return attention.projection.weight, attention.score_weight
    if isinstance(attention, General) and kind is General:
        return attention.projection.weight, None
    if isinstance(attention, Dot | ScaledDot) and kind in (Dot, ScaledDot):
        return attention.scale * torch.eye(attention.query_size, dtype=torch.float64), None
    return None
