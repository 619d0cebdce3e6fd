"""The poolings: by hand, against formulas written out in loops, and what they promise of masks."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.attention import (
    AdditivePooling,
    AttentionPooling,
    Entmax,
    Entmax15,
    GatedPooling,
    MeanPooling,
    MultiHeadPooling,
    Pooling,
    Sigmoid,
    SoftmaxSink,
    Sparsemax,
)
from regard.config import (
    AdditivePoolingConfig,
    Entmax15Config,
    GatedPoolingConfig,
    LinearPoolingConfig,
    MeanPoolingConfig,
    MultiHeadPoolingConfig,
    SparsemaxConfig,
)
from regard.errors import ConfigError, ShapeError

BATCH, KEYS, WIDTH, HEADS, HIDDEN = 5, 7, 11, 3, 13
LENGTHS = (7, 1, 4, 0, 2)
MASK = torch.arange(KEYS) < torch.tensor(LENGTHS)[:, None]
POOLINGS = {
    "linear": lambda: AttentionPooling(WIDTH),
    "linear-sparsemax": lambda: AttentionPooling(WIDTH, normalizer=Sparsemax()),
    "linear-sigmoid": lambda: AttentionPooling(WIDTH, normalizer=Sigmoid()),
    "additive": lambda: AdditivePooling(WIDTH),
    "additive-entmax": lambda: AdditivePooling(WIDTH, attention_size=HIDDEN, bias=False, normalizer=Entmax15()),
    "multi-head": lambda: MultiHeadPooling(WIDTH, num_heads=HEADS, attention_size=HIDDEN),
    "one-head": lambda: MultiHeadPooling(WIDTH, num_heads=1),
    "gated": lambda: GatedPooling(WIDTH, attention_size=HIDDEN),
    "gated-entmax": lambda: GatedPooling(WIDTH, bias=True, normalizer=Entmax15()),
    "mean": lambda: MeanPooling(WIDTH),
}


@pytest.fixture(params=POOLINGS.values(), ids=POOLINGS.keys())
def pool(request: pytest.FixtureRequest) -> Pooling:
    torch.manual_seed(0)
    return request.param().double()


@pytest.fixture
def values() -> Tensor:
    return torch.randn(BATCH, KEYS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_linear_by_hand():
    pool = AttentionPooling(2).double()
    pool.projection.weight.data = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    values = torch.tensor([[[0.0, 4.0], [math.log(3), 8.0], [float("nan"), 1.0]]] * 2, dtype=torch.float64, requires_grad=True)
    context, weights = pool(values, key_mask=torch.tensor([[True, True, False], [False] * 3]))
    same(weights, torch.tensor([[0.25, 0.75, 0], [0, 0, 0]], dtype=torch.float64))
    same(context, torch.tensor([[0.75 * math.log(3), 7], [0, 0]], dtype=torch.float64))
    context.sum().backward()
    assert values.grad.isfinite().all()
    assert pool.projection.weight.grad.isfinite().all()


def test_what_is_masked_changes_nothing_a_nan_among_it(pool, values):
    spoilt = values.masked_fill(~MASK[..., None], torch.nan).requires_grad_()
    context, weights = pool(spoilt, key_mask=MASK)
    clean = pool(values, key_mask=MASK)
    same(context, clean.context)
    same(weights, clean.weights)
    assert not weights.movedim(-1, 1)[~MASK].any()
    assert not context[3].any(), "an empty row"
    context.square().sum().backward()
    assert spoilt.grad.isfinite().all()
    assert not spoilt.grad[~MASK].any()
    assert all(parameter.grad.isfinite().all() for parameter in pool.parameters())


def test_padding_changes_nothing_and_a_mask_of_all_is_none(pool, values):
    context, weights = pool(values, key_mask=MASK)
    for row, length in enumerate(LENGTHS):
        alone = pool(values[row : row + 1, :length])
        same(alone.context[0], context[row])
        same(alone.weights[0], weights[row, ..., :length])
    same(pool(values).context, pool(values, key_mask=torch.ones_like(MASK)).context)


def test_permuting_the_values_permutes_the_weights(pool, values):
    order = torch.tensor([3, 1, 6, 0, 2, 5, 4])
    context, weights = pool(values[:, order])
    same(context, pool(values).context)
    same(weights, pool(values).weights[..., order])


def test_gradients(pool, values):
    few = values[:3, :4].clone().requires_grad_()
    names, parameters = zip(*pool.named_parameters(), strict=True) if list(pool.parameters()) else ((), ())

    def function(inputs: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            torch.func.functional_call(pool, dict(zip(names, others, strict=True)), inputs, {"key_mask": MASK[:3, :4]})
        )

    assert torch.autograd.gradcheck(function, (few, *parameters), fast_mode=True)


def test_reweight_takes_the_weights_place(pool, values):
    def uniform(weights: Tensor, mask: Tensor) -> Tensor:
        assert mask.dtype == torch.bool
        return (mask.to(weights.dtype) / mask.sum(-1, keepdim=True).clamp(min=1)).expand_as(weights)

    expected = MeanPooling(WIDTH)(values, key_mask=MASK)
    context, weights = pool(values, key_mask=MASK, reweight=uniform)
    same(context, expected.context.repeat(1, pool.output_size // WIDTH))
    for head in weights.unbind(1) if weights.ndim == 3 else [weights]:
        same(head, expected.weights)
    same(pool(values, reweight=uniform).context, values.mean(1).repeat(1, pool.output_size // WIDTH))


def test_autocast_rounds_neither_weights_nor_context(pool, values):
    single, mask = values.float(), MASK
    pool = pool.float()
    exact = pool(single, key_mask=mask)
    with torch.autocast("cpu", torch.bfloat16):
        near = pool(single, key_mask=mask)
    assert near.context.dtype == near.weights.dtype == torch.float32
    assert (near.weights - exact.weights).abs().max() < 0.02
    if not isinstance(getattr(pool, "normalizer", None), Sigmoid):
        sums = near.weights.sum(-1).flatten()
        assert torch.minimum(sums, (1 - sums).abs()).max() < 1e-5


CONFIGS = {
    "linear": (LinearPoolingConfig(normalizer=SparsemaxConfig()), AttentionPooling),
    "additive": (AdditivePoolingConfig(attention_size=HIDDEN, normalizer=Entmax15Config()), AdditivePooling),
    "multi-head": (MultiHeadPoolingConfig(num_heads=HEADS), MultiHeadPooling),
    "gated": (GatedPoolingConfig(attention_size=HIDDEN), GatedPooling),
    "mean": (MeanPoolingConfig(), MeanPooling),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_from_a_config(name, values):
    config, kind = CONFIGS[name]
    pool = config.build(size=WIDTH).double()
    assert type(pool) is kind
    assert pool(values).context.shape == (BATCH, pool.output_size)
    if hasattr(config, "normalizer"):
        assert type(pool.normalizer).__name__.lower() == config.normalizer.kind
    if hasattr(config, "attention_size"):
        assert pool.projection.out_features == (config.attention_size or WIDTH)


def test_names_a_wrong_width(unchecked):
    with pytest.raises(ShapeError, match=r"values has shape \(1, 3, 4\), expected \(B, K, 2\)"):
        AttentionPooling(2)(torch.zeros(1, 3, 4))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AttentionPooling(0), r"AttentionPooling\(size=0\): size must be 1 or more"),
        (
            lambda: AdditivePooling(3, attention_size=0),
            r"AdditivePooling\(attention_size=0\): attention_size must be 1 or more",
        ),
        (lambda: MultiHeadPooling(3, num_heads=0), r"MultiHeadPooling\(num_heads=0\): num_heads must be 1 or more"),
    ],
)
def test_refuses_sizes_below_one(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_a_normalizer_of_ones_own(values):
    class First(nn.Module):
        def forward(self, scores: Tensor) -> Tensor:
            return torch.nn.functional.one_hot(torch.zeros_like(scores[..., 0], dtype=torch.int64), scores.shape[-1]).to(scores)

    same(AttentionPooling(WIDTH, normalizer=First()).double()(values).context, values[:, 0])


@pytest.mark.parametrize("batch", [1, HEADS, BATCH])
@pytest.mark.parametrize("normalizer", [SoftmaxSink(HEADS, learned=True), Entmax(HEADS, learned=True)], ids=["sink", "entmax"])
def test_a_learned_number_is_that_of_its_head(normalizer, batch, values):
    pool = MultiHeadPooling(WIDTH, HEADS, normalizer=normalizer).double()
    (numbers,) = normalizer.parameters()
    numbers.data = torch.arange(HEADS, dtype=torch.float64).view(HEADS, 1, 1)
    weights = pool(values[:batch], key_mask=MASK[:batch]).weights
    for head in range(HEADS):
        alone = type(normalizer)(learned=True).double()
        next(alone.parameters()).data.fill_(head)
        for row, length in zip(range(batch), LENGTHS, strict=False):
            assert not weights[row, head, length:].any()
            if length:
                scores = pool.scores(values[row : row + 1, :length])[0, head]
                same(weights[row, head, :length], alone(scores))


def test_a_normalizer_for_another_number_of_heads_is_refused():
    with pytest.raises(ConfigError, match=r"for 4 heads, expected 3; give it num_heads=3"):
        MultiHeadPooling(WIDTH, 3, normalizer=SoftmaxSink(4, learned=True))
    with pytest.raises(
        ConfigError, match=r"AttentionPooling\(normalizer=SoftmaxSink\(…\)\): .*expected 1; give it num_heads=1"
    ):
        AttentionPooling(WIDTH, normalizer=SoftmaxSink(4, learned=True))
