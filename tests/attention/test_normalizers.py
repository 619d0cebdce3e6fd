"""Normalizers: against the `entmax` package and plain formulas, with masks, in half types and with huge scores."""

import math

import entmax
import pytest
import torch
from torch import nn

from regard.attention import (
    Entmax,
    Entmax15,
    MultiHead,
    Sigmoid,
    SoftCap,
    Softmax,
    SoftmaxSink,
    Softpick,
    Sparsemax,
    StickBreaking,
    Temperature,
)
from regard.attention.masks import hide
from regard.errors import ConfigError

ALL = [
    Softmax(),
    Sparsemax(),
    Entmax15(),
    Entmax(alpha=1.3),
    Entmax(alpha=1.8, learned=True, dtype=torch.float64),
    Sigmoid(),
    SoftmaxSink(initial=0.5),
    SoftmaxSink(learned=True),
    Softpick(),
    StickBreaking(),
    SoftCap(cap=3.0),
    Temperature(temperature=0.7),
    Temperature(Sparsemax(), temperature=2.0),
]
SPARSE = {"sparsemax": (Sparsemax(), entmax.sparsemax), "entmax15": (Entmax15(), entmax.entmax15)}


def name(normalizer: nn.Module) -> str:
    return type(normalizer).__name__


def test_worked_by_hand():
    scores = torch.tensor([1.0, 0.5, -1.0])
    torch.testing.assert_close(Sparsemax()(scores), torch.tensor([0.75, 0.25, 0.0]))  # τ = 1/4
    torch.testing.assert_close(Sparsemax()(torch.tensor([2.0, 1.0])), torch.tensor([1.0, 0.0]))  # one below the highest
    # Halves 0.5, 0.25: (0.5 − τ)² + (0.25 − τ)² = 1 has its root at τ = 3/8 − √31/8.
    root = 3 / 8 - math.sqrt(31) / 8
    torch.testing.assert_close(Entmax15()(scores[:2]), torch.tensor([(0.5 - root) ** 2, (0.25 - root) ** 2]))
    torch.testing.assert_close(Entmax15()(torch.tensor([2.0, 0.0])), torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(Sigmoid()(torch.tensor([0.0, math.log(3)])), torch.tensor([0.5, 0.75]))
    torch.testing.assert_close(Temperature(temperature=0.5)(torch.tensor([0.0, 0.5])), torch.tensor([0.0, 1.0]).softmax(-1))
    torch.testing.assert_close(SoftmaxSink()(torch.tensor([0.0, math.log(2)])), torch.tensor([0.25, 0.5]))
    torch.testing.assert_close(Softpick()(torch.tensor([math.log(3), math.log(0.5)])), torch.tensor([0.8, 0.0]))  # 2 / (2 + ½)
    shares = torch.tensor([0.0, math.log(3), 0.0])  # β = ½, ¾, ½, from the last one back
    torch.testing.assert_close(StickBreaking()(shares), torch.tensor([0.5 * 0.25 * 0.5, 0.5 * 0.75, 0.5]))
    torch.testing.assert_close(SoftCap(cap=1.0)(torch.tensor([50.0, -50.0])), torch.tensor([1.0, -1.0]).softmax(-1))


@pytest.mark.parametrize("which", SPARSE)
@pytest.mark.parametrize("keys", [1, 2, 7, 1000])
@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0, 1e4, 1e30])
def test_sparse_ones_equal_the_entmax_package(which, keys, scale):
    ours, theirs = SPARSE[which]
    generator = torch.Generator().manual_seed(keys)
    scores = (scale * torch.randn(5, 3, keys, generator=generator, dtype=torch.float64)).requires_grad_()
    along = torch.randn(5, 3, keys, generator=generator, dtype=torch.float64)
    results = [ours(scores), theirs(scores, dim=-1)]
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad((r * along).sum(), scores)[0] for r in results), rtol=0, atol=1e-12)
    single = ours(scores.detach().float())
    torch.testing.assert_close(single.double(), theirs(scores.detach().float().double(), dim=-1), rtol=0, atol=2e-6)


@pytest.mark.parametrize("normalizer", ALL, ids=name)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(normalizer, dtype):
    scores = (3 * torch.randn(7, 300, generator=torch.Generator().manual_seed(0))).to(dtype)
    expected = normalizer(scores.float()).to(dtype)
    # Equal, but for the last bit where PyTorch's own softmax sums in another order.
    torch.testing.assert_close(normalizer(scores), expected, rtol=torch.finfo(dtype).eps, atol=1e-7)
    huge = torch.tensor([[6e4, 5.9e4, -6e4]]).to(dtype)
    assert torch.equal(normalizer(huge), normalizer(huge.double()).to(dtype))


@pytest.mark.parametrize("normalizer", ALL, ids=name)
@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_huge_scores(normalizer, scale):
    scores = torch.tensor([[1.0, -2.0, 0.5], [-1.0, -1.0, -1.5]]) * scale
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    of_several = {Sigmoid: [1.0, 0.0, 1.0], StickBreaking: [0.0, 0.0, 1.0]}
    if not normalizer.normalized:
        expected = torch.tensor([of_several.get(type(normalizer), [1.0, 0.0, 0.0]), [0.0, 0.0, 0.0]])
    if isinstance(normalizer, SoftCap):
        expected = (normalizer.cap * torch.tensor([[1.0, -1.0, 1.0], [-1.0, -1.0, -1.0]])).softmax(-1)
    leaf = scores.requires_grad_()
    torch.testing.assert_close(normalizer(leaf), expected)
    assert torch.autograd.grad(normalizer(leaf).square().sum(), leaf)[0].isfinite().all()


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax(), Entmax15()], ids=name)
@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=str)
def test_a_row_that_has_left_the_numbers_is_nan_and_the_others_are_not(normalizer, bad):
    scores = torch.tensor([[1.0, bad, 0.5], [1.0, 0.0, 0.5]])
    weights = normalizer(scores)
    assert weights[0].isnan().all()
    torch.testing.assert_close(weights[1], normalizer(scores[1]))
    masked = normalizer(hide(scores, torch.tensor([True, False, True])))
    torch.testing.assert_close(masked[0], masked[1])


@pytest.mark.parametrize("normalizer", ALL, ids=name)
def test_of_no_scores_there_are_no_weights(normalizer):
    assert normalizer(torch.zeros(2, 3, 0)).shape == (2, 3, 0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_not_above_zero_is_refused(temperature):
    with pytest.raises(ConfigError, match=r"Temperature\(temperature=.*\): temperature must be a finite number above 0"):
        Temperature(temperature=temperature)


def test_a_temperature_is_as_normalized_as_what_it_wraps():
    assert Temperature(Entmax15(), temperature=2.0).normalized
    assert not Temperature(Sigmoid(), temperature=2.0).normalized
    assert repr(Temperature(temperature=2.0)).startswith("Temperature(\n  temperature=2.0")


@pytest.mark.parametrize("alpha", [1.05, 1.25, 1.5, 1.75, 1.99])
@pytest.mark.parametrize("keys", [1, 2, 40])
def test_entmax_equals_the_package_with_its_gradients(alpha, keys):
    generator = torch.Generator().manual_seed(keys)
    scores = (3 * torch.randn(5, 2, 3, keys, generator=generator, dtype=torch.float64)).requires_grad_()
    along = torch.randn(5, 2, 3, keys, generator=generator, dtype=torch.float64)
    ours = Entmax(2, alpha=alpha, learned=True, dtype=torch.float64)
    theirs = ours.alpha.detach().clone().requires_grad_()
    found, expected = ours(scores), entmax.entmax_bisect(scores, theirs, dim=-1, n_iter=100)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    of_scores, of_raw = torch.autograd.grad((found * along).sum(), [scores, ours.raw_alpha])
    their_scores, of_alpha = torch.autograd.grad((expected * along).sum(), [scores, theirs])
    torch.testing.assert_close(of_scores, their_scores, rtol=1e-6, atol=1e-8)
    share = (ours.alpha.detach() - 1.01) / 0.99
    torch.testing.assert_close(of_raw, of_alpha * 0.99 * share * (1 - share), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("normalizer", [one for one in ALL if list(one.parameters())], ids=name)
def test_masked_scores_do_not_reach_the_gradient_of_what_is_learned(normalizer):
    scores = 2 * torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(5, 6, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[0, 0], mask[1] = True, True
    scores[~mask] = torch.tensor([math.nan, math.inf, -math.inf]).repeat(5)[: int((~mask).sum())].double()
    scores[1, 2] = -math.inf
    own = list(normalizer.parameters())
    found = torch.autograd.grad(normalizer(hide(scores, mask)).square().sum(), own)
    alone = sum(normalizer(row[kept]).square().sum() for row, kept in zip(scores, mask, strict=True))
    torch.testing.assert_close(found, torch.autograd.grad(alone, own))


def test_entmax_is_sparsemax_and_entmax15_where_those_are():
    scores = 2 * torch.randn(6, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for alpha, exact in ((2.0, Sparsemax()), (1.5, Entmax15())):
        torch.testing.assert_close(Entmax(alpha=alpha)(scores), exact(scores), rtol=0, atol=1e-12)


def test_a_sink_equals_a_key_of_its_own_with_zero_value():
    attention = MultiHead(8, 2, normalizer=SoftmaxSink(2, learned=True))
    assert attention.normalizer.sink.shape == (2, 1, 1)
    scores, sink = torch.randn(3, 2, 4, 5), torch.tensor([0.4, -1.0]).view(2, 1, 1)
    with torch.no_grad():
        attention.normalizer.sink.copy_(sink)
    expected = torch.cat([scores, sink.expand(3, 2, 4, 1)], -1).softmax(-1)[..., :-1]
    torch.testing.assert_close(attention.normalizer(scores), expected)


def test_later_keys_come_first_so_that_stick_breaking_needs_an_order():
    attention = MultiHead(8, 2, normalizer="stick_breaking")
    assert not attention.permutation_equivariant
    assert not Temperature(StickBreaking(), temperature=2.0).permutation_equivariant
    assert MultiHead(8, 2, normalizer=SoftCap(cap=2.0)).permutation_equivariant


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SoftCap(cap=0.0), r"SoftCap\(cap=0.0\): cap must be a finite number above 0"),
        (lambda: SoftmaxSink(0), r"SoftmaxSink\(num_heads=0\): num_heads must be 1 or more"),
        (lambda: SoftmaxSink(learned=1), r"SoftmaxSink\(learned=1\): learned must be True or False"),
        (lambda: Entmax(alpha=1.0), r"Entmax\(alpha=1.0\): alpha must be a finite number of 1.01 or more and of at most 2.0"),
        (lambda: Entmax(alpha=2.0, learned=True), r"Entmax\(alpha=2.0\): alpha must be a finite number above 1.01 and below 2"),
        (lambda: Entmax(alpha="1.5"), r"Entmax\(alpha='1.5'\): alpha must be a number"),
    ],
)
def test_options_out_of_range_are_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_softpick_keeps_the_digits_of_scores_near_zero():
    scores = torch.tensor([3e-4, -1e-4, 2e-5, 0.0], requires_grad=True)
    exact = scores.detach().double().requires_grad_()
    torch.testing.assert_close(Softpick()(scores).double(), Softpick()(exact), rtol=1e-6, atol=0)
    for each in (scores, exact):
        Softpick()(each)[0].backward()
    torch.testing.assert_close(scores.grad.double(), exact.grad, rtol=1e-6, atol=1e-8)
