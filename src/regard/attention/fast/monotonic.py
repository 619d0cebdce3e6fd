"""The expected alignments of soft monotonic attention in log₂ K steps for each query instead of K.

    q_j = Σ_{k≤j} α_k Π_{l=k..j−1} (1 − p_l)          in code, as a recurrence: `ordered.monotonic.plain_alignments`

q_j is the probability that a query reaches key j, α_k is the probability that the previous query stopped at key k, and p_l is
the probability that a query which reaches key l stops there. The products over 1, 2, 4, … keys are computed for all queries at
once. Then each query adds the probability of reaching a key from 1, 2, 4, … keys before it. The result is exact up to rounding
for any probabilities, because it uses only sums and products of numbers in [0, 1].

Speed-up over the recurrence, forward and with gradients: 3.7 and 3.3 to 5 at B,Q,K = 32,30,30; 1.9 and 1.9 for a decoder's step
at 128,1,30; 30 forward at 4,128,512 (`benchmarks/log.md`).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

# Maximum number of keys for a mechanism exported with a dynamic axis K.
EXPORTED_KEYS = 1 << 16


def scanned_alignments(
    stop: Float[Tensor, "B Q K"], go_on: Float[Tensor, "B Q K"], previous: Float[Tensor, "B K"]
) -> Float[Tensor, "B Q K"]:
    """Return α (B,Q,K) from the probabilities p of stopping and 1 − p of continuing, and from α of the previous query."""
    keys = go_on.shape[2]
    limit, reach, product = keys if isinstance(keys, int) else EXPORTED_KEYS, 1, _shift(go_on, 1)
    products = []  # for s = 1, 2, 4, … < K, the product of the s factors before each key; zero for keys with fewer before them
    while reach < limit:  # with a dynamic K, surplus steps add zeros
        products.append((reach, product))
        product, reach = product * _shift(product, reach), 2 * reach
    alignments = []
    for i in range(stop.shape[1]):
        reached = previous
        for reach, product in products:
            reached = reached + product[:, i] * _shift(reached, reach)
        previous = stop[:, i] * reached
        alignments.append(previous)
    return torch.stack(alignments, 1) if alignments else stop


def _shift(x: Float[Tensor, "*any K"], reach: int) -> Float[Tensor, "*any K"]:
    """Shift by `reach` positions along the last axis, and fill with zeros."""
    return functional.pad(x, (reach, 0))[..., : x.shape[-1]]
