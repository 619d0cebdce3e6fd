"""Dropout with few random numbers."""

import pytest
import torch

from regard.errors import ConfigError
from regard.layers.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
def test_share_and_scale(p):
    torch.manual_seed(0)
    x = torch.full((331, 307), 2.0)
    y = Dropout(p)(x)
    kept = y != 0
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=0.01)
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 2 / (1 - p)), rtol=1e-4, atol=0)


def test_neighbours_are_independent():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(100_000)) > 0).double()
    for distance in (1, 2, 3, 4, 8):
        both = (kept[:-distance] * kept[distance:]).mean().item()
        assert both == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0, 4), (2, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_shape_and_type(shape, dtype):
    x = torch.ones(shape, dtype=dtype)
    y = Dropout(0.5)(x)
    assert (y.shape, y.dtype) == (x.shape, dtype)
    assert set(y.flatten().tolist()) <= {0.0, 2.0}


def test_the_seed_decides():
    x, drop = torch.ones(101), Dropout(0.3)
    torch.manual_seed(4)
    one = drop(x)
    other = drop(x)
    torch.manual_seed(4)
    assert torch.equal(drop(x), one)
    assert not torch.equal(one, other)


def test_gradient_goes_where_the_values_went():
    x = torch.randn(13, 17, requires_grad=True)
    y = Dropout(0.3)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient * x, y)


def test_nothing_in_evaluation_or_at_zero():
    x = torch.randn(11)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_within_vmap():
    x = torch.ones(7, 100)
    y = torch.vmap(Dropout(0.5), randomness="different")(x)
    assert not torch.equal(y[0], y[1])


def test_refuses_what_is_no_probability():
    with pytest.raises(ConfigError, match=r"Dropout\(p=1\.0\): p must be at least 0 and below 1"):
        Dropout(1.0)
    assert "p=0.25" in str(Dropout(0.25))
