"""Weights that are converted together: the same bits as under autocast, in fewer operations."""

from collections import Counter

import pytest
import torch
from test_recorded import batch_of
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.config import TransformerConfig
from regard.config.language import LanguageModelConfig
from regard.models.build import build_language_model, build_translator
from regard.tasks.objective import objective
from regard.training.casting import CastOnce

SIZES = {"hidden_size": 16, "num_heads": 2, "feed_forward_size": 24, "layer_dropout": 0.2, "positions": "rotary"}


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return objective(self.model, batch, label_smoothing=0.1)


class Copies(TorchDispatchMode):
    """Counts conversions."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def built(kind):
    torch.manual_seed(0)
    if kind == "language":
        return build_language_model(LanguageModelConfig(num_layers=2, **SIZES), vocabulary_size=30)
    layers = {"encoder_layers": 2, "decoder_layers": 2}
    return build_translator(TransformerConfig(**SIZES, **layers), source_size=30, target_size=30)


@pytest.mark.parametrize("kind", ["translation", "language"])
@pytest.mark.parametrize("rows", [3, 60])  # 60: queries, keys and values form one product
def test_loss_and_gradients_have_the_same_bits(kind, rows):
    model, batch, found = built(kind).train(), batch_of(rows=rows), []
    model.requires_grad_(True)
    next(iter(model.decoder.layers)).feed_forward.inner.weight.requires_grad_(False)  # a frozen part
    for module in (Loss(model), CastOnce(Loss(model), torch.bfloat16)):
        torch.manual_seed(1)
        with Copies() as copies:
            loss, nll = module(batch)
            loss.backward()
        found.append((loss.detach(), nll, *(one.grad for one in model.parameters() if one.grad is not None)))
        model.zero_grad()
        del module
        found[-1] = found[-1], copies.counts["_to_copy"]
    (plain, many), (ours, few) = found
    assert len(plain) == len(ours) > 20
    assert all(torch.equal(one, other) for one, other in zip(plain, ours, strict=True))
    assert few < 0.6 * many
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


def test_a_module_without_layers_is_only_called():
    linear = nn.Linear(2, 2)
    assert torch.equal(CastOnce(linear, torch.bfloat16)(torch.ones(2)), linear(torch.ones(2)))
