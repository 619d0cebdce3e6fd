"""Weights caught inside modules, against those worked out from the module's own projections."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from regard.analysis.capture import capture
from regard.attention import Additive, MultiHead
from regard.config import LuongDecoderConfig, RecurrentConfig, TransformerClassifierConfig, TransformerConfig
from regard.config.pooling import (
    AdditivePoolingConfig,
    GatedPoolingConfig,
    LinearPoolingConfig,
    MultiHeadPoolingConfig,
)
from regard.decoding import greedy
from regard.errors import RequestError, ShapeError
from regard.layers.readout import AttentionalReadout
from regard.models.build import build_classifier, build_translator

SIZE, HEADS, BATCH, SOURCE, TARGET = 6, 2, 3, 5, 4


def by_hand(module: nn.MultiheadAttention, query: Tensor, key: Tensor, forbidden: Tensor | None = None) -> Tensor:
    """softmax(q kᵀ / √(D/H)) of each head."""
    weight, bias = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    q, k = (
        nn.functional.linear(x, w, b).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for x, w, b in zip((query, key), weight, bias, strict=False)
    )
    scores = q @ k.transpose(2, 3) / (SIZE / HEADS) ** 0.5
    return (scores if forbidden is None else scores.masked_fill(forbidden, -torch.inf)).softmax(-1)


def state_of(module: nn.Module) -> tuple[Counter, list[set[str]]]:
    """All that a capture could leave behind."""
    parts = list(module.modules())
    hooks = Counter(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in parts)
    return hooks, [set(vars(part)) for part in parts]


class Own(nn.Module):
    """A module that calls an attention in its own way."""

    def __init__(self, **options) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.options = options
        self.attention = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.attention(x, y, y, **self.options)


@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_weights_of_any_call_and_its_own_answer_unchanged(options):
    module = Own(**options).eval()
    x, y = torch.randn(BATCH, TARGET, SIZE), torch.randn(BATCH, SOURCE, SIZE)
    before, was = module(x, y), state_of(module)
    with capture(module) as caught:
        after = module(x, y)
    assert list(caught) == ["attention"]
    torch.testing.assert_close(caught["attention"], by_hand(module.attention, x, y), rtol=1e-5, atol=1e-6)
    assert all(one is None if other is None else torch.equal(one, other) for one, other in zip(after, before, strict=True))
    assert not caught["attention"].requires_grad
    assert state_of(module) == was
    module(x, y)
    assert len(caught.calls) == 1


def test_arguments_by_position_and_no_batch():
    module = Own().attention.eval()
    x = torch.randn(TARGET, SIZE)
    with capture(module) as caught:
        _, weights = module(x, x, x, None, False)
    assert weights is None
    torch.testing.assert_close(caught[""], by_hand(module, x[None], x[None]), rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_transformer_encoder_whose_fast_path_has_no_weights():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, dim_feedforward=7, batch_first=True)
    module = nn.TransformerEncoder(layer, 2).eval()
    x, padding = torch.randn(BATCH, SOURCE, SIZE), torch.arange(SOURCE) >= torch.tensor([[5], [3], [4]])
    before = module(x, src_key_padding_mask=padding)
    with capture(module) as caught:
        inside = module(x, src_key_padding_mask=padding)
    assert not torch.equal(inside, before)  # without capture, the fused path is taken, which has other last digits
    torch.testing.assert_close(inside[~padding], before[~padding], rtol=1e-5, atol=1e-5)
    assert list(caught) == ["layers.0.self_attn", "layers.1.self_attn"]
    first, second = module.layers
    expected = by_hand(first.self_attn, x, x, padding[:, None, None])
    torch.testing.assert_close(caught["layers.0.self_attn"], expected, rtol=1e-5, atol=1e-6)
    y = first(x, src_key_padding_mask=padding)
    expected = by_hand(second.self_attn, y, y, padding[:, None, None])
    rows = caught["layers.1.self_attn"].transpose(1, 2)[~padding]
    torch.testing.assert_close(rows, expected.transpose(1, 2)[~padding], rtol=1e-4, atol=1e-5)
    record = caught.to_record(["▁a", "b", "▁c", "</s>", "<pad>"], batch=2)
    assert record.sites == ("encoder.0", "encoder.1")
    assert record.source_words == ("ab", "c")
    np.testing.assert_array_equal(record.weights["encoder.1"], caught["layers.1.self_attn"][2].numpy())


@torch.no_grad()
def test_an_encoder_and_a_decoder_of_pytorch(tmp_path):
    torch.manual_seed(0)
    module = nn.Transformer(SIZE, HEADS, 2, 2, 7, batch_first=True).eval()
    source, target = torch.randn(BATCH, SOURCE, SIZE), torch.randn(BATCH, TARGET, SIZE)
    mask = nn.Transformer.generate_square_subsequent_mask(TARGET)
    with capture(module) as caught:
        module(source, target, tgt_mask=mask, tgt_is_causal=True)
    record = caught.to_record(list("abcde"), list("wxyz"), batch=1)
    assert record.sites == ("encoder.0", "encoder.1", "decoder.0", "cross.0", "decoder.1", "cross.1")
    first = caught["decoder.layers.0.self_attn"]
    expected = by_hand(module.decoder.layers[0].self_attn, target, target, mask == -torch.inf)
    torch.testing.assert_close(first, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(record.weights["cross.1"], caught["decoder.layers.1.multihead_attn"][1].numpy())
    assert record.rollout("cross").matrix("cross.rollout").shape == (TARGET, SOURCE)
    record.save(tmp_path / "grid.png", site="cross")


@torch.no_grad()
def test_our_own_attention_is_caught_where_it_is_called_by_its_steps():
    torch.manual_seed(0)
    config = TransformerConfig(hidden_size=6, num_heads=2, feed_forward_size=7, encoder_layers=2, decoder_layers=2)
    model = build_translator(config, source_size=20, target_size=20).eval()
    source, target = torch.randint(4, 20, (2, SOURCE)), torch.randint(4, 20, (2, TARGET))
    mask, was = torch.ones_like(source, dtype=torch.bool), state_of(model)
    sites = tuple(site for site in model.sites if site.partition(".")[2])
    state = model.encode(source, mask, record=sites)
    features, expected = model.decode(target, state, record=sites)
    with capture(model) as caught:
        same, _ = model.decode(target, model.encode(source, mask))
    assert state_of(model) == was
    torch.testing.assert_close(same, features, rtol=1e-5, atol=1e-6)
    record = caught.to_record(list("abcde"), list("wxyz"), batch=1)
    assert set(record.sites) == {f"{family}.{i}" for family in ("encoder", "decoder", "cross") for i in (0, 1)}
    for site in record.sites:
        np.testing.assert_allclose(record.weights[site], expected[site][1].numpy(), atol=1e-6)


@pytest.mark.parametrize("pooling", [LinearPoolingConfig, AdditivePoolingConfig, GatedPoolingConfig, MultiHeadPoolingConfig])
@torch.no_grad()
def test_a_pooling_that_is_not_captured_is_named(pooling):
    config = TransformerClassifierConfig(embedding_size=6, num_heads=2, feed_forward_size=7, num_layers=1, pooling=pooling())
    model = build_classifier(config, vocabulary_size=20, num_labels=3).eval()
    with capture(model) as caught:
        model(torch.randint(4, 20, (2, SOURCE)), torch.ones(2, SOURCE, dtype=torch.bool))
    assert (list(caught), caught.unseen) == (["encoder.layers.0.attention"], ("pooling",))
    assert caught.to_record(list("abcde")).note.startswith("Not shown, because it was not captured: attention in pooling.")


@torch.no_grad()
def test_a_readout_named_after_attention_is_none():
    config = RecurrentConfig(decoder=LuongDecoderConfig())
    model = build_translator(config, source_size=20, target_size=20).eval()
    assert type(model.decoder.readout) is AttentionalReadout
    with capture(model) as caught:
        model(torch.randint(4, 20, (2, SOURCE)), torch.randint(4, 20, (2, TARGET)))
    assert (list(caught), caught.unseen) == (["decoder.attention"], ())


@pytest.mark.parametrize("sentences", [1, 6])  # of many, a search takes a way of its own through the decoder
def test_what_a_search_attends_to_is_caught_however_many_sentences_it_has(sentences):
    torch.manual_seed(0)
    config = TransformerConfig(hidden_size=6, num_heads=2, feed_forward_size=7, encoder_layers=1, decoder_layers=1)
    model = build_translator(config, source_size=20, target_size=20).eval()
    source = torch.randint(4, 20, (sentences, SOURCE))
    with capture(model) as caught:
        found = greedy(model, source, torch.ones_like(source, dtype=torch.bool), max_length=2, record=("cross.0",))
    assert [call.name.rpartition(".")[2] for call in caught.calls] == ["attention", *["self_attention", "cross_attention"] * 2]
    for number, one in enumerate(found):
        first = caught.calls[2].weights[number, :, 0]
        np.testing.assert_allclose(first, one.attention["cross.0"][:, 0], atol=1e-6)


def test_one_map_a_call_and_none_of_those_within_another_capture_lost():
    attention = Additive(SIZE, key_size=SIZE)
    x = torch.randn(BATCH, SOURCE, SIZE)
    with capture(attention) as outer:
        with capture(attention) as inner:
            attention(x, x, need_weights=False)
        out = attention(x, x, need_weights=False)
    assert out.weights is None
    assert (len(outer.calls), len(inner.calls)) == (2, 1)
    torch.testing.assert_close(outer[""], attention(x, x).weights.detach())
    assert "attend" not in vars(attention)


def test_after_an_exception_everything_is_as_it_was():
    module = nn.ModuleList([Own(), MultiHead(SIZE, num_heads=HEADS)])
    was = state_of(module)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with pytest.raises(ZeroDivisionError), capture(module):
            raise ZeroDivisionError
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert state_of(module) == was


def test_gradients_flow_as_without():
    module = Own()
    x = torch.randn(1, SOURCE, SIZE)
    module(x, x)[0].sum().backward()
    before = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    with capture(module):
        module(x, x)[0].sum().backward()
    for one, parameter in zip(before, module.parameters(), strict=True):
        assert torch.equal(one, parameter.grad)


def test_weights_of_a_module_in_training_are_those_before_dropout():
    module = Own()
    module.attention.dropout = 0.5
    x = torch.randn(1, SOURCE, SIZE)
    torch.manual_seed(3)
    expected = module(x, x)[0]
    torch.manual_seed(3)
    with capture(module) as caught:
        assert torch.equal(module(x, x)[0], expected)
    assert module.attention.dropout == 0.5
    torch.testing.assert_close(caught["attention"], by_hand(module.attention, x, x), rtol=1e-5, atol=1e-6)


def test_families_may_be_named():
    module = Own().eval()
    x, y = torch.randn(1, SOURCE, SIZE), torch.randn(1, SOURCE, SIZE)
    with capture(module) as caught:
        module(x, y)
    words = list("abcde")
    assert caught.to_record(words, words).sites == ("cross.0",)
    assert caught.to_record(words, families={"attention": "encoder"}).sites == ("encoder.0",)
    with pytest.raises(
        RequestError, match=r"'atention', but no attention of such a module was captured; did you mean 'attention'\?"
    ):
        caught.to_record(words, families={"atention": "encoder"})
    with pytest.raises(RequestError, match="'attention' has the family 'pool', expected encoder, decoder or cross"):
        caught.to_record(words, families={"attention": "pool"})


def test_cross_attention_needs_target_tokens():
    module = Own().eval()
    x, y = torch.randn(1, TARGET, SIZE), torch.randn(1, SOURCE, SIZE)
    with capture(module) as caught:
        module(x, y)
    message = r"'attention' counts as cross attention \(4 queries, 5 keys\), and no target tokens were given: give the tokens"
    with pytest.raises(RequestError, match=message):
        caught.to_record(list("abcde"))
    assert caught.to_record(list("abcde"), list("wxyz")).sites == ("cross.0",)
    with capture(module) as caught:
        module(y, y)
    with pytest.raises(RequestError, match="5 queries, 5 keys"):
        caught.to_record(list("abcde"), families={"attention": "cross"})


def test_refusals():
    for run in (lambda module: None, lambda module: Own()(*torch.zeros(2, 1, 1, SIZE))):
        with (
            pytest.raises(RequestError, match=r"no attention was captured in this Own: run it inside"),
            capture(Own()) as caught,
        ):
            run(caught)
    assert len(caught) == 0
    with pytest.raises(KeyError, match="no attention 'attention' was captured; captured: none"):
        caught["attention"]
    module = Own()
    with capture(module) as caught:
        module(*torch.zeros(2, 2, 3, SIZE))
    with pytest.raises(RequestError, match="batch is 2, and there are 2 sentences"):
        caught.to_record(["a", "b", "c"], list("xyz"), batch=2)
    with pytest.raises(ShapeError, match="expected"):
        caught.to_record(["a", "b"], list("xyz"))


def test_it_is_a_public_name():
    assert regard.capture is capture
    assert "capture" in chain(regard.__all__, dir(regard))
