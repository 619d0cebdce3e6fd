"""An additive bias on the scores, their scale, and dropout on the weights, in every mechanism that has scores."""

import inspect
from functools import partial

import pytest
import torch
from contracts.attention_cases import CASES as ALL_CASES
from contracts.battery import TOLERANCE, inputs, made, masks
from contracts.cases.base import B, K, Q

import regard.attention
from regard.attention import (
    Attention,
    AttentionOutput,
    ContextualPositionAttention,
    Coverage,
    Dot,
    FertilityCoverage,
    ForgettingAttention,
    General,
    HardMonotonic,
    LatentAttention,
    LocalMonotonic,
    LocalPredictive,
    LocationSensitive,
    Memory,
    MoChA,
    MultiHead,
    Rotary,
    ScoredAttention,
    SelfAttention,
    SoftMonotonic,
)
from regard.attention.heads import attend
from regard.attention.ordered.monotonic import plain_alignments
from regard.errors import ConfigError, ShapeError

D = 6
PUBLIC = {name: getattr(regard.attention, name) for name in regard.attention.__all__}
SCORED = {
    name: partial(kind, D)
    for name, kind in PUBLIC.items()
    if isinstance(kind, type) and issubclass(kind, ScoredAttention) and not (inspect.isabstract(kind) or kind.stateful)
} | {
    "multi_head": lambda **o: MultiHead(D, 2, **o),
    "grouped": lambda **o: MultiHead(8, 4, num_kv_heads=2, **o),
}
ORDERED = {
    "location": lambda **o: LocationSensitive(D, num_filters=3, kernel_size=3, **o),
    "coverage": lambda **o: Coverage(D, **o),
    "fertility": lambda **o: FertilityCoverage(D, **o),
}
OVER_OTHERS = {
    "Cosine": SCORED.pop("Cosine"),  # its scale is the initial value of a parameter
    "local": lambda **o: LocalMonotonic(D, window=4, scorer=General(D, **o)),
    "forgetting": lambda **o: ForgettingAttention(D, 2, **o),
    "latent": lambda **o: LatentAttention(D, 2, **o),
    "contextual": lambda **o: ContextualPositionAttention(D, 2, **o),
}
NATURAL = {"ScaledDot": D**-0.5, "SelfAttention": D**-0.5, "multi_head": 3**-0.5, "grouped": 2**-0.5}
CASES = [case for case in ALL_CASES if "score_bias" in inspect.signature(case.build().attend).parameters]
KEPT = {"key_mask": torch.arange(7) < torch.tensor([[7], [5]])}


class Recorded(torch.nn.Module):
    """A softmax that keeps the scores that it gets."""

    normalized = True

    def __init__(self):
        super().__init__()
        self.scores = []

    def forward(self, scores):
        self.scores.append(scores)
        return scores.softmax(-1)


def pair(attention: Attention, dtype=torch.float64):
    draw = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, n, attention.query_size, generator=draw, dtype=torch.float64).to(dtype) for n in (3, 7))


def drawn(*shape, seed=1):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def built(build, dtype=torch.float64, **options) -> Attention:
    torch.manual_seed(0)
    return build(**options).to(dtype).eval()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_bias_of_minus_infinity_is_a_mask_and_one_of_zero_is_nothing(case, need_weights):
    attention = made(case)
    tensors, key_mask = inputs(case, attention), masks("key_with_empty_row")["key_mask"]
    mask = masks("attn_of_batch")["attn_mask"]
    bias = torch.zeros(B, Q, K, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    wanted = attention(*tensors, key_mask=key_mask, attn_mask=mask)
    found = attention(*tensors, key_mask=key_mask, score_bias=bias[:, None], need_weights=need_weights)
    torch.testing.assert_close(found.context, wanted.context, rtol=0, atol=1e-12)
    if need_weights:
        torch.testing.assert_close(found.weights, wanted.weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bias_has_a_finite_gradient_in_rows_without_keys(case):
    attention = made(case)
    bias = drawn(Q, K)
    bias[0], bias[1, 3] = -torch.inf, -torch.inf
    bias.requires_grad_()
    out = attention(*inputs(case, attention), score_bias=bias, **masks("key_with_empty_row"))
    if out.weights.requires_grad:  # the choice of a hard mechanism has no gradient
        [gradient] = torch.autograd.grad(out.context.square().sum() + out.weights.square().sum(), bias)
        assert gradient.isfinite().all()
    if case.name != "added_keys":  # which are there for every query
        assert out.context[:, 0].eq(0).all()
        assert out.context[0].eq(0).all()


ROTARY = {"rotary": lambda **o: MultiHead(8, 2, causal=True, positions=Rotary(), **o)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 7), (2, 1, 7), (1, 1, 3, 7)], ids=str)
@pytest.mark.parametrize("name", [*SCORED, *OVER_OTHERS, *ROTARY])
def test_a_bias_multiplies_the_weights_of_a_softmax_by_its_exponential(name, shape, dtype):
    attention = built((SCORED | OVER_OTHERS | ROTARY)[name], dtype)
    query, key = pair(attention, dtype)
    bias = drawn(*shape).float()
    plain = attention(query, key, **KEPT)
    out = attention(query, key, score_bias=bias, **KEPT)
    without = attention(query, key, score_bias=bias, need_weights=False, **KEPT)
    factor = bias.double().exp().view(-1, *shape[-2:])
    weights = plain.weights.double() * (factor if plain.weights.ndim == 3 else factor[:, None])
    weights = weights / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(out.weights.double(), weights, rtol=0, atol=2e-2 if dtype == torch.bfloat16 else 1e-12)
    torch.testing.assert_close(without.context.double(), out.context.double(), rtol=0, atol=TOLERANCE[dtype])
    assert out.weights.dtype == out.context.dtype == without.context.dtype == dtype


def test_a_bias_for_each_head():
    attention, bias = built(SCORED["multi_head"]), drawn(2, 2, 3, 7)
    query, key = pair(attention)
    weights = attention(query, key).weights * bias.exp()
    found = attention(query, key, score_bias=bias).weights
    torch.testing.assert_close(found, weights / weights.sum(-1, keepdim=True), rtol=0, atol=1e-12)
    one = attention(query[1], key[1], score_bias=bias[1])
    torch.testing.assert_close(one.weights, found[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ORDERED)
def test_a_bias_of_each_query_reaches_the_query_whose_turn_it_is(name):
    attention, bias = built(ORDERED[name]), drawn(2, 3, 7)
    query, key = pair(attention)
    out, memory, state = attention(query, key, score_bias=bias), attention.prepare(key), None
    for i in range(3):
        scores = attention.scores(query[:, i : i + 1], memory, None if state is None else state.history) + bias[:, i : i + 1]
        torch.testing.assert_close(out.weights[:, i : i + 1], scores.softmax(-1), rtol=0, atol=1e-12)
        _, state = attention.attend(query[:, i : i + 1], memory, state, score_bias=bias[:, i : i + 1])


def test_the_bias_of_predicted_windows_comes_before_the_gaussian():
    attention, bias = built(lambda: LocalPredictive(D, window=9)), drawn(3, 7)
    query, key = pair(attention)
    scores = attention.scorer.scores(query, attention.prepare(key))
    gaussian = attention(query, key).weights / scores.softmax(-1)
    found = attention(query, key, score_bias=bias).weights
    torch.testing.assert_close(found, (scores + bias).softmax(-1) * gaussian, rtol=0, atol=1e-12)


def test_the_bias_of_monotonic_mechanisms_is_added_to_the_logits_of_stopping():
    bias = drawn(3, 7)
    soft = built(lambda: SoftMonotonic(D))
    query, key = pair(soft)
    p = (soft.energies(query, soft.prepare(key)) + bias).sigmoid()
    start = torch.tensor([1.0, 0, 0, 0, 0, 0, 0], dtype=torch.float64).expand(2, 7)
    found = soft(query, key, score_bias=bias).weights
    torch.testing.assert_close(found, plain_alignments(p, 1 - p, start), rtol=0, atol=1e-12)
    far = torch.full((7,), -9.0).index_fill(0, torch.tensor([4]), 9.0).expand(3, 7)
    assert built(lambda: HardMonotonic(D))(query, key, score_bias=far).weights.argmax(-1).eq(4).all()
    chunks = built(lambda: MoChA(D, chunk_size=2))
    found = chunks(query, key, score_bias=far).weights
    assert (found[..., 4] > 0.99).all()  # the scan stops there, and the softmax over the chunk prefers it too


@pytest.mark.parametrize("name", [*SCORED, *ORDERED])
def test_the_scale_multiplies_the_scores(name):
    build = (SCORED | ORDERED)[name]
    natural, scaled = Recorded(), Recorded()
    plain, attention = built(build, normalizer=natural), built(build, normalizer=scaled, scale=0.3)
    query, key = pair(attention)
    plain(query[:, :1], key)
    attention(query[:, :1], key)
    torch.testing.assert_close(scaled.scores[0], natural.scores[0] * 0.3 / NATURAL.get(name, 1), rtol=1e-12, atol=1e-12)
    fast = built(build, scale=0.3)
    torch.testing.assert_close(fast(query, key, need_weights=False).context, fast(query, key).context, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [*SCORED, *ORDERED, *OVER_OTHERS])
def test_dropped_weights_are_zero_and_the_others_grow(name):
    """With one-hot values, the context is the dropped weights; several heads are tested beside the formula of `MultiHead`."""
    attention = built((SCORED | ORDERED | OVER_OTHERS)[name], dropout=0.5)
    query, key = pair(attention)
    if isinstance(attention, MultiHead | SelfAttention):
        attention.eval()
        assert torch.equal(attention(query, key).context, built((SCORED | OVER_OTHERS)[name])(query, key).context)
        attention.train()
        assert not torch.equal(attention(query, key).context, attention(query, key).context)
        return
    value = torch.eye(7, dtype=torch.float64).expand(2, 7, 7)
    weights = attention(query, key, value).weights
    torch.testing.assert_close(attention(query, key, value).context, weights, rtol=0, atol=1e-12)
    attention.train()
    for need_weights in (True, False):
        out = attention(query, key, value, need_weights=need_weights)
        dropped = out.context == 0
        assert 0 < dropped.sum() < dropped.numel()
        torch.testing.assert_close(out.context, (2 * weights).masked_fill(dropped, 0), rtol=0, atol=1e-12)
        assert not need_weights or torch.equal(out.weights, weights)


class Own(Attention):
    """A mechanism written before there was a bias."""

    def __init__(self):
        super().__init__()
        self.query_size = self.key_size = D

    def prepare(self, key, value=None, *, key_mask=None):
        return Memory(key, key if value is None else value)

    def attend(self, query, memory, state=None, *, attn_mask=None, reweight=None, need_weights=True):
        weights = (query @ memory.key.mT).softmax(-1)
        return AttentionOutput(weights @ memory.value, weights), None


def test_what_makes_no_sense_is_refused(unchecked):
    query, key = pair(Dot(D))
    with pytest.raises(ShapeError, match=r"score_bias is bool, expected floating-point .* a boolean mask is an attn_mask"):
        Dot(D)(query, key, score_bias=torch.ones(3, 7).bool())
    with pytest.raises(
        ShapeError, match=r"score_bias has shape \(2, 7\), expected \(Q, K\) = \(3, 7\) .*score_bias\[:, None\]"
    ):
        Dot(D)(query, key, score_bias=torch.zeros(2, 7))
    with pytest.raises(ShapeError, match=r"score_bias has shape \(2, 5, 3, 7\), expected .*this mechanism has no heads"):
        Dot(D)(query, key, score_bias=torch.zeros(2, 5, 3, 7))
    with pytest.raises(ShapeError, match=r"attn_mask is float64.*; numbers to add to the scores are a score_bias"):
        Dot(D)(query, key, attn_mask=drawn(3, 7))
    assert Own()(query, key).weights.shape == (2, 3, 7)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'score_bias'"):
        Own()(query, key, score_bias=drawn(3, 7))
    with pytest.raises(ConfigError, match=r"Dot\(scale=0\): scale must be a finite number above 0"):
        Dot(D, scale=0)
    with pytest.raises(ConfigError, match=r"Coverage\(dropout=1.0\): dropout must be a finite number of 0 or more and below 1"):
        Coverage(D, dropout=1.0)
    with pytest.raises(ConfigError, match=r"SoftMonotonic\(scorer=Dot\): only the scores of a scorer are used"):
        SoftMonotonic(D, scorer=Dot(D, dropout=0.1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_bias_above_the_largest_number_of_the_type(dtype, monkeypatch):
    monkeypatch.setattr(attend, "LARGE", 0)
    attention, x = MultiHead(D, 1).to(dtype), torch.randn(1, 7, D).to(dtype)
    bias = torch.zeros(1, 7, dtype=torch.float64)
    bias[0, 3] = 1e39
    found = attention(x, score_bias=bias, need_weights=False).context
    expected = attention(x, attn_mask=bias > 0).context
    torch.testing.assert_close(found, expected)
