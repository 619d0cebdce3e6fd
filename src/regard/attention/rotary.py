"""Rotary positions: queries and keys are rotated by angles that grow with their positions.

    (x_a, x_b) ↦ (x_a cos pθ_n − x_b sin pθ_n, x_a sin pθ_n + x_b cos pθ_n),    θ_n = base^(−2n/E)

where p is the position and E is the width of a head. In code: `turned_pairs`. The layout defines which features a, b of a head
form the pair n. A scaling changes θ so that a model can read texts that are longer than its training texts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.arguments import check_instance, check_number, check_size
from regard.attention.positions import RelativePositions
from regard.errors import ConfigError, nearest


def turned_pairs(pairs: Float[Tensor, "*any n two"], angle: Float[Tensor, "... n"], magnitude: float = 1.0) -> Tensor:
    """Return each pair (a, b), as the complex number a + ib, times magnitude · (cos φ + i sin φ), where φ is `angle`."""
    if torch.compiler.is_compiling():  # the compiler does not support complex numbers
        (first, second), cos, sin = pairs.unbind(-1), magnitude * angle.cos(), magnitude * angle.sin()
        return torch.stack((first * cos - second * sin, first * sin + second * cos), -1)
    return _times(pairs, _rotations(angle, magnitude))


def _rotations(angle: Float[Tensor, "... n"], magnitude: float) -> Tensor:
    """Return magnitude · (cos φ + i sin φ) as complex numbers, where φ is `angle`."""
    return torch.polar(torch.full_like(angle, magnitude), angle)


def _times(pairs: Float[Tensor, "*any n two"], rotations: Tensor) -> Tensor:
    """Multiply pairs of real numbers, read as complex numbers, by rotations, and return the products as pairs.

    With or without gradients, one complex product is 2.7 to 7 times as fast as the formula in real numbers
    (`benchmarks/log.md`).
    """
    return torch.view_as_real(torch.view_as_complex(pairs) * rotations)


class RotaryScaling:
    """Change of the frequencies θ of rotary positions, for inputs that are longer than the training inputs.

    Your own scaling overrides `scale`.
    """

    magnitude: float = 1.0
    """Factor by which rotated queries and keys are multiplied."""
    constant: bool = False
    """Whether `scale` and `magnitude` always return the same values, so that rotations can be cached."""

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return the changed frequencies; unchanged by default."""
        return theta


@dataclass(frozen=True)
class LinearScaling(RotaryScaling):
    """θ_n / s, which is the same as dividing all positions by s.

    Reference: Chen et al. 2023, "Extending context window of large language models via position interpolation", eq. 4.

    Raises:
        ConfigError: If the factor is not a finite number of 1 or more.
    """

    factor: float
    """s ≥ 1, such as 4 for inputs that are 4 times as long."""

    constant = True

    def __post_init__(self) -> None:
        check_factor(self, self.factor)

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return θ_n / s."""
        return theta / self.factor


@dataclass(frozen=True)
class NTKScaling(RotaryScaling):
    """θ_n · s^(−2n/(E−2)): the largest frequency stays unchanged, and the smallest is divided by s.

    This equals a change of the base to base · s^(E/(E−2)), the "NTK-aware" method.

    Reference: Peng et al. 2023, "YaRN", section 3.1 (method of bloc97).

    Raises:
        ConfigError: If the factor is not a finite number of 1 or more.
    """

    factor: float
    """s ≥ 1, such as 4 for inputs that are 4 times as long."""

    constant = True

    def __post_init__(self) -> None:
        check_factor(self, self.factor)

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return θ_n · s^(−n/(N−1)) for the N = E/2 frequencies."""
        n = torch.arange(len(theta), device=theta.device, dtype=theta.dtype)
        return theta * self.factor ** (-n / max(len(theta) - 1, 1))


@dataclass(frozen=True)
class YaRNScaling(RotaryScaling):
    """θ_n for fast pairs, θ_n / s for slow ones, and a linear transition between them.

    Pairs that turn more than `fast` times within L positions are fast; pairs that turn fewer than `slow` times are slow.
    Queries and keys are multiplied by 0.1 ln s + 1.

    Reference: Peng et al. 2023, "YaRN: efficient context window extension of large language models", sections 3.2 to 3.4. The
    first and last pair of the transition are rounded outwards, as in the authors' code.

    Raises:
        ConfigError: If an argument is out of its range.
    """

    factor: float
    """s ≥ 1, such as 4 for inputs that are 4 times as long."""
    original_length: int
    """L, number of positions in training, ≥ 1."""
    fast: float = 32.0
    """Number of turns within L positions above which the frequency of a pair stays unchanged; β in the paper, > `slow`."""
    slow: float = 1.0
    """Number of turns within L positions below which the frequency of a pair is divided by s; α in the paper, > 0."""

    constant = True

    def __post_init__(self) -> None:
        check_factor(self, self.factor)
        check_size("YaRNScaling", "original_length", self.original_length)
        check_number("YaRNScaling", "fast", self.fast)
        check_number("YaRNScaling", "slow", self.slow)
        if not 0 < self.slow < self.fast < math.inf:
            raise ConfigError(f"YaRNScaling(fast={self.fast}, slow={self.slow}): expected finite numbers, fast > slow > 0")

    @property
    def magnitude(self) -> float:  # type: ignore[override]
        """Factor of rotated queries and keys, 0.1 ln s + 1; its square, 1/t in the paper, multiplies the scores."""
        return 0.1 * math.log(self.factor) + 1

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return (1 − γ_n) θ_n / s + γ_n θ_n, with γ from 1 at fast pairs to 0 at slow ones."""
        size = 2 * len(theta)
        pair = [size * math.log(self.original_length / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in self._turns()]
        first, last = max(math.floor(pair[0]), 0), min(math.ceil(pair[1]), size - 1)
        n = torch.arange(len(theta), device=theta.device, dtype=theta.dtype)
        slow = ((n - first) / max(last - first, 0.001)).clamp(0, 1)
        return slow * theta / self.factor + (1 - slow) * theta

    def _turns(self) -> tuple[float, float]:
        return self.fast, self.slow


@dataclass(frozen=True)
class Llama3Scaling(RotaryScaling):
    """θ_n for wavelengths below L/h, θ_n / s above L/l, and a transition that is linear in 1/wavelength between them.

    The wavelength of a pair is 2π/θ_n positions; s is `factor`, L `original_length`, l `low` and h `high`.

    Reference: Llama team 2024, "The Llama 3 herd of models", and the code of Llama 3.1 (s = 8, l = 1, h = 4, L = 8192).

    Raises:
        ConfigError: If an argument is out of its range.
    """

    factor: float = 8.0
    """s ≥ 1, such as 8 for inputs that are 8 times as long."""
    original_length: int = 8192
    """L, number of positions in training, ≥ 1."""
    low: float = 1.0
    """l > 0; frequencies with wavelengths above L/l are divided by s."""
    high: float = 4.0
    """h > l; frequencies with wavelengths below L/h stay unchanged."""

    constant = True

    def __post_init__(self) -> None:
        check_factor(self, self.factor)
        check_size("Llama3Scaling", "original_length", self.original_length)
        check_number("Llama3Scaling", "low", self.low)
        check_number("Llama3Scaling", "high", self.high)
        if not 0 < self.low < self.high < math.inf:
            raise ConfigError(f"Llama3Scaling(low={self.low}, high={self.high}): expected finite numbers, high > low > 0")

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return (1 − γ_n) θ_n / s + γ_n θ_n, with γ_n = (L/λ_n − l)/(h − l), limited to 0 … 1, and λ_n = 2π/θ_n."""
        turns = self.original_length * theta / (2 * math.pi)  # L/λ
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - kept) * theta / self.factor + kept * theta


def check_factor(scaling: RotaryScaling, factor: float) -> None:
    """Raise an error for a factor that is below 1 or not finite.

    Raises:
        ConfigError: If the factor is not a finite number of 1 or more.
    """
    called = type(scaling).__name__
    check_number(called, "factor", factor)
    if not 1 <= factor < math.inf:
        raise ConfigError(f"{called}(factor={factor}): expected a finite number of 1 or more: the new length / the old length")


_LAYOUTS = ("pairs", "half")
_KEPT_POSITIONS = 128
"""Minimum number of positions whose rotations are computed and cached together."""
_MOST_KEPT = 1 << 16
"""Rotations of later positions are not cached, so that an endless stream needs no more memory."""


class Rotary(RelativePositions):
    """Rotary positions: the n-th pair of features at position p is rotated by the angle p·θ_n, θ_n = base^(−2n/E).

    (x_a, x_b) ↦ (x_a cos pθ_n − x_b sin pθ_n, x_a sin pθ_n + x_b cos pθ_n), for queries and keys, so that their product depends
    only on the distance of the two positions. Angles are computed in at least float32. No parameters.

    Reference: Su et al. 2021 (RoFormer), eq. 34.

    Args:
        base: Base of the frequencies θ_n, > 1; the longest wavelength is about 2π·base positions.
        layout: Features of the pair n: "pairs" for 2n and 2n + 1, as in the paper; "half" for n and n + E/2, as in GPT-NeoX and
            in Hugging Face's Llama. Weights trained with one layout do not work with the other.
        scaling: Change of θ for inputs longer than the training inputs: `LinearScaling`, `NTKScaling`, `YaRNScaling` or
            `Llama3Scaling`; None for no change.

    Raises:
        ConfigError: If the base is not a finite number above 1, the layout is unknown, or `scaling` is not a `RotaryScaling`.

    Example:
        >>> llama = Rotary(500_000.0, layout="half", scaling=Llama3Scaling())
        >>> context, weights = MultiHead(256, 4, positions=llama)(torch.randn(2, 9, 256))
    """

    def __init__(
        self,
        base: float = 10_000.0,
        *,
        layout: Literal["pairs", "half"] = "pairs",
        scaling: RotaryScaling | None = None,
    ) -> None:
        super().__init__()
        check_number("Rotary", "base", base)
        if not 1 < base < math.inf:
            raise ConfigError(f"Rotary(base={base}): expected a finite number above 1")
        if layout not in _LAYOUTS:
            raise ConfigError(f"Rotary(layout={layout!r}): expected 'pairs' or 'half'{nearest(str(layout), _LAYOUTS)}")
        if scaling is not None:
            check_instance("Rotary", "scaling", scaling, RotaryScaling, "LinearScaling(4.0)")
        self.base, self.layout, self.scaling = base, layout, scaling
        self._kept: tuple[tuple[object, ...], Tensor] | None = None

    def check(self, num_heads: int, head_size: int) -> None:
        """Raise an error for heads of an odd width, whose features cannot be paired."""
        if head_size % 2:
            raise ConfigError(
                f"Rotary with heads of {head_size} features: features are rotated in pairs, so the width of a head must be even"
            )

    def frequencies(self, head_size: int, like: Tensor) -> Float[Tensor, " n"]:
        """Return the scaled θ_n, of the type and device of `like`."""
        theta = self.base ** (-torch.arange(0, head_size, 2, device=like.device, dtype=like.dtype) / head_size)
        return theta if self.scaling is None else self.scaling.scale(theta, self.base)

    @property
    def magnitude(self) -> float:
        """Factor by which rotated queries and keys are multiplied."""
        return 1.0 if self.scaling is None else self.scaling.magnitude

    def rotate(self, heads: Float[Tensor, "B H T E"], start: int) -> Float[Tensor, "B H T E"]:
        """Rotate each pair of features by the angle for its position: start, start + 1, …"""
        end = start + heads.shape[2]
        cached = self._is_constant() and start >= 0 and end <= _MOST_KEPT  # start < 0: more queries than keys
        if torch.compiler.is_compiling() or not cached:
            return self._turn_by(heads, self._angles(torch.arange(start, end, device=heads.device), heads))
        rotations = self._rotations_before(end, heads)[start:end]
        return self._turn(heads, lambda pairs: _times(pairs, rotations))

    def rotate_one(self, heads: Float[Tensor, "*any H E"], position: int) -> None:
        """Rotate in place heads that all have the same position, from 0; the result equals that of `rotate`.

        With the layout "pairs", in float32 or float64, the heads are multiplied by cached rotations, without the copies that
        `rotate` makes. If a subclass or an instance replaces `rotate`, its `rotate` is called.
        """
        cached = self._is_constant() and "rotate" not in vars(self) and position < _MOST_KEPT
        if cached and self.layout == "pairs" and heads.dtype in (torch.float32, torch.float64):
            rotation = self._rotations_before(position + 1, heads)[position]
            torch.view_as_complex(heads.view(*heads.shape[:-1], heads.shape[-1] // 2, 2)).mul_(rotation)
        else:
            super().rotate_one(heads, position)

    def rotate_at(self, heads: Float[Tensor, "B H T E"], positions: Int[Tensor, "B T"]) -> Float[Tensor, "B H T E"]:
        """Rotate each pair of features by the angle for the position that the caller gives."""
        return self._turn_by(heads, self._angles(positions[:, None], heads))

    def _is_constant(self) -> bool:
        """Return whether each call uses the same rotations, so that they can be cached; those of a subclass may change."""
        return type(self) is Rotary and (self.scaling is None or self.scaling.constant)

    def _angles(self, positions: Tensor, heads: Tensor) -> Float[Tensor, "*any n"]:
        """Return the angle of each pair of features at each position."""
        like = heads.new_empty((), dtype=torch.promote_types(heads.dtype, torch.float32))
        return positions.to(like.dtype)[..., None] * self.frequencies(heads.shape[-1], like)

    def _rotations_before(self, end: int, heads: Tensor) -> Tensor:
        """Return the rotations of the positions below `end`, or of more positions, and cache them for the next call.

        A decoding step rotates one position; without the cache, computing its angle would take most of the time.
        """
        kept = self._kept
        # The cache's key includes the tensor's class, because a tracer's tensors have no values that other calls could use.
        key = (self.base, self.scaling, heads.shape[-1], heads.dtype, heads.device, type(heads))
        if kept is None or kept[0] != key or len(kept[1]) < end:
            size = max(end, _KEPT_POSITIONS, 2 * len(kept[1]) if kept and kept[0] == key else 0)
            with torch.inference_mode(False), torch.no_grad():  # so that training can use the cache too
                positions = torch.arange(size, device=heads.device)
                kept = key, _rotations(self._angles(positions, heads), self.magnitude)
            self._kept = kept
        return kept[1]

    def _turn_by(self, heads: Tensor, angle: Tensor) -> Tensor:
        return self._turn(heads, lambda pairs: turned_pairs(pairs, angle, self.magnitude))

    def _turn(self, heads: Tensor, turn: Callable[[Tensor], Tensor]) -> Tensor:
        wide = heads.to(torch.promote_types(heads.dtype, torch.float32), copy=True, memory_format=torch.contiguous_format)
        if self.layout == "half":
            halves = wide.unflatten(-1, (2, -1)).transpose(-2, -1).clone(memory_format=torch.contiguous_format)
            return turn(halves).transpose(-2, -1).flatten(-2).to(heads.dtype)
        return turn(wide.unflatten(-1, (-1, 2))).flatten(-2).to(heads.dtype)
