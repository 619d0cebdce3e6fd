import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.viz import colour
from regard.viz.labels import label


def lightness(rgb):
    """CIELAB's L, by its own formula: another measure than the one the ramps are made in."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    return np.where(y > (6 / 29) ** 3, 116 * np.cbrt(y) - 16, y * (29 / 3) ** 3)


@pytest.mark.parametrize("anchors", [colour.LIGHT, colour.LIGHT_NEGATIVE, colour.DARK, colour.DARK_NEGATIVE])
def test_equal_steps_of_weight_are_equal_steps_of_lightness(anchors):
    ramp = colour.ramp(anchors, 21)
    assert colour.to_hex(ramp[0]) == anchors[0]
    assert colour.to_hex(ramp[-1]) == anchors[-1]
    steps = np.diff(lightness(ramp)) * (1 if anchors[0] < anchors[-1] else -1)
    assert (steps > 0).all()
    assert steps.max() < 1.6 * steps.mean()


def test_zero_is_white_in_light():
    assert colour.LIGHT[0] == colour.LIGHT_NEGATIVE[0] == "#ffffff"


@pytest.mark.parametrize("anchors", [colour.LIGHT, colour.LIGHT_NEGATIVE, colour.DARK, colour.DARK_NEGATIVE])
def test_ink_is_readable_on_every_shade(anchors):
    def luminance(rgb):
        return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    for shade in colour.ramp(anchors, 101):
        dark, light = sorted([luminance(shade), 0.0 if colour.ink(shade) == "#000000" else 1.0])
        assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize(
    ("top", "scale"),
    [(0.98, 1), (1.0000004, 1), (0.51, 0.6), (0.5, 0.5), (0.3, 0.3), (0.053, 0.06), (-0.15, 0.16), (7, 8), (0, 1)],
)
def test_full_scale_is_a_round_number_at_or_above_the_greatest(top, scale):
    assert colour.full_scale(np.array([[top, 0.0]])) == pytest.approx(scale)


def test_full_scale_of_nothing():
    assert colour.full_scale(np.zeros((0, 3))) == 1


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("Straße", "Straße"),
        ("\x1b[31m", "^[[31m"),
        ("a\nb\t\x7f", "a^Jb^I^?"),
        ("", "␣"),
        ("  ", "␣"),
        ("\u200b", "␣"),
        ("\u2060 \ufeff", "␣"),
        ("\u06dd", "\u06dd"),  # a visible format character
        ("a\u200db", "a\u200db"),
        ("\u202eabc\u2066", "abc"),
        ("\ud800", "\ufffd"),
        ("\x9b", "\ufffd"),
        ("\ufffe", "\ufffd"),
        ("a\u2028b", "a b"),
        ("x" * 60, "x" * 47 + "…"),
    ],
)
def test_labels(word, shown):
    assert label(word) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_no_label_holds_a_control_character(word):
    shown = label(word)
    assert all(c.isprintable() or c == " " or ord(c) >= 0xA0 for c in shown)
    assert shown.encode()
    assert 0 < len(shown) <= 48
