"""The output layer, made ready for many steps."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from regard.layers.cross_entropy import pad_vocabulary
from regard.layers.recurrent import compute_dtype

Ready = tuple[Tensor, Tensor | None]
"""Weight and bias in the dtype of the products, and of a size that they run well with."""


def ready_output(output: nn.Linear) -> Ready | None:
    """What a search works with; None where there is a gradient to be followed."""
    if torch.is_grad_enabled():
        return None
    dtype = compute_dtype(output.weight)
    return pad_vocabulary(output.weight.to(dtype), None if output.bias is None else output.bias.to(dtype))


def word_scores(features: Float[Tensor, "*batch D"], output: nn.Linear, ready: Ready | None) -> Float[Tensor, "*batch V"]:
    """Scores of the words, before the softmax."""
    if ready is None:
        scores: Tensor = output(features)
        return scores
    weight, bias = ready
    return functional.linear(features.to(weight.dtype), weight, bias)[..., : output.out_features]
