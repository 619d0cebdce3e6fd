"""The recurrent translators against their formulas, written out anew a word at a time, and what their builder refuses."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.analysis.capture import capture
from regard.config import (
    AttentionConfig,
    BahdanauDecoderConfig,
    ConcatConfig,
    DotConfig,
    EncoderConfig,
    GeneralConfig,
    LinearConfig,
    LuongDecoderConfig,
    RecurrentConfig,
    SumConcatConfig,
)
from regard.errors import ConfigError, ShapeError
from regard.models.build import build_translator
from regard.models.recurrent.translator import RecurrentTranslator

SOURCES, TARGETS, WIDTH, HIDDEN = 11, 13, 5, 7
ONE_WAY = EncoderConfig(cell="lstm", hidden_size=HIDDEN, bidirectional=False)
TUTORIAL = RecurrentConfig(embedding_size=WIDTH, encoder=ONE_WAY, bridge="copy")


def build(config: RecurrentConfig) -> RecurrentTranslator:
    torch.manual_seed(0)
    model = build_translator(config, source_size=SOURCES, target_size=TARGETS)
    assert isinstance(model, RecurrentTranslator)
    return model.double().eval()


def lstm(layer, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    gates = layer.weight_ih[0] @ x + layer.bias_ih[0] + layer.weight_hh[0] @ h + layer.bias_hh[0]
    i, f, g, o = (gates[k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru(layer, x: Tensor, h: Tensor) -> Tensor:
    xs, hs = layer.weight_ih[0] @ x + layer.bias_ih[0], layer.weight_hh[0] @ h + layer.bias_hh[0]
    (xr, xz, xn), (hr, hz, hn) = xs.split(HIDDEN), hs.split(HIDDEN)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + r * hn) + z * h


def read(model: RecurrentTranslator, source: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The encoder's states, and its last state and cell state."""
    h, c, states = torch.zeros(HIDDEN).double(), torch.zeros(HIDDEN).double(), []
    for word in source:
        x = model.source_embedding.weight[word]
        layer = model.encoder.layers[0]
        h, c = lstm(layer, x, h, c) if layer.num_gates == 4 else (gru(layer, x, h), c)
        states.append(h)
    return torch.stack(states), h, c


def compute(model: RecurrentTranslator, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """What the model itself says: log probabilities and weights."""
    tokens, mask = torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool)
    features, maps = model.decode(torch.tensor([target]), model.encode(tokens, mask), record=["cross"])
    return model.logits(features)[0].log_softmax(-1), maps["cross"][0]


def words(model: RecurrentTranslator, features: Tensor) -> Tensor:
    return (model.output.weight @ features + model.output.bias).log_softmax(-1)


def test_s5_the_gru_translator_whose_attention_ignores_the_decoder() -> None:
    encoder = EncoderConfig(cell="gru", hidden_size=HIDDEN, bidirectional=False)
    decoder = BahdanauDecoderConfig(cell="gru", hidden_size=HIDDEN, attention=LinearConfig())
    model = build(RecurrentConfig(embedding_size=WIDTH, encoder=encoder, bridge="copy", decoder=decoder))
    source, target = [4, 9, 5, 3], [2, 7, 4, 8, 12]
    states, h, _ = read(model, source)
    parameters = dict(model.decoder.attention.named_parameters())
    w = next(p for p in parameters.values() if p.numel() == 2 * HIDDEN).flatten()
    log_probabilities, weights = compute(model, source, target)
    for t, word in enumerate(target):
        expected = torch.stack([w @ torch.cat((h, s)) for s in states]).softmax(0)
        torch.testing.assert_close(weights[t], expected, rtol=1e-12, atol=1e-12)
        context = expected @ states
        h = gru(model.decoder.layers[0], torch.cat((model.target_embedding.weight[word], context)), h)
        torch.testing.assert_close(log_probabilities[t], words(model, h), rtol=1e-12, atol=1e-12)
    # Linear in [state; source]: the state's part is the same for every source word, and the softmax takes it away.
    torch.testing.assert_close(weights, weights[:1].expand_as(weights), rtol=1e-12, atol=1e-12)


def test_s6_bahdanaus_decoder() -> None:
    model = build(replace(TUTORIAL, decoder=BahdanauDecoderConfig(cell="lstm", hidden_size=HIDDEN)))
    source, target = [4, 9, 5, 3], [2, 7, 4, 8, 12]
    states, h, c = read(model, source)
    attention = model.decoder.attention
    log_probabilities, weights = compute(model, source, target)
    for t, word in enumerate(target):
        scores = [
            attention.score_weight @ torch.tanh(attention.query_projection.weight @ h + attention.key_projection.weight @ s)
            for s in states
        ]
        expected = torch.stack(scores).softmax(0)
        torch.testing.assert_close(weights[t], expected, rtol=1e-12, atol=1e-12)
        h, c = lstm(model.decoder.layers[0], torch.cat((model.target_embedding.weight[word], expected @ states)), h, c)
        torch.testing.assert_close(log_probabilities[t], words(model, h), rtol=1e-12, atol=1e-12)


SCORES = {
    "dot": (DotConfig(), lambda attention, h, o: h @ o),
    "general": (GeneralConfig(), lambda attention, h, o: h @ (attention.projection.weight @ o)),
    "sum_concat": (
        SumConcatConfig(),
        lambda attention, h, o: attention.score_weight @ torch.tanh(attention.projection.weight @ (o + h)),
    ),
    "concat": (
        ConcatConfig(),
        lambda attention, h, o: attention.score_weight @ torch.tanh(attention.projection.weight @ torch.cat((o, h))),
    ),
}


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("readout", ["concat", "attentional"])
@pytest.mark.parametrize("score", SCORES)
def test_s7_luongs_decoder(score: str, readout: str, feeding: bool) -> None:
    config: AttentionConfig
    config, formula = SCORES[score]
    decoder = LuongDecoderConfig(cell="lstm", hidden_size=HIDDEN, attention=config, readout=readout, input_feeding=feeding)
    model = build(replace(TUTORIAL, decoder=decoder))
    source, target = [4, 9, 5, 3], [2, 7, 4, 8, 12]
    states, h, c = read(model, source)
    fed = torch.zeros(model.decoder.readout.size).double()
    log_probabilities, weights = compute(model, source, target)
    for t, word in enumerate(target):
        x = model.target_embedding.weight[word]
        h, c = lstm(model.decoder.layers[0], torch.cat((x, fed)) if feeding else x, h, c)
        expected = torch.stack([formula(model.decoder.attention, s, h) for s in states]).softmax(0)
        torch.testing.assert_close(weights[t], expected, rtol=1e-12, atol=1e-12)
        context = expected @ states
        if readout == "concat":
            fed = torch.cat((h, context))
        else:
            maps = model.decoder.readout
            fed = torch.tanh(maps.context_map.weight @ context + maps.output_map.weight @ h + maps.output_map.bias)
        torch.testing.assert_close(log_probabilities[t], words(model, fed), rtol=1e-12, atol=1e-12)


def test_tied_weights_are_one() -> None:
    config = RecurrentConfig(embedding_size=WIDTH, decoder=LuongDecoderConfig(hidden_size=HIDDEN), tie_embeddings="target")
    model = build(config)
    assert model.output.weight is model.target_embedding.weight


def test_embeddings_start_as_configured_with_padding_at_zero() -> None:
    for std, expected in ((0.0, 1 / 8), (1.0, 1.0)):
        config = RecurrentConfig(embedding_size=64, embedding_std=std)
        model = build_translator(config, source_size=500, target_size=500)
        for embedding in (model.source_embedding, model.target_embedding):
            assert embedding.weight[1:].std().item() == pytest.approx(expected, rel=0.05)
            assert not embedding.weight[0].any()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            RecurrentConfig(bridge="copy"),
            r"bridge: copy starts the decoder \(256 wide\) from the encoder.s last state \(512 wide\): make .*hidden_size",
        ),
        (
            RecurrentConfig(embedding_size=100, decoder=BahdanauDecoderConfig(), tie_embeddings="target"),
            r"its width is 100, but the readout is 256 wide: set model.embedding_size to 256",
        ),
        (
            RecurrentConfig(decoder=LuongDecoderConfig(), tie_embeddings="all"),
            r"the source has 11 symbols and the target 13: make the sizes equal",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_remedy(config: RecurrentConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_translator(config, source_size=SOURCES, target_size=TARGETS)


DECODERS = {
    "bahdanau": BahdanauDecoderConfig(hidden_size=HIDDEN, cell="lstm"),
    "luong": LuongDecoderConfig(hidden_size=HIDDEN),
    "input_feeding": LuongDecoderConfig(hidden_size=HIDDEN, input_feeding=True),
}


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_attends_where_it_can_be_observed(decoder: str) -> None:
    model = build(replace(TUTORIAL, decoder=DECODERS[decoder]))
    source, target = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]])
    with torch.no_grad():
        features, maps = model.decode(target, model.encode(source, source != 0), record=("cross",))
        with capture(model) as caught:
            same, _ = model.decode(target, model.encode(source, source != 0))
    torch.testing.assert_close(same, features)
    torch.testing.assert_close(torch.cat([call.weights for call in caught.calls], 1), maps["cross"])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("feeding", [False, True])
def test_targets_of_another_batch_are_refused(feeding: bool, rows: int, unchecked: None) -> None:
    model = build(replace(TUTORIAL, decoder=LuongDecoderConfig(cell="lstm", hidden_size=HIDDEN, input_feeding=feeding)))
    source, target = torch.randint(4, SOURCES, (2, 6)), torch.randint(4, TARGETS, (rows, 5))
    with pytest.raises(ShapeError, match=rf"target_in has shape \({rows}, 5\), expected \(B, T\) = \(2, T\)"):
        model(source, target)
    with pytest.raises(ShapeError, match="source_mask is float32, expected a boolean mask of shape"):
        model(source, target, torch.ones(2, 6))
