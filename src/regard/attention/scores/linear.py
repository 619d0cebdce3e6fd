"""A score that is linear in query and key together; included because a well-known tutorial on translation uses it.

    score(q, k) = w·[q; k] + b = w_q·q + (w_k·k + b)

In code: `linear_scores` adds the two terms: one number for each query and one number for each key.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.capabilities import is_plain
from regard.attention.scores.base import ScoredAttention


def linear_scores(query_term: Float[Tensor, "B Q 1"], key_term: Float[Tensor, "B K 1"]) -> Float[Tensor, "B Q K"]:
    """Return s_ij = (w_q·q_i) + (w_k·k_j + b), from the terms in parentheses."""
    return query_term + key_term.transpose(1, 2)


def concatenated_pairs(query: Float[Tensor, "B Q Dq"], key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B Q K D"]:
    """Return [q_i; k_j] for each query and key, for linear maps that must be called (see `is_plain`)."""
    shape = *query.shape[:2], key.shape[1], -1
    return torch.cat([query[:, :, None].expand(shape), key[:, None].expand(shape)], -1)


class LinearConcat(ScoredAttention):
    """score(q, k) = w·[q; k] + b. **With a softmax, the weights do not depend on the query.**

    Proof: w·[q; k] + b = w_q·q + w_k·k + b. For one query, w_q·q + b is the same number for every key, and a softmax does not
    change when one number is added to all its scores. So weights = softmax_k(w_k·k): every query gets the same average, and
    w_q and b get no gradient through the weights. With a tanh in between, as in `Additive` and `Concat`, or with a sigmoid in
    place of the softmax, the weights depend on the query.

    Differs from the tutorial: nothing, so that its results can be reproduced.

    The arguments are those of `ScoredAttention`.

    Example:
        >>> context, weights = LinearConcat(256)(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
    """

    def build_parameters(self, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        self.projection = nn.Linear(self.query_size + self.key_size, 1, device=device, dtype=dtype)

    def project_key(self, key: Float[Tensor, "B K Dk"]) -> Float[Tensor, "B K _"]:
        """Return w_k·k + b; with a softmax, the weights depend on this term only. If the map is not plain, return k."""
        if not is_plain(self.projection):
            return key
        return nn.functional.linear(key, self.projection.weight[:, self.query_size :], self.projection.bias)

    def scores(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        if is_plain(self.projection):
            scores = linear_scores(nn.functional.linear(query, self.projection.weight[:, : self.query_size]), memory.key)
        else:
            scores = self.projection(concatenated_pairs(query, memory.key))[..., 0]
        return scores if self.scale == 1 else self.scale * scores
