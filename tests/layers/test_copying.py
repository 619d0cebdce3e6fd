"""The distribution of a pointer-generator against its equation, in plain loops."""

import math

import pytest
import torch

from regard.layers.copying import copy_log_probabilities
from regard.layers.cross_entropy import called_cross_entropy

WORDS, SOURCE = 7, 5


def draw(dtype=torch.float64, rows=3):
    random = torch.Generator().manual_seed(1)
    logits, gate = torch.randn(rows, WORDS, generator=random), torch.randn(rows, 1, generator=random)
    weights = torch.randn(rows, SOURCE, generator=random).softmax(-1)
    ids = torch.tensor([[5, 8, 5, 8, 0], [7, 8, 9, 10, 11], [4, 4, 4, 4, 3]])[:rows]
    weights[:, -1].masked_fill_(ids[:, -1] == 0, 0)  # padding has no weight
    return logits.to(dtype), gate.to(dtype), (weights / weights.sum(-1, keepdim=True)).to(dtype), ids


def test_equation_nine():
    logits, gate, weights, ids = draw()
    found = copy_log_probabilities(logits, gate, weights, ids).exp()
    for row in range(3):
        p_gen = 1 / (1 + math.exp(-gate[row, 0]))
        total = sum(math.exp(value) for value in logits[row])
        expected = [p_gen * math.exp(value) / total for value in logits[row]] + [0.0] * SOURCE
        for place, word in enumerate(ids[row].tolist()):
            expected[word] += (1 - p_gen) * float(weights[row, place])
        assert found[row].tolist() == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(found.sum(-1), torch.ones(3, dtype=torch.float64))


def test_only_generating_is_the_softmax():
    logits, gate, weights, ids = draw()
    found = copy_log_probabilities(logits, torch.full_like(gate, 1e6), weights, ids)
    assert torch.equal(found[:, :WORDS], logits.log_softmax(-1))
    assert bool((found[:, WORDS:].exp() == 0).all())


def test_gradients_are_those_of_the_equation():
    logits, gate, weights, ids = draw()
    gold = torch.tensor([8, 9, 4])

    def loss(logits, gate, weights):
        return called_cross_entropy(
            lambda rows: copy_log_probabilities(rows, gate, weights, ids), logits, gold, num_words=WORDS, label_smoothing=0.1
        )[0]

    for one in (logits, gate, weights):
        one.requires_grad_()
    assert torch.autograd.gradcheck(loss, (logits, gate, weights))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_extremes_have_finite_losses_and_gradients(dtype):
    """A source word without any weight, a certain gate, and scores far apart."""
    logits, gate, weights, ids = draw(dtype)
    logits, gate, weights = logits * 300, gate * 300, torch.eye(3, SOURCE, dtype=dtype)
    for one in (logits, gate, weights):
        one.requires_grad_()
    values = copy_log_probabilities(logits, gate, weights, ids)
    assert values.dtype == torch.float32
    loss = -values.gather(1, torch.tensor([[8], [11], [3]])).sum()
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(bool(one.grad.isfinite().all()) for one in (logits, gate, weights))


def test_chunks_change_nothing(monkeypatch):
    logits, gate, weights, ids = draw()
    gold = torch.tensor([8, 0, 4])
    rows = torch.cat((logits, gate, weights, ids), -1).requires_grad_()

    def scores(part):
        logits, gate, weights, ids = part.split([WORDS, 1, SOURCE, SOURCE], -1)
        return copy_log_probabilities(logits, gate, weights, ids.long())

    found = []
    for size in (1, 2, 512):
        monkeypatch.setattr("regard.layers.cross_entropy.CALLED_ROWS", size)
        loss, nll = called_cross_entropy(scores, rows, gold, num_words=WORDS, label_smoothing=0.1)
        found.append((loss, nll, *torch.autograd.grad(loss, rows)))
    for one in found[1:]:
        torch.testing.assert_close(one, found[0])
