"""Which mechanisms the hand-written loop knows, by their weights."""

import torch
from torch import Tensor

from regard.attention.additive import Additive, Concat, SumConcat
from regard.attention.base import Attention
from regard.attention.multiplicative import Dot, General, ScaledDot
from regard.attention.normalizers import Softmax


def score_weights(attention: Attention) -> tuple[Tensor, Tensor | None] | None:
    """W (A,Dq) and, for an additive score, v (A,): weights = softmax(v·tanh(W q + k)) or softmax(k·W q), k prepared keys.

    None for any other mechanism: a subclass may have changed the formula, and another normalizer does.
    """
    if type(getattr(attention, "normalizer", None)) is not Softmax:
        return None
    kind = type(attention)
    if kind is Additive:
        return attention.query_projection.weight, attention.score_weight
    if kind is Concat:
        return attention.projection.weight[:, : attention.query_size], attention.score_weight
    if kind is SumConcat:
        return attention.projection.weight, attention.score_weight
    if kind is General:
        return attention.projection.weight, None
    if kind in (Dot, ScaledDot):
        device = next(iter(attention.parameters()), torch.empty(0)).device
        return attention.scale * torch.eye(attention.query_size, dtype=torch.float64, device=device), None
    return None
