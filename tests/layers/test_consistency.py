"""The loss of two passes against its formula in float64, and what each pass reads."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.config import NoConsistencyConfig, RDropConfig, SimCutConfig
from regard.errors import ConfigError
from regard.layers import consistency
from regard.layers.consistency import Consistency, consistent_cross_entropy, reading_twice
from regard.layers.cross_entropy import SoftTargets

ROWS, WIDTH, WORDS = 23, 7, 31


def inputs(dtype=torch.float64):
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(2, ROWS, WIDTH, generator=draw, dtype=torch.float64)
    weight = torch.randn(WORDS, WIDTH, generator=draw, dtype=torch.float64)
    bias = torch.randn(WORDS, generator=draw, dtype=torch.float64)
    target = torch.randint(1, WORDS, (ROWS,), generator=draw)
    target[::5] = 0
    return (*(one.to(dtype).requires_grad_() for one in (features, weight, bias)), target)


def by_hand(kind, features, weight, bias, target, smoothing):
    """Sum over positions, word by word, as the papers write it."""
    total = 0.0
    p, q = (functional.linear(one, weight, bias).softmax(-1) for one in features)
    for row in range(ROWS):
        if not target[row]:
            continue
        gold = functional.one_hot(target[row], WORDS).double() * (1 - smoothing) + smoothing / WORDS
        first, second = (-(gold * one[row].log()).sum() for one in (p, q))
        there, back = ((a[row] * (a[row] / b[row]).log()).sum() for a, b in ((p, q), (q, p)))
        r_drop, sim_cut = (first + second + 5 / 2 * (there + back)) / 2, first + 3 * there
        total = total + (r_drop if kind == "r_drop" else sim_cut)
    return total, -p.log()[torch.arange(ROWS), target][target > 0].sum()


@pytest.mark.parametrize("chunk", [1, 2 * WORDS * 3, 1 << 20])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("config", [RDropConfig(), SimCutConfig()], ids=["r_drop", "sim_cut"])
def test_value_and_gradients_equal_the_papers_formula(config, smoothing, chunk, monkeypatch):
    monkeypatch.setattr(consistency, "CHUNK_ELEMENTS", chunk)
    ours, plain = inputs(), inputs()
    loss, nll = consistent_cross_entropy(*ours, Consistency.of(config), label_smoothing=smoothing)
    expected, expected_nll = by_hand(config.kind, *plain, smoothing)
    torch.testing.assert_close((loss, nll), (expected, expected_nll.detach()), rtol=1e-12, atol=1e-12)
    for one in (loss, expected):
        (3 * one).backward()
    for one, other in zip(ours[:3], plain[:3], strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-11, atol=1e-11)


def test_logits_instead_of_features_and_soft_targets():
    features, weight, bias, target = inputs()
    draw = torch.Generator().manual_seed(1)
    words = torch.rand(ROWS, WORDS, generator=draw).topk(4).indices
    soft = SoftTargets(words, torch.rand(ROWS, 4, generator=draw, dtype=torch.float64).softmax(-1), 0.3)
    logits = functional.linear(features, weight, bias)
    whole = consistent_cross_entropy(logits, None, None, target, Consistency.of(RDropConfig()), soft=soft)
    chunks = consistent_cross_entropy(features, weight, bias, target, Consistency.of(RDropConfig()), soft=soft)
    torch.testing.assert_close(whole, chunks)


def test_equal_passes_have_the_loss_of_one():
    features, weight, bias, target = inputs()
    same = features[:1].expand(2, -1, -1)
    for config in (RDropConfig(), SimCutConfig()):
        loss, nll = consistent_cross_entropy(same, weight, bias, target, Consistency.of(config))
        torch.testing.assert_close(loss, nll)
    assert Consistency.of(NoConsistencyConfig()) is None


def test_half_precision_and_weights_of_several_chunks(monkeypatch):
    monkeypatch.setattr(consistency, "CHUNK_ELEMENTS", 2 * WORDS * 4)
    ours, exact = inputs(torch.float32), inputs()
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = consistent_cross_entropy(*ours, Consistency.of(RDropConfig()))
    loss.backward()
    expected, _ = consistent_cross_entropy(*exact, Consistency.of(RDropConfig()))
    expected.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=0.02, atol=0)
    assert functional.cosine_similarity(ours[1].grad.double().flatten(), exact[1].grad.flatten(), dim=0) > 0.999


def test_sim_cut_hides_tokens_of_the_second_pass_only():
    torch.manual_seed(0)
    model = nn.ModuleDict({"words": nn.Embedding(9, 4, padding_idx=0), "positions": nn.Embedding(50, 4)})
    ids = torch.randint(1, 9, (20, 50)).repeat(2, 1)
    with reading_twice(model, Consistency.of(SimCutConfig(cut=0.25))):
        found, positions = model["words"](ids), model["positions"](torch.arange(50))
    plain = model["words"](ids)
    hidden = (found == 0).all(-1)
    assert not hidden[:20].any()
    assert 0.2 < hidden[20:].float().mean() < 0.3
    torch.testing.assert_close(found[~hidden], plain[~hidden], rtol=0, atol=0)
    assert torch.equal(positions, model["positions"].weight)
    assert torch.equal(model["words"](ids), plain)  # nothing is hidden afterwards


def test_sim_cut_refuses_a_model_without_embeddings_of_words():
    with (
        pytest.raises(ConfigError, match=r"ModuleList has no nn.Embedding with padding_idx=0"),
        reading_twice(nn.ModuleList([nn.Linear(2, 2)]), Consistency.of(SimCutConfig())),
    ):
        pass
