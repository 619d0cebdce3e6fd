"""Each private function of PyTorch and its public fallback give the same results, and no other module uses one."""

import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import regard
from regard import private_torch
from regard.attention import MultiHead
from regard.inference.linear import pack_linear
from regard.layers.dropout import Dropout

SOURCE = Path(regard.__file__).parent


class Without:
    """A namespace of PyTorch that lacks some functions."""

    def __init__(self, namespace, *names):
        self._namespace, self._names = namespace, names

    def __getattr__(self, name):
        if name in self._names:
            raise AttributeError(name)
        return getattr(self._namespace, name)


@pytest.fixture
def without_mkldnn(monkeypatch):
    monkeypatch.setattr(torch.ops, "mkldnn", Without(torch.ops.mkldnn, "_linear_pointwise", "_reorder_linear_weight"))


@pytest.fixture
def without_functorch(monkeypatch):
    monkeypatch.setattr(torch, "_C", Without(torch._C, "_are_functorch_transforms_active"))


def test_private_functions_are_used_in_one_module_only():
    private = re.compile(r"torch\._C|torch\.ops\.mkldnn|torch\._dynamo|torch\._inductor|_int_mm")
    users = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")) if private.search(path.read_text("utf-8"))]
    assert users == [Path("private_torch.py")]


def test_active_transforms():
    assert not private_torch.is_transformed()
    seen = []
    torch.func.vmap(lambda x: seen.append(private_torch.is_transformed()) or x)(torch.ones(2))
    assert seen == [True]


def test_plain_forms_serve_without_the_private_function_for_transforms(without_functorch):
    assert private_torch.is_transformed()
    query = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0))
    attention = MultiHead(8, num_heads=2)
    with torch.no_grad():
        plain, fused = attention(query, query), attention(query, query, need_weights=False)
    torch.testing.assert_close(plain.context, fused.context)
    dropped = Dropout(0.5)(torch.ones(1000))
    assert set(dropped.tolist()) == {0.0, 2.0}


@pytest.mark.skipif(not private_torch.can_pack(), reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_packed_maps_equal_plain_ones(dtype):
    rows, weight, bias = (torch.randn(*shape, dtype=dtype) for shape in ((32, 24), (40, 24), (40,)))
    found = private_torch.packed_linear(rows, private_torch.pack_weight(weight), bias)
    torch.testing.assert_close(found, functional.linear(rows, weight, bias))


def test_packed_maps_fall_back_to_plain_ones(without_mkldnn):
    assert not private_torch.can_pack()
    rows, weight, bias = torch.randn(32, 24), torch.randn(40, 24), torch.randn(40)
    assert private_torch.pack_weight(weight) is weight
    assert torch.equal(private_torch.packed_linear(rows, weight, bias), functional.linear(rows, weight, bias))
    linear = torch.nn.Linear(512, 9000)
    with torch.no_grad():
        made = pack_linear([linear], 500)
        assert made is not None
        assert not made.packed
        rows = torch.randn(3, 512)
        torch.testing.assert_close(made(rows), linear(rows))


@pytest.mark.parametrize("rows", [1, 7, 130])
def test_products_of_8_bit_integers(rows, monkeypatch):
    generator = torch.Generator().manual_seed(rows)
    left, right = (torch.randint(-127, 128, shape, generator=generator, dtype=torch.int8) for shape in ((rows, 37), (37, 19)))
    expected = left.long() @ right.long()
    assert torch.equal(private_torch.int8_product(left, right).long(), expected)
    monkeypatch.setattr(private_torch, "_multiplies_int8", lambda: False)
    assert torch.equal(private_torch.int8_product(left, right).long(), expected)


@pytest.mark.parametrize("lacking", ["function", "oneDNN", "VNNI"])
def test_products_of_8_bit_integers_are_checked_before_use(lacking, monkeypatch):
    if lacking == "function":
        monkeypatch.delattr(torch, "_int_mm")
    if lacking == "oneDNN":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    if lacking == "VNNI":  # sums that stop at the highest number of 16 bits
        monkeypatch.setattr(torch, "_int_mm", lambda left, right: (left.long() @ right.long()).clamp(max=2**15 - 1).int())
    assert not private_torch._multiplies_int8.__wrapped__()
