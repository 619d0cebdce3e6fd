"""Maps made ready for a search against the plain ones."""

import pytest
import torch
from torch import nn

from regard.inference import linear as packing
from regard.inference.linear import pack_linear

WIDTH, WORDS = 13, 101


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 32, 45], ids=["one sentence", "many", "not a multiple"])
def test_equals_the_plain_map(rows, bias):
    linear, x = nn.Linear(WIDTH, WORDS, bias=bias), torch.randn(rows, 3, WIDTH)
    with torch.no_grad():
        made = pack_linear([linear], rows)
        torch.testing.assert_close(made(x), linear(x))


@torch.no_grad()
def test_several_maps_come_side_by_side():
    x = torch.randn(17, WIDTH)
    assert pack_linear([nn.Linear(WIDTH, 7), nn.Linear(WIDTH, 11, bias=False)], 17) is None
    for bias in (True, False):
        linears = [nn.Linear(WIDTH, size, bias=bias) for size in (7, 11, 5)]
        made = pack_linear(linears, 17)
        torch.testing.assert_close(made(x), torch.cat([linear(x) for linear in linears], -1))


@torch.no_grad()
def test_without_onednn_it_is_padded(monkeypatch):
    monkeypatch.setattr(packing, "can_pack", lambda dtype: False)
    linear, x = nn.Linear(WIDTH, WORDS), torch.randn(6, WIDTH)
    made = pack_linear([linear], 64)
    assert not made.packed
    torch.testing.assert_close(made(x), linear(x))


@torch.no_grad()
def test_other_types_are_left_to_the_plain_product():
    made = pack_linear([nn.Linear(WIDTH, WORDS).double()], 64)
    assert not made.packed
    assert made(torch.randn(2, WIDTH)).dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert pack_linear([nn.Linear(WIDTH, WORDS)], 64).dtype == torch.bfloat16


@torch.no_grad()
def test_a_map_with_something_of_its_users_is_left_alone():
    class Mine(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    hooked, watched, patched = (nn.Linear(WIDTH, WORDS) for _ in range(3))
    hooked.register_forward_hook(lambda module, inputs, output: 2 * output)
    watched.register_forward_pre_hook(lambda module, inputs: None)
    patched.forward = lambda x: x
    for linears in ([Mine(WIDTH, WORDS)], [hooked], [watched], [patched], [nn.Linear(WIDTH, WORDS), hooked]):
        assert pack_linear(linears, 64) is None


@torch.no_grad()
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 128, 300])
def test_int8_equals_its_formula(rows, bias):
    """Rounded weights and rounded rows, multiplied in float64."""
    torch.manual_seed(0)
    linear, x = nn.Linear(WIDTH, WORDS, bias=bias), torch.randn(rows, 2, WIDTH) * torch.logspace(-3, 3, rows)[:, None, None]
    made = pack_linear([linear], rows, int8=True)

    def rounded(matrix):
        unit = matrix.double().abs().amax(-1, keepdim=True) / 127
        return (matrix / unit).round() * unit

    expected = rounded(x) @ rounded(linear.weight).T + (linear.bias if bias else 0)
    scale = x.double().norm(dim=-1, keepdim=True) * linear.weight.double().norm(dim=1)
    assert ((made(x) - expected).abs() < 2e-3 * scale).all()  # a value halfway between two integers may be rounded to either
    assert ((made(x) - linear(x)).abs() < 2e-2 * scale).all()


@torch.no_grad()
def test_in_int8_each_row_is_independent_of_the_others():
    x = torch.randn(300, WIDTH) * torch.logspace(-3, 3, 300)[:, None]
    made = pack_linear([nn.Linear(WIDTH, WORDS)], 300, int8=True)
    found = made(x)
    for row in (0, 1, 127, 128, 299):
        torch.testing.assert_close(found[row], made(x[row : row + 1])[0], rtol=1e-6, atol=0)


@torch.no_grad()
def test_int8_is_in_float32_whatever_the_default_dtype(monkeypatch):
    linear, x = nn.Linear(WIDTH, WORDS), torch.randn(3, WIDTH)
    made = pack_linear([linear], 3, int8=True)
    expected, before = made(x), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(made(x), expected)
    finally:
        torch.set_default_dtype(before)


@torch.no_grad()
def test_int8_keeps_zeros_and_values_that_are_not_finite():
    linear, x = nn.Linear(WIDTH, WORDS), torch.zeros(4, WIDTH)
    x[1, 3], x[2, 3], x[3] = torch.nan, torch.inf, 1e-38
    made = pack_linear([linear], 4, int8=True)
    found = made(x)
    torch.testing.assert_close(found[0], linear.bias)
    torch.testing.assert_close(found[3], linear.bias)
    assert not found[1:3].isfinite().any()
