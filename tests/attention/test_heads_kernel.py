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
    monkeypatch.setattr(heads, "SMALL_SENTENCE", 0)


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
        assert not heads.is_heads_fast(query.bfloat16(), key.bfloat16(), value.bfloat16())
        monkeypatch.setattr(heads, "SMALL", B * H * Q * K + 1)
        assert not heads.is_heads_fast(query, key, value)
        monkeypatch.setattr(heads, "SMALL", B * H * Q * K)
        for least, fast in ((H * Q * K, True), (H * Q * K + 1, False)):
            monkeypatch.setattr(heads, "SMALL_SENTENCE", least)
            assert heads.is_heads_fast(query, key, value) == fast


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


def frozen(**options):
    torch.manual_seed(0)
    return MultiHead(D, num_heads=H, **options).double().requires_grad_(False)


def test_biases_alone_are_trained(monkeypatch):
    attention, grads = frozen(positions=RelativeBias(H)), []
    weight = attention.positions.weight.requires_grad_()
    for small in (0, 1 << 60):
        monkeypatch.setattr(heads, "SMALL", small)
        out = attention(*tensors())
        grads += torch.autograd.grad(out.context.sum() + out.weights.square().sum(), weight)
    torch.testing.assert_close(*grads, rtol=0, atol=1e-13)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # of its own forward derivatives
def test_gradients_around_vmap_and_forward_derivatives(monkeypatch):
    attention, (x, *_), found = frozen(), tensors(), []

    def energy(x):
        return attention(x, x).context.square().sum()

    def both(x):
        return torch.func.vmap(energy)(torch.stack([x, -x])).sum()

    for small in (0, 1 << 60):
        monkeypatch.setattr(heads, "SMALL", small)
        leaf = x.clone().requires_grad_()
        with torch.autograd.forward_ad.dual_level(), torch.no_grad():
            dual = energy(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))
            forward = torch.autograd.forward_ad.unpack_dual(dual).tangent
        tangent = torch.func.jvp(energy, (x,), (torch.ones_like(x),))[1]
        found.append((torch.func.grad(both)(x), *torch.autograd.grad(both(leaf), leaf), tangent, forward))
    assert all((x != 0).any() for x in found[0])
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


@torch.no_grad()
def test_vmap_over_one_more_axis_outside():
    torch.manual_seed(0)
    attention = MultiHead(D, num_heads=H).double()
    stacks = [torch.stack([x, 2 * x, -x]) for x in tensors()]
    found = torch.func.vmap(lambda *x: attention(*x, **MASKS["key"]).weights)(*stacks)
    for i in range(3):
        torch.testing.assert_close(found[i], attention(*(x[i] for x in stacks), **MASKS["key"]).weights, rtol=0, atol=1e-14)
