"""The benchmark of every mechanism against itself in an earlier commit."""

from benchmarks import mechanisms

import regard.attention


def test_the_names_exist():
    named = {*mechanisms.NAMES, *mechanisms.POOLINGS, *mechanisms.NORMALIZERS}
    assert named <= {*regard.attention.__all__}
    assert mechanisms.OPTIONS.keys() <= named


def test_what_is_timed(monkeypatch):
    called = []
    monkeypatch.setattr(mechanisms, "fastest", lambda run: float(called.append(run()) or len(called)))
    monkeypatch.setattr(mechanisms, "NAMES", ("MoChA", "HardMoChA"))
    found = mechanisms.measure()
    assert {name.partition(", ")[0] for name in found} == {"MoChA", "HardMoChA", *mechanisms.POOLINGS, *mechanisms.NORMALIZERS}
    assert "MoChA, step" in found
    assert "MoChA, forward and backward" in found
    assert "Softmax, step" not in found
