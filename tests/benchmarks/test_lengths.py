"""The measurement by length: what it prints, and from which length a mechanism counts as faster."""

import json

import torch
from benchmarks import lengths


def test_the_line_has_times_and_ratios_of_each_length(capsys, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(
        lengths, "medians", lambda runs, repeats: {name: float(len(name)) for name in runs if runs[name]() is not None}
    )
    lengths.main(["--lengths", "3", "70", "--size", "8", "--heads", "2", "--repeats", "1"])
    found = json.loads(capsys.readouterr().out)
    for name in ("forward", "forward and backward"):
        assert found[name]["ms"] == {kind: {"3": len(kind), "70": len(kind)} for kind in lengths.KINDS}
        assert found[name]["ratio"]["LinearAttention"] == {"3": 0.6, "70": 0.6}
        assert found[name]["faster_from"] == {"LinearAttention": None, "GatedDeltaNet": None}


def test_faster_from_a_length_on():
    assert lengths.faster_from({1: 2.0, 2: 0.5, 4: 1.5, 8: 3.0}) == 4
    assert lengths.faster_from({1: 2.0, 2: 1.5}) == 1
    assert lengths.faster_from({1: 2.0, 2: 1.0}) is None


def test_all_forms_compute_causal_attention_of_one_width():
    torch.manual_seed(0)
    x = torch.randn(1, 7, 8, requires_grad=True)
    for kind in lengths.KINDS.values():
        attention = kind(8, 2, causal=True)
        assert lengths.forward(attention, x).shape == x.shape
        gradients = lengths.both(attention, x)
        assert gradients[0].shape == x.shape
        earlier = lengths.forward(attention, x[:, :4])
        torch.testing.assert_close(earlier, lengths.forward(attention, x)[:, :4])
