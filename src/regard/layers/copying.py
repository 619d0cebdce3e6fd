"""The distribution of a pointer-generator: words of the vocabulary, and words copied from the source.

With the probability p_gen, a step generates a word from the vocabulary; otherwise it copies the source word x_s at a position s
with the probability a_s, its attention weight (See, Liu and Manning 2017, eq. 9):

    p(w) = p_gen · P_vocab(w) + (1 − p_gen) · Σ_{s: x_s = w} a_s        p_gen = σ(g)

The V words of the vocabulary are extended by those of one source of S positions: the id V + s is the word at position s, if the
vocabulary lacks this word and it does not occur earlier in the source. All other ids from V on have the probability 0.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from regard.layers.cross_entropy import SMALLEST
from regard.text.symbols import PAD


def copy_log_probabilities(
    logits: Float[Tensor, "*batch V"],
    gate: Float[Tensor, "*batch 1"],
    weights: Float[Tensor, "*batch S"],
    ids: Int[Tensor, "*batch S"],
) -> Float[Tensor, "*batch W"]:
    """Return log p of the W = V + S words of the extended vocabulary, in float32, or in float64 for float64 logits.

    A source word whose weights are 0, such as one outside a window, gets the probability 1e-30, so that its loss is finite.

    Args:
        logits: Scores of the vocabulary, whose softmax is P_vocab.
        gate: g, the score of generating.
        weights: Attention weights a_s. If they do not sum to 1, neither do the probabilities.
        ids: Id of each source word in the extended vocabulary; 0 for a position that cannot be copied.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    gate, size = gate.to(dtype), logits.shape[-1]
    words = logits.log_softmax(-1, dtype=dtype) + logsigmoid(gate)
    nothing = weights.new_zeros((*ids.shape[:-1], size + ids.shape[-1]), dtype=dtype)
    copied = nothing.scatter_add(-1, ids, weights.to(dtype))
    can_copy = nothing.bool().scatter(-1, ids, True)
    can_copy[..., PAD] = False
    # The mask comes last: the gradients of words that cannot be copied are then 0, not NaN.
    pointed = (copied.clamp_min(SMALLEST).log() + logsigmoid(-gate)).masked_fill(~can_copy, -torch.inf)
    return torch.cat((torch.logaddexp(words, pointed[..., :size]), pointed[..., size:]), -1)
