"""Every mechanism opens with its formula and its plain form: functions that read like it, and that the class calls.

Mechanisms, poolings and normalizers are found in the package, so that a new one without an entry here fails. Each entry
computes the weights from the mechanism's parameters with the plain functions of its module alone, in float64.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

import regard.attention
from regard.attention import (
    Additive,
    AdditivePooling,
    Attention,
    AttentionPooling,
    Concat,
    ContextualPositionAttention,
    Cosine,
    Coverage,
    DifferentialAttention,
    Dot,
    Entmax,
    Entmax15,
    FertilityCoverage,
    ForgettingAttention,
    GatedDeltaNet,
    General,
    HardMoChA,
    HardMonotonic,
    LatentAttention,
    LinearAttention,
    LinearConcat,
    LocalMonotonic,
    LocalPredictive,
    LocationSensitive,
    MeanPooling,
    MoChA,
    MultiHead,
    MultiHeadPooling,
    Pooling,
    ScaledDot,
    SelfAttention,
    Sigmoid,
    SoftCap,
    Softmax,
    SoftmaxSink,
    SoftMonotonic,
    Softpick,
    Sparsemax,
    StickBreaking,
    SumConcat,
    Temperature,
    Trilinear,
    WeightNormAdditive,
    attend,
)
from regard.attention.additive import plain_additive_scores
from regard.attention.attend import head_product, head_scores, join_heads, split_heads
from regard.attention.concat import key_part, query_part
from regard.attention.contextual import contextual_positions, position_scores
from regard.attention.cosine import unit_vectors
from regard.attention.coverage import coverage_scores, fertilities
from regard.attention.differential import differential_weights, learned_factor
from regard.attention.entmax import entmax_threshold, entmax_weights, newton_step
from regard.attention.forgetting import forgetting_bias
from regard.attention.gated_delta import delta_step, implied_weights
from regard.attention.hard_mocha import window_at
from regard.attention.hard_monotonic import stopping_points
from regard.attention.latent import from_latents, into_latents
from regard.attention.linear import linear_scores as two_terms
from regard.attention.linear_attention import add_key, feature_map, linear_weights, read_heads
from regard.attention.local import gaussian_weights, in_window, predicted_positions
from regard.attention.location import location_features, location_scores
from regard.attention.mocha import expected_chunks
from regard.attention.monotonic import scaled_direction, stopping_energies
from regard.attention.multiplicative import product_scores
from regard.attention.normalizers import masked_sigmoid, masked_softmax
from regard.attention.pooling import equal_weights, linear_scores, tanh_head_scores, tanh_scores
from regard.attention.self_attention import scaled_scores
from regard.attention.sink import sink_weights, softpick_weights
from regard.attention.soft_monotonic import plain_alignments
from regard.attention.soft_to_hard import SoftToHard
from regard.attention.sparse import entmax15_threshold, sparsemax_threshold
from regard.attention.stick_breaking import stick_breaking_weights
from regard.attention.trilinear import key_columns, query_columns

FIRST_SCREEN = 60
B, Q, K, D = 2, 3, 7, 4


@dataclass(frozen=True)
class Plain:
    """How a mechanism is computed with the plain functions of its module."""

    build: Callable[[], nn.Module]
    weights: Callable[..., Tensor]
    """Of the module, the queries and the keys; of a pooling or a normalizer and what it is called with."""
    functions: tuple[Callable, ...]
    """On the module's first screen, and called by the class."""
    only_tested: tuple[Callable, ...] = ()
    """On the first screen too; the class takes a kernel of `regard.attention.kernels` that equals it."""


def additive(m, q, k):
    return masked_softmax(plain_additive_scores(m.query_projection(q), m.key_projection(k), m.score_weight))


def concat(m, q, k):
    weight = m.projection.weight
    return masked_softmax(plain_additive_scores(query_part(q, weight), key_part(k, weight), m.score_weight))


def weight_norm_scores(m, q, k):
    return plain_additive_scores(m.query_projection(q), m.key_projection(k), scaled_direction(m.score_weight, m.gain))


def linear_concat(m, q, k):
    (query_weight, key_weight), bias = m.projection.weight.split(D, 1), m.projection.bias
    return masked_softmax(two_terms(q @ query_weight.T, k @ key_weight.T + bias))


def self_attention(m, q, k):
    return masked_softmax(scaled_scores(m.query_projection(q), m.key_projection(k)))


def one_by_one(row: Callable[[Tensor, Tensor], Tensor], q: Tensor, update: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Rows of weights of one query after the other, by `row(query, history)`."""
    history, rows = torch.zeros(B, K, dtype=q.dtype), []
    for i in range(Q):
        rows.append(row(q[:, i : i + 1], history))
        history = update(history, rows[-1][:, 0])
    return torch.cat(rows, 1)


def coverage(m, q, k):
    query, key = m.query_projection(q), m.key_projection(k)
    fertility = torch.ones(B, K)
    if isinstance(m, FertilityCoverage):
        fertility = fertilities(m.fertility_projection(k)[..., 0], m.max_fertility)

    def row(query, history):
        scores = coverage_scores(query, key, history / fertility, m.coverage_weight, m.score_weight)
        return masked_softmax(scores)

    return one_by_one(row, query, lambda history, weights: history + weights)


def location(m, q, k):
    key = m.key_projection(k)

    def row(query, previous):
        features = location_features(previous, m.convolution)
        scores = location_scores(m.query_projection(query), key, features, m.feature_projection, m.score_weight)
        return masked_softmax(scores)

    return one_by_one(row, q, lambda _, weights: weights)


def local_monotonic(m, q, k):
    position, middle = torch.arange(K).expand(B, K), torch.arange(Q).expand(B, Q)
    return masked_softmax(product_scores(m.scorer.projection(q), k), in_window(position, middle, m.window))


def local_predictive(m, q, k):
    position, count = torch.arange(K).expand(B, K), torch.full((B,), K)
    middle = predicted_positions(m.position_projection(q).tanh(), m.position_weight, count)
    align = masked_softmax(product_scores(m.scorer.projection(q), k), in_window(position, middle, m.window))
    return gaussian_weights(align, position, middle, m.window)


def soft_monotonic(m, q, k):
    p = stopping_energies(weight_norm_scores(m.scorer, q, k), m.offset).sigmoid()
    return plain_alignments(p, 1 - p, (torch.arange(K) == 0).to(q.dtype).expand(B, K))


def stops(m, q, k):
    return stopping_points(stopping_energies(weight_norm_scores(m.scorer, q, k), m.offset))


def hard_monotonic(m, q, k):
    return (stops(m, q, k)[..., None] == torch.arange(K)).to(q.dtype)


def mocha(m, q, k):
    return expected_chunks(soft_monotonic(m, q, k), weight_norm_scores(m.chunk_scorer, q, k), m.chunk_size)


def hard_mocha(m, q, k):
    return masked_softmax(weight_norm_scores(m.chunk_scorer, q, k), window_at(stops(m, q, k), K, m.chunk_size))


def multi_head(m, q, k):
    query, key = split_heads(m.query_projection(q), m.num_heads), split_heads(m.key_projection(k), m.num_kv_heads)
    return masked_softmax(head_scores(query, key))


def linear_attention(m, q, k):
    features = (feature_map(split_heads(x, m.num_heads)) for x in (m.query_projection(q), m.key_projection(k)))
    return linear_weights(*features, None)


def gated_delta(m, q, k):
    query, (key, _) = m.project_query(q), m.project(k, None)
    return implied_weights(query, key, m.build_gates(k), torch.eye(K, dtype=q.dtype)[[K - 1] * Q])


def both_heads(m, q, k):
    return split_heads(m.query_projection(q), m.num_heads), split_heads(m.key_projection(k), m.num_heads)


def differential(m, q, k):
    (q1, q2), (k1, k2) = (x.chunk(2, -1) for x in both_heads(m, q, k))
    both = torch.cat([head_scores(q1, k1).softmax(-1), head_scores(q2, k2).softmax(-1)], 1)
    return differential_weights(both, learned_factor(m.lambda_vectors, m.initial_lambda))


def forgetting(m, q, k):
    gates = torch.nn.functional.logsigmoid(m.gate_projection(k)).mT
    query, key = both_heads(m, q, k)
    return (head_scores(query, key) + forgetting_bias(gates)).softmax(-1)


def contextual(m, q, k):
    query, key = both_heads(m, q, k)
    scores = head_scores(query, key)
    positions = contextual_positions(scores, None, m.num_positions - 1)
    return masked_softmax(scores + position_scores(query, m.position_table, positions))


def latent(m, q, k):
    short = nn.functional.rms_norm(m.compression(k), (m.latent_size,), m.norm.weight, 1e-6)
    maps = m.key_expansion.weight.unflatten(0, (m.num_heads, -1))
    query = into_latents(split_heads(m.query_projection(q), m.num_heads), maps)
    return masked_softmax(query @ short[:, None].mT / m.head_size**0.5)


def sparsemax(_, scores):
    return (scores - sparsemax_threshold(scores)).clamp(min=0)


def entmax15(_, scores):
    return (scores / 2 - entmax15_threshold(scores / 2)).clamp(min=0).square()


MECHANISMS = {
    Additive: Plain(lambda: Additive(D), additive, (plain_additive_scores,)),
    Concat: Plain(lambda: Concat(D), concat, (query_part, key_part)),
    SumConcat: Plain(lambda: SumConcat(D), concat, (query_part, key_part)),
    WeightNormAdditive: Plain(
        lambda: WeightNormAdditive(D), lambda *given: masked_softmax(weight_norm_scores(*given)), (scaled_direction,)
    ),
    Dot: Plain(lambda: Dot(D), lambda _, q, k: masked_softmax(product_scores(q, k)), (product_scores,)),
    ScaledDot: Plain(lambda: ScaledDot(D), lambda _, q, k: masked_softmax(product_scores(q, k, D**-0.5)), (product_scores,)),
    General: Plain(lambda: General(D), lambda m, q, k: masked_softmax(product_scores(m.projection(q), k)), (product_scores,)),
    Cosine: Plain(
        lambda: Cosine(D), lambda m, q, k: masked_softmax(m.gain * unit_vectors(q) @ unit_vectors(k).mT), (unit_vectors,)
    ),
    Trilinear: Plain(
        lambda: Trilinear(D),
        lambda m, q, k: masked_softmax(query_columns(q, m.weight) @ key_columns(k, m.weight).mT),
        (query_columns, key_columns),
    ),
    LinearConcat: Plain(lambda: LinearConcat(D), linear_concat, (two_terms,)),
    SelfAttention: Plain(lambda: SelfAttention(D), self_attention, (scaled_scores,)),
    Coverage: Plain(lambda: Coverage(D), coverage, (coverage_scores,)),
    FertilityCoverage: Plain(lambda: FertilityCoverage(D), coverage, (coverage_scores, fertilities)),
    LocationSensitive: Plain(
        lambda: LocationSensitive(D, num_filters=2, kernel_size=3), location, (location_features, location_scores)
    ),
    LocalMonotonic: Plain(lambda: LocalMonotonic(D, window=2), local_monotonic, (in_window,)),
    LocalPredictive: Plain(
        lambda: LocalPredictive(D, window=2), local_predictive, (in_window, predicted_positions, gaussian_weights)
    ),
    SoftMonotonic: Plain(lambda: SoftMonotonic(D), soft_monotonic, (), (plain_alignments,)),
    HardMonotonic: Plain(lambda: HardMonotonic(D, initial_offset=0), hard_monotonic, (stopping_points,)),
    SoftToHard: Plain(
        lambda: SoftToHard(SoftMonotonic(D, initial_offset=0)),
        lambda m, q, k: hard_monotonic(m.soft, q, k),
        (),
        (SoftToHard.form,),
    ),
    MoChA: Plain(lambda: MoChA(D, chunk_size=3), mocha, (expected_chunks,)),
    HardMoChA: Plain(lambda: HardMoChA(D, chunk_size=3, initial_offset=0), hard_mocha, (window_at,)),
    LinearAttention: Plain(
        lambda: LinearAttention(D, 2), linear_attention, (feature_map, linear_weights), (add_key, read_heads)
    ),
    GatedDeltaNet: Plain(lambda: GatedDeltaNet(D, 2), gated_delta, (implied_weights,), (delta_step,)),
    DifferentialAttention: Plain(lambda: DifferentialAttention(D, 2), differential, (learned_factor, differential_weights)),
    ForgettingAttention: Plain(lambda: ForgettingAttention(D, 2), forgetting, (forgetting_bias,)),
    LatentAttention: Plain(lambda: LatentAttention(D, 2, latent_size=3), latent, (into_latents, from_latents)),
    ContextualPositionAttention: Plain(
        lambda: ContextualPositionAttention(D, 2, num_positions=3), contextual, (contextual_positions, position_scores)
    ),
    MultiHead: Plain(
        lambda: MultiHead(D, 2, num_kv_heads=1), multi_head, (head_scores, head_product), (split_heads, join_heads)
    ),
}
POOLINGS = {
    AttentionPooling: Plain(
        lambda: AttentionPooling(D),
        lambda m, h: masked_softmax(linear_scores(h, m.projection)),
        (linear_scores,),
    ),
    AdditivePooling: Plain(
        lambda: AdditivePooling(D), lambda m, h: masked_softmax(tanh_scores(m.projection(h), m.score_weight)), (tanh_scores,)
    ),
    MultiHeadPooling: Plain(
        lambda: MultiHeadPooling(D, 3),
        lambda m, h: masked_softmax(tanh_head_scores(m.projection(h), m.score_weight)),
        (tanh_head_scores,),
    ),
    MeanPooling: Plain(lambda: MeanPooling(D), lambda _, h: equal_weights(h, None), (equal_weights,)),
}


def entmax_by_alpha(_, s):
    z = 0.25 * (s - s.amax(-1, keepdim=True))
    threshold = newton_step(z, 4.0, newton_step(z, 4.0, entmax_threshold(z, 4.0)))
    return entmax_weights(z, 4.0, threshold)


NORMALIZERS = {
    Softmax: Plain(Softmax, lambda _, s: s.exp() / s.exp().sum(-1, keepdim=True), (masked_softmax,)),
    Sigmoid: Plain(Sigmoid, lambda _, s: masked_sigmoid(s), (masked_sigmoid,)),
    Temperature: Plain(lambda: Temperature(temperature=0.5), lambda _, s: masked_softmax(s / 0.5), (masked_softmax,)),
    Sparsemax: Plain(Sparsemax, sparsemax, (sparsemax_threshold,)),
    Entmax15: Plain(Entmax15, entmax15, (entmax15_threshold,)),
    Entmax: Plain(lambda: Entmax(alpha=1.25), entmax_by_alpha, (entmax_threshold, entmax_weights, newton_step)),
    SoftmaxSink: Plain(SoftmaxSink, lambda _, s: sink_weights(s, 0.0), (sink_weights,)),
    Softpick: Plain(Softpick, lambda _, s: softpick_weights(s), (softpick_weights,)),
    StickBreaking: Plain(StickBreaking, lambda _, s: stick_breaking_weights(s), (stick_breaking_weights,)),
    SoftCap: Plain(lambda: SoftCap(cap=2.0), lambda _, s: masked_softmax(2 * (s / 2).tanh()), (masked_softmax,)),
}
ALL = MECHANISMS | POOLINGS | NORMALIZERS


def modules_of_the_package() -> set[type[nn.Module]]:
    """Every concrete class of the package that is a PyTorch module."""
    found = set()
    for info in pkgutil.walk_packages(regard.attention.__path__, "regard.attention."):
        if "triton" in info.name:
            continue
        for thing in vars(importlib.import_module(info.name)).values():
            ours = inspect.isclass(thing) and issubclass(thing, nn.Module) and thing.__module__.startswith("regard.attention.")
            if ours and not inspect.isabstract(thing) and not thing.__name__.startswith("_"):
                found.add(thing)
    return found


def is_normalizer(cls: type[nn.Module]) -> bool:
    return list(inspect.signature(cls.forward).parameters)[1:] == ["scores", "mask"]


def test_every_mechanism_has_a_plain_form():
    found = modules_of_the_package()
    assert {cls for cls in found if issubclass(cls, Attention)} == MECHANISMS.keys()
    assert {cls for cls in found if issubclass(cls, Pooling)} == POOLINGS.keys()
    assert {cls for cls in found if is_normalizer(cls)} == NORMALIZERS.keys()


def home(mechanism: type[nn.Module]) -> ModuleType:
    """Return the module with the plain form: that of the formula for `MultiHead`, otherwise that of the class."""
    return attend if mechanism is MultiHead else inspect.getmodule(mechanism)


@pytest.fixture(params=ALL, ids=lambda cls: cls.__name__)
def mechanism(request):
    return request.param


def test_the_first_screen_shows_formula_and_plain_form(mechanism):
    """The module's docstring has a formula, set apart, and each plain function ends on the first screen."""
    source = inspect.getsource(home(mechanism))
    tree = ast.parse(source)
    doc = tree.body[0]
    assert isinstance(doc, ast.Expr)
    assert doc.end_lineno <= FIRST_SCREEN / 2
    lines = ast.get_docstring(tree).splitlines()
    assert any(line.startswith("    ") and "=" in line for line in lines), "the docstring sets no formula apart"
    assert mechanism.__name__ in "\n".join(source.splitlines()[:FIRST_SCREEN]) or len(classes_of(tree)) < 2
    ends = {node.name: node.end_lineno for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for function in ALL[mechanism].functions + ALL[mechanism].only_tested:
        assert ends[function.__name__] <= FIRST_SCREEN, f"{function.__name__} ends on line {ends[function.__name__]}"


def classes_of(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.endswith(("State", "Memory"))]


def built(cls: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    module = ALL[cls].build().double().eval()
    for parameter in module.parameters():  # so that no bias, gain or offset is at a value that hides it
        nn.init.normal_(parameter, std=0.7)
    return module


def inputs(cls: type[nn.Module]) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    widths = {True: [(Q, D), (K, D)], False: [(K, D)]}[issubclass(cls, Attention)]
    return tuple(torch.randn(B, *shape, generator=draw, dtype=torch.float64) for shape in widths)


def test_the_plain_form_gives_the_weights_of_the_class(mechanism):
    module, given = built(mechanism), inputs(mechanism)
    expected = ALL[mechanism].weights(module, *given)
    found = module(*given) if mechanism in NORMALIZERS else module(*given).weights
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    if mechanism not in (MeanPooling, LinearConcat):
        assert (expected - expected.flip(-1)).abs().max() > 1e-3, "weights that are all alike show nothing"


def test_the_context_of_several_heads():
    module, (query, key) = built(MultiHead), inputs(MultiHead)
    value = split_heads(module.value_projection(key), module.num_kv_heads)
    expected = module.output_projection(join_heads(head_product(multi_head(module, query, key), value)))
    torch.testing.assert_close(module(query, key).context, expected, rtol=0, atol=1e-12)


def test_the_class_calls_its_plain_form(mechanism, monkeypatch):
    source, called = home(mechanism), set()
    for function in ALL[mechanism].functions:

        def spy(*given, function=function, **named):
            called.add(function)
            return function(*given, **named)

        monkeypatch.setattr(source, function.__name__, spy)
    built(mechanism)(*inputs(mechanism))
    assert called == set(ALL[mechanism].functions)
