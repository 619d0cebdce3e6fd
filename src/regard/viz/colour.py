"""The colours of weights: zero has the colour of the background, and equal steps of weight are equal steps of lightness.

The ramps are computed in OKLab, whose first axis is perceived lightness. Lightness is linear in the value, and hue and chroma
are interpolated between the anchor colours. Pictures, pages and terminals share these definitions.

Reference: Ottosson 2020, A perceptual color space for image processing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from regard.errors import RequestError
from regard.rendering import Theme, theme
from regard.viz.numbers import greatest

LIGHT = ("#ffffff", "#9ecae1", "#3182bd", "#08306b")
"""Anchor colours from zero to the largest weight, on white."""
LIGHT_NEGATIVE = ("#ffffff", "#fdae6b", "#d6604d", "#67001f")
"""Anchor colours from zero to the lowest value, for matrices with negative values."""
DARK = ("#16181d", "#1f4e79", "#4a9bd9", "#e3f1ff")
DARK_NEGATIVE = ("#16181d", "#7a2e1d", "#e07a5f", "#ffe6dd")


@dataclass(frozen=True)
class Palette:
    """The colours of a picture besides those of weights."""

    background: str
    ink: str
    """Colour of words."""
    grey: str
    """Colour of small print."""
    frame: str
    faint: str
    """Colour of the lines between cells."""
    neutral: str
    """Colour of bars that are neither good nor bad."""
    mark: str
    """Colour of marks on weights."""
    positive: Sequence[str]
    """Anchor colours from zero to the largest weight."""
    negative: Sequence[str]


_ON_WHITE = Palette("white", "#111111", "#555555", "#999999", "#e4e4e4", "#b8bcc4", "#d9480f", LIGHT, LIGHT_NEGATIVE)
_PALETTES: Mapping[Theme, Palette] = {
    "light": _ON_WHITE,
    "dark": Palette(DARK[0], "#f2f2f2", "#b4b8c0", "#777c86", "#2a2d34", "#6b7078", "#ffa94d", DARK, DARK_NEGATIVE),
    "transparent": replace(_ON_WHITE, background="none"),
}


def palette() -> Palette:
    """Return the colours of the theme that pictures are being drawn with."""
    return _PALETTES[theme.get()]


_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def ramp(anchors: Sequence[str], steps: int) -> Float[np.ndarray, "steps 3"]:
    """Return sRGB values from 0 to 1 from the first to the last anchor (`#rrggbb`), with a lightness linear in the step."""
    srgb = np.array([[int(anchor[i : i + 2], 16) / 255 for i in (1, 3, 5)] for anchor in anchors])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    lab = np.cbrt(linear @ _TO_LMS.T) @ _TO_LAB.T
    lightness = np.linspace(lab[0, 0], lab[-1, 0], steps)
    order = np.argsort(lab[:, 0])  # np.interp needs increasing positions
    target = np.stack([lightness, *(np.interp(lightness, lab[order, 0], lab[order, axis]) for axis in (1, 2))], axis=1)
    linear = (target @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_TO_LMS).T
    linear = linear.clip(0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def ink(colour: Float[np.ndarray, " 3"]) -> str:
    """Return black or white, whichever has the higher contrast to `colour`: a ratio of at least 4.58 (WCAG requires 4.5)."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "#ffffff"


def to_hex(colour: Float[np.ndarray, " 3"]) -> str:
    """Return a colour as `#rrggbb`."""
    return "#" + "".join(f"{round(255 * float(x)):02x}" for x in colour)


_ROUND = (1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def full_scale(*matrices: np.ndarray, given: float | None = None) -> float:
    """Return the weight that gets the darkest colour: the smallest of a series that no weight exceeds.

    The series is …, 0.1, 0.12, 0.16, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, …, so that quarters of each have few digits.

    The signs of weights are ignored; if all weights are zero, the result is 1. A `given` weight is returned unchanged.

    Raises:
        RequestError: If a weight exceeds the given one.
    """
    # A round number, so that pictures of similar sentences have similar colours.
    top = greatest(*matrices)
    if given is not None:
        if not top <= given * (1 + 1e-6) < math.inf:  # a sum of weights may exceed 1 by rounding
            raise RequestError(f"scale is {given:g}, but the largest weight of the picture is {top:.3g}; give at least that")
        return given
    if top <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(top))
    return next(step * power for step in _ROUND if top <= step * power * 1.001)
