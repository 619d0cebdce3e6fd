"""The bars of a model's faithfulness."""

import pytest
from viz.special import texts

from regard.errors import RequestError
from regard.viz import losses

LOSSES = {
    "One deleted": {"most attention": 0.4, "random": -0.1, "best tried": 0.5},
    "One erased": {"most attention": 0.25, "random": 0.0, "best tried": 0.3},
}


def test_bars_and_their_numbers(tmp_path):
    figure = losses.draw(LOSSES, tmp_path / "bars.svg", title="Of 7 texts", notes=["It matters."])
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0.4, -0.1, 0.5, 0.25, 0.0, 0.3]
    shown = texts(tmp_path / "bars.svg")
    assert {"Of 7 texts", "One deleted", "One erased", "0.40", "-0.10", "0.50", "0.25", "It matters."} <= set(shown)
    assert shown.count("most attention") == 2
    negative = next(one for one in figure.axes[0].texts if one.get_text() == "-0.10")
    assert negative.xy[0] == -0.1  # at the end of its bar, and left of it
    assert negative.get_horizontalalignment() == "right"
    assert figure.axes[0].get_xlim()[0] < -0.15
    losses.draw(LOSSES, tmp_path / "bare.svg", title="Of 7 texts", notes=["It matters."], caption=False)
    assert "It matters." not in texts(tmp_path / "bare.svg")


def test_no_loss_at_all_is_drawn_and_other_endings_are_refused():
    losses.draw({"One": {"random": 0.0}}, title="")
    with pytest.raises(RequestError, match=r"bars\.gif"):
        losses.draw(LOSSES, "bars.gif", title="")
