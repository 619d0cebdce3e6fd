"""An update on another device than a CPU never waits for the device, and starts few operations on it.

The updates run on PyTorch's device `meta`, which has shapes and no values: whatever would wait for a value of the device
(`item`, `nonzero`, `if tensor:`) raises an error there. A stand-in counts cuDNN's call for a layer as one operation. Nothing
here has run on a GPU.
"""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from benchmarks.operations import Operations
from torch import Tensor, nn

from regard.config import AttentionConfig
from regard.layers.recurrent import RecurrentLayer
from regard.models.build import build_translator
from regard.presets import load_preset
from regard.tasks.objective import draw_gold, objective
from regard.text.batching import Batch
from regard.training.muon import Muon
from regard.training.optimizer import build_optimizer

ROWS, LENGTH, WORDS = 32, 15, 5000
KINDS = [kind for kind, cls in AttentionConfig.kinds().items() if cls.__module__.startswith("regard.")]
FREE = {
    *("alias", "as_strided", "_conj", "detach", "diagonal", "expand", "lift_fresh", "permute", "_reshape_alias", "select"),
    *(
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unfold",
        "unsqueeze",
        "_unsafe_view",
        "view",
    ),
    *("view_as_complex", "view_as_real"),
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "promote_types"),
}
"""Operations that start nothing on a GPU: views, and new memory."""


class OneCall(torch.autograd.Function):
    """A recurrent layer as cuDNN runs it: one operation forward, and one backward."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(inputs, hidden, cell, *weights)
        states = torch.zeros(*inputs.shape[:2], hidden.shape[-1], device=inputs.device)
        return states, torch.empty_like(hidden), torch.empty_like(cell)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        first, *others = ctx.saved_tensors
        return torch.zeros_like(first), *(torch.empty_like(tensor) for tensor in others)


@pytest.fixture
def meta(monkeypatch):
    """The device, for which PyTorch has neither autocast nor cuDNN."""
    monkeypatch.setattr(torch, "autocast", lambda *arguments, **options: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *arguments: False)
    monkeypatch.setattr(RecurrentLayer, "_native_dtype", lambda self, inputs: inputs.dtype)
    monkeypatch.setattr(torch, "lstm", lambda inputs, start, weights, *others: OneCall.apply(inputs, *start, *weights))
    monkeypatch.setattr(torch, "gru", lambda inputs, start, weights, *others: OneCall.apply(inputs, start, start, *weights)[:2])
    return torch.device("meta")


def made(name: str, device: torch.device, length: int = LENGTH, **settings: Any) -> tuple[nn.Module, Batch]:
    config = load_preset(name, {"data.train": ["pairs.tsv"], **settings})
    with device:
        model = build_translator(config.model, source_size=WORDS, target_size=WORDS).train()
        ids, mask = torch.zeros(ROWS, length, dtype=torch.long), torch.ones(ROWS, length, dtype=torch.bool)
        batch = Batch(ids, mask, ids, ids, mask, torch.arange(ROWS))
    return model, batch


@pytest.mark.parametrize(("preset", "most"), [("transformer-tiny", 800), ("luong", 1200), ("tutorial-luong-concat", 200)])
def test_an_update_waits_for_nothing_and_starts_few_operations(preset, most, meta) -> None:
    model, batch = made(preset, meta)
    with Operations(FREE) as operations:
        loss, _ = objective(model, batch, label_smoothing=0.1)
        loss.backward()
    assert 100 < operations.counts.total() <= most, operations.counts.most_common(30)


@pytest.mark.parametrize("preset", ["transformer-tiny", "tutorial-luong-concat", "tutorial-bahdanau", "tutorial-gru"])
def test_feeding_own_words_waits_for_nothing(preset, meta) -> None:
    model, batch = made(preset, meta)
    use_gold = draw_gold(batch.target_in, 0.5, "sentence")
    objective(model, batch, use_gold=use_gold)[0].backward()


@pytest.mark.parametrize("preset", ["luong", pytest.param("bahdanau", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_no_attention_waits_or_uses_another_device(kind, preset, meta) -> None:
    settings = {"model.decoder.attention": {"kind": kind}, "model.encoder.hidden_size": 128}  # queries and keys of one width
    model, batch = made(preset, meta, length=3, **settings)
    objective(model, batch)[0].backward()


def test_muon_waits_for_nothing(meta) -> None:
    model, batch = made("transformer-tiny", meta)
    objective(model, batch)[0].backward()
    optimizer = build_optimizer(model, load_preset("transformer-tiny", {"data.train": ["pairs.tsv"]}).training)
    assert isinstance(optimizer, Muon)
    optimizer.found_inf = torch.zeros((), device=meta)
    for _ in range(2):
        optimizer._step_matrices(optimizer.param_groups[0])


def test_waiting_is_noticed(meta) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        bool(torch.ones(3, device=meta).any())
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.ones(3, device=meta).nonzero()
