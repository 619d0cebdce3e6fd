"""Adapters, hooks and quantised weights of linear maps take effect wherever a fast path reads weights.

Each linear map of each mechanism, and of each model, is changed in turn, and compared with the module whose own weight has that
change. The two are equal only if the map is called, or its effect is computed exactly.
"""

import copy
import warnings

import pytest
import torch
from contracts import test_seq2seq as seq2seq
from contracts import test_text_classifier as classifiers
from contracts.attention_cases import CASES, FIRST
from contracts.battery import inputs, made
from contracts.cases.base import Case
from quick import quick
from torch import Tensor, nn

from regard.attention import (
    AdditivePooling,
    Attention,
    AttentionPooling,
    Concat,
    GatedPooling,
    LatentAttention,
    LinearConcat,
    MultiHeadPooling,
    Rotary,
    SumConcat,
)
from regard.config import LinearConfig
from regard.decoding import beam_search, greedy
from regard.inference import pack
from regard.tasks.objective import objective
from regard.text.batching import Batch

MAPS = (nn.Linear, nn.Conv1d)
"""Classes of the maps that users wrap."""


class Adapter(nn.Module):
    """A low-rank addition to a map, as PEFT's LoRA makes it: `weight` is that of the map, and a call adds something."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base
        self.up = nn.Parameter(torch.randn(len(base.weight), 2, dtype=base.weight.dtype))
        self.down = nn.Parameter(torch.randn(2, base.weight[0].numel(), dtype=base.weight.dtype))

    weight = property(lambda self: self.base.weight)
    bias = property(lambda self: self.base.bias)

    def forward(self, x: Tensor) -> Tensor:
        added = copy.copy(self.base)
        added._parameters = {"weight": (self.up @ self.down).view_as(self.base.weight), "bias": None}
        return self.base(x) + added(x)


class Opaque(nn.Module):
    """A map that hides its weight, and computes more than a linear map: x + sin(W x + b)."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.inner = [base]  # not a submodule, so that nothing finds it

    def forward(self, x: Tensor) -> Tensor:
        return self.inner[0](x).sin()


def maps_of(module: nn.Module) -> list[str]:
    return [name for name, each in module.named_modules() if isinstance(each, MAPS)]


def adapted(module: nn.Module, name: str) -> tuple[nn.Module, nn.Module, Adapter]:
    """The module with an adapter around a map, and the module with the same addition in the weight."""
    torch.manual_seed(1)
    wrapped, merged = copy.deepcopy(module), copy.deepcopy(module)
    adapter = Adapter(wrapped.get_submodule(name))
    wrapped.set_submodule(name, adapter)
    base = merged.get_submodule(name)  # whose weight may be shared with an embedding, which keeps it
    base.weight = nn.Parameter((base.weight + (adapter.up @ adapter.down).view_as(base.weight)).detach())
    return wrapped, merged, adapter


def hooked(module: nn.Module, name: str) -> tuple[nn.Module, nn.Module]:
    """The module with a hook that doubles the output of a map, and the module with twice the weight and bias."""
    changed, doubled = copy.deepcopy(module), copy.deepcopy(module)
    changed.get_submodule(name).register_forward_hook(lambda _, given, output: 2 * output)
    for own, parameter in list(doubled.get_submodule(name).named_parameters()):
        setattr(doubled.get_submodule(name), own, nn.Parameter(2 * parameter.detach()))
    return changed, doubled


def close(found, expected) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def calls(attention: Attention, tensors) -> list:
    """The contexts and weights of a mechanism in every form of a call."""
    query, key, value = tensors
    with torch.no_grad():
        still = [*attention(*tensors), attention(*tensors, need_weights=False).context]
    memory, state, steps = attention.prepare(key, value), None, []
    fed = [attention.prepare(*each) for each in zip(key.split(1, 1), value.split(1, 1), strict=True)]
    grows = getattr(attention, "causal", False)
    for i, row in enumerate(query.split(1, 1)):
        out, state = attention.attend(row, fed[i] if grows else memory, state)
        steps.append(out.context)
    return [*still, *attention(*tensors), attention(*tensors, need_weights=False).context, torch.cat(steps, 1)]


@pytest.fixture(
    params=quick({case.name: case for case in CASES if case.name in FIRST or "rotary" in case.name}, FIRST.__contains__)
)
def case(request) -> Case:
    return request.param


def test_an_adapter_or_a_hook_of_each_map_takes_effect(case):
    attention = made(case).eval()
    tensors = inputs(case, attention)
    plain = attention(*tensors).context
    for name in maps_of(attention):
        wrapped, merged, adapter = adapted(attention, name)
        for found, expected in zip(calls(wrapped, tensors), calls(merged, tensors), strict=True):
            close(found, expected)
        for found, expected in zip(*(calls(each, tensors) for each in hooked(attention, name)), strict=True):
            close(found, expected)
        for need_weights in (True, False):
            wrapped.zero_grad()
            merged.zero_grad()
            for each in (wrapped, merged):
                context = each(*tensors, need_weights=need_weights).context
                if context.requires_grad:  # hard decisions have no gradient
                    context.sin().sum().backward()
            gradient = merged.get_submodule(name).weight.grad
            assert (gradient is None) == (adapter.up.grad is None)
            if gradient is not None:
                close(adapter.up.grad, gradient.flatten(1) @ adapter.down.T)
        other = copy.deepcopy(attention)
        other.set_submodule(name, Opaque(other.get_submodule(name)))
        assert other(*tensors).context.shape == plain.shape


@pytest.mark.parametrize(
    "pooling",
    [AttentionPooling(7), AdditivePooling(7), MultiHeadPooling(7, 3), GatedPooling(7)],
    ids=lambda p: type(p).__name__,
)
def test_an_adapter_or_a_hook_of_a_pooling_takes_effect(pooling):
    pooling, values = pooling.double(), torch.randn(2, 5, 7, dtype=torch.float64)
    wrapped, merged, adapter = adapted(pooling, "projection")
    pairs = (wrapped, merged), hooked(pooling, "projection")
    for found, expected in pairs:
        close(tuple(found(values)), tuple(expected(values)))
    wrapped(values).context.sum().backward()
    assert adapter.up.grad.any()


@pytest.mark.parametrize(("build", "join"), [
    (lambda: Concat(5, key_size=7, scale=0.5), lambda q, k: torch.cat([q, k], -1)),
    (lambda: SumConcat(7, scale=0.5), lambda q, k: q + k),
    (lambda: LinearConcat(5, key_size=7, normalizer="sigmoid", scale=0.5), lambda q, k: torch.cat([q, k], -1)),
])  # fmt: skip
def test_a_map_of_query_and_key_that_is_not_linear_is_called_with_both(build, join):
    attention = build().double()
    attention.projection = Opaque(attention.projection)
    query, key = torch.randn(2, 3, attention.query_size).double(), torch.randn(2, 4, attention.key_size).double()
    joined = torch.stack([torch.stack([join(q, k) for k in key.unbind(1)], 1) for q in query.unbind(1)], 1)
    x = attention.projection(joined)
    if isinstance(attention, LinearConcat):
        close(attention(query, key).weights, (0.5 * x[..., 0]).sigmoid())
    else:
        close(attention(query, key).weights, (0.5 * x.tanh() @ attention.score_weight).softmax(-1))


@pytest.mark.parametrize("rotary", [False, True])
def test_expansions_of_latents_that_are_not_linear_are_called(rotary):
    """Keys and values of all heads are then computed from the latents; without a rotary part, that is plain attention."""
    latent = LatentAttention(8, 2, latent_size=3, positions=Rotary() if rotary else None).double()
    latent.key_expansion, latent.value_expansion = Opaque(latent.key_expansion), Opaque(latent.value_expansion)
    query, key = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    out = latent(query, key)
    c = latent.norm(latent.compression(key))
    expand = lambda x: x.unflatten(-1, (2, 4)).transpose(1, 2)  # noqa: E731
    keys, values = expand(latent.key_expansion(c)), expand(latent.value_expansion(c))
    if not rotary:
        close(out.weights, (expand(latent.query_projection(query)) @ keys.mT / 2).softmax(-1))
    close(out.context, latent.output_projection((out.weights @ values).transpose(1, 2).flatten(2)))


def test_dynamic_quantization_of_each_mechanism(case):
    attention = made(case).float().eval()
    tensors = [each.float() for each in inputs(case, attention)]
    quantized = quantize(attention)
    expected = attention(*tensors)
    for need_weights in (True, False):
        out = quantized(*tensors, need_weights=need_weights)
        torch.testing.assert_close(out.context, expected.context, rtol=0, atol=0.2 if "hard" not in case.name else torch.inf)


def quantize(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in favour of torchao
        return torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)


FEW = {"encoder_layers": 1, "decoder_layers": 1, "tie_embeddings": "none"}
MODELS = {name: seq2seq.CASES[name] for name in (
    "bahdanau", "bahdanau-lstm", "bahdanau-zeros", "luong-general", "luong-sum", "luong-feeding", "luong-feeding-deep"
)}  # fmt: skip
MODELS |= {
    "luong-feeding-linear": seq2seq.luong(input_feeding=True, attention=LinearConfig()),
    "transformer": seq2seq.transformer(**FEW),
    "transformer-rotary": seq2seq.transformer(norm="rms", feed_forward="swiglu", positions="rotary", **FEW),
    "language": seq2seq.language(num_layers=1),
}


@pytest.fixture
def batch() -> tuple[Tensor, ...]:
    torch.manual_seed(3)
    words = torch.randint(4, 29, (4, 3, 5))
    mask = torch.arange(5) < torch.tensor([[5], [1], [3]])
    return words[0].masked_fill(~mask, 0), mask, words[1], words[2]


SLOW = {"transformer", "transformer-rotary"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODELS])
def test_an_adapter_or_a_hook_of_each_map_of_a_model_takes_effect(name, batch):
    model = seq2seq.build(MODELS[name])
    for each in maps_of(model):
        wrapped, merged, adapter = adapted(model, each)
        for changed, expected in ((wrapped, merged), hooked(model, each)):
            seq2seq.same(seq2seq.read(changed, batch), seq2seq.read(expected, batch))
            with torch.no_grad():
                stepwise = seq2seq.step_by_step(expected, batch)
                seq2seq.same(seq2seq.read(changed, batch)[0], stepwise[0])
                seq2seq.same(seq2seq.step_by_step(changed, batch), stepwise)
                seq2seq.same(seq2seq.step_by_step(pack(changed, 4), batch)[0], stepwise[0])
        pairs = Batch(*batch, batch[1], torch.arange(3))
        losses = [objective(changed, pairs, label_smoothing=0.1)[0] for changed in (wrapped, merged)]
        seq2seq.same(*losses)
        for loss in losses:
            loss.backward()
        seq2seq.same(adapter.up.grad, merged.get_submodule(each).weight.grad @ adapter.down.T)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_quantized_model_searches(name, batch):
    model = quantize(seq2seq.build(MODELS[name]).float())
    greedy(model, *batch[:2], max_length=3)
    assert beam_search(pack(model, 4), *batch[:2], beam_size=2, max_length=3)


@pytest.mark.parametrize("name", ["recurrent", "bag-heads", "hierarchical", "combined", "transformer-heads"])
def test_an_adapter_or_a_hook_of_each_map_of_a_classifier_takes_effect(name):
    model, tokens = classifiers.build(classifiers.CASES[name]), torch.randint(4, 29, (7, 11))
    for each in maps_of(model):
        wrapped, merged, adapter = adapted(model, each)
        for changed, expected in ((wrapped, merged), hooked(model, each)):
            classifiers.same(*(classifiers.read(one, tokens).logits for one in (changed, expected)))
        if len(merged.get_submodule(each).weight) > 1:
            classifiers.read(wrapped, tokens).logits.logsumexp(-1).sum().backward()
            assert adapter.up.grad.any()
