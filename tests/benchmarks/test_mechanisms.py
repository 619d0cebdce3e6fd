"""The benchmark of mechanisms, poolings and normalizers against an earlier commit."""

import inspect

from benchmarks import mechanisms

import regard.attention
from regard.attention import Attention, Pooling

BASES = {"HistoryAttention", "MonotonicAttention", "RecurrentHeads", "ScoredAttention"}


def test_every_mechanism_and_pooling_is_measured():
    public = {name: getattr(regard.attention, name) for name in regard.attention.__all__}
    kinds = {name for name, kind in public.items() if inspect.isclass(kind) and issubclass(kind, Attention | Pooling)}
    assert kinds - BASES - {"Attention", "Pooling"} == {*mechanisms.MECHANISMS, *mechanisms.POOLINGS}
    assert public.keys() >= {*mechanisms.NORMALIZERS}


def test_measure_times_every_form(monkeypatch):
    called = []
    monkeypatch.setattr(mechanisms, "minimum_time", lambda run: float(called.append(run()) or len(called)))
    monkeypatch.setattr(mechanisms, "MECHANISMS", ("MoChA", "HardMoChA", "FromAnotherVersion"))
    found = mechanisms.measure()
    assert {name.partition(", ")[0] for name in found} == {"MoChA", "HardMoChA", *mechanisms.POOLINGS, *mechanisms.NORMALIZERS}
    forms = {name.partition(", ")[2] for name in found if name.startswith("MoChA")}
    assert forms == {"forward", "forward without weights", "forward and backward", "step"}
    assert "Softmax, step" not in found
