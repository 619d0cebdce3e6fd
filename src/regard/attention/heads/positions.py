"""Relative positions: modules for the argument `positions` of multi-head attention.

Positions are aligned at the end, as in `masks.causal_mask`: for Q queries and K keys, query i has the position i + K − Q and
key j the position j. So a single query has the position of the last key, as decoding with cached keys needs. Callers may give
other positions (`query_positions`, `key_positions`). Rotary positions are in `rotary`.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.arguments import CheckedModule, check_flag, check_size
from regard.errors import ConfigError, RequestError, ShapeError
from regard.shapes import check_shape


class RelativePositions(CheckedModule):
    """Base class of positions in multi-head attention, which rotate queries and keys, add a bias to their scores, or both.

    Your own module overrides `rotate`, `bias` or both.
    """

    num_heads: int | None = None
    """Number of heads that the module is for; None for any number."""

    def check(self, num_heads: int, head_size: int) -> None:
        """Raise a `ConfigError` if the heads do not fit this module. The attention calls this once, at construction."""
        if self.num_heads not in (None, num_heads):
            name = f"{type(self).__name__}(num_heads={self.num_heads})"
            raise ConfigError(f"{name} in an attention with num_heads={num_heads}: give both the same number")

    @property
    def rotates(self) -> bool:
        """Whether this module overrides `rotate`."""
        return type(self).rotate is not RelativePositions.rotate

    @property
    def adds_bias(self) -> bool:
        """Whether this module overrides `bias`."""
        return type(self).bias is not RelativePositions.bias

    def rotate(self, heads: Float[Tensor, "B H T Da"], positions: Tensor | int) -> Float[Tensor, "B H T Da"]:
        """Return queries or keys rotated to their positions; unchanged by default.

        Args:
            heads: Queries or keys.
            positions: The position of each (B,T); an int p stands for the consecutive positions p, p + 1, …
        """
        return heads

    def rotate_one(self, heads: Float[Tensor, "*any H Da"], position: int) -> None:
        """Rotate in place queries or keys that all have the same position; the result equals that of `rotate`."""
        copy = heads.clone(memory_format=torch.contiguous_format)  # `rotate` may change its argument, or return a view of it
        heads.copy_(self.rotate(copy.view(-1, heads.shape[-2], 1, heads.shape[-1]), position).reshape(heads.shape))

    def bias(self, query: Int[Tensor, "*B Q"], key: Int[Tensor, "*B K"], like: Tensor) -> Float[Tensor, "*B H Q K"]:
        """Return a bias to add to the scores of queries and keys at these positions, of the type and device of `like`."""
        raise NotImplementedError


def check_positions(attention: nn.Module, name: str, positions: Tensor, batch: int, count: int) -> Int[Tensor, "B T"]:
    """Return the positions given to an attention as (B,T); raise an error for a wrong type or shape, or if it has none."""
    if attention.positions is None:
        called = type(attention).__name__
        raise RequestError(f"{called} got {name}, but was built without positions; build it with positions=Rotary()")
    if positions.is_floating_point() or positions.dtype == torch.bool:
        raise ShapeError(f"{name} is {str(positions.dtype).removeprefix('torch.')}, expected whole numbers (int64)")
    if positions.ndim == 1:
        positions = positions.expand(batch, -1)
    check_shape(name, positions, "B T", {"B": batch, "T": count})
    return positions


class ALiBi(RelativePositions):
    """Attention with linear biases: score_h(q_i, k_j) − m_h · |p_i − j|, where p_i is the query's position. No parameters.

    The slopes of 2^n heads are m_h = 2^(−8h/H), h = 1 … H. Other numbers of heads use the slopes of the next lower power of
    two, and then the first, third, … slope of the next higher power. Under a causal mask, this is the paper's m_h·(j − p_i).

    Reference: Press, Smith, Lewis 2022, section 3. The slopes for other numbers of heads are from the authors' code.

    Args:
        num_heads: H, ≥ 1.

    Example:
        >>> context, weights = MultiHead(256, 4, positions=ALiBi(4))(torch.randn(2, 9, 256))
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        check_size("ALiBi", "num_heads", num_heads)
        self.num_heads = num_heads
        power = 1 << num_heads.bit_length() - 1
        self.slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
        self.slopes += [2 ** (-4 * h / power) for h in range(1, 2 * (num_heads - power), 2)]

    def bias(self, query: Int[Tensor, "*B Q"], key: Int[Tensor, "*B K"], like: Tensor) -> Float[Tensor, "*B H Q K"]:
        """Return −m_h · |p_i − p_j|."""
        dtype = torch.promote_types(like.dtype, torch.float32)  # for half types, only the product is then rounded
        slopes = torch.tensor(self.slopes, dtype=dtype, device=like.device)
        return (-slopes[:, None, None] * distances(query, key).abs().unsqueeze(-3)).to(like.dtype)


class RelativeBias(RelativePositions):
    """A learned bias for each head and each bucket of distances: score_h(q_i, k_j) + b[bucket(j − p_i), h].

    p_i is the query's position. If `bidirectional`, half of the buckets are for earlier keys and half for later ones;
    otherwise, all are for earlier keys, and later keys count as distance 0. In each direction, half of the buckets hold one
    distance each, from 0 on. The others divide larger distances up to `max_distance` evenly on a logarithmic scale, and the
    last bucket also holds all distances beyond.

    Reference: Raffel et al. 2020 (T5), section 2.1 and the authors' code.
    Differs from the paper: the scores keep their scale 1/√(D/H). T5 has no scale, but smaller initial weights.

    Args:
        num_heads: Number of heads H, ≥ 1.
        num_buckets: Number of buckets, ≥ 2; even and ≥ 4 if bidirectional.
        max_distance: Distance, above that of all buckets with one distance, from which on all share the last bucket.
        bidirectional: Whether later keys have buckets of their own; False for a causal decoder.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Example:
        >>> context, weights = MultiHead(256, 4, positions=RelativeBias(4))(torch.randn(2, 9, 256))
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("num_heads", num_heads), ("num_buckets", num_buckets), ("max_distance", max_distance)):
            check_size("RelativeBias", name, size)
        check_flag("RelativeBias", "bidirectional", bidirectional)
        self.num_heads, self.num_buckets = num_heads, num_buckets
        self.max_distance, self.bidirectional = max_distance, bidirectional
        ways = 2 if bidirectional else 1
        if num_buckets < 2 * ways or num_buckets % ways:
            kind = "even and 4 or more if bidirectional" if bidirectional else "2 or more"
            raise ConfigError(f"RelativeBias(num_buckets={num_buckets}): num_buckets must be {kind}")
        alone = num_buckets // ways // 2
        if max_distance <= alone:
            raise ConfigError(
                f"RelativeBias(max_distance={max_distance}, num_buckets={num_buckets}): the first {alone} distances have a "
                "bucket each, so max_distance must be larger than this number"
            )
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads, device=device, dtype=dtype))
        nn.init.normal_(self.weight, std=0.02)

    def bias(self, query: Int[Tensor, "*B Q"], key: Int[Tensor, "*B K"], like: Tensor) -> Float[Tensor, "*B H Q K"]:
        return self.weight[self.bucket(distances(query, key))].movedim(-1, -3).to(like.dtype)

    def bucket(self, distance: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Return the bucket, from 0 to `num_buckets` − 1, of each distance: the key's position minus the query's."""
        if self.bidirectional:
            buckets, first, distance = self.num_buckets // 2, (distance > 0) * (self.num_buckets // 2), distance.abs()
        else:
            buckets, first, distance = self.num_buckets, torch.zeros_like(distance), (-distance).clamp(min=0)
        exact = buckets // 2
        # Computed in float32 and in this order, so that each distance has the same bucket as in published models.
        share = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (share * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(distance < exact, distance, far)


def distances(query: Int[Tensor, "*B Q"], key: Int[Tensor, "*B K"]) -> Int[Tensor, "*B Q K"]:
    """Return p_j − p_i, the key's position minus the query's."""
    return key[..., None, :] - query[..., :, None]
