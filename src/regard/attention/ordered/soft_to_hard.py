"""A monotonic mechanism that uses its soft form in training and its hard form in decoding.

    context = soft(q, k, v)        in training mode, because the choice of a key has no gradient
    context = hard(q, k, v)        in evaluation mode

In code: `SoftToHard.form`.
"""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight
from regard.attention.ordered.monotonic import SoftMonotonic


class SoftToHard(Attention):
    """`SoftMonotonic` or `MoChA` in training mode, and its `hard()` form, with the same parameters, in evaluation mode.

    A state is valid only in the mode in which it was made, so switch modes between sequences only.

    Reference: Raffel et al. 2017, section 2.3; Chiu & Raffel 2018, section 2.2.

    Args:
        soft: The soft mechanism.
    """

    normalized: bool = False
    permutation_equivariant: bool = False
    stateful: bool = True

    def __init__(self, soft: SoftMonotonic) -> None:
        super().__init__()
        self.soft = soft
        self.query_size, self.key_size = soft.query_size, soft.key_size

    def form(self) -> Attention:
        """Return the soft form in training mode, else the hard form."""
        return self.soft if self.training else self.soft.hard()

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Memory:
        """Project the keys once, for both forms."""
        return self.soft.prepare(key, value, key_mask=key_mask)

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: Any = None,
        *,
        attn_mask: Tensor | None = None,
        score_bias: Tensor | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, Any]:
        """Attend with each query in order, with the form of the current mode; see `Attention.attend`."""
        return self.form().attend(
            query, memory, state, attn_mask=attn_mask, score_bias=score_bias, reweight=reweight, need_weights=need_weights
        )
