"""Single mechanisms: results worked by hand, what a score does not see, and building them from configs."""

import pytest
import torch

from regard.attention import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    LinearConcat,
    MultiHead,
    ScaledDot,
    SoftmaxSink,
    SumConcat,
    Temperature,
)
from regard.config import AdditiveConfig, ConcatConfig, DotConfig, GeneralConfig, LinearConfig, SumConcatConfig
from regard.errors import ConfigError


def test_linear_ignores_the_query_and_a_tanh_does_not():
    torch.manual_seed(0)
    key, first, second = torch.randn(2, 7, 5), torch.randn(2, 3, 5), 10 * torch.randn(2, 3, 5)
    linear, concat = LinearConcat(5), Concat(5)
    torch.testing.assert_close(linear(first, key).weights, linear(second, key).weights)
    assert not torch.allclose(concat(first, key).weights, concat(second, key).weights)
    out = linear(first.requires_grad_(), key)
    (gradient,) = torch.autograd.grad(out.context.square().sum(), first)
    torch.testing.assert_close(gradient, torch.zeros_like(first), atol=1e-5, rtol=0)


def test_concat_is_additive_with_its_matrix_split():
    torch.manual_seed(0)
    concat, additive = Concat(5, key_size=7, attention_size=11), Additive(5, key_size=7, attention_size=11)
    weight = concat.projection.weight
    split = {
        "score_weight": concat.score_weight,
        "query_projection.weight": weight[:, :5],
        "key_projection.weight": weight[:, 5:],
    }
    additive.load_state_dict(split)
    query, key = torch.randn(2, 3, 5), torch.randn(2, 13, 7)
    torch.testing.assert_close(concat(query, key).weights, additive(query, key).weights)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (AdditiveConfig(bias=True), Additive),
        (ConcatConfig(), Concat),
        (SumConcatConfig(attention_size=4), SumConcat),
        (DotConfig(), Dot),
        (DotConfig(scaled=True), ScaledDot),
        (GeneralConfig(), General),
        (LinearConfig(), LinearConcat),
    ],
)
def test_a_config_builds_its_mechanism(config, kind):
    attention = config.build(query_size=6, key_size=6)
    assert type(attention) is kind
    assert getattr(attention, "attention_size", None) in (None, getattr(config, "attention_size", 0) or 6)
    assert attention(torch.randn(1, 2, 6), torch.randn(1, 3, 6)).context.shape == (1, 2, 6)


@pytest.mark.parametrize("config", [DotConfig(), SumConcatConfig()])
def test_unequal_widths_are_refused_with_a_remedy(config):
    with pytest.raises(
        ConfigError, match=r"query_size=6, key_size=8\).*the same width.*Make them equal .*, or choose 'general'"
    ):
        config.build(query_size=6, key_size=8)


def test_a_width_below_one_is_refused():
    with pytest.raises(ConfigError, match=r"Additive\(attention_size=0\): attention_size must be 1 or more"):
        Additive(3, attention_size=0)
    with pytest.raises(ConfigError, match=r"Dot\(query_size=-1\): query_size must be 1 or more"):
        Dot(-1)


def test_a_vector_of_zeros_has_a_cosine_of_zero_and_a_finite_gradient():
    query, key = torch.randn(1, 2, 5).half(), torch.randn(1, 3, 5).half()
    query[:, 0] = key[:, 1] = 0
    query.requires_grad_()
    key.requires_grad_()
    attention = Cosine(5).half()
    attention.scores(query, attention.prepare(key)).sum().backward()
    assert attention(query, key).weights[0, 0].tolist() == pytest.approx([1 / 3] * 3, abs=1e-3)
    assert query.grad.abs().max() < 100
    assert key.grad.abs().max() < 100


@pytest.mark.parametrize("need_weights", [False, True])
def test_values_of_another_type_than_the_scores(need_weights):
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 7, 5), torch.randn(2, 7, 5)
    expected = ScaledDot(5)(query, key, value).context
    found = ScaledDot(5)(query, key, value.bfloat16(), need_weights=need_weights).context
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)


def test_a_normalizer_for_another_number_of_heads_is_refused():
    for build in (lambda own: own, lambda own: Temperature(own, temperature=2.0)):
        with pytest.raises(ConfigError, match=r"Additive\(normalizer=.*\): the normalizer is for 4 heads, expected 1; give it"):
            Additive(3, normalizer=build(SoftmaxSink(4, learned=True)))
        with pytest.raises(ConfigError, match=r"the normalizer is for 4 heads, expected 2; give it num_heads=2"):
            MultiHead(8, 2, normalizer=build(SoftmaxSink(4, learned=True)))
    Additive(3, normalizer=SoftmaxSink(learned=True))


@pytest.mark.parametrize("kind", [Dot, ScaledDot, General, Additive])
def test_a_hook_of_the_softmax_runs_without_weights(kind):
    attention = kind(5)
    attention.normalizer.register_forward_hook(lambda module, scores, weights: torch.full_like(weights, 1 / 7))
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    expected = key.mean(1, keepdim=True).expand(2, 3, 5)
    torch.testing.assert_close(attention(query, key, need_weights=False).context, expected)
