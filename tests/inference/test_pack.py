"""When a model is packed, which parts of it are, and that searches find the same."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.config import (
    AdditiveConfig,
    DifferentialAttentionConfig,
    EncoderConfig,
    LuongDecoderConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.decoding import beam_search, greedy
from regard.inference import pack
from regard.inference.linear import PackedLinear, QuantizedLinear
from regard.inference.pack import QuantizedLayer
from regard.models.build import build_translator
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.text.symbols import END, PAD

WORDS, BATCH, SOURCE = 31, 7, 5
TRANSFORMER = TransformerConfig(hidden_size=20, num_heads=2, feed_forward_size=23, encoder_layers=1, decoder_layers=2)
RECURRENT = RecurrentConfig(
    embedding_size=13,
    encoder=EncoderConfig(hidden_size=11, num_layers=2),
    decoder=LuongDecoderConfig(hidden_size=17, num_layers=2, input_feeding=True, cell="gru"),
)
CONFIGS = {"transformer": TRANSFORMER, "recurrent": RECURRENT}


def build(config: TransformerConfig | RecurrentConfig, seed: int = 0) -> Seq2Seq:
    torch.manual_seed(seed)
    model = build_translator(config, source_size=WORDS, target_size=WORDS).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


@pytest.fixture
def texts() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    lengths = torch.randint(2, SOURCE + 1, (BATCH,))
    mask = torch.arange(SOURCE) < lengths[:, None]
    source = torch.randint(4, WORDS, (BATCH, SOURCE))
    source[torch.arange(BATCH), lengths - 1] = END
    return source.masked_fill(~mask, PAD), mask


def found(model: Seq2Seq, texts: tuple[Tensor, Tensor]) -> list[list[int]]:
    beams = beam_search(model, *texts, beam_size=3, max_length=12)
    return [one.tokens for [one] in beams] + [one.tokens for one in greedy(model, *texts, max_length=12)]


class Unpacked(Seq2Seq):
    """A model whose parts are hidden, so that searches call its own step."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.sites, self.feeds_back = model.sites, model.feeds_back
        self.encode, self.decode, self.step = model.encode, model.decode, model.step
        self.logits, self.output_weight = model.logits, model.output_weight

    def encode(self, *inputs, **options): ...
    def decode(self, *inputs, **options): ...
    def step(self, *inputs, **options): ...
    def logits(self, *inputs, **options): ...
    def output_weight(self, *inputs, **options): ...


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("sentences", [1, BATCH])
def test_searches_find_what_they_find_with_the_plain_step(config, sentences, texts):
    model = build(config)
    some = texts[0][:sentences], texts[1][:sentences]
    assert found(model, some) == found(Unpacked(model), some)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_ensemble_packs_its_members(config, texts):
    ensemble = Ensemble([build(config), build(config, 1)]).eval()
    with torch.no_grad():
        packed = pack(ensemble, BATCH)
    assert all(isinstance(member.output, PackedLinear) for member in packed.members)
    assert found(ensemble, texts) == found(Unpacked(ensemble), texts)


@torch.no_grad()
def test_nothing_is_packed_in_training_or_with_gradients():
    model = build(TRANSFORMER)
    packed = pack(model, BATCH)
    assert isinstance(packed.decoder.layers[0].self_attention.joint_projection, PackedLinear)
    assert pack(packed, BATCH) is packed
    with torch.enable_grad():
        assert pack(model, BATCH) is model
    assert pack(model.train(), BATCH) is model


@torch.no_grad()
def test_int8_rounds_the_layers_of_recurrent_decoders_too(texts):
    model = build(RECURRENT)
    packed = pack(model, BATCH, int8=True)
    assert isinstance(packed.output, QuantizedLinear)
    assert all(isinstance(layer, QuantizedLayer) for layer in packed.decoder.layers)
    assert packed.encoder is model.encoder
    states = [one.encode(*texts) for one in (model, packed)]
    for _ in range(3):
        logits = []
        for number, one in enumerate((model, packed)):
            found, _, states[number] = one.step(torch.full((BATCH, 1), 5), states[number])
            logits.append(found)
        torch.testing.assert_close(logits[1], logits[0], atol=0.5, rtol=0.1)
        assert not torch.equal(*logits)


class Adapter(nn.Module):
    """A low-rank addition to a linear map, as PEFT's LoRA makes it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.down, self.up = nn.Linear(linear.in_features, 3), nn.Linear(3, linear.out_features)

    @property
    def weight(self) -> Tensor:
        return self.linear.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + 5 * self.up(self.down(x))


def adapt_a_projection(model: Seq2Seq) -> None:
    layer = model.decoder.layers[1]
    layer.self_attention.value_projection = Adapter(layer.self_attention.value_projection)


def hook_a_norm(model: Seq2Seq) -> None:
    model.decoder.layers[1].feed_forward_residual.norm.register_forward_hook(lambda module, inputs, output: output.roll(1, -1))


def patch_the_attention(model: Seq2Seq) -> None:
    attention, attend = model.decoder.layers[0].self_attention, model.decoder.layers[0].self_attention.attend

    def halved(*inputs, **options):
        out, state = attend(*inputs, **options)
        return type(out)(out.context / 2, out.weights), state

    attention.attend = halved


@pytest.mark.parametrize(
    "change",
    [adapt_a_projection, hook_a_norm, patch_the_attention],
    ids=lambda change: change.__name__,
)
@torch.no_grad()
def test_what_a_user_adds_takes_effect(change, texts):
    model = build(TRANSFORMER)
    before = found(model, texts)
    torch.manual_seed(2)
    change(model)
    assert found(model, texts) == found(Unpacked(model), texts) != before


@torch.no_grad()
def test_a_decoder_with_an_adapter_keeps_a_packed_output_layer(texts):
    model = build(TRANSFORMER)
    adapt_a_projection(model)
    packed = pack(model, BATCH)
    assert isinstance(packed.output, PackedLinear)
    assert packed.decoder.layers[1].self_attention.joint_projection is None
    assert packed.decoder.layers[0].self_attention.joint_projection is not None


def test_changed_weights_are_seen_by_the_next_search(texts):
    model = build(TRANSFORMER)
    before = found(model, texts)
    model.output.weight.data.copy_(model.output.weight.data.roll(1, 0))
    assert found(model, texts) != before
    assert found(model, texts) == found(Unpacked(model), texts)


@pytest.mark.parametrize("attention", [AdditiveConfig(), DifferentialAttentionConfig()], ids=["additive", "differential"])
@torch.no_grad()
def test_attention_that_is_not_packed_computes_in_bfloat16_too(attention, texts):
    model = build(replace(TRANSFORMER, cross_attention=attention)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        states = [(one, one.encode(*texts)) for one in (model, pack(model, BATCH))]
        plain, packed = (one.step(torch.full((BATCH, 1), 4), state)[0].float() for one, state in states)
    torch.testing.assert_close(packed, plain, rtol=0, atol=0.1 * plain.abs().max().item())


class Counter(TorchDispatchMode):
    """Counts the operations that PyTorch runs, without views, which take little time."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, inputs=(), options=None):
        self.count += not function.is_view
        return function(*inputs, **(options or {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@torch.no_grad()
def test_a_packed_step_of_one_sentence_runs_fewer_operations(dtype, texts):
    model = build(TRANSFORMER).to(dtype)
    counts = []
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        for one in (model, pack(model, 1)):
            state = one.encode(texts[0][:1], texts[1][:1]).select(torch.zeros(1, 5, dtype=torch.int64))
            _, _, state = one.step(torch.full((1, 5), 4), state)
            with Counter() as counter:
                one.step(torch.full((1, 5), 5), state.select(torch.zeros(1, 5, dtype=torch.int64)))
            counts.append(counter.count)
    plain, packed = counts
    assert packed < plain
