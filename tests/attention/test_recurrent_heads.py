"""Linear attention and Gated DeltaNet: recurrence, chunks and the matrix of weights are one function; their states."""

import copy

import pytest
import torch

from regard.attention import Attention, GatedDeltaNet, HeadMemory, LinearAttention, SummaryState, padding_mask
from regard.attention.heads import gated_delta, linear
from regard.attention.heads.gated_delta import delta_step
from regard.attention.heads.linear import add_key
from regard.errors import RequestError

KINDS = [LinearAttention, GatedDeltaNet]
LENGTHS = [1, 2, 5, 64, 65, 130]


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def built(kind: type[Attention], **options) -> Attention:
    torch.manual_seed(0)
    return kind(12, 3, **options).double()


def near(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("length", LENGTHS)
def test_chunks_of_linear_attention_equal_its_recurrence(length):
    query, key, value, summary = drawn(2, 3, length, 4), drawn(2, 3, length, 4), drawn(2, 3, length, 5), drawn(2, 3, 4, 5)
    found, last = linear.scan_chunks(query, key, value, summary)
    for t in range(length):
        summary = add_key(summary, key[:, :, t], value[:, :, t])
        near(found[:, :, t], (query[:, :, t, None] @ summary)[:, :, 0])
    near(last, summary)


@pytest.mark.parametrize("length", LENGTHS)
def test_chunks_of_the_gated_delta_rule_equal_its_recurrence(length):
    query, value, summary = drawn(2, 3, length, 4), drawn(2, 3, length, 5), drawn(2, 3, 4, 5)
    key = torch.nn.functional.normalize(drawn(2, 3, length, 4, seed=1), dim=-1)
    gates = torch.stack([-drawn(2, 3, length).exp(), drawn(2, 3, length, seed=2).sigmoid()], -1)
    found, last = gated_delta.scan_chunks(query, key, value, gates, summary)
    assert found is not None
    for t in range(length):
        summary = delta_step(summary, key[:, :, t], value[:, :, t], gates[:, :, t])
        near(found[:, :, t], (query[:, :, t, None] @ summary)[:, :, 0])
    near(last, summary)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (130, 130), (3, 70), (9, 3)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_chunks_and_the_matrix_of_weights_give_one_context(kind, shape, causal):
    attention, (queries, keys) = built(kind, causal=causal), shape
    query, key = drawn(2, queries, 12), drawn(2, keys, 12, seed=1)
    for key_mask in (None, padding_mask(torch.tensor([keys, keys // 2]), keys)):
        whole = attention(query, key, key_mask=key_mask)
        near(attention(query, key, key_mask=key_mask, need_weights=False).context, whole.context)
        near(attention(query, key, key_mask=key_mask, attn_mask=torch.ones(1, keys, dtype=torch.bool)).weights, whole.weights)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_one_call_with_weights_and_without(kind):
    attention, x = built(kind, causal=True), drawn(2, 9, 12)
    mask = torch.tensor([[False, False, True, True, False, True, True, True, True], [True] * 9])
    whole = attention(x, key_mask=mask)
    for need_weights in (True, False):
        state = None
        for start, end in ((0, 1), (1, 4), (4, 5), (5, 9)):
            part = x[:, start:end]
            memory = attention.prepare(part, key_mask=mask[:, start:end])
            out, state = attention.attend(part, memory, state, need_weights=need_weights)
            near(out.context, whole.context[:, start:end])
            assert isinstance(state, HeadMemory if need_weights else SummaryState)
            if need_weights:
                near(out.weights, whole.weights[:, :, start:end, :end])
            state = state.select(torch.arange(2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_with_keys_serves_steps_without_weights(kind):
    attention, x = built(kind, causal=True), drawn(2, 6, 12)
    first, state = attention.attend(x[:, :4], attention.prepare(x[:, :4]))
    out, state = attention.attend(x[:, 4:], attention.prepare(x[:, 4:]), state, need_weights=False)
    near(torch.cat([first.context, out.context], 1), attention(x).context)
    assert isinstance(state, HeadMemory), "the keys are kept"
    _, state = attention.attend(x[:, :4], attention.prepare(x[:, :4]), need_weights=False)
    assert isinstance(state, SummaryState)
    for options in ({}, {"need_weights": False, "attn_mask": torch.ones(1, 5).bool()}):
        with pytest.raises(
            RequestError,
            match=r"a state without keys, because earlier steps had need_weights=False; weights, attn_mask and reweight need "
            r"the keys of all steps, so give need_weights=True in every step",
        ):
            attention.attend(x[:, :1], attention.prepare(x[:, :1]), state, **options)
    with pytest.raises(RequestError, match="without them, give each query its key"):
        attention.attend(x[:, :2], attention.prepare(x[:, :1]), state, need_weights=False)


@pytest.mark.parametrize("kind", KINDS)
def test_what_makes_no_sense_is_refused(kind):
    attention, x = built(kind), drawn(2, 6, 12)
    with pytest.raises(TypeError, match="unexpected keyword argument 'score_bias'"):
        attention(x, score_bias=torch.zeros(6, 6).double())
    with pytest.raises(RequestError, match="only an attention that never looks ahead keeps the keys of earlier queries"):
        attention.attend(x, attention.prepare(x), attention.prepare(x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_huge_inputs_give_finite_contexts(kind, dtype):
    attention = built(kind, causal=True).to(dtype)
    x = (drawn(2, 70, 12) * 1e3).to(dtype)
    for need_weights in (True, False):
        out = attention(x, need_weights=need_weights)
        assert out.context.isfinite().all()
        assert out.weights is None or out.weights.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_float16_autocast_keeps_the_denominator_of_many_keys(causal):
    torch.manual_seed(0)
    attention, x = LinearAttention(256, 2, causal=causal), torch.randn(1, 1500, 256)
    with torch.no_grad():
        exact = attention(x).context
        with torch.autocast("cpu", torch.float16):
            whole, fast = attention(x), attention(x, need_weights=False)
            memory = attention.prepare(x)
            if causal:  # one step after many keys
                _, state = attention.attend(x[:, :-1], attention.prepare(x[:, :-1]), need_weights=False)
                memory = attention.prepare(x[:, -1:])
            last = attention.attend(x[:, -1:], memory, state if causal else None, need_weights=False)[0]
    torch.testing.assert_close(whole.weights.float().sum(-1), torch.ones(1, 2, 1500), rtol=0, atol=0.01)
    for found, expected in ((whole.context, exact), (fast.context, exact), (last.context, exact[:, -1:])):
        assert (found.float() - expected).norm() < 0.005 * expected.norm()


def test_the_weights_of_the_gated_delta_rule_keep_their_digits_in_long_inputs():
    torch.manual_seed(0)
    attention, x = GatedDeltaNet(16, 2, causal=True), 10 * torch.randn(1, 1024, 16)
    with torch.no_grad():
        exact = copy.deepcopy(attention).double()(x.double()).weights
        torch.testing.assert_close(attention(x).weights.double(), exact, rtol=0, atol=1e-5)
