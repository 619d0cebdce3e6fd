"""The benchmark of mechanisms, poolings and normalizers against an earlier commit."""

from benchmarks import mechanisms


def test_measure_times_every_form(monkeypatch):
    called = []
    monkeypatch.setattr(mechanisms, "minimum_time", lambda run: float(called.append(run()) or len(called)))
    found = mechanisms.measure()
    assert {"MoChA", "HardMoChA", "MultiHead", "MeanPooling", "SoftCap"} <= {name.partition(", ")[0] for name in found}
    forms = {name.partition(", ")[2] for name in found if name.startswith("MoChA")}
    assert forms == {"forward", "forward without weights", "forward and backward", "step"}
    assert "Softmax, step" not in found
