"""Colours of weights in a terminal, and checks of the colours and letters that it can show."""

from collections.abc import Sequence

from rich.color import Color
from rich.console import Console
from rich.style import Style

from regard.viz import colour

_STEPS = 20


def colourless(console: Console) -> bool:
    """Return whether no colours are shown, because there is no terminal, it has no colours, or NO_COLOR is set."""
    return console.color_system is None or console.no_color


def can_encode(console: Console, letters: str) -> bool:
    """Return whether the encoding of the output can represent the letters."""
    try:
        letters.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def paint(share: float) -> Style:
    """Return the style of a weight; the weight is given as a share of the full scale, from −1 to 1."""
    back, ink = _BACKS[share < 0][round(min(1.0, abs(share)) * _STEPS)]
    return Style(color=Color.parse(ink), bgcolor=Color.parse(back))


def _ramp(anchors: Sequence[str]) -> list[tuple[str, str]]:
    return [(colour.to_hex(shade), colour.ink(shade)) for shade in colour.ramp(anchors, _STEPS + 1)]


_BACKS = (_ramp(colour.LIGHT), _ramp(colour.LIGHT_NEGATIVE))
