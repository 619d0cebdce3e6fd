"""Muon against its formula and against PyTorch's own, and its place beside AdamW."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from regard.attention import (
    AttentionPooling,
    ContextualPositionAttention,
    DifferentialAttention,
    MultiHead,
    MultiHeadPooling,
    RelativeBias,
    TalkingHeads,
    Trilinear,
)
from regard.config import TrainingConfig
from regard.layers.positions import LearnedPositions
from regard.layers.recurrent import RecurrentLayer
from regard.training.muon import Muon
from regard.training.optimizer import build_optimizer


class Tied(nn.Module):
    """Words in and out by one matrix; two hidden matrices of one shape, one of another, and vectors."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.first, self.second, self.wide = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.output = nn.Linear(4, 11)
        self.output.weight = self.embedding.weight


def muons(optimizer):
    """The matrices that Muon updates."""
    return [weight for group in optimizer.param_groups if "muon" in group for weight in group["params"]]


def drawn_gradients(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)


def by_formula(weights, gradients, *, rate, decay):
    """Singular vectors by SVD, and the iteration's polynomial on the singular values alone, matrix by matrix in float64."""
    momentum = torch.zeros_like(weights)
    for gradient in gradients:
        momentum = 0.95 * momentum + 0.05 * gradient
        u, sigma, v = torch.linalg.svd(0.95 * momentum + 0.05 * gradient, full_matrices=False)
        sigma = sigma / sigma.norm()
        for _ in range(5):
            sigma = 3.4445 * sigma - 4.7750 * sigma**3 + 2.0315 * sigma**5
        weights = (1 - rate * decay) * weights - rate * 0.2 * max(weights.shape) ** 0.5 * (u * sigma) @ v
    return weights


def test_equals_its_formula():
    torch.manual_seed(0)
    starts = [torch.randn(shape, dtype=torch.float64) for shape in ((4, 4), (6, 4), (4, 4), (3, 7), (1, 5), (5, 1), (1, 1))]
    matrices = [start.clone().requires_grad_() for start in starts]
    gradients = [[torch.randn_like(start) for start in starts] for _ in range(3)]
    ours = Muon(matrices, lr=0.02, weight_decay=0.1, dtype=torch.float64)
    for step in gradients:
        for matrix, gradient in zip(matrices, step, strict=True):
            matrix.grad = gradient
        ours.step()
    for matrix, start, *own in zip(matrices, starts, *gradients, strict=True):
        torch.testing.assert_close(matrix.detach(), by_formula(start, own, rate=0.02, decay=0.1))


def test_equals_that_of_pytorch():
    torch.manual_seed(0)
    matrices = [torch.randn(shape, requires_grad=True) for shape in ((8, 8), (16, 8), (8, 16), (8, 8))]
    copies = [matrix.detach().clone().requires_grad_() for matrix in matrices]
    ours = Muon(matrices, lr=0.02, weight_decay=0.1)
    theirs = torch.optim.Muon(copies, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for matrix, copy in zip(matrices, copies, strict=True):
            matrix.grad = torch.randn_like(matrix)
            copy.grad = matrix.grad.clone()
        ours.step()
        theirs.step()
    for matrix, copy in zip(matrices, copies, strict=True):
        torch.testing.assert_close(matrix, copy, rtol=0, atol=0.01)  # an entry moves by up to 0.05: bfloat16 rounds in both


def test_words_labels_and_vectors_are_adams():
    torch.manual_seed(0)
    model = Tied()
    config = TrainingConfig(optimizer="muon", weight_decay=0.1, learning_rate=0.01, betas=(0.8, 0.9))
    ours = build_optimizer(model, config)
    matrices = [model.first.weight, model.second.weight, model.wide.weight]
    vectors = [model.first.bias, model.second.bias, model.wide.bias, model.scale, model.output.bias]
    expected = [model.embedding.weight, *vectors, *matrices]
    copies = {id(weight): weight.detach().clone().requires_grad_() for weight in expected}
    plain = [
        Muon([copies[id(weight)] for weight in matrices], lr=0.01, weight_decay=0.1, dtype=torch.float32),
        torch.optim.AdamW([copies[id(model.embedding.weight)]], lr=0.01, betas=(0.8, 0.9), weight_decay=0.1),
        torch.optim.AdamW([copies[id(weight)] for weight in vectors], lr=0.01, betas=(0.8, 0.9), weight_decay=0),
    ]
    for seed in range(3):
        drawn_gradients(model, seed)
        for weight in expected:
            copies[id(weight)].grad = weight.grad.clone()
        for optimizer in (ours, *plain):
            optimizer.step()
    for weight in expected:
        torch.testing.assert_close(weight, copies[id(weight)])


def test_biases_of_recurrent_layers_are_vectors():
    layer = RecurrentLayer(3, hidden_size=4, cell="gru", bidirectional=True)
    for optimizer in ("adamw", "muon"):
        ours = build_optimizer(layer, TrainingConfig(optimizer=optimizer, weight_decay=0.1))
        decays = {id(weight): group["weight_decay"] for group in ours.param_groups for weight in group["params"]}
        found = {name: decays[id(weight)] for name, weight in layer.named_parameters()}
        assert found == {name: 0.0 if name.startswith("bias") else 0.1 for name in found}
        assert type(ours) is torch.optim.AdamW


def tied():
    """A model whose output layer, of any name, has the weight of its embedding."""
    model = nn.ModuleDict({"embedding": nn.Embedding(11, 4), "head": nn.Linear(4, 11)})
    model["head"].weight = model["embedding"].weight
    return model


@pytest.mark.parametrize(
    "build",
    [
        lambda: MultiHead(8, 2, positions=RelativeBias(2), modifiers=[TalkingHeads()]),
        lambda: ContextualPositionAttention(8, 2),
        lambda: DifferentialAttention(8, 2),
        lambda: Trilinear(8),
        lambda: MultiHeadPooling(8, 2),
        lambda: nn.LSTM(8, 4),
        tied,
        lambda: AttentionPooling(8),
    ],
    ids=["multi_head", "contextual", "differential", "trilinear", "pooling", "lstm", "tied", "one_output"],
)
def test_only_linear_maps_are_muons(build):
    model = build()
    found = {id(weight) for weight in muons(build_optimizer(model, TrainingConfig(optimizer="muon")))}
    names = {name for name, weight in model.named_parameters() if name.endswith("projection.weight") and len(weight) > 1}
    assert {name for name, weight in model.named_parameters() if id(weight) in found} == names


def test_goes_on_from_its_state_with_the_rate_it_is_given():
    torch.manual_seed(0)
    config = TrainingConfig(optimizer="muon", learning_rate=0.01)
    models = [Tied(), Tied()]
    first, second = (build_optimizer(model, config) for model in models)
    for seed in range(2):
        drawn_gradients(models[0], seed)
        first.step()
    models[1].load_state_dict(models[0].state_dict())
    second.load_state_dict(deepcopy(first.state_dict()))
    for optimizer, model in ((first, models[0]), (second, models[1])):
        drawn_gradients(model, 9)
        for group in optimizer.param_groups:
            group["lr"] = 0.5
        optimizer.step()
    for weight, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(weight, other)


@pytest.mark.parametrize("wrong", [True, False])
def test_an_update_that_is_not_finite_is_left_out(wrong):
    model = Tied()
    ours = build_optimizer(model, TrainingConfig(optimizer="muon", learning_rate=0.01))
    before = [weight.detach().clone() for weight in model.parameters()]
    drawn_gradients(model, 0)
    ours.found_inf = torch.tensor(float(wrong))
    ours.step()
    same = [torch.equal(weight, old) for weight, old in zip(model.parameters(), before, strict=True)]
    assert all(same) if wrong else not any(same)


def test_a_model_without_hidden_matrices_is_adams():
    tables = {"positions": LearnedPositions(3, max_length=4), "bias": RelativeBias(2)}
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 3), "output": nn.Linear(3, 2), **tables})
    drawn_gradients(model, 0)
    ours = build_optimizer(model, TrainingConfig(optimizer="muon"))
    ours.step()
    assert type(ours) is torch.optim.AdamW
