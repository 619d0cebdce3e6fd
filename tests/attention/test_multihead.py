"""Self-attention and multi-head attention beyond the battery: PyTorch's own module, the key–value cache, what is refused."""

import math

import pytest
import torch
from torch import nn

from regard.attention import (
    ALiBi,
    MultiHead,
    RelativeBias,
    Rotary,
    SelfAttention,
    padding_mask,
)
from regard.attention.normalizers.softmax import Softmax
from regard.errors import ConfigError, RequestError, ShapeError

B, Q, K, D, H = 2, 7, 11, 20, 5

CACHED = {
    "causal": lambda: MultiHead(D, num_heads=H, causal=True),
    "grouped": lambda: MultiHead(D, num_heads=10, num_kv_heads=5, causal=True),
    "window": lambda: MultiHead(D, num_heads=H, window=(3, 0)),
    "rotary": lambda: MultiHead(D, num_heads=H, num_kv_heads=1, causal=True, positions=Rotary()),
    "window_of_itself": lambda: MultiHead(D, num_heads=H, window=(0, 0), positions=Rotary()),
    "t5_window": lambda: MultiHead(D, num_heads=H, causal=True, window=(4, 0), positions=RelativeBias(H, bidirectional=False)),
    "rotary_window": lambda: MultiHead(D, num_heads=H, causal=True, window=(2, 5), positions=Rotary()),
    "alibi": lambda: MultiHead(D, num_heads=H, causal=True, positions=ALiBi(H)),
    "t5": lambda: MultiHead(D, num_heads=H, causal=True, positions=RelativeBias(H, bidirectional=False)),
}


def filled(attention: nn.Module, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Every parameter random, biases too."""
    generator = torch.Generator().manual_seed(0)
    for parameter in attention.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) / math.sqrt(parameter.shape[-1])
    return attention.to(dtype)


def tokens(length: int = K, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(B, length, D, generator=torch.Generator().manual_seed(1)).to(dtype)


def test_self_attention_of_one_argument_attends_within_it():
    attention, x, mask = filled(SelfAttention(D)), tokens(), padding_mask(torch.tensor([K, 4]), K)
    out = attention(x, key_mask=mask)
    assert out.context.shape == (B, K, D)
    assert out.weights.shape == (B, K, K)
    torch.testing.assert_close(out.context, attention(x, x, x, key_mask=mask).context)
    torch.testing.assert_close(out.weights.sum(-1), torch.ones(B, K, dtype=torch.float64))


@pytest.mark.parametrize("name", CACHED)
@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("need_weights", [True, False])
def test_decoding_with_the_cache_equals_all_at_once(name, chunk, need_weights):
    attention, x, mask = filled(CACHED[name]()), tokens(), padding_mask(torch.tensor([K, 9]), K)
    assert attention.stateful
    whole, state = attention(x, x, key_mask=mask, need_weights=need_weights), None
    for i in range(0, K, chunk):
        part, there = x[:, i : i + chunk], mask[:, i : i + chunk]
        memory = attention.prepare(part, key_mask=there if i >= 4 else None)  # those before are all there
        out, state = attention.attend(part, memory, state, need_weights=need_weights)
        seen = i + part.shape[1]
        # Of a window, only the keys that a later query can see are kept, however long the sequence is.
        assert state.key.shape[2] == (seen if attention.window is None else min(seen, attention.window[0]))
        torch.testing.assert_close(out.context, whole.context[:, i:seen], rtol=0, atol=1e-12)
        if need_weights:
            there = whole.weights[:, :, i:seen, seen - out.weights.shape[3] : seen]
            torch.testing.assert_close(out.weights, there, rtol=0, atol=1e-12)
            assert (whole.weights[:, :, i:seen, : seen - out.weights.shape[3]] == 0).all()


@pytest.mark.parametrize("name", CACHED)
def test_the_cache_follows_its_hypothesis(name):
    attention, x, index = filled(CACHED[name]()), tokens(), torch.tensor([1, 1, 0])
    _, state = attention.attend(x[:, :5], attention.prepare(x[:, :5]))
    last = x[index, 5:6]
    out, _ = attention.attend(last, attention.prepare(last), state.select(index))
    torch.testing.assert_close(out.context, attention(x, x).context[index, 5:6], rtol=0, atol=1e-12)


def test_a_cache_is_not_changed_by_the_steps_after_it():
    attention, x = filled(MultiHead(D, num_heads=H, causal=True)), tokens()
    _, state = attention.attend(x[:, :5], attention.prepare(x[:, :5]))
    step = x[:, 5:6], attention.prepare(x[:, 5:6]), state
    first = attention.attend(*step)[0].context
    attention.attend(-x[:, 5:6], attention.prepare(-x[:, 5:6]), state)
    assert torch.equal(attention.attend(*step)[0].context, first)


def test_gradients_flow_through_the_cache():
    attention, x = filled(MultiHead(D, num_heads=H, causal=True, positions=Rotary())), tokens().requires_grad_()
    (wanted,) = torch.autograd.grad(attention(x, x).context.square().sum(), x)
    state, total = None, 0
    for i in range(K):
        out, state = attention.attend(x[:, i : i + 1], attention.prepare(x[:, i : i + 1]), state)
        total = total + out.context.square().sum()
    torch.testing.assert_close(torch.autograd.grad(total, x)[0], wanted, rtol=0, atol=1e-11)


@torch.no_grad()
def test_the_step_with_a_cache_exports_for_any_length(unchecked):
    attention = filled(MultiHead(D, num_heads=H, causal=True, positions=Rotary()), torch.float32)

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x, state):
            return self.attention.attend(x, self.attention.prepare(x), state)

    x = tokens(dtype=torch.float32)
    _, state = attention.attend(x[:, :5], attention.prepare(x[:, :5]))
    length = torch.export.Dim("length", min=2, max=1000)
    shapes = ({}, [{2: length}, {2: length}])  # a mask that is None has no place here
    step = torch.export.export(Step(), (x[:, 5:6], state), dynamic_shapes=shapes).module(check_guards=False)
    for i in range(5, K):
        out, state = step(x[:, i : i + 1], state)
        torch.testing.assert_close(out.context, attention(x, x).context[:, i : i + 1])


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_mask_of_each_head(need_weights):
    attention, x = filled(MultiHead(D, num_heads=H)), tokens()
    mask = torch.rand(B, H, Q, K, generator=torch.Generator().manual_seed(2)) < 0.5
    mask[0, :, 1] = False  # nothing in any head
    mask[1, :, 2] = False  # one key, in the first head only
    mask[1, 0, 2, 3] = True
    out = attention(x[:, :Q], x, attn_mask=mask, need_weights=need_weights)
    assert (out.context[0, 1] == 0).all()
    value = attention.value_projection(x[1, 3])[: D // H]
    alone = attention.output_projection(torch.cat([value, value.new_zeros(D - D // H)]))
    torch.testing.assert_close(out.context[1, 2], alone, rtol=0, atol=1e-12)
    if need_weights:
        assert (out.weights[~mask] == 0).all()


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True}, {"window": (1, 1)}, {"num_kv_heads": 1}, {"positions": ALiBi(H)}],
    ids=["plain", "causal", "window", "grouped", "alibi"],
)
def test_no_keys_and_no_queries(options, need_weights):
    attention, x = filled(MultiHead(D, num_heads=H, **options)), tokens()
    for queries in (1, Q):
        out = attention(x[:, :queries], x[:, :0], need_weights=need_weights)
        assert out.context.shape == (B, queries, D)
        assert (out.context == 0).all()  # without the bias of the output map
        out.context.sum().backward()
    for keys in (0, K):
        assert attention(x[:, :0], x[:, :keys], need_weights=need_weights).context.shape == (B, 0, D)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_only_in_training_and_not_in_the_weights(need_weights):
    attention, x = filled(MultiHead(D, num_heads=H, dropout=0.5)), tokens()
    whole = attention.eval()(x, x)
    torch.testing.assert_close(attention(x, x, need_weights=need_weights).context, whole.context, rtol=0, atol=1e-12)
    torch.manual_seed(0)
    dropped = attention.train()(x, x, need_weights=need_weights)
    assert not torch.allclose(dropped.context, whole.context)
    if need_weights:
        torch.testing.assert_close(dropped.weights, whole.weights)
    many = x.repeat(2000, 1, 1)
    mean = attention(many, many, need_weights=need_weights).context.unflatten(0, (2000, B)).mean(0)
    torch.testing.assert_close(mean, whole.context, rtol=0, atol=0.15)


OPTIONS = {
    "plain": {},
    "no_bias": {"bias": False},
    "widths": {"kdim": 13, "vdim": 7},
    "time_first": {"batch_first": False},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mask", ["none", "key", "boolean", "additive", "of_heads", "key_and_boolean"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_it_equals_pytorchs_module(options, mask, need_weights):
    options = {"batch_first": True} | options
    theirs = filled(nn.MultiheadAttention(D, H, dropout=0.1, **options), torch.float32).eval()
    ours = MultiHead.from_torch(theirs)
    generator = torch.Generator().manual_seed(3)
    query, key, value = (
        torch.randn(B, n, size, generator=generator) for n, size in ((Q, D), (K, theirs.kdim), (K, theirs.vdim))
    )
    key_mask = padding_mask(torch.tensor([K, 6]), K) if "key" in mask else None
    attn_mask = None
    if mask not in ("none", "key"):
        attn_mask = torch.rand((B, H, Q, K) if mask == "of_heads" else (Q, K), generator=generator) < 0.6
        attn_mask[..., 0] = True
    ignored = None if attn_mask is None else ~attn_mask if attn_mask.ndim == 2 else ~attn_mask.flatten(0, 1)
    if mask == "additive":
        ignored = torch.zeros(Q, K).masked_fill(ignored, -math.inf)
        attn_mask = ignored == 0  # as the error message for such a mask says
    order = (lambda x: x) if theirs.batch_first else (lambda x: x.transpose(0, 1))
    context, weights = theirs(
        *(order(x) for x in (query, key, value)),
        key_padding_mask=None if key_mask is None else ~key_mask,
        attn_mask=ignored,
        need_weights=need_weights,
        average_attn_weights=False,
    )
    out = ours(query, key, value, key_mask=key_mask, attn_mask=attn_mask, need_weights=need_weights)
    torch.testing.assert_close(out.context, order(context), rtol=0, atol=1e-6)
    if need_weights:
        torch.testing.assert_close(out.weights, weights, rtol=0, atol=1e-6)


class Doubled(nn.Module):
    """A normalizer of one's own: twice the softmax."""

    normalized = False

    def forward(self, scores):
        return 2 * Softmax()(scores)


@pytest.mark.parametrize("need_weights", [True, False])
def test_another_normalizer_never_takes_the_fused_path(need_weights):
    attention, x = filled(MultiHead(D, num_heads=H, normalizer=Doubled(), bias=False)), tokens()
    plain = MultiHead(D, num_heads=H, bias=False).double()
    plain.load_state_dict(attention.state_dict())
    assert not attention.normalized
    out = attention(x, x, need_weights=need_weights)
    torch.testing.assert_close(out.context, 2 * plain(x, x).context, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 3}, r"MultiHead\(size=20, num_heads=3\): size must be a multiple of num_heads"),
        ({"num_heads": 5, "num_kv_heads": 2}, r"num_heads=5, num_kv_heads=2\): .* num_kv_heads must divide num_heads"),
        ({"num_heads": 0}, r"MultiHead\(num_heads=0\): num_heads must be 1 or more"),
        ({"num_heads": 5, "value_size": 0}, r"MultiHead\(value_size=0\): value_size must be 1 or more"),
        (
            {"num_heads": 5, "dropout": 1.0},
            r"MultiHead\(dropout=1.0\): dropout must be .* of 0 or more and below 1",
        ),
        ({"num_heads": 5, "window": (2, -1)}, r"MultiHead\(window=\(2, -1\)\): both sides of a window must be 0 or more"),
        ({"num_heads": 4, "positions": Rotary()}, r"Rotary with heads of 5 features: .* the width of a head must be even"),
        ({"num_heads": 5, "positions": ALiBi(4)}, r"ALiBi\(num_heads=4\) in an attention with num_heads=5: give both the same"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        MultiHead(D, **arguments)


def test_a_mask_over_the_cache_covers_its_keys(unchecked):
    attention, x = MultiHead(D, num_heads=H, causal=True).double(), tokens()
    _, state = attention.attend(x[:, :5], attention.prepare(x[:, :5]))
    step = x[:, 5:6], attention.prepare(x[:, 5:6]), state
    with pytest.raises(ShapeError, match=r"attn_mask has shape \(1, 1\), expected \(Q, K\) = \(1, 6\)"):
        attention.attend(*step, attn_mask=torch.ones(1, 1, dtype=torch.bool))
    mask = torch.tensor([[False, True, True, True, True, True]])
    assert (attention.attend(*step, attn_mask=mask)[0].weights[..., 0] == 0).all()


@pytest.mark.parametrize("rows", [3, 60], ids=["few", "many"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["causal", "grouped", "rotary", "half", "alibi"])
def test_one_product_for_several_maps_equals_one_for_each(kind, bias, rows):
    """A hooked map is called, so that an attention with a hook computes each map for itself."""
    build = CACHED.get(kind, lambda: MultiHead(D, H, head_size=4, positions=Rotary(layout="half")))
    one, each = (filled(build()) for _ in range(2))
    for attention in (one, each):
        for linear in (attention.query_projection, attention.key_projection, attention.value_projection):
            linear.bias = linear.bias if bias else None
    called = []
    each.query_projection.register_forward_hook(lambda *arguments: called.append(1))
    each.value_projection.register_forward_hook(lambda *arguments: called.append(1))
    x = torch.randn(rows, K, D, dtype=torch.float64)
    for inputs in ((x,), (x, x, x), (x[:, :Q], x)):
        if kind == "alibi" or len(inputs) != 2:
            found, expected = (attention(*inputs, need_weights=False).context for attention in (one, each))
            torch.testing.assert_close(found, expected)
            gradients = [
                torch.autograd.grad(context.square().sum(), list(attention.parameters()))
                for context, attention in ((found, one), (expected, each))
            ]
            torch.testing.assert_close(*gradients)
    assert called


def test_a_memory_with_queries_takes_no_state():
    """From some rows on, one product makes queries, keys and values, so that a state would be left out."""
    attention, x = MultiHead(D, H, causal=True), torch.randn(1, 400, D)
    state = attention.attend(x, attention.prepare(x))[1]
    with pytest.raises(RequestError, match="make it with prepare"):
        attention.attend(x, attention.prepare_self(x), state)
