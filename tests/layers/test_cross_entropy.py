"""The chunked cross entropy against the plain one and against PyTorch's."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import ShapeError
from regard.layers import cross_entropy
from regard.layers.cross_entropy import SoftTargets, linear_cross_entropy, plain_linear_cross_entropy

ROWS, WIDTH, WORDS = 23, 7, 31


def inputs(dtype: torch.dtype = torch.float64, bias: bool = True) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, WIDTH, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()
    weight = torch.randn(WORDS, WIDTH, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()
    b = torch.randn(WORDS, generator=draw, dtype=torch.float64).to(dtype).requires_grad_() if bias else None
    target = torch.randint(1, WORDS, (ROWS,), generator=draw)
    target[::5] = 0
    return features, weight, b, target


def check_against_plain(*, bias: bool = True, **options) -> None:
    """Compare the losses and all gradients with those of the plain form."""
    results = []
    for function in (linear_cross_entropy, plain_linear_cross_entropy):
        features, weight, b, target = inputs(bias=bias)
        loss, nll = function(features, weight, b, target, **options)
        (3 * loss).backward()
        results.append((loss, nll, features.grad, weight.grad, None if b is None else b.grad))
    for one, other in zip(*results, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("chunk", [1, WORDS * 3, WORDS * 5 + 1, 1 << 20])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_value_and_gradients_equal_the_plain_form(chunk, bias, smoothing, monkeypatch) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(cross_entropy, "BUFFER_ELEMENTS", 2 * chunk)
    check_against_plain(bias=bias, label_smoothing=smoothing)


@pytest.fixture
def other_device(monkeypatch):
    """Compute as on a device whose answers have to be waited for."""
    inner = cross_entropy._ChunkedPass.__init__

    def begin(self, *arguments):
        inner(self, *arguments)
        self.on_cpu = False

    monkeypatch.setattr(cross_entropy._ChunkedPass, "__init__", begin)


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_other_devices_equal_the_plain_form(weight, other_device) -> None:
    check_against_plain(label_smoothing=0.1, soft=soft_targets(weight))


def test_huge_logits_stay_finite_on_other_devices(other_device) -> None:
    test_huge_logits_stay_finite()


def soft_targets(weight: float, dtype: torch.dtype = torch.float64) -> SoftTargets:
    draw = torch.Generator().manual_seed(1)
    words = torch.rand(ROWS, WORDS, generator=draw).topk(4).indices
    return SoftTargets(words, torch.rand(ROWS, 4, generator=draw, dtype=torch.float64).to(dtype).softmax(-1), weight)


@pytest.mark.parametrize("chunk", [WORDS * 3, 1 << 20])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_soft_targets_equal_the_plain_form(chunk, smoothing, weight, monkeypatch) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(cross_entropy, "BUFFER_ELEMENTS", 2 * chunk)
    check_against_plain(label_smoothing=smoothing, soft=soft_targets(weight))


def test_soft_targets_equal_pytorchs_class_probabilities() -> None:
    features, weight, bias, target = inputs()
    soft = soft_targets(0.3)
    probabilities = torch.zeros(ROWS, WORDS, dtype=torch.float64).scatter(1, soft.words, soft.probabilities)
    mixed = 0.7 * functional.one_hot(target, WORDS).double() + 0.3 * probabilities
    counts = target != 0
    ours, _ = linear_cross_entropy(features, weight, bias, target, soft=soft)
    logits = functional.linear(features, weight, bias)
    theirs = functional.cross_entropy(logits[counts], mixed[counts], reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_soft_targets_of_weight_zero_change_nothing() -> None:
    features, weight, bias, target = inputs()
    with_soft, _ = linear_cross_entropy(features, weight, bias, target, label_smoothing=0.1, soft=soft_targets(0.0))
    without, _ = linear_cross_entropy(features, weight, bias, target, label_smoothing=0.1)
    torch.testing.assert_close(with_soft, without, rtol=1e-12, atol=1e-12)


def test_huge_logits_with_soft_targets_stay_finite() -> None:
    features, weight, bias, target = inputs(torch.float32)
    soft = soft_targets(0.5, torch.float32)
    loss, _ = linear_cross_entropy(features * 1e4, weight, bias, target, soft=soft)
    plain, _ = plain_linear_cross_entropy(features * 1e4, weight, bias, target, soft=soft)
    loss.backward()
    torch.testing.assert_close(loss, plain)
    assert torch.isfinite(features.grad).all()


def test_soft_targets_of_another_number_of_rows_are_refused() -> None:
    features, weight, bias, target = inputs()
    words, probabilities, share = soft_targets(0.5)
    with pytest.raises(ShapeError, match=r"soft\.words"):
        linear_cross_entropy(features, weight, bias, target, soft=SoftTargets(words[1:], probabilities[1:], share))


def test_equals_pytorch() -> None:
    features, weight, bias, target = inputs()
    ours, _ = linear_cross_entropy(features, weight, bias, target, label_smoothing=0.1)
    logits = functional.linear(features, weight, bias)
    theirs = functional.cross_entropy(logits, target, ignore_index=0, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_gradcheck() -> None:
    features, weight, bias, target = inputs()
    assert torch.autograd.gradcheck(
        lambda f, w, b: linear_cross_entropy(f, w, b, target, label_smoothing=0.2)[0], (features, weight, bias)
    )


def test_huge_logits_stay_finite() -> None:
    features, weight, bias, target = inputs(torch.float32)
    loss, nll = linear_cross_entropy(features * 1e4, weight, bias, target, label_smoothing=0.1)
    plain, _ = plain_linear_cross_entropy(features * 1e4, weight, bias, target, label_smoothing=0.1)
    loss.backward()
    torch.testing.assert_close(loss, plain)
    assert torch.isfinite(nll)
    assert torch.isfinite(features.grad).all()


def test_nothing_that_counts() -> None:
    features, weight, bias, target = inputs()
    loss, nll = linear_cross_entropy(features, weight, bias, torch.zeros_like(target))
    loss.backward()
    assert loss == nll == 0
    assert not weight.grad.any()


def test_bfloat16_under_autocast_is_close_and_sums_in_float32() -> None:
    features, weight, bias, target = inputs(torch.float32)
    exact, _ = linear_cross_entropy(features, weight, bias, target)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, _ = linear_cross_entropy(features, weight, bias, target)
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs() / exact < 0.01


def test_autocast_does_not_round_float64() -> None:
    features, weight, bias, target = inputs()
    exact, _ = linear_cross_entropy(features, weight, bias, target)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = linear_cross_entropy(features, weight, bias, target)
    assert found == exact


def test_padding_of_probability_zero_is_ignored() -> None:
    for compute in (linear_cross_entropy, plain_linear_cross_entropy):
        features, weight, bias, target = inputs()
        with torch.no_grad():
            bias[0] = -torch.inf  # the bias of padding, which a model must not predict
        loss, nll = compute(features, weight, bias, target)
        loss.backward()
        logits = functional.linear(features, weight, bias)
        assert loss.item() == pytest.approx(functional.cross_entropy(logits, target, ignore_index=0, reduction="sum").item())
        assert nll == loss
        assert all(tensor.grad.isfinite().all() for tensor in (features, weight, bias))


def test_bfloat16_gives_the_gradients_and_smooths_them() -> None:
    found = []
    for enabled in (False, True):
        features, weight, bias, target = inputs(torch.float32)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss, _ = linear_cross_entropy(features, weight, bias, target, label_smoothing=0.3)
        loss.backward()
        found.append((loss.detach(), features.grad, weight.grad, bias.grad))
    for exact, rounded in zip(*found, strict=True):
        assert rounded.dtype == torch.float32
        assert 0 < (rounded - exact).norm() / exact.norm() < 0.01


def test_a_word_beyond_the_reach_of_float32_keeps_its_loss() -> None:
    weight = torch.tensor([[0.0], [0.0], [200.0], [-20.0]])
    for smoothing in (0.0, 0.1):
        args = torch.ones(3, 1), weight, None, torch.tensor([3, 2, 0])
        for one, other in zip(
            linear_cross_entropy(*args, label_smoothing=smoothing),
            plain_linear_cross_entropy(*args, label_smoothing=smoothing),
            strict=True,
        ):
            assert one == pytest.approx(float(other), rel=1e-6)


def test_wrong_shape_names_the_argument(unchecked) -> None:
    features, weight, bias, target = inputs()
    with pytest.raises(ShapeError, match=r"target has shape \(22\), expected \(M\) = \(23\)"):
        linear_cross_entropy(features, weight, bias, target[1:])


def test_half_precision_on_other_devices_equals_that_of_a_cpu(monkeypatch, request) -> None:
    def found():
        features, weight, _, target = inputs(torch.float32)
        with torch.autocast("cpu", torch.bfloat16):
            loss, nll = linear_cross_entropy(features, weight, None, target, label_smoothing=0.1)
        loss.backward()
        return loss.detach(), nll, features.grad, weight.grad

    plain = found()
    request.getfixturevalue("other_device")
    for one, other in zip(found(), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=0.01, atol=0.01)
