"""Rotary positions: queries and keys are rotated by angles that grow with their positions.

    (x_a, x_b) ↦ (x_a cos pθ_n − x_b sin pθ_n, x_a sin pθ_n + x_b cos pθ_n),    θ_n = base^(−2n/E)

where p is the position and E is the width of a head. In code: `turned_pairs`. A scaling changes θ, for texts that are longer
than the training texts.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.arguments import check_instance, check_number, check_size
from regard.attention.heads.positions import RelativePositions
from regard.errors import ConfigError, nearest
from regard.private_torch import is_transformed


def turned_pairs(pairs: Float[Tensor, "*any n two"], rotations: Float[Tensor, "... n two"]) -> Float[Tensor, "*any n two"]:
    """Return the product of each pair (a, b), read as a + ib, and its rotation (r cos φ, r sin φ), read as r e^{iφ}."""
    # One complex product is 2.7 to 7 times as fast as the formula in real numbers (`benchmarks/log.md`), but the compiler does
    # not support complex numbers.
    if torch.compiler.is_compiling():
        (first, second), (cos, sin) = pairs.unbind(-1), rotations.unbind(-1)
        return torch.stack((first * cos - second * sin, first * sin + second * cos), -1)
    return torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(rotations))


class RotaryScaling:
    """Change of the frequencies θ of rotary positions, for inputs that are longer than the training inputs.

    Your own scaling overrides `scale`.
    """

    magnitude: float = 1.0
    """Factor by which rotated queries and keys are multiplied."""

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return the changed frequencies; unchanged by default."""
        return theta


@dataclass(frozen=True)
class _Divided(RotaryScaling):
    """Scaling that divides frequencies by a factor s.

    Raises:
        ConfigError: If an argument is out of its range.
    """

    factor: float
    """s ≥ 1, such as 4 for inputs that are 4 times as long as the training inputs."""

    def __post_init__(self) -> None:
        check_number(type(self).__name__, "factor", self.factor, least=1)

    def blend(self, theta: Float[Tensor, " n"], kept: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return (1 − γ_n) θ_n / s + γ_n θ_n, where γ is `kept`, limited to 0 … 1."""
        kept = kept.clamp(0, 1)
        return (1 - kept) * theta / self.factor + kept * theta


@dataclass(frozen=True)
class LinearScaling(_Divided):
    """θ_n / s, which is the same as dividing all positions by s.

    Reference: Chen et al. 2023, "Extending context window of large language models via position interpolation", eq. 4.
    """

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        return theta / self.factor


@dataclass(frozen=True)
class NTKScaling(_Divided):
    """θ_n · s^(−2n/(E−2)): the largest frequency stays unchanged, and the smallest is divided by s.

    This equals a change of the base to base · s^(E/(E−2)), the "NTK-aware" method.

    Reference: Peng et al. 2023, "YaRN", section 3.1 (method of bloc97).
    """

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return θ_n · s^(−n/(N−1)) for the N = E/2 frequencies."""
        n = torch.arange(len(theta), device=theta.device, dtype=theta.dtype)
        return theta * self.factor ** (-n / max(len(theta) - 1, 1))


@dataclass(frozen=True)
class YaRNScaling(_Divided):
    """θ_n for fast pairs, θ_n / s for slow ones, and a linear transition between them.

    Pairs that turn more than `fast` times within L positions are fast; pairs that turn fewer than `slow` times are slow.
    Queries and keys are multiplied by 0.1 ln s + 1.

    Reference: Peng et al. 2023, "YaRN: efficient context window extension of large language models", sections 3.2 to 3.4. The
    first and last pair of the transition are rounded outwards, as in the authors' code.
    """

    original_length: int
    """L, number of positions in training, ≥ 1."""
    fast: float = 32.0
    """Number of turns within L positions above which the frequency of a pair stays unchanged; β in the paper, > `slow`."""
    slow: float = 1.0
    """Number of turns within L positions below which the frequency of a pair is divided by s; α in the paper, > 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("YaRNScaling", "original_length", self.original_length)
        check_number("YaRNScaling", "slow", self.slow, above=0)
        check_number("YaRNScaling", "fast", self.fast, above=self.slow)

    @property
    def magnitude(self) -> float:  # type: ignore[override]
        """Factor of rotated queries and keys, 0.1 ln s + 1; its square, 1/t in the paper, multiplies the scores."""
        return 0.1 * math.log(self.factor) + 1

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return θ_n / s for slow pairs and θ_n for fast ones."""
        size = 2 * len(theta)
        fast, slow = (
            size * math.log(self.original_length / (2 * math.pi * turns)) / (2 * math.log(base))
            for turns in (self.fast, self.slow)
        )
        first, last = max(math.floor(fast), 0), min(math.ceil(slow), size - 1)
        n = torch.arange(len(theta), device=theta.device, dtype=theta.dtype)
        return self.blend(theta, 1 - (n - first) / max(last - first, 0.001))


@dataclass(frozen=True)
class Llama3Scaling(_Divided):
    """θ_n for wavelengths below L/h, θ_n / s above L/l, and a transition that is linear in 1/wavelength between them.

    The wavelength of a pair is 2π/θ_n positions; s is `factor`, L `original_length`, l `low` and h `high`.

    Reference: Llama team 2024, "The Llama 3 herd of models", and the code of Llama 3.1 (s = 8, l = 1, h = 4, L = 8192).
    """

    factor: float = 8.0
    original_length: int = 8192
    """L, number of positions in training, ≥ 1."""
    low: float = 1.0
    """l > 0; frequencies with wavelengths above L/l are divided by s."""
    high: float = 4.0
    """h > l; frequencies with wavelengths below L/h stay unchanged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("Llama3Scaling", "original_length", self.original_length)
        check_number("Llama3Scaling", "low", self.low, above=0)
        check_number("Llama3Scaling", "high", self.high, above=self.low)

    def scale(self, theta: Float[Tensor, " n"], base: float) -> Float[Tensor, " n"]:
        """Return (1 − γ_n) θ_n / s + γ_n θ_n, with γ_n = (L/λ_n − l)/(h − l), limited to 0 … 1, and λ_n = 2π/θ_n."""
        turns = self.original_length * theta / (2 * math.pi)  # L/λ
        return self.blend(theta, (turns - self.low) / (self.high - self.low))


_LAYOUTS = ("pairs", "half")
# Minimum number of positions whose rotations are computed and cached together.
_KEPT_POSITIONS = 128
# Rotations of later positions are not cached, so that an endless stream needs no more memory.
_MOST_KEPT = 1 << 16
# Classes that return the same frequencies in each call, so that rotations can be cached; your own scaling may learn them.
_FIXED_SCALINGS = (type(None), LinearScaling, NTKScaling, YaRNScaling, Llama3Scaling)


def _is_complex(pairs: Tensor) -> bool:
    """Return whether the last axis, of two features, can be read as complex numbers without a copy."""
    aligned = not any(stride % 2 for stride in pairs.stride()[:-1])
    return pairs.stride(-1) == 1 and aligned and pairs.storage_offset() % 2 == 0


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
        check_number("Rotary", "base", base, above=1)
        if layout not in _LAYOUTS:
            raise ConfigError(f"Rotary(layout={layout!r}): expected 'pairs' or 'half'{nearest(str(layout), _LAYOUTS)}")
        if scaling is not None:
            check_instance("Rotary", "scaling", scaling, RotaryScaling, "LinearScaling(4.0)")
        self.base, self.layout, self.scaling = base, layout, scaling
        self._kept: tuple[tuple[object, ...], Tensor] | None = None
        self._recorded: dict[int, Tensor] = {}

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

    def rotate(self, heads: Float[Tensor, "B H T E"], positions: Tensor | int) -> Float[Tensor, "B H T E"]:
        """Rotate each pair of features by the angle for its position; an int p stands for the positions p, p + 1, …"""
        if not torch.compiler.is_compiling() and not heads.numel():
            return heads
        rotations = self._rotations(positions, heads, heads.shape[2])
        dtype = torch.promote_types(heads.dtype, torch.float32)
        pairs = heads.unflatten(-1, (2, -1)).mT if self.layout == "half" else heads.unflatten(-1, (-1, 2))
        pairs = pairs.to(dtype)
        # A complex number is a pair of neighbours. A compiler removes the copy itself, and can't read where a tensor begins.
        if torch.compiler.is_compiling() or not _is_complex(pairs):
            pairs = pairs.clone(memory_format=torch.contiguous_format)
        turned = turned_pairs(pairs, rotations)
        return (turned.mT if self.layout == "half" else turned).flatten(-2).to(heads.dtype)

    def rotate_one(self, heads: Float[Tensor, "*any H E"], position: int) -> None:
        """Rotate in place heads that all have the same position, without the copies that `rotate` makes if that is possible."""
        single = heads.dtype in (torch.float32, torch.float64)
        if type(self) is not Rotary or "rotate" in vars(self) or self.layout != "pairs" or not single:
            super().rotate_one(heads, position)
            return
        rotation = torch.view_as_complex(self._rotations(position, heads, 1))
        torch.view_as_complex(heads.view(*heads.shape[:-1], heads.shape[-1] // 2, 2)).mul_(rotation)

    def _rotations(self, positions: Tensor | int, heads: Tensor, count: int) -> Float[Tensor, "... n two"]:
        """Return (r cos φ, r sin φ) for each pair of features at each position, with the factor r = `magnitude`."""
        # Those of consecutive positions are cached for the next call: in a decoding step, computing them would take most of
        # the time.
        if isinstance(positions, Tensor):
            return self._compute(positions[:, None], heads)
        end = positions + count
        cached = type(self) is Rotary and type(self.scaling) in _FIXED_SCALINGS and not torch.compiler.is_compiling()
        # A position is negative if there are more queries than keys. The tensors of a transform cannot be saved.
        if not cached or positions < 0 or end > _MOST_KEPT or is_transformed():
            return self._compute(torch.arange(positions, end, device=heads.device), heads)
        # The cache's key includes the tensor's class, because a tracer's tensors have no values that other calls could use.
        key = (self.base, self.scaling, heads.shape[-1], heads.dtype, heads.device, type(heads))
        kept = self._kept
        if kept is None or kept[0] != key or len(kept[1]) < end:
            with torch.inference_mode(False), torch.no_grad():  # so that training can use the cache too
                kept = key, self._compute(torch.arange(max(_KEPT_POSITIONS, 2 * end), device=heads.device), heads)
            self._kept = kept
        if heads.is_cuda and torch.cuda.is_current_stream_capturing():
            self._recorded[id(kept[1])] = kept[1]  # the CUDA graph reads this memory after the cache has grown
        return kept[1][positions:end]

    def _compute(self, positions: Tensor, heads: Tensor) -> Float[Tensor, "... n two"]:
        like = heads.new_empty((), dtype=torch.promote_types(heads.dtype, torch.float32))
        angle = positions.to(like.dtype)[..., None] * self.frequencies(heads.shape[-1], like)
        return self.magnitude * torch.stack((angle.cos(), angle.sin()), -1)
