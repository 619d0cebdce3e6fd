"""Relative positions: modules that multi-head attention takes as its `positions`.

Positions are aligned at the end, as in `masks.causal_mask`: for Q queries and K keys, query i has the position i + K − Q and
key j the position j. So a single query has the position of the last key, as decoding with cached keys needs.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.arguments import check_number, check_size, describe_arguments
from regard.errors import ConfigError


class RelativePositions(nn.Module):
    """Positions of queries and keys in multi-head attention: a rotation of both, a bias on their score, or nothing.

    Your own module overrides `rotate`, `bias` or both.
    """

    def check(self, num_heads: int, head_size: int) -> None:
        """Raise a `ConfigError` for heads that do not fit this module. It is called once, at construction."""

    def rotate(self, heads: Float[Tensor, "B H T Da"], start: int) -> Float[Tensor, "B H T Da"]:
        """Return queries or keys rotated to the positions start, start + 1, …; unchanged by default."""
        return heads

    def bias(self, queries: int, keys: int, like: Tensor) -> Float[Tensor, "H Q K"] | None:
        """Return a bias for the scores, of the type and device of `like`; None by default."""
        return None

    def extra_repr(self) -> str:
        """Return sizes and options, for `print`."""
        return describe_arguments(self)


class Rotary(RelativePositions):
    """Rotary positions: a head's features 2n, 2n + 1 at position p are rotated by the angle p·θ_n, θ_n = base^(−2n/Da).

    (x_2n, x_2n+1) ↦ (x_2n cos pθ_n − x_2n+1 sin pθ_n, x_2n sin pθ_n + x_2n+1 cos pθ_n), for queries and keys, so that their
    product depends only on the distance of the two positions. Angles are computed in at least float32. No parameters.

    Reference: Su et al. 2021 (RoFormer), eq. 34. Neighbouring features form a pair, as in the paper; some later models pair the
    two halves of a head instead.

    Args:
        base: > 1; the longest wavelength is about 2π·base.

    Raises:
        ConfigError: If the base is not above 1.

    Example:
        >>> context, weights = MultiHead(256, 4, positions=Rotary())(torch.randn(2, 9, 256))
    """

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__()
        check_number("Rotary", "base", base)
        if base <= 1:
            raise ConfigError(f"Rotary(base={base}): base must be above 1")
        self.base = base

    def check(self, num_heads: int, head_size: int) -> None:
        """Raise an error for heads of an odd width, whose features cannot be paired."""
        if head_size % 2:
            raise ConfigError(
                f"Rotary with heads of {head_size} features: they are turned in pairs, so size / num_heads must be even"
            )

    def rotate(self, heads: Float[Tensor, "B H T Da"], start: int) -> Float[Tensor, "B H T Da"]:
        """Rotate each pair of features by the angle of its position."""
        dtype = torch.promote_types(heads.dtype, torch.float32)
        length, size = heads.shape[2:]
        position = torch.arange(start, start + length, device=heads.device, dtype=dtype)
        theta = self.base ** (-torch.arange(0, size, 2, device=heads.device, dtype=dtype) / size)
        angle = position[:, None] * theta
        pairs = heads.to(dtype, copy=True, memory_format=torch.contiguous_format).unflatten(-1, (-1, 2))
        if torch.compiler.is_compiling():  # the compiler does not support complex numbers
            (even, odd), cos, sin = pairs.unbind(-1), angle.cos(), angle.sin()
            turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1)
        else:  # (x_2n + i x_2n+1)(cos pθ_n + i sin pθ_n): one product and one gradient, 2.7 to 7 times as fast
            turned = torch.view_as_real(torch.view_as_complex(pairs) * torch.polar(torch.ones_like(angle), angle))
        return turned.flatten(-2).to(heads.dtype)


class ALiBi(RelativePositions):
    """Attention with linear biases: score_h(q_i, k_j) − m_h · |p_i − j|, p_i the query's position. No parameters.

    The slopes of 2^n heads are m_h = 2^(−8h/H), h = 1 … H. Other numbers of heads use the slopes of the next lower power of
    two, and then every second slope of the next higher one. Under a causal mask, this is the paper's bias m_h·(j − p_i);
    without a mask, the bias is the same on both sides.

    Reference: Press, Smith, Lewis 2022, section 3. The slopes for other numbers of heads are from their code.

    Args:
        num_heads: H, ≥ 1.

    Raises:
        ConfigError: If the number of heads is not a whole number of 1 or more.

    Example:
        >>> context, weights = MultiHead(256, 4, positions=ALiBi(4))(torch.randn(2, 9, 256))
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        check_size("ALiBi", "num_heads", num_heads)
        self.num_heads = num_heads
        power = 1 << num_heads.bit_length() - 1
        further = _slopes(2 * power)[0::2]
        self.slopes = (_slopes(power) + further)[:num_heads]

    def check(self, num_heads: int, head_size: int) -> None:
        """Raise an error if the numbers of heads and slopes differ."""
        _check_heads("ALiBi", self.num_heads, num_heads)

    def bias(self, queries: int, keys: int, like: Tensor) -> Float[Tensor, "H Q K"]:
        """Return −m_h · |p_i − j|."""
        dtype = torch.promote_types(like.dtype, torch.float32)  # half types round only the product
        slopes = torch.tensor(self.slopes, dtype=dtype, device=like.device)
        return (-slopes[:, None, None] * _distance(queries, keys, like.device).abs()).to(like.dtype)


class RelativeBias(RelativePositions):
    """A learned bias for each head and each bucket of distances: score_h(q_i, k_j) + b[bucket(j − p_i), h].

    Half of the buckets hold one distance each, from 0 on. The others grow logarithmically up to `max_distance`, and the last
    one holds all larger distances. If `bidirectional`, earlier and later keys have half of the buckets each; otherwise later
    keys have distance 0.

    Reference: Raffel et al. 2020 (T5), section 2.1 and their code.
    Differs from the paper: the scores keep their scale 1/√(D/H), which T5 replaces by its initialisation.

    Args:
        num_heads: Number of heads H, ≥ 1.
        num_buckets: Number of buckets, ≥ 2; even and ≥ 4 if bidirectional.
        max_distance: Distance from which all share the last bucket. It must exceed the number of distances with their own
            bucket.
        bidirectional: Whether later keys have other buckets than earlier ones; False for a causal decoder.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a number is out of its range.

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
        check_size("RelativeBias", "num_heads", num_heads)
        check_size("RelativeBias", "num_buckets", num_buckets)
        check_size("RelativeBias", "max_distance", max_distance)
        self.num_heads, self.num_buckets = num_heads, num_buckets
        self.max_distance, self.bidirectional = max_distance, bidirectional
        ways = 2 if bidirectional else 1
        if num_buckets < 2 * ways or num_buckets % ways:
            kind = "even and 4 or more where queries look both ways" if bidirectional else "2 or more"
            raise ConfigError(f"RelativeBias(num_buckets={num_buckets}): num_buckets must be {kind}")
        if max_distance <= num_buckets // ways // 2:
            raise ConfigError(
                f"RelativeBias(max_distance={max_distance}, num_buckets={num_buckets}): the first "
                f"{num_buckets // ways // 2} distances have a bucket each, so max_distance must be larger than that"
            )
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads, device=device, dtype=dtype))
        nn.init.normal_(self.weight, std=0.02)

    def check(self, num_heads: int, head_size: int) -> None:
        """Raise an error if the numbers of heads and columns of biases differ."""
        _check_heads("RelativeBias", self.num_heads, num_heads)

    def bias(self, queries: int, keys: int, like: Tensor) -> Float[Tensor, "H Q K"]:
        """Return b[bucket(j − p_i), h]."""
        return self.weight[self.bucket(_distance(queries, keys, like.device))].permute(2, 0, 1).to(like.dtype)

    def bucket(self, distance: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Return the bucket of each distance (key's position − query's), from 0 to `num_buckets` − 1."""
        if self.bidirectional:
            buckets, first, distance = self.num_buckets // 2, (distance > 0) * (self.num_buckets // 2), distance.abs()
        else:
            buckets, first, distance = self.num_buckets, torch.zeros_like(distance), (-distance).clamp(min=0)
        exact = buckets // 2
        # In float32 and in this order, so that the boundaries equal those of published checkpoints.
        share = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (share * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(distance < exact, distance, far)


def _slopes(power_of_two: int) -> list[float]:
    return [2 ** (-8 * h / power_of_two) for h in range(1, power_of_two + 1)]


def _distance(queries: int, keys: int, device: torch.device) -> Int[Tensor, "Q K"]:
    """Return j − p_i, the key's position minus the query's."""
    return torch.arange(keys, device=device) - torch.arange(keys - queries, keys, device=device)[:, None]


def _check_heads(name: str, made: int, found: int) -> None:
    if made != found:
        raise ConfigError(f"{name}(num_heads={made}) in an attention with num_heads={found}: give both the same number")
