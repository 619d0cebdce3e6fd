"""Modifiers of multi-head attention: added keys against PyTorch's, steps, fast paths, and what is refused."""

import pytest
import torch
from torch import nn

from regard.attention import (
    AddedKeys,
    ALiBi,
    HeadModifier,
    MultiHead,
    OutputGate,
    QKNorm,
    Rotary,
    SoftmaxSink,
    TalkingHeads,
    causal_mask,
)
from regard.errors import ConfigError
from regard.inference.ctranslate2 import is_plain_heads

MODIFIERS = {
    "qk_norm": lambda: QKNorm(),
    "talking_heads": lambda: TalkingHeads(),
    "output_gate": lambda: OutputGate(),
    "added_keys": lambda: AddedKeys(zero=True),
}


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def multi_head(name, **options):
    torch.manual_seed(0)
    made = MultiHead(8, 2, modifiers=[MODIFIERS[name]()], **options).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, mean=0.2, std=0.5)
    return made


@pytest.mark.parametrize("bias_kv", [True, False])
@pytest.mark.parametrize("zero", [True, False])
def test_added_keys_are_those_of_pytorch(bias_kv, zero):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 2, add_bias_kv=bias_kv, add_zero_attn=zero, batch_first=True).double()
    ours = MultiHead.from_torch(theirs)
    query, key = drawn(2, 3, 8), drawn(2, 5, 8)
    pad = torch.arange(5) >= torch.tensor([[5], [0]])  # the second row has no key of its own
    context, weights = theirs(query, key, key, key_padding_mask=pad, average_attn_weights=False)
    for need_weights in (True, False):
        out = ours(query, key, key_mask=~pad, need_weights=need_weights)
        rows = slice(None) if bias_kv or zero else slice(1)  # PyTorch gives NaN where there is nothing to attend to
        torch.testing.assert_close(out.context[rows], context[rows], rtol=0, atol=1e-12)
    torch.testing.assert_close(ours(query, key, key_mask=~pad).weights[rows], weights[rows, ..., :5], rtol=0, atol=1e-12)
    if bias_kv:
        again = MultiHead(8, 2, modifiers=[AddedKeys()]).double()
        again.load_state_dict(theirs.state_dict())
        assert torch.equal(again.modifiers[0].added_key.flatten(), theirs.bias_k.flatten())


def test_a_key_of_zeros_is_a_sink_of_zero():
    torch.manual_seed(0)
    zero = MultiHead(8, 2, modifiers=[AddedKeys(learned=False, zero=True)]).double()
    sink = MultiHead(8, 2, normalizer=SoftmaxSink()).double()
    sink.load_state_dict(zero.state_dict())
    x = drawn(2, 5, 8)
    torch.testing.assert_close(zero(x).weights, sink(x).weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(zero(x).context, sink(x).context, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODIFIERS)
@pytest.mark.parametrize("window", [None, (2, 0)])
def test_steps_equal_one_call_and_weights_change_nothing(name, window):
    positions = ALiBi(2) if name == "added_keys" else Rotary()
    attention, x = multi_head(name, causal=True, window=window, positions=positions), drawn(2, 6, 8)
    out, state = attention(x), None
    torch.testing.assert_close(attention(x, need_weights=False).context, out.context, rtol=0, atol=1e-12)
    assert (out.weights[..., ~causal_mask(6)] == 0).all()
    for i in range(6):
        token = x[:, i : i + 1]
        step, state = attention.attend(token, attention.prepare(token), state, need_weights=False)
        torch.testing.assert_close(step.context, out.context[:, i : i + 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODIFIERS)
def test_no_path_that_does_not_know_a_modifier_is_offered(name, monkeypatch):
    """CTranslate2 computes the attention of `is_plain_heads` for itself."""
    assert is_plain_heads(MultiHead(8, 2))
    assert not is_plain_heads(multi_head(name))
    for options in ({"scale": 0.5}, {"head_size": 3}, {"output_size": 6}):
        assert not is_plain_heads(MultiHead(8, 2, **options))
    calls, fused = [], nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or fused(*a, **k))
    multi_head(name)(drawn(2, 3, 8), need_weights=False)
    assert bool(calls) == (name != "talking_heads")


def test_heads_of_a_masked_head_stay_masked():
    attention, x = multi_head("talking_heads"), drawn(1, 4, 8)
    mask = torch.ones(1, 2, 4, 4, dtype=torch.bool)
    mask[:, 0, :, 1] = False
    assert attention(x, attn_mask=mask).weights[:, 0, :, 1].eq(0).all()
    assert attention(x, attn_mask=mask).weights[:, 1, :, 1].ne(0).all()


def test_several_modifiers_and_one_of_the_user():
    class Doubled(HeadModifier):
        def output(self, heads, query):
            return 2 * heads

    def parts():
        return [QKNorm(), TalkingHeads(), OutputGate(), AddedKeys()]

    plain, x = MultiHead(8, 2, bias=False, modifiers=parts()).double(), drawn(2, 5, 8)
    doubled = MultiHead(8, 2, bias=False, modifiers=[*parts(), Doubled()]).double()
    doubled.load_state_dict(plain.state_dict())
    torch.testing.assert_close(doubled(x).context, 2 * plain(x).context)
    assert not plain.normalized
    assert MultiHead(8, 2, modifiers=[OutputGate()]).normalized


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MultiHead(8, 2, modifiers=[QKNorm(), QKNorm()]), r"got QKNorm more than once; give each kind once"),
        (lambda: MultiHead(8, 2, modifiers=[nn.Identity()]), r"expected a HeadModifier, such as modifiers=\[QKNorm\(\)\]"),
        (lambda: QKNorm(epsilon=0.0), r"QKNorm\(epsilon=0.0\): epsilon must be a finite number above 0"),  # 0/0 for padding
        (lambda: TalkingHeads(before=False, after=False), r"heads would exchange nothing; leave the modifier out"),
        (lambda: AddedKeys(learned=False), r"AddedKeys\(learned=False, zero=False\): no key would be added"),
        (lambda: multi_head("added_keys", positions=Rotary()), r"AddedKeys\(learned=True\) in an attention with rotary"),
        (lambda: MultiHead(8, 2, head_size=0), r"head_size must be 1 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


def test_added_zeros_are_made_where_the_attention_is():
    attention = MultiHead(8, 2, modifiers=[AddedKeys(learned=False, zero=True)]).to("meta", torch.bfloat16)
    assert [(each.device.type, each.dtype) for each in attention.modifiers[0].extra()] == [("meta", torch.bfloat16)] * 2
    assert not attention.modifiers[0].state_dict()


def test_a_modifier_of_another_attention_is_refused():
    gate = OutputGate()
    MultiHead(8, 2, modifiers=[gate])
    with pytest.raises(ConfigError, match=r"this OutputGate already belongs to an attention; give each attention its own"):
        MultiHead(16, 2, modifiers=[gate])
