"""Monotonic attention and MoChA: the papers' formulas at their extremes, the hard process, states and what is refused."""

import math

import numpy as np
import pytest
import torch
from contracts.cases.monotonic import double_sum, scan, window
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.attention import (
    Coverage,
    Dot,
    HardMoChA,
    HardMonotonic,
    MoChA,
    SoftMonotonic,
    WeightNormAdditive,
    expected_alignments,
    expected_chunks,
    stopping_points,
)
from regard.attention.ordered.monotonic import SoftToHard
from regard.errors import ConfigError, ShapeError

SHAPE = (5, 13)
ENERGIES = {
    "ordinary": st.floats(-5, 5),
    "huge": st.sampled_from([-1e4, -800.0, -40.0, -1.0, 0.0, 1e-9, 3.0, 40.0, 800.0, 1e4]),
    "never": st.floats(-1e4, -50),
    "always": st.floats(50, 1e4),
}


def tensors(*found: np.ndarray) -> list[torch.Tensor]:
    """With a batch of one in front."""
    return [torch.from_numpy(x)[None] for x in found]


def test_worked_by_hand():
    # p = ½ everywhere. First query: ½, ¼ and ⅛, and ⅛ runs off. Second: ½·½, then ½(½·½ + ¼), then ½(½·½ + ⅛).
    alignments = expected_alignments(torch.zeros(1, 2, 3))
    torch.testing.assert_close(alignments, torch.tensor([[[1 / 2, 1 / 4, 1 / 8], [1 / 4, 1 / 4, 3 / 16]]]))
    # Windows of two, scores 0, ln 3, 0: within them 1, then ¼ and ¾, then ¾ and ¼.
    chunks = expected_chunks(alignments[:, :1], torch.tensor([[[0, math.log(3), 0]]]), 2)
    torch.testing.assert_close(chunks, torch.tensor([[[1 / 2 + 1 / 16, 3 / 16 + 3 / 32, 1 / 32]]]))


@pytest.mark.parametrize("kind", ENERGIES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_alignments_equal_the_double_sum_and_never_go_back(kind, data):
    energies = data.draw(arrays(float, SHAPE, elements=ENERGIES[kind]))
    mask = data.draw(arrays(bool, SHAPE))
    found = expected_alignments(*tensors(energies), mask=torch.from_numpy(mask))[0].numpy()
    np.testing.assert_allclose(found, double_sum(energies, mask), rtol=0, atol=1e-12)
    assert (found >= 0).all()
    # The mass up to any key only falls from query to query, and so does the mass of all keys.
    assert (np.diff(found.cumsum(1), axis=0) <= 1e-12).all()
    assert found.sum(1).max() <= 1 + 1e-12


@pytest.mark.parametrize("kind", ENERGIES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_stopping_points_equal_the_scan_and_never_go_back(kind, data):
    energies = data.draw(arrays(float, SHAPE, elements=ENERGIES[kind]))
    mask = data.draw(arrays(bool, SHAPE))
    found = stopping_points(*tensors(energies), mask=torch.from_numpy(mask))[0]
    assert found.tolist() == [SHAPE[1] if end is None else end for end in scan(energies, mask)]
    assert (found.diff() >= 0).all()


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("size", [1, 2, 5, 13, 20])
def test_chunks_equal_their_sum_over_windows(size, scale):
    generator = np.random.default_rng(size)
    alignments, scores = generator.dirichlet(np.ones(SHAPE[1]), SHAPE[0]), scale * generator.normal(size=SHAPE)
    mask = generator.random(SHAPE) < 0.7
    alignments *= mask  # a process never stops where it may not
    found = expected_chunks(*tensors(alignments, scores), size, mask=torch.from_numpy(mask))[0].numpy()
    for i in range(SHAPE[0]):
        wanted = sum(alignments[i, end] * window(scores[i], mask[i], end, size) for end in range(SHAPE[1]))
        np.testing.assert_allclose(found[i], wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.sum(1), alignments.sum(1), rtol=0, atol=1e-12)
    if size == 1:
        np.testing.assert_allclose(found, alignments, rtol=0, atol=0)


@pytest.mark.parametrize("size", [1e4, -1e4, 1e30, math.inf, -math.inf])
def test_extreme_energies_have_finite_results_and_gradients(size):
    energies = torch.full((2, 3, 7), size, requires_grad=True)
    scores = torch.tensor([1e4, -1e4, 0, 1e4, 3e4, -3e4, 1]).expand(2, 3, 7).clone().requires_grad_()
    alignments = expected_alignments(energies)
    chunks = expected_chunks(alignments, scores, 3)
    for weights in (alignments, chunks):
        expected = torch.zeros(7)
        expected[0] = float(size > 0)
        torch.testing.assert_close(weights, expected.expand(2, 3, 7))
    chunks.square().sum().backward()
    assert energies.grad.isfinite().all()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_stands_behind_the_mask_reaches_neither_result_nor_gradient(bad):
    mask = torch.tensor([[[True, False, True], [False, True, True]]])
    energies = torch.tensor([[[0.3, bad, -0.2], [bad, 0.1, 0.4]]], requires_grad=True)
    other = energies.detach().masked_fill(~mask, 0).requires_grad_()
    for leaf in (energies, other):
        expected_alignments(leaf, mask=mask).square().sum().backward()
    torch.testing.assert_close(expected_alignments(energies, mask=mask), expected_alignments(other, mask=mask))
    torch.testing.assert_close(energies.grad, other.grad)


def test_a_long_way_of_small_probabilities_keeps_its_mass():
    # The closed form divides by a product of 1 − p that underflows here (0.0025^n), and loses all that comes after.
    energies = torch.full((1, 2, 2000), 6.0)
    energies[0, 0] = -9.0
    previous = torch.zeros(1, 2000)
    previous[0, 1500] = 1
    found = expected_alignments(energies, previous)
    assert found[0, 0, :1500].sum() == 0
    assert found[0, 1].sum() > 0.05
    torch.testing.assert_close(found.double(), expected_alignments(energies.double(), previous.double()), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", ["monotonic", "mocha"])
def test_soft_tends_to_hard_as_energies_saturate(kind):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 7, 5).double(), torch.randn(3, 11, 5).double(), torch.randn(3, 11, 2).double()
    key_mask = torch.rand(3, 11) < 0.8
    key_mask[2, 3:] = False
    soft = SoftMonotonic(5, initial_offset=0) if kind == "monotonic" else MoChA(5, chunk_size=3, initial_offset=0)
    soft.double().eval().scorer.key_projection.weight.data.mul_(4)
    hard = soft.hard()
    distances = []
    for gain in (1.0, 100.0, 1e5):
        soft.scorer.gain.data.fill_(gain)
        soft.offset.data.fill_(-0.5 * gain)
        one, other = soft(query, key, value, key_mask=key_mask), hard(query, key, value, key_mask=key_mask)
        distances.append((one.weights - other.weights).abs().max())
    assert distances[0] > 0.1
    assert distances[2] < 1e-12
    assert 0 < other.weights.sum() < 21  # some stop, some run off the end
    torch.testing.assert_close(one.context, other.context, rtol=0, atol=1e-11)


def pairs():
    return [
        (SoftMonotonic(5, key_size=7), HardMonotonic(5, key_size=7)),
        (MoChA(5, key_size=7, chunk_size=3), HardMoChA(5, key_size=7, chunk_size=3)),
        (SoftMonotonic(7, scorer=Dot(7)), HardMonotonic(7, scorer=Dot(7))),
    ]


@pytest.mark.parametrize("index", range(3))
def test_the_hard_form_takes_the_soft_ones_parameters(index):
    soft, other = pairs()[index]
    soft.offset.data.fill_(0.25)
    shared = soft.eval().hard()
    other.load_state_dict(soft.state_dict())
    query, key = torch.randn(2, 3, soft.query_size), torch.randn(2, 13, 7)
    assert type(shared) is type(other)
    assert not shared.training
    torch.testing.assert_close(shared(query, key).weights, other(query, key).weights, rtol=0, atol=0)
    assert {id(p) for p in shared.parameters()} == {id(p) for p in soft.parameters()}
    soft.load_state_dict(other.state_dict())


def test_what_has_run_off_the_end_stays_there():
    # The second query may attend nowhere: with or without gradients, the third has nothing left.
    allowed = torch.ones(3, 4, dtype=torch.bool)
    allowed[1] = False
    energies = torch.full((1, 3, 4), 9.0)
    assert stopping_points(energies, mask=allowed).tolist() == [[0, 4, 4]]
    assert (expected_alignments(energies, mask=allowed)[0, 1:] == 0).all()
    hard = HardMonotonic(1, scorer=Dot(1), initial_offset=9.0)
    out = hard(torch.zeros(1, 3, 1), torch.zeros(1, 4, 1), torch.full((1, 4, 2), 7.0), attn_mask=allowed)
    assert out.context.tolist() == [[[7, 7], [0, 0], [0, 0]]]


def test_values_get_a_gradient_through_the_choice_and_energies_none():
    hard = HardMonotonic(1, scorer=Dot(1), initial_offset=0.0)
    query, key = torch.ones(1, 2, 1, requires_grad=True), torch.tensor([[[-1.0], [2.0], [3.0]]], requires_grad=True)
    value = torch.randn(1, 3, 2, requires_grad=True)
    hard(query, key, value).context.sum().backward()
    assert value.grad.tolist() == [[[0, 0], [2, 2], [0, 0]]]
    assert query.grad is None
    assert key.grad is None


def test_noise_is_drawn_in_training_mode_only_and_from_torchs_generator():
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 5), torch.randn(2, 13, 5)
    for soft in (SoftMonotonic(5), MoChA(5, chunk_size=2)):
        runs = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            runs.append(soft(query, key).weights)
        assert torch.equal(runs[0], runs[1])
        assert not torch.allclose(runs[0], runs[2])
        soft.eval()
        before = torch.get_rng_state()
        quiet = soft(query, key).weights
        assert torch.equal(torch.get_rng_state(), before)
        assert not torch.allclose(quiet, runs[0])
        soft.train().noise = 0.0
        assert torch.equal(soft(query, key).weights, quiet)


def test_the_papers_energy_at_first():
    scorer = WeightNormAdditive(5, attention_size=16)
    assert scorer.gain.item() == 0.25
    before = scorer(torch.ones(1, 1, 5), torch.eye(5)[None]).weights
    scorer.score_weight.data.mul_(3)  # its length does not count
    torch.testing.assert_close(scorer(torch.ones(1, 1, 5), torch.eye(5)[None]).weights, before)
    assert SoftMonotonic(5).offset.item() == -1
    assert MoChA(5, chunk_size=2, initial_offset=-4).offset.item() == -4


def test_half_precision_keeps_the_recurrence_in_float32():
    energies = torch.full((1, 40, 50), -3.0, dtype=torch.bfloat16)
    exact = expected_alignments(energies.double())
    found = expected_alignments(energies)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-7)


def test_what_does_not_fit_is_refused(unchecked):
    with pytest.raises(ConfigError, match=r"SoftMonotonic\(noise=-1\): noise must be a finite number of 0 or more"):
        SoftMonotonic(5, noise=-1)
    with pytest.raises(ConfigError, match=r"MoChA\(chunk_size=0\): chunk_size must be 1 or more"):
        MoChA(5, chunk_size=0)
    with pytest.raises(ConfigError, match=r"HardMoChA\(chunk_size=-2\): chunk_size must be 1 or more"):
        HardMoChA(5, chunk_size=-2)
    wanted = r"HardMonotonic\(query_size=5, key_size=4, scorer=Dot\(query_size=4, key_size=4\)\): build the scorer with"
    with pytest.raises(ConfigError, match=wanted):
        HardMonotonic(5, scorer=Dot(4))
    wanted = r"MoChA\(query_size=5, key_size=7, chunk_scorer=Dot\(.*key_size=5\)\): build the chunk_scorer with"
    with pytest.raises(ConfigError, match=wanted):
        MoChA(5, key_size=7, chunk_size=2, chunk_scorer=Dot(5))
    wanted = r"SoftMonotonic\(scorer=Coverage\): expected a scorer without a state, such as General, Dot or Additive"
    with pytest.raises(ConfigError, match=wanted):
        SoftMonotonic(5, scorer=Coverage(5))
    with pytest.raises(ConfigError, match=r"HardMoChA\(chunk_scorer=Coverage\): expected a chunk_scorer without a state"):
        HardMoChA(5, chunk_size=2, chunk_scorer=Coverage(5))
    with pytest.raises(ShapeError, match=r"scores has shape \(1, 3, 5\), expected .*axis 0 \(B\) is 1, not 2"):
        expected_chunks(torch.zeros(2, 3, 5), torch.zeros(1, 3, 5), 2)
    for attention in (SoftMonotonic(5), HardMonotonic(5)):
        _, state = attention.attend(torch.zeros(2, 1, 5), attention.prepare(torch.zeros(2, 9, 5)))
        with pytest.raises(ShapeError, match=r"previous has shape \(2.*is 2, not 3"):
            attention.attend(torch.zeros(3, 1, 5), attention.prepare(torch.zeros(3, 9, 5)), state)


@pytest.mark.parametrize("build", [SoftMonotonic, lambda size: MoChA(size, chunk_size=2)], ids=["monotonic", "mocha"])
def test_the_parameters_of_a_functional_call_reach_the_hard_form(build):
    torch.manual_seed(0)
    attention, x = SoftToHard(build(8)).eval(), torch.randn(2, 5, 8)
    other = {name: tensor + 1 for name, tensor in attention.state_dict().items()}
    found = torch.func.functional_call(attention, other, (x, x)).context
    assert not torch.equal(found, attention(x, x).context)
    attention.load_state_dict(other)
    torch.testing.assert_close(found, attention(x, x).context, rtol=0, atol=0)
