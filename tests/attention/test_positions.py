"""Relative positions against their published formulas, written anew."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import ALiBi, RelativeBias, Rotary
from regard.errors import ConfigError


def test_rotary_is_multiplication_by_complex_numbers():
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).numpy()
    theta = 10_000.0 ** (-2 * np.arange(4) / 8)  # RoFormer, eq. 15
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * (11 + np.arange(7))[:, None] * theta)
    found = Rotary().rotate(torch.from_numpy(x), 11).numpy()
    np.testing.assert_allclose(found[..., 0::2], turned.real, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found[..., 1::2], turned.imag, rtol=0, atol=1e-13)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_rotary_products_depend_on_the_distance_only(i, j, shift):
    q, k = torch.randn(2, 1, 1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rotary = Rotary(base=100.0)
    products = [(rotary.rotate(q, i + s) * rotary.rotate(k, j + s)).sum().item() for s in (0, shift)]
    assert products[0] == pytest.approx(products[1], abs=1e-10)


def test_rotary_angles_keep_their_precision_in_half_types():
    x = torch.ones(1, 1, 1, 4, dtype=torch.bfloat16)
    found = Rotary().rotate(x, 4095)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), Rotary().rotate(x.double(), 4095), rtol=0, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rotary_takes_any_strides(dtype):
    whole = torch.randn(2, 5, 3, 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    for view in (
        whole[..., 1:],
        whole.transpose(1, 2)[..., :4],
        whole[..., ::2][..., 1:],
        whole[:1].expand(4, -1, -1, -1)[..., 3:],
    ):
        assert torch.equal(Rotary().rotate(view, 3), Rotary().rotate(view.clone(memory_format=torch.contiguous_format), 3))


def test_rotary_gradients():
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda heads: Rotary(base=7.0).rotate(heads, 2), x)
    assert torch.autograd.gradgradcheck(lambda heads: Rotary(base=7.0).rotate(heads, 2) ** 2, x)


@pytest.mark.compile
def test_rotary_compiled_equals_rotary():
    x = torch.randn(2, 2, 3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    run = torch.compile(Rotary().rotate, backend="aot_eager", fullgraph=True)
    expected, found = Rotary().rotate(x, 5), run(x, 5)
    torch.testing.assert_close(found, expected)
    weights = torch.arange(expected.numel()).view_as(expected).float()
    gradients = [torch.autograd.grad((turned * weights).sum(), x) for turned in (expected, found)]
    torch.testing.assert_close(*gradients)


PUBLISHED = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
    8: [2**-h for h in range(1, 9)],
    12: [2**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


@pytest.mark.parametrize("heads", PUBLISHED)
def test_alibi_slopes_are_the_published_ones(heads):
    assert ALiBi(heads).slopes == pytest.approx(PUBLISHED[heads], rel=1e-12)


def test_alibi_bias():
    bias = ALiBi(2).bias(torch.arange(2, 5), torch.arange(5), torch.empty(0, dtype=torch.float64)).numpy()
    for h, i, j in np.ndindex(2, 3, 5):
        assert bias[h, i, j] == -(2.0 ** -(4 * (h + 1))) * abs(i + 2 - j)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_alibi_rounds_once_in_half_types(dtype):
    found, exact = (
        ALiBi(12).bias(torch.tensor([4095]), torch.arange(4096), torch.empty(0, dtype=kind)) for kind in (dtype, torch.float64)
    )
    assert torch.equal(found, exact.float().to(dtype))


def published_bucket(relative: np.ndarray, bidirectional: bool, num_buckets: int, max_distance: int) -> np.ndarray:
    """`_relative_position_bucket` of the T5 code, with its n = query − key, in float32."""
    ret, n = 0, -relative
    if bidirectional:
        num_buckets //= 2
        ret, n = (n < 0).astype(np.int64) * num_buckets, np.abs(n)
    else:
        n = np.maximum(n, 0)
    max_exact = num_buckets // 2
    ratio = np.log(np.maximum(n, 1).astype(np.float32) / max_exact) / math.log(max_distance / max_exact)
    large = max_exact + (ratio.astype(np.float32) * (num_buckets - max_exact)).astype(np.int64)
    return ret + np.where(n < max_exact, n, np.minimum(large, num_buckets - 1))


@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (32, 127), (8, 20), (6, 4)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_buckets_are_the_published_ones(buckets, far, bidirectional):
    distance = np.arange(-300, 301)
    module = RelativeBias(1, num_buckets=buckets, max_distance=far, bidirectional=bidirectional)
    found = module.bucket(torch.from_numpy(distance)).numpy()
    np.testing.assert_array_equal(found, published_bucket(distance, bidirectional, buckets, far))


def test_t5_buckets_worked_by_hand():
    # 32 buckets both ways: distances 0–7 alone, then 8–11, 12–15, 16–22, … up to 128; keys ahead from 16 on.
    distance = torch.tensor([0, -7, -8, -11, -12, -16, -127, -128, -5000, 1, 7, 8, 5000])
    wanted = [0, 7, 8, 8, 9, 10, 15, 15, 15, 17, 23, 24, 31]
    assert RelativeBias(1).bucket(distance).tolist() == wanted


def test_t5_bias_takes_the_column_of_its_head():
    module = RelativeBias(3, num_buckets=8, max_distance=20)
    bias = module.bias(torch.arange(3, 5), torch.arange(5), torch.empty(0))
    assert bias.shape == (3, 2, 5)
    assert bias[1, 0, 3] == module.weight[0, 1]  # query 0 of 2 sits at key 3 of 5
    assert bias[2, 1, 3] == module.weight[1, 2]
    assert bias[0, 0, 4] == module.weight[5, 0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Rotary(base=1.0), r"Rotary\(base=1.0\): base must be a finite number above 1"),
        (lambda: ALiBi(0), r"ALiBi\(num_heads=0\): num_heads must be 1 or more"),
        (lambda: RelativeBias(2, num_buckets=5), r"num_buckets=5\): num_buckets must be even and 4 or more if"),
        (lambda: RelativeBias(2, num_buckets=1, bidirectional=False), r"num_buckets=1\): num_buckets must be 2 or more"),
        (lambda: RelativeBias(2, max_distance=8), r"max_distance=8, num_buckets=32\): the first 8 distances"),
    ],
)
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()
