"""The hand-written loops against the same steps taken by autograd, in float64, for every score and cell they know."""

from dataclasses import replace

import pytest
import torch

from regard.attention import Additive, Concat, Dot, General, ScaledDot, SumConcat, WeightNormAdditive
from regard.config import (
    AdditiveConfig,
    BahdanauDecoderConfig,
    ConcatConfig,
    DotConfig,
    EncoderConfig,
    GeneralConfig,
    LuongDecoderConfig,
    RecurrentConfig,
    SumConcatConfig,
)
from regard.layers import loop_scores
from regard.layers.loop_scores import AdditiveTape, find_loop_score
from regard.models.build import build_translator
from regard.models.recurrent.decoder import RecurrentDecoder

CPU = torch.device("cpu")
HIDDEN, SOURCES, TARGETS = 7, 13, 17
MASK = torch.arange(6) < torch.tensor([4, 6, 1])[:, None]
SCORES = {
    "additive": AdditiveConfig(attention_size=5, bias=True),
    "concat": ConcatConfig(attention_size=3),
    "sum_concat": SumConcatConfig(),
    "dot": DotConfig(),
    "scaled_dot": DotConfig(scaled=True),
    "general": GeneralConfig(),
}


def gradients(model, walk) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    source = torch.randint(4, SOURCES, MASK.shape, generator=draw) * MASK
    target = torch.randint(4, TARGETS, (3, 5), generator=draw)
    model.zero_grad()
    features, weights, _ = walk(model.target_embedding(target), model.encode(source, MASK), need_weights=True)
    randn = [torch.randn(t.shape, generator=draw, dtype=t.dtype) for t in (features, weights)]
    ((features * randn[0]).sum() + (weights * randn[1]).sum()).backward()
    return [features, weights, *(p.grad for n, p in model.named_parameters() if not n.startswith("output"))]


def build(attention, cell: str, order: str):
    torch.manual_seed(0)
    base = {"hidden_size": HIDDEN, "cell": cell, "attention": attention}
    decoder = (
        BahdanauDecoderConfig(readout="deep", **base) if order == "bahdanau" else LuongDecoderConfig(input_feeding=True, **base)
    )
    encoder = EncoderConfig(hidden_size=HIDDEN, bidirectional=False, cell=cell)
    config = RecurrentConfig(embedding_size=11, encoder=encoder, decoder=decoder)
    return build_translator(config, source_size=SOURCES, target_size=TARGETS).double()


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kept", [True, False])
def test_equals_the_steps(order: str, cell: str, score: str, kept: bool, monkeypatch) -> None:
    if not kept:
        monkeypatch.setattr(loop_scores, "KEPT_ELEMENTS", 0)
    model = build(SCORES[score], cell, order)
    assert find_loop_score(model.decoder.attention, CPU) is not None
    fast = gradients(model, model.decoder.decode)
    plain = gradients(model, lambda *args, **options: RecurrentDecoder.decode(model.decoder, *args, **options))
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("score", ["additive", "general"])
def test_a_backward_pass_for_each_word_gives_exact_gradients(order: str, cell: str, score: str) -> None:
    model = build(SCORES[score], cell, order)
    words = model.target_embedding(torch.full((3, 4), 5))
    features, _, _ = model.decoder.decode(words, model.encode(torch.full(MASK.shape, 4), MASK), need_weights=False)
    scores = features.sum((0, 2))
    parameters = [p for n, p in model.named_parameters() if not n.startswith("output")]
    passes = [torch.autograd.grad(score, parameters, retain_graph=True, allow_unused=True) for score in (*scores, scores.sum())]
    for *each, whole in zip(*passes, strict=True):
        found = [one for one in each if one is not None]
        if whole is not None:
            torch.testing.assert_close(sum(found), whole, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
def test_weights_changed_before_the_gradient_raise_an_error(order: str) -> None:
    model = build(SCORES["additive"], "gru", order)
    words = model.target_embedding(torch.full((3, 4), 5))
    features, _, _ = model.decoder.decode(words, model.encode(torch.full(MASK.shape, 4), MASK), need_weights=False)
    with torch.no_grad():
        model.decoder.layers[0].weight_hh.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        features.sum().backward()


LOOPED = {
    "additive": lambda **more: Additive(5, key_size=7, bias=True, **more),
    "concat": lambda **more: Concat(5, key_size=7, attention_size=3, **more),
    "sum_concat": lambda **more: SumConcat(5, **more),
    "weight_norm": lambda **more: WeightNormAdditive(5, key_size=7, **more),
    "general": lambda **more: General(5, key_size=7, **more),
    "dot": lambda **more: Dot(5, **more),
    "scaled_dot": lambda **more: ScaledDot(5, **more),
}


@pytest.mark.parametrize("name", LOOPED)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_the_score_of_the_loop_is_that_of_the_mechanism(name, scale):
    torch.manual_seed(0)
    attention = LOOPED[name](scale=scale).double()
    query, key = torch.randn(2, 3, 5).double(), torch.randn(2, 4, attention.key_size).double()
    memory, score = attention.prepare(key), find_loop_score(attention, CPU)
    projected = query @ score.query_weight.T
    if score.score_weight is None:
        scores = projected @ memory.key.mT
    else:
        scores = (projected[:, :, None] + memory.key[:, None]).tanh() @ score.score_weight
    torch.testing.assert_close(attention(query, key).weights, scores.softmax(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LOOPED)
def test_anything_else_takes_the_steps(name):
    class Named(type(LOOPED[name]())):
        """The same formula, and a class of its own."""

    assert find_loop_score(LOOPED[name](), CPU) is not None
    assert find_loop_score(LOOPED[name](normalizer="sparsemax"), CPU) is None
    assert find_loop_score(LOOPED[name](dropout=0.5), CPU) is None
    assert find_loop_score(LOOPED[name](dropout=0.5).eval(), CPU) is not None
    assert find_loop_score(Named(5), CPU) is None
    attention = LOOPED[name]()
    with attention.observe(lambda _: None):
        assert find_loop_score(attention, CPU) is None
    attention.normalizer.register_forward_hook(lambda *_: None)
    assert find_loop_score(attention, CPU) is None
    hooked = getattr(attention, "query_projection", getattr(attention, "projection", None))
    if hooked is not None:
        hooked.register_forward_hook(lambda *_: None)
        assert find_loop_score(attention, CPU) is None


@pytest.mark.parametrize("scale", [1.0, 9.0, 19.0, 25.0, 1e4])
def test_saturated_scores_equal_tanh(scale: float) -> None:
    draw = torch.Generator().manual_seed(0)
    keys = (torch.rand(2, 5, 8, generator=draw) * 2 - 1) * scale
    # Queries that cancel a key but for a little, and queries far beyond.
    queries = torch.stack((-keys[:, 0] + 0.3, keys[:, 1] * 4, -keys[:, 2] * 2))
    v = torch.randn(8, generator=draw)
    tape = AdditiveTape(3, keys, torch.randn(2, 5, 4, generator=draw), None, v)
    for step in range(3):
        tape.forward(step, queries[step])
        exact = torch.softmax((torch.tanh(keys.double() + queries[step, :, None].double()) * v.double()).sum(-1), -1)
        torch.testing.assert_close(tape.weights[step], exact.float(), rtol=2e-5, atol=2e-6)


def test_bfloat16_products_give_a_near_gradient() -> None:
    model = build(AdditiveConfig(), "gru", "luong").float()
    exact = gradients(model, model.decoder.decode)
    exact = [t.detach().clone() for t in exact]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = gradients(model, model.decoder.decode)
    for one, other in zip(rounded, exact, strict=True):
        assert (one - other).norm() <= 0.05 * other.norm() + 1e-3
    assert replace(model.encode(torch.full((1, 2), 5), torch.ones(1, 2, dtype=torch.bool))).hidden.dtype == torch.float32
