"""Every attention, pooling and normalizer inside models that are built from configs: training, decoding and drawing."""

from dataclasses import replace

import pytest
import torch
from quick import quick
from torch import Tensor, nn

from regard.attention import Attention, HistoryState, PositionState, ScoredAttention
from regard.config import (
    AttentionConfig,
    BahdanauDecoderConfig,
    CoverageConfig,
    EncoderConfig,
    Entmax15Config,
    LanguageModelConfig,
    LocationSensitiveConfig,
    LuongDecoderConfig,
    MoChAConfig,
    MonotonicConfig,
    NormalizerConfig,
    PoolingConfig,
    RecurrentClassifierConfig,
    RecurrentConfig,
    TransformerClassifierConfig,
    TransformerConfig,
)
from regard.decoding import beam_search, greedy
from regard.errors import ConfigError
from regard.models.build import build_classifier, build_language_model, build_translator
from regard.models.seq2seq import MapsWithLoss
from regard.tasks.objective import objective
from regard.text.batching import Batch
from regard.text.symbols import END, START

SIZE, WORDS, LENGTH = 16, 12, 5


def ours(family):
    """The kinds of the package, without those of other tests."""
    return {kind: cls for kind, cls in family.kinds().items() if cls.__module__.startswith("regard.")}


ATTENTION, NORMALIZERS, POOLINGS = ours(AttentionConfig), ours(NormalizerConfig), ours(PoolingConfig)
ENCODER = EncoderConfig(hidden_size=SIZE // 2)
DECODERS = {
    "bahdanau": BahdanauDecoderConfig(hidden_size=SIZE),
    "luong": LuongDecoderConfig(hidden_size=SIZE),
    "input_feeding": LuongDecoderConfig(hidden_size=SIZE, input_feeding=True),
}


def copying(seed: int = 0) -> Batch:
    """Sentences of several lengths that are to be copied."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, LENGTH + 1, (8, 1), generator=draw)
    words = torch.randint(4, WORDS, (8, LENGTH), generator=draw)
    place = torch.arange(LENGTH + 1)
    padded = torch.cat([words, torch.zeros_like(lengths)], 1)
    ended = padded.where(place < lengths, 0).masked_fill(place == lengths, END)
    shifted = torch.cat([torch.full_like(lengths, START), ended[:, :-1]], 1).where(place <= lengths, 0)
    return Batch(ended, place <= lengths, shifted, ended, place <= lengths, torch.arange(8))


def translator(decoder, attention: AttentionConfig, seed: int = 0):
    torch.manual_seed(seed)
    config = RecurrentConfig(embedding_size=SIZE, encoder=ENCODER, decoder=replace(decoder, attention=attention))
    return build_translator(config, source_size=WORDS, target_size=WORDS)


def loss_of(model, batch: Batch) -> Tensor:
    features, _ = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    return nn.functional.cross_entropy(model.logits(features).flatten(0, 1), batch.target_out.flatten(), ignore_index=0)


def train(model, updates: int = 20) -> tuple[float, float]:
    """Train, and return the first and the last loss."""
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
    for update in range(updates):
        loss = loss_of(model.train(), copying(update % 4))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses[0], losses[-1]


def decode(model) -> None:
    batch = copying()
    model.eval()
    for found in (
        greedy(model, batch.source, batch.source_mask, max_length=6, record=("cross",)),
        [
            beams[0]
            for beams in beam_search(model, batch.source, batch.source_mask, beam_size=3, max_length=6, record=("cross",))
        ],
    ):
        assert torch.as_tensor(found[0].attention["cross"]).isfinite().all()


@pytest.mark.parametrize("decoder", quick(DECODERS, lambda name: name == "input_feeding", key=True))
@pytest.mark.parametrize("kind", ATTENTION)
def test_twenty_updates_then_decode(kind, decoder):
    model = translator(DECODERS[decoder], ATTENTION[kind]())
    first, last = train(model)
    assert last < first - 0.2
    decode(model)


@pytest.mark.parametrize("decoder", quick(DECODERS, lambda name: name == "input_feeding", key=True))
@pytest.mark.parametrize("kind", ATTENTION)
def test_step_by_step_equals_all_at_once(kind, decoder):
    model, batch = translator(DECODERS[decoder], ATTENTION[kind]()).double().eval(), copying()
    with torch.no_grad():
        state = model.encode(batch.source, batch.source_mask)
        features, _ = model.decode(batch.target_in, state)
        whole = model.logits(features)
        for position in range(LENGTH + 1):
            logits, _, state = model.step(batch.target_in[:, position, None], state)
            real = batch.target_mask[:, position]
            torch.testing.assert_close(logits[real, 0], whole[real, position], rtol=0, atol=1e-12)


def stateful(kind: str) -> bool:
    return ATTENTION[kind]().build(query_size=8, key_size=8).stateful


@pytest.mark.parametrize(
    "kind", quick({k: k for k in ATTENTION if not stateful(k)}, {"additive", "dot", "multi_head"}.__contains__)
)
def test_attention_of_a_transformer_to_the_source(kind):
    torch.manual_seed(0)
    small = TransformerConfig(hidden_size=SIZE, num_heads=2, feed_forward_size=32, encoder_layers=1, decoder_layers=2)
    config = replace(small, cross_attention=ATTENTION[kind](), normalizer=Entmax15Config())
    model = build_translator(config, source_size=WORDS, target_size=WORDS)
    first, last = train(model)
    assert last < first - 0.2
    decode(model)


@pytest.mark.parametrize("kind", list(filter(stateful, ATTENTION)))
def test_a_transformer_says_which_kinds_it_cannot_take(kind):
    config = TransformerConfig(hidden_size=8, num_heads=2, cross_attention=ATTENTION[kind]())
    with pytest.raises(ConfigError, match=r"remembers earlier queries, .* such as MultiHead, Additive or LocalPredictive"):
        build_translator(config, source_size=WORDS, target_size=WORDS)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_normalizers_of_transformers(normalizer):
    given, kind = NORMALIZERS[normalizer](), type(NORMALIZERS[normalizer]().build())
    small = {"num_heads": 2, "feed_forward_size": 16, "normalizer": given}
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    models = [
        build_translator(TransformerConfig(hidden_size=8, **layers, **small), source_size=WORDS, target_size=WORDS),
        build_language_model(LanguageModelConfig(hidden_size=8, num_layers=1, **small), vocabulary_size=WORDS),
        build_classifier(
            TransformerClassifierConfig(embedding_size=8, num_layers=1, **small), vocabulary_size=WORDS, num_labels=2
        ),
    ]
    for model in models:
        own = [part for name, part in model.named_modules() if isinstance(part, Attention) and "cross" not in name]
        assert own
        assert {type(part.normalizer) for part in own} == {kind}


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings_of_classifiers(pooling, normalizer):
    torch.manual_seed(0)
    given = POOLINGS[pooling]()
    if hasattr(given, "normalizer"):
        given = replace(given, normalizer=NORMALIZERS[normalizer]())
    config = RecurrentClassifierConfig(embedding_size=8, hidden_size=8, pooling=given, embedding_dropout=0, output_dropout=0)
    model = build_classifier(config, vocabulary_size=WORDS, num_labels=2)
    optimizer, losses, batch = torch.optim.Adam(model.parameters(), 1e-2), [], copying()
    label = (batch.source[:, 0] > 7).long()
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(batch.source, batch.source_mask).logits, label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.02


# --- a mechanism that exists here only ---


class Negative(ScoredAttention):
    """score(q, k) = −‖W q − k‖²."""

    def __init__(self, query_size, *, key_size):
        super().__init__(query_size, key_size=key_size)
        self.projection = nn.Linear(query_size, key_size)

    def scores(self, query, memory):
        return -torch.cdist(self.projection(query), memory.key).square()


class NegativeConfig(AttentionConfig, kind="negative_distance"):
    """−‖W q − k‖²."""

    def build(self, *, query_size: int, key_size: int) -> Attention:
        return Negative(query_size, key_size=key_size)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_mechanism_of_the_users_own_by_its_module_and_its_config_alone(decoder):
    model = translator(DECODERS[decoder], NegativeConfig())
    assert isinstance(model.decoder.attention, Negative)
    first, last = train(model, 40)
    assert last < first - 0.2
    decode(model)


# --- soft and hard ---


@pytest.mark.parametrize(("config", "soft", "hard"), [
    (MonotonicConfig(), HistoryState, PositionState),
    (MoChAConfig(chunk_size=2), HistoryState, PositionState),
    (MonotonicConfig(decoding="soft"), HistoryState, HistoryState),
], ids=["monotonic", "mocha", "soft"])  # fmt: skip
def test_monotonic_mechanisms_train_softly_and_decode_by_their_hard_form(config, soft, hard):
    attention = config.build(query_size=4, key_size=4)
    query, memory = torch.randn(2, 3, 4), attention.prepare(torch.randn(2, 5, 4))
    assert type(attention.train().attend(query, memory)[1]) is soft
    out, state = attention.eval().attend(query, memory)
    assert type(state) is hard
    if hard is PositionState and isinstance(config, MonotonicConfig):
        assert set(out.weights.flatten().tolist()) <= {0.0, 1.0}


def test_the_hard_form_has_the_weights_that_were_trained():
    attention = MonotonicConfig(noise=0.0, initial_offset=3.0).build(query_size=4, key_size=4)
    names = [name for name, _ in attention.named_parameters()]
    assert len(names) == len(set(names)) == len(attention.state_dict())
    query, key = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    first = attention.eval()(query, key).weights
    with torch.no_grad():
        attention.soft.offset.fill_(-1000)
    assert first.sum() > 0
    assert attention(query, key).weights.sum() == 0


# --- the loss of coverage ---


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_loss_of_coverage_leaves_the_decoder_and_counts_real_words_only(decoder):
    model, batch = translator(DECODERS[decoder], CoverageConfig()).double(), copying()
    longer = [torch.nn.functional.pad(x, (0, 3)) for x in (batch.target_in, batch.target_mask)]
    _, maps = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask), record=("cross",))
    _, padded = model.decode(longer[0], model.encode(batch.source, batch.source_mask))
    assert isinstance(maps, MapsWithLoss)
    torch.testing.assert_close(padded.loss, maps.loss)
    weights = maps["cross"]
    before = weights.cumsum(1) - weights
    rows = torch.minimum(weights, before).sum(-1)[batch.target_mask]
    torch.testing.assert_close(maps.loss, rows.mean())


def test_mechanisms_without_a_loss_have_plain_maps():
    for config in (LocationSensitiveConfig(), NegativeConfig()):
        model, batch = translator(DECODERS["luong"], config), copying()
        _, maps = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
        assert not isinstance(maps, MapsWithLoss)


def echoing(seed: int) -> Batch:
    """The first word of the source, again and again: nothing but the loss keeps attention from staying where it is."""
    batch = copying(seed)
    word = (batch.target_out >= 4).long() * batch.source[:, :1]
    target_out = torch.where(batch.target_out >= 4, word, batch.target_out)
    target_in = torch.where(batch.target_in >= 4, batch.source[:, :1].expand_as(word), batch.target_in)
    return replace(batch, target_in=target_in, target_out=target_out)


def repetition(weight: float, updates: int) -> float:
    """Train the same model from the same start with so much of the loss, and return the last losses of the attention."""
    model, totals = translator(DECODERS["luong"], CoverageConfig()), []
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for update in range(updates):
        batch = echoing(update % 4)
        count = batch.target_mask.sum()
        loss, nll = objective(
            model.train(), batch, attention_loss_weight=weight, report=lambda total, count: totals.append(total / count)
        )
        torch.testing.assert_close(loss.detach(), nll.detach() + weight * totals[-1] * count)
        (loss / count).backward()
        optimizer.step()
        optimizer.zero_grad()
    return float(sum(totals[-4:]) / 4)


@pytest.mark.slow
def test_the_loss_of_coverage_makes_attention_repeat_less():
    assert repetition(3.0, 150) < 0.6 * repetition(0.0, 150)
