"""The kernel of several heads with their weights, beside the plain form that it must equal."""

import pytest
import torch

from regard.attention import ALiBi, MultiHead, RelativeBias
from regard.attention.kernels import heads

B, H, Q, K, D = 2, 3, 5, 7, 15
MASKS = {
    "none": {},
    "key": {"key_mask": torch.tensor([[True] * 4 + [False] * 3, [True] * 7])},
    "empty": {"key_mask": torch.tensor([[False] * 7, [True] * 7])},
    "attn": {"attn_mask": torch.rand(Q, K, generator=torch.Generator().manual_seed(0)) < 0.5},
    "heads": {"attn_mask": torch.rand(B, H, Q, K, generator=torch.Generator().manual_seed(1)) < 0.5},
}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(heads, "SMALL", 0)


def tensors(dtype=torch.float64):
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(B, size, D, generator=generator, dtype=torch.float64).to(dtype) for size in (Q, K, K)]


@pytest.mark.parametrize("block", [1, 2 * Q * K, 1 << 20])
@pytest.mark.parametrize("positions", [None, ALiBi, RelativeBias])
@pytest.mark.parametrize("kept", MASKS.values(), ids=MASKS)
def test_equals_the_plain_form(kept, positions, block, monkeypatch):
    monkeypatch.setattr(heads, "BLOCK", block)
    torch.manual_seed(0)
    made = {None: None, ALiBi: ALiBi(H), RelativeBias: RelativeBias(H)}[positions]
    attention = MultiHead(D, num_heads=H, positions=made).double()
    plain = attention(*tensors(), **kept)
    with torch.no_grad():
        fast = attention(*tensors(), **kept)
    torch.testing.assert_close(fast.weights, plain.weights, rtol=0, atol=1e-14)
    torch.testing.assert_close(fast.context, plain.context, rtol=0, atol=1e-14)
    assert not fast.context.isnan().any()


def test_taken_only_where_no_gradient_is_wanted(monkeypatch):
    query, key, value = (x.unflatten(-1, (H, -1)).transpose(1, 2) for x in tensors())
    assert heads.is_heads_fast(query, key, value)
    assert not heads.is_heads_fast(query.requires_grad_(), key, value)
    with torch.no_grad():
        assert heads.is_heads_fast(query, key, value)
        assert not heads.is_heads_fast(query.float(), key, value)
        monkeypatch.setattr(heads, "SMALL", H * Q * K + 1)
        assert not heads.is_heads_fast(query, key, value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_other_number_formats(dtype):
    torch.manual_seed(0)
    attention = MultiHead(D, num_heads=H).to(dtype)
    plain = attention(*tensors(dtype), **MASKS["key"])
    with torch.no_grad():
        fast = attention(*tensors(dtype), **MASKS["key"])
    near = {"rtol": 0, "atol": 1e-6 if dtype == torch.float32 else 2e-2}
    torch.testing.assert_close(fast.weights, plain.weights, **near)
    torch.testing.assert_close(fast.context, plain.context, **near)


@torch.no_grad()
def test_vmap_over_one_more_axis_outside():
    torch.manual_seed(0)
    attention = MultiHead(D, num_heads=H).double()
    stacks = [torch.stack([x, 2 * x, -x]) for x in tensors()]
    found = torch.func.vmap(lambda *x: attention(*x, **MASKS["key"]).weights)(*stacks)
    for i in range(3):
        torch.testing.assert_close(found[i], attention(*(x[i] for x in stacks), **MASKS["key"]).weights, rtol=0, atol=1e-14)
