"""Policies of simultaneous translation: a step depends only on what has been read, and delays are those of the formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from quick import quick

from regard.config import (
    BahdanauDecoderConfig,
    EncoderConfig,
    LuongDecoderConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.config.attention import AttentionConfig, CoverageConfig, LocalPredictiveConfig, MoChAConfig, MonotonicConfig
from regard.config.heads import DifferentialAttentionConfig, HeadsConfig
from regard.decoding import beam_search, greedy
from regard.errors import ConfigError, RequestError
from regard.export.onnx import graphs_of
from regard.inference.ctranslate2 import check_convertible
from regard.models.build import build_translator
from regard.models.policies import HardStops, WaitK
from regard.models.seq2seq import Seq2Seq
from regard.text.symbols import END, START

SOURCES, TARGETS, K = 29, 31, 2
REFUSED = {"local_predictive", "monotonic", "hard_monotonic", "mocha", "hard_mocha"}
ALL = AttentionConfig.kinds()
KINDS = {name: ALL[name] for name in ALL.keys() - REFUSED if ALL[name].__module__.startswith("regard.")}
DECODERS = {
    "bahdanau": BahdanauDecoderConfig(hidden_size=20, num_layers=2),
    "luong": LuongDecoderConfig(hidden_size=20),
    "feeding": LuongDecoderConfig(hidden_size=20, input_feeding=True),
}
ONE_WAY = EncoderConfig(hidden_size=20, bidirectional=False)
TRANSFORMER = TransformerConfig(
    hidden_size=20,
    num_heads=2,
    feed_forward_size=23,
    encoder_layers=2,
    decoder_layers=2,
    embedding_dropout=0.0,
    layer_dropout=0.0,
    wait_k=K,
)


def build(config: RecurrentConfig | TransformerConfig) -> Seq2Seq:
    torch.manual_seed(0)
    model = build_translator(config, source_size=SOURCES, target_size=TARGETS).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # sharper than at the start of training, so that differences show
            parameter.mul_(2)
    return model


def recurrent(decoder: str, attention: AttentionConfig, **settings) -> RecurrentConfig:
    chosen = replace(DECODERS[decoder], attention=attention)
    return RecurrentConfig(**{"embedding_size": 12, "encoder": ONE_WAY, "decoder": chosen, "wait_k": K, **settings})


def configs() -> dict[str, RecurrentConfig | TransformerConfig]:
    found: dict[str, RecurrentConfig | TransformerConfig] = {}
    for name, kind in sorted(KINDS.items()):
        heads = {"num_heads": 2} if issubclass(kind, HeadsConfig) else {}
        for decoder in DECODERS:
            found[f"{decoder}-{name}"] = recurrent(decoder, kind(**heads))
        if kind.__module__.endswith("heads") or name in ("additive", "dot", "linear"):
            found[f"transformer-{name}"] = replace(TRANSFORMER, cross_attention=kind())
    for bridge in ("zeros", "copy", "mean"):
        found[f"bridge-{bridge}"] = recurrent("luong", KINDS["additive"](), bridge=bridge)
    found["rotary"] = replace(TRANSFORMER, positions="rotary", norm_order="post")
    return found


QUICK = {"bahdanau-additive", "luong-coverage", "feeding-dot", "transformer-multi_head", "bridge-copy", "rotary"}


@pytest.fixture
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    source, target = torch.randint(4, SOURCES, (3, 7), generator=draw), torch.randint(4, TARGETS, (3, 11), generator=draw)
    source[:, -1], target[:, 0] = END, START
    return source, target


@pytest.mark.parametrize("config", quick(configs(), QUICK.__contains__))
@torch.no_grad()
def test_a_step_depends_only_on_the_first_k_plus_t_minus_1_words(config, pair):
    """Changing or cutting later source words changes nothing, in the whole target and step by step; the last word counts."""
    model, (source, target) = build(config), pair
    whole, state = model(source, target), model.encode(source, source > 0)
    for step in range(target.shape[1]):
        logits, maps, state = model.step(target[:, step, None], state, record=["cross"])
        assert torch.allclose(logits[:, 0], whole[:, step], atol=1e-9)
        assert not maps["cross"][..., K + step :].any()
    for step in (0, 3, 8):
        read = min(K + step, source.shape[1])
        assert torch.allclose(model(source[:, :read], target[:, : step + 1])[:, step], whole[:, step], atol=1e-9)
        changed = source.clone()
        changed[:, read:] = 5
        assert torch.allclose(model(changed, target)[:, step], whole[:, step], atol=1e-9)
        changed[:, read - 1] = 5 + (source[:, read - 1] == 5)
        assert not torch.allclose(model(changed, target)[:, step], whole[:, step], atol=1e-9)


@torch.no_grad()
def test_padding_changes_nothing(pair):
    """A short source is read to its end, and its padding is never attended to."""
    source, target = pair
    source[1, 2:] = torch.tensor([END, 0, 0, 0, 0])
    for config in (TRANSFORMER, recurrent("bahdanau", CoverageConfig())):
        model = build(config)
        whole = model(source, target)
        assert torch.allclose(model(source[1:2, :3], target[1:2]), whole[1:2], atol=1e-9)


def test_search(pair):
    """Greedy search follows the policy; a beam, which would revise words, is refused."""
    source, _ = pair
    model = build(TRANSFORMER)
    found = greedy(model, source, source > 0, max_length=9)
    assert [one.tokens for one in found] == [
        one.tokens for row in source for one in greedy(model, row[None], row[None] > 0, max_length=9)
    ]
    with pytest.raises(
        RequestError, match=r"beam_size is 4, but this model chooses each word before it reads on \(model.wait_k\)"
    ):
        beam_search(model, source, source > 0, beam_size=4)


def test_gradients(pair):
    """Words that a target never waits for get no gradient, and all parameters do."""
    source, target = pair
    for config in (TRANSFORMER, recurrent("feeding", KINDS["additive"]())):
        model = build(config).train()
        model(source, target[:, :3]).sum().backward()
        assert all(one.grad is not None for one in model.parameters())
        used = set(source[:, : K + 2].flatten().tolist())
        embedding = model.source_embedding.weight.grad
        assert {row for row in range(SOURCES) if embedding[row].any()} <= used


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (recurrent("luong", LocalPredictiveConfig()), "a LocalPredictive needs the whole source before the first word"),
        (recurrent("luong", MonotonicConfig()), "a SoftToHard decides itself how much is read"),
        (recurrent("luong", KINDS["dot"](), encoder=EncoderConfig(hidden_size=10)), "set model.encoder.bidirectional to false"),
    ],
)
def test_refusals(config, message):
    with pytest.raises(ConfigError, match=message):
        build(config)


def test_exports_refuse_by_name():
    model = build(TRANSFORMER)
    with pytest.raises(RequestError, match=r"this model waits for source words \(model.wait_k\), which the graphs"):
        graphs_of(model)
    with pytest.raises(RequestError, match=r"waits for source words \(model.wait_k\), which CTranslate2 cannot express"):
        check_convertible(model)


def test_delays():
    """g(t) = min(k + t − 1, |x|), and the last position that hard attention has reached, worked by hand."""
    assert WaitK(3).delays(5, 6).tolist() == [3, 4, 5, 6, 6]
    assert WaitK(9).delays(2, 4).tolist() == [4, 4]
    weights = np.zeros((5, 5))  # four source words and the end symbol; the last step stops nowhere
    weights[0, 0] = weights[1, 2] = weights[2, 1] = weights[3, 3] = 1
    assert HardStops().delays(4, 4, weights).tolist() == [1, 3, 3, 4]
    assert HardStops().delays(2, 4, weights[3:]).tolist() == [4, 4]


def test_monotonic_attention_is_a_policy_only_if_nothing_else_reads_ahead():
    one_way = {"wait_k": 0, "bridge": "zeros"}
    assert isinstance(build(recurrent("bahdanau", MonotonicConfig(), **one_way)).policy, HardStops)
    assert isinstance(build(recurrent("luong", MoChAConfig(), **one_way)).policy, HardStops)
    assert build(recurrent("luong", MonotonicConfig(), wait_k=0)).policy is None  # the bridge reads the last state
    both_ways = EncoderConfig(hidden_size=20)
    assert build(recurrent("luong", MonotonicConfig(), encoder=both_ways, **one_way)).policy is None
    assert build(recurrent("luong", DifferentialAttentionConfig(num_heads=2), **one_way)).policy is None
